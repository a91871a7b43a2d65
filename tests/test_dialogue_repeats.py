"""run_turn: what is sent again is known by its tool and params, and no call gets the answer of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from support import a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Effect,
    Failure,
    NotExecuted,
    OutcomeUnknown,
    Pipeline,
    Placement,
    ResolvedCall,
    Success,
    TimedOut,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    Transient,
    ValidCall,
    builtin,
)
from toolcall_pipeline.dialogue import Answered, Hints, run_turn
from toolcall_pipeline.engine.errors import Landed
from toolcall_pipeline.middlewares import Resolve, Validate, standard
from toolcall_pipeline.once.turn_guard import Done, Identity, TurnGuard

BAD = Call("look", {"n": "x"}, "open")  # always open, so the model is asked again


class Model:
    """Gives the replies of a script, and keeps what it was told."""

    def __init__(self, *replies: Sequence[Call]) -> None:
        self.replies = list(replies)
        self.told: list[Sequence[Answered]] = []

    async def __call__(self, answered: Sequence[Answered], guidance: str, hints: Hints) -> Sequence[Call]:
        self.told.append(answered)
        return self.replies.pop(0) if self.replies else []


class Till:
    """Tools that pay, and the payments."""

    def __init__(self, effect: Effect = "mutating") -> None:
        self.paid: list[Any] = []
        self.answer: Any = None
        self.tools = tools = ToolRegistry()

        @tools.tool(effect="read")
        async def look(n: int) -> int:
            return n

        @tools.tool(effect=effect, aliases=("transfer",), verify_with="look", context=True)
        async def pay(_: ToolContext, n: int, to: str = "Ann", tags: tuple[str, ...] = ()) -> Any:
            self.paid.append((n, to, tags))
            if isinstance(self.answer, Exception):
                raise self.answer
            return n if self.answer is None else self.answer

        async def raw(_: ToolContext, **params: Any) -> str:
            self.paid.append(params)
            return "raw"

        number = {"type": "object", "properties": {"n": {"type": "number"}, "to": {"type": "string", "default": "Ann"}}}
        made = Tool.from_schema(name="raw", parameters=number, handler=raw, effect=effect, context=True)
        tools.register(made)
        self.pipeline = standard(tools, attempts=1).replace("resolve", Resolve(tools, canonical_names=True))
        builtin.install(tools, self.pipeline)


SPELLINGS = {
    "as it was": Call("pay", {"n": 7}),
    "JSON text": Call("pay", '{ "n":7 }'),
    "a number as text": Call("pay", {"n": "7"}),
    "a whole number with a point": Call("pay", {"n": 7.0}),
    "a name in another case": Call("pay", {"N": 7}),
    "wrapped": Call("pay", {"arguments": {"n": 7}}),
    "a default added": Call("pay", {"n": 7, "to": "Ann"}),
    "two defaults added, in another order": Call("pay", {"tags": [], "to": "Ann", "n": 7}),
    "a tool's name with noise": Call("functions.pay", {"n": 7}),
    "in quotes": Call("`pay`", {"n": 7}),
    "in another case": Call("Pay", {"n": 7}),
    "with a server": Call("functions__pay", {"n": 7}),
    "an alias": Call("transfer", {"n": 7}),
    "an alias, and all else": Call("functions.transfer", '{"N": "7", "to": "Ann"}'),
    "another id": Call("pay", {"n": 7}, "new"),
    "the id of the open call": Call("pay", {"n": "7"}, "open"),
}


@pytest.mark.parametrize("effect", ["mutating", "keyed", "idempotent"])
@pytest.mark.parametrize("again", SPELLINGS.values(), ids=SPELLINGS)
async def test_a_success_is_not_repeated_however_it_is_written(again: Call, effect: Effect) -> None:
    """A call that succeeded and is sent again is answered with its outcome, is no new call, and does not run."""
    till = Till(effect)
    model = Model([again])
    turn = await run_turn(model, [Call("pay", {"n": 7}, "1"), BAD], till.pipeline, attempts=2)
    assert till.paid == [(7, "Ann", ())]
    assert [(each.call, each.outcome) for each in turn.untold] == [(again, Success(7))]
    assert (turn.added, turn.outcomes[0], turn.outcomes[1].failure().kind) == ((), Success(7), "validation")


@pytest.mark.parametrize("again", SPELLINGS.values(), ids=SPELLINGS)
async def test_the_guard_holds_where_the_checks_say_nothing(again: Call) -> None:
    """With a check of somebody's own, of which nobody knows what it does, nothing is repeated either."""
    till = Till()
    validate = Validate()

    def own(call: ResolvedCall) -> ValidCall | Failure[Any]:
        return validate(call)

    model = Model([again, Call("pay", {"n": 8})])
    wrong = Call("pay", {"n": 8, "tags": 5}, "wrong")
    turn = await run_turn(model, [Call("pay", {"n": 7}), wrong], till.pipeline.replace("validate", own), attempts=2)
    assert till.paid.count((7, "Ann", ())) == 1
    assert [each.outcome for each in turn.untold] == [Success(7), Success(8)]
    assert turn.outcomes[0] == Success(7)
    assert turn.outcomes[1] != Success(7)


@pytest.mark.parametrize(
    ("first", "again", "runs"),
    [
        ({"n": 7}, '{"n": 7}', 1),
        ({"n": 7, "to": "Ann"}, '{"to": "Ann", "n": 7}', 1),
        ({"n": 7.5}, '{"n": 7.50}', 1),
        ({"n": 7}, {"n": 7.0}, 2),
        ({"n": 7, "to": "Ann"}, {"n": 7}, 2),
        ({"n": 7, "to": "Ann"}, {"n": 7, "to": "Ann\n"}, 2),
        ({"n": 7, "to": "\u00e9"}, {"n": 7, "to": "e\u0301"}, 2),
    ],
)
async def test_a_tool_with_a_schema_of_its_own(first: Any, again: Any, runs: int) -> None:
    """It is answered for what it would see in the same types and names, and for nothing else."""
    till = Till()
    await run_turn(Model([Call("raw", again)]), [Call("raw", first), BAD], till.pipeline, attempts=2)
    assert len(till.paid) == runs


@pytest.mark.parametrize("again", [Call("pay", {"n": "7"}), Call("transfer", {"N": 7, "to": "Ann"})], ids=str)
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (OutcomeUnknown(), "outcome_unknown"),
        (Transient(), "outcome_unknown"),
        (TimedOut(), "outcome_unknown"),
        (Crashed(), "internal"),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
async def test_what_may_have_landed_does_not_run_again(again: Call, raised: Any, kind: str) -> None:
    """A lost call that is written otherwise is answered as lost, and does not run."""
    till = Till()
    till.answer = Failure(raised)
    turn = await run_turn(Model([again], [again]), [Call("pay", {"n": 7}), BAD], till.pipeline)
    assert len(till.paid) == 1
    assert turn.untold[0].outcome.failure().kind == kind


@pytest.mark.parametrize(
    ("raised", "ran"),
    [
        (ToolFailed("no such account"), 2),
        (ToolFailed("not found", kind="not_found"), 2),
        (ToolFailed("half of it is done", landed=True), 1),
    ],
    ids=str,
)
async def test_a_failure_that_the_model_is_to_fix_runs_again(raised: ToolFailed, ran: int) -> None:
    """What the tool says has failed may run again with the same params; what it says has landed may not."""
    till = Till()
    till.answer = raised
    await run_turn(Model([Call("pay", {"n": "7"})]), [Call("pay", {"n": 7})], till.pipeline, attempts=2)
    assert len(till.paid) == ran


@pytest.mark.parametrize("effect", ["mutating", "keyed"])
async def test_a_repeat_of_what_landed_without_an_answer_names_the_tool_to_verify_with(effect: Effect) -> None:
    """An effect that happened, but whose answer was lost, is unknown again, and the model can look it up."""
    till, validate = Till(effect), Validate()
    till.answer = Failure(Transient(landed="yes"))

    def own(call: ResolvedCall) -> ValidCall | Failure[Any]:  # so that the guard of the body has to know it
        return validate(call)

    pipeline = till.pipeline.replace("validate", own)
    turn = await run_turn(Model([Call("pay", {"n": "7"})]), [Call("pay", {"n": 7}), BAD], pipeline, attempts=2)
    assert len(till.paid) == 1
    assert turn.untold[0].outcome == Failure(OutcomeUnknown(Transient(landed="yes"), "look"))


@pytest.mark.parametrize("first", [2, 3])
async def test_equal_calls_of_one_reply_are_several(first: int) -> None:
    """Equal calls in one reply all run; when they are sent again, none does."""
    till = Till()
    calls = [Call("pay", {"n": 7}, str(n)) for n in range(first)]
    await run_turn(Model([*calls, *calls]), [*calls, BAD], till.pipeline, attempts=2)
    assert len(till.paid) == first


async def test_another_call_runs() -> None:
    """A call with other params runs, though its tool and all else are as before."""
    till = Till()
    again = [Call("pay", {"n": 8}), Call("pay", {"n": 7, "to": "Bob"}), Call("pay", {"n": 7, "tags": ["x"]})]
    await run_turn(Model(again), [Call("pay", {"n": 7}), BAD], till.pipeline, attempts=2)
    assert len(till.paid) == 4


def in_a_batch(*calls: dict[str, Any]) -> Call:
    return Call("batch", {"calls": list(calls)})


SEVEN = {"tool": "pay", "args": {"n": 7}}


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param(Call("pay", {"n": 7}), in_a_batch({"tool": "transfer", "args": {"n": "7"}}), id="then in a batch"),
        pytest.param(in_a_batch(SEVEN), Call("pay", {"n": "7"}), id="first in a batch"),
        pytest.param(in_a_batch(SEVEN), in_a_batch({"tool": "look", "args": {"n": 1}}, SEVEN), id="in both"),
        pytest.param(in_a_batch(SEVEN), in_a_batch(SEVEN), id="the whole batch"),
    ],
)
async def test_a_batch_repeats_nothing(first: Call, again: Call) -> None:
    """Calls in a batch are calls of the reply: what landed there is answered, and not done again."""
    till = Till()
    turn = await run_turn(Model([again]), [first, BAD], till.pipeline, attempts=2)
    assert len(till.paid) == 1
    assert "7" in turn.untold[0].text


async def test_equal_calls_in_one_batch_are_several() -> None:
    """Equal calls in one batch all run."""
    till = Till()
    await run_turn(Model(), [in_a_batch(SEVEN, SEVEN)], till.pipeline)
    assert len(till.paid) == 2


async def test_what_is_lost_in_a_batch_is_unknown() -> None:
    """A call in a batch that was cancelled with it may have landed, so it is answered as unknown."""
    tools, begun = ToolRegistry(), list[int]()

    @tools.tool
    async def hang(n: int) -> None:
        begun.append(n)
        await anyio.sleep_forever()

    @tools.tool(effect="read")
    async def look(n: int) -> int:
        return n

    pipeline = standard(tools)
    builtin.install(tools, pipeline)
    lost = in_a_batch({"tool": "hang", "args": {"n": 1}})
    turn = await run_turn(Model([Call("hang", {"n": "1"})]), [lost, BAD], pipeline.after("retry", CutOff()), attempts=2)
    assert begun == [1]
    assert isinstance(turn.untold[0].outcome.failure(), OutcomeUnknown)


class CutOff:
    """Cancels a batch as soon as all that it called waits, as a time limit would."""

    placement = Placement(runs_body=False)

    async def __call__(self, call: ValidCall, call_next: Any) -> Any:
        if call.tool.name != "batch":
            return await call_next(call)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._cancel, tasks.cancel_scope)
            await call_next(call)
        return Failure(TimedOut(1.0))

    async def _cancel(self, scope: anyio.CancelScope) -> None:
        await anyio.wait_all_tasks_blocked()
        scope.cancel()


class Blind:
    """A class without equality, and with nothing to see."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(lambda _: cls())

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string"}


async def test_params_that_cannot_be_compared_fail_safe() -> None:
    """Params without equality: the same text is a repeat, and any other is not executed, for it may be one."""
    tools, ran = ToolRegistry(), list[object]()

    @tools.tool
    async def send(to: Blind) -> str:
        ran.append(to)
        return "sent"

    @tools.tool(effect="read")
    async def look(n: int) -> int:
        return n

    model = Model([Call("send", '{"to": "a"}'), Call("send", {"to": "b"})])
    turn = await run_turn(model, [Call("send", {"to": "a"}), BAD], standard(tools), attempts=2)
    assert len(ran) == 1
    assert turn.untold[0].outcome == Success("sent")
    assert isinstance(turn.untold[1].outcome.failure(), NotExecuted)


async def test_params_that_the_tool_changed() -> None:
    """A tool may change what it was given; a repeat is known by what the params were."""
    tools, ran = ToolRegistry(), list[object]()

    @tools.tool
    async def fill(items: Any) -> str:
        items.append(len(ran))
        ran.append(items)
        return "filled"

    @tools.tool(effect="read")
    async def look(n: int) -> int:
        return n

    model = Model([Call("fill", {"items": [5]})])
    await run_turn(model, [Call("fill", {"items": [5]}), BAD], standard(tools), attempts=2)
    assert len(ran) == 1


class Point(BaseModel):
    x: float
    y: float = 0


EQUAL: list[tuple[Any, Any]] = [
    (float("nan"), float("nan")),
    ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
    (Point(x=1), Point(x=1.0)),
    ({1, 2}, {2, 1}),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (7, 7.0),
    (1, "1"),
    ("abc", "abc\n"),
    ([1, 2], [2, 1]),
    ([1, 2], (1, 2)),
    ({1, 2}, frozenset((2, 1))),
    (Point(x=1), Point(x=2)),
    (None, 0),
    ({}, []),
]


@pytest.mark.parametrize(
    ("one", "other", "same"), [*((*pair, True) for pair in EQUAL), *((*pair, False) for pair in DIFFERENT)]
)
def test_which_params_are_the_same(one: object, other: object, *, same: bool) -> None:
    """Values of one type are equal by what they hold, and values of two types never are."""
    resolved = Call("t").resolved(a_tool("t"))
    first, second = (Identity.of(resolved.validated({"p": each})) for each in (one, other))
    assert first.is_same(second) is same
    assert first.is_same(first) is True


def test_a_body_says_of_itself_alone_that_it_landed() -> None:
    """Of two bodies of one call with other params each, the one that began last is the one that has landed."""
    done, resolved = list[Done](), Call("t").resolved(a_tool("t", "mutating"))
    guard = TurnGuard(done, 1)
    for n, landed in ((1, "no"), (2, "yes")):
        call = resolved.validated({"n": n})
        guard.begin(call)
        guard.learn_landed(call, cast("Landed", landed))
    assert [each.happened for each in done] == [False, True]


def test_calls_without_params_are_compared_as_they_are_written() -> None:
    """The same arguments are the same call, and others are another one; text that is no object shows neither."""
    first, again, other, odd = (Identity.of(Call("t", each)) for each in ({"n": 1}, '{"n": 1}', {"n": 2}, "{"))
    assert [first.is_same(each) for each in (again, other, odd)] == [True, False, None]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_sameness_is_an_equivalence(one: Any, other: Any) -> None:
    """A value is the same as itself, and two values are the same in both directions or in none."""
    resolved = Call("t").resolved(a_tool("t"))
    first, second = (Identity.of(resolved.validated({"p": each})) for each in (one, other))
    assert first.is_same(Identity.of(resolved.validated({"p": one}))) is True
    assert first.is_same(second) is second.is_same(first)


def people(pipeline_sent: list[Any]) -> Pipeline:
    tools = ToolRegistry()

    @tools.tool
    async def send(to: str, n: int) -> str:
        pipeline_sent.append((to, n))
        return f"{n} to {to}"

    @tools.tool(effect="read")
    async def find(name: str) -> str:
        return name

    return standard(tools)


ANN, BOB = Call("send", {"to": "Ann", "n": "x"}, "1"), Call("send", {"to": "Bob", "n": "x"}, "2")
CUT = (Call("send", '{"to": "Ann", "n": ', "1"), Call("send", '{"to": "Bob", "n": ', "2"))
RENAMED = (Call("send", {"whom": "Ann", "n": 1}, "1"), Call("send", {"whom": "Bob", "n": 1}, "2"))
GOOD_ANN, GOOD_BOB = {"to": "Ann", "n": 5}, {"to": "Bob", "n": 6}


@pytest.mark.parametrize("opened", [(ANN, BOB), CUT, RENAMED], ids=["wrong", "cut off", "renamed"])
@pytest.mark.parametrize(
    ("reply", "answered"),
    [
        pytest.param([Call("send", GOOD_BOB)], "-B", id="Bob without id"),
        pytest.param([Call("send", GOOD_BOB, "1")], "-B", id="Bob with ids begun anew"),
        pytest.param([Call("send", GOOD_BOB, "9")], "-B", id="Bob with a new id"),
        pytest.param([Call("functions.send", {"TO": "Bob", "n": "6"})], "-B", id="Bob, otherwise written"),
        pytest.param([Call("send", GOOD_BOB), Call("send", GOOD_ANN)], "AB", id="both, turned round"),
        pytest.param([Call("send", GOOD_BOB, "1"), Call("send", GOOD_ANN, "2")], "AB", id="both, with ids begun anew"),
        pytest.param([Call("send", {"to": "Carl", "n": 7})], "--", id="neither"),
        pytest.param([Call("send", {"to": "Carl", "n": 7}), Call("send", GOOD_ANN)], "AC", id="Ann, and what is left"),
        pytest.param([Call("send", {"to": "Carl", "n": 7}, "2")], "-C", id="by id alone"),
        pytest.param([Call("find", {"name": "x"}, "1")], "--", id="another tool with an id begun anew"),
    ],
)
async def test_no_call_gets_the_answer_of_another(opened: Sequence[Call], reply: list[Call], answered: str) -> None:
    """A call belongs to the open one with which it shares most arguments; else to its id; where unclear, to none."""
    sent: list[Any] = []
    turn = await run_turn(Model(reply), opened, people(sent), attempts=2)
    got = "".join(each.unwrap()[5] if type(each) is Success else "-" for each in turn.outcomes)
    assert got == answered
    assert [each.call.id for each in turn.untold] == [each.id for each in reply]
    assert all(type(each.outcome) is Success for each in turn.untold)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(SPELLING_NAMES := list(SPELLINGS)), st.booleans()), max_size=4),
    st.lists(st.tuples(st.sampled_from(SPELLING_NAMES), st.booleans()), max_size=4),
)
def test_nothing_that_landed_begins_in_a_later_reply(
    second: list[tuple[str, bool]], third: list[tuple[str, bool]]
) -> None:
    """Whatever spellings later replies send, alone or in a batch, the payment that was made is made once."""

    def write(name: str, *, batched: bool) -> Call:
        call = SPELLINGS[name]
        return in_a_batch({"tool": call.name, "args": cast("Any", call.arguments)}) if batched else call

    till = Till()
    replies = [[BAD, *(write(name, batched=batched) for name, batched in each)] for each in (second, third)]
    anyio.run(lambda: run_turn(Model(*replies), [Call("pay", {"n": 7}), BAD], till.pipeline))
    assert till.paid == [(7, "Ann", ())]
