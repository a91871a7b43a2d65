"""Bodies that Execute runs itself: what the guards learn of each, and what is left of a call."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, cast

import anyio
import attrs
import pytest
from returns.result import Failure, Success

from support import PATIENT, a_call, a_tool
from toolcall_pipeline import (
    Call,
    Effect,
    Outcome,
    Pipeline,
    Placement,
    Stack,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    Transient,
    ValidCall,
)
from toolcall_pipeline.engine.errors import Landed
from toolcall_pipeline.engine.guards import Guard, Guards, NotBegunError, OneEffect, StageEntry, TimeLimit, enter
from toolcall_pipeline.engine.report import error_of
from toolcall_pipeline.middlewares import Classify, Concurrency, Execute, Resolve, Retry, Validate, standard

PAY = Call("pay")


async def no_sleep(seconds: float) -> None:
    """Return at once."""


class Stage:
    """A middleware of a function, which says that it never runs a body, or not."""

    def __init__(self, run: Callable[..., Any], *, announces_body: bool) -> None:
        self.run = run
        self.placement = Placement(announces_body=announces_body)

    async def __call__(self, call: ValidCall, call_next: Any) -> Outcome:
        return cast("Outcome", await self.run(call, call_next))


class Bodies:
    """The bodies of the tool ``pay``, which do one of these things, in turn; then the last one again."""

    def __init__(self, *turns: object) -> None:
        self.turns = list(turns)
        self.begun = 0
        self.go, self.waits = anyio.Event(), anyio.Event()

    async def pay(self) -> object:
        turn = self.turns[min(self.begun, len(self.turns) - 1)]
        self.begun += 1
        if turn == "wait":
            self.waits.set()
            await self.go.wait()
        if turn == "lost":
            self.waits.set()
            await self.go.wait()
            raise ConnectionError
        if isinstance(turn, BaseException):
            raise turn
        if isinstance(turn, Transient):
            return Failure(turn)
        return "paid"

    async def pay_with_context(self, context: ToolContext) -> object:
        return await self.pay()


FORMS = ["straight", "with a detector", "with a context"]


def tools_of(bodies: Bodies, effect: Effect = "mutating", form: str = "straight") -> ToolRegistry:
    tools = ToolRegistry()
    if effect == "keyed" or form == "with a context":
        tools.register(Tool("pay", bodies.pay_with_context, effect, context=True))
    elif form == "with a detector":
        tools.register(Tool("pay", bodies.pay, effect, detect=lambda _: None))
    else:
        tools.register(Tool("pay", bodies.pay, effect))
    return tools


def around(bodies: Bodies, effect: Effect = "mutating", form: str = "straight") -> Pipeline:
    retry = Retry(first_delay=0, sleep=no_sleep)
    return standard(tools_of(bodies, effect, form)).replace("retry", retry)


@pytest.mark.parametrize("announces_body", [False, True])
@pytest.mark.parametrize("form", FORMS)
async def test_a_queue_refuses_one_attempt_while_the_body_of_another_is_lost(form: str, announces_body: bool) -> None:
    """That nothing began in the one says nothing of the other: no third attempt begins."""
    bodies = Bodies("lost", "paid")
    kinds: list[str] = []

    async def hedge(call: ValidCall, call_next: Any) -> Outcome:
        async def run() -> None:
            kinds.append(error_of(await call_next(call)).kind)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await bodies.waits.wait()
            await run()
            bodies.go.set()
        return cast("Outcome", await call_next(call))

    pipeline = around(bodies, form=form).before("classify", Stage(hedge, announces_body=announces_body), name="hedge")
    pipeline = pipeline.before("execute", Concurrency(1, max_queue=0))
    with anyio.fail_after(PATIENT):
        outcome: Any = await pipeline(PAY)
    assert (bodies.begun, kinds) == (1, ["unavailable", "transient"])
    assert outcome.failure().kind == "outcome_unknown"


@pytest.mark.parametrize("announces_body", [False, True])
@pytest.mark.parametrize("form", FORMS)
async def test_a_second_attempt_beside_a_body_that_waits(form: str, announces_body: bool) -> None:
    """It is refused, and its refusal is not said of the body that waits."""
    bodies = Bodies("wait", "paid")
    kinds: list[str] = []

    async def hedge(call: ValidCall, call_next: Any) -> Outcome:
        answers: list[Outcome] = []

        async def run() -> None:
            answers.append(await call_next(call))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await bodies.waits.wait()
            kinds.extend([error_of(await call_next(call)).kind for _ in range(2)])
            bodies.go.set()
        return answers[0]

    pipeline = around(bodies, form=form).before("classify", Stage(hedge, announces_body=announces_body), name="hedge")
    with anyio.fail_after(PATIENT):
        assert await pipeline(PAY) == Success("paid")
    assert (bodies.begun, kinds) == (1, ["outcome_unknown", "outcome_unknown"])


@pytest.mark.parametrize("announces_body", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("effect", ["mutating", "idempotent", "keyed"])
async def test_a_stage_that_calls_on_again_after_an_answer(effect: Effect, form: str, announces_body: bool) -> None:
    """The call runs again only if nothing speaks against a second body of its tool."""
    bodies = Bodies("paid")

    async def twice(call: ValidCall, call_next: Any) -> Outcome:
        await call_next(call)
        return cast("Outcome", await call_next(call))

    pipeline = around(bodies, effect, form).before(
        "classify", Stage(twice, announces_body=announces_body), name="twice"
    )
    outcome = await pipeline(PAY)
    assert bodies.begun == (1 if effect == "mutating" else 2)
    assert (error_of(outcome) is None) == (effect != "mutating")


@pytest.mark.parametrize("announces_body", [False, True])
@pytest.mark.parametrize("form", FORMS)
async def test_what_a_stage_has_kept_is_called_on_later(form: str, announces_body: bool) -> None:
    """The call has been answered, and its body may have landed."""
    bodies = Bodies("paid")
    kept: list[Callable[[], Any]] = []

    async def keep(call: ValidCall, call_next: Any) -> Outcome:
        kept.append(lambda: call_next(call))
        return cast("Outcome", await call_next(call))

    pipeline = around(bodies, form=form).before("classify", Stage(keep, announces_body=announces_body), name="keep")
    assert await pipeline(PAY) == Success("paid")
    outcome: Any = await kept[0]()
    assert (bodies.begun, outcome.failure().kind) == (1, "outcome_unknown")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("within", [None, 100.0])
async def test_a_body_that_did_not_land_runs_again(form: str, within: float | None) -> None:
    """It said so itself. One that did not say so does not run again."""
    for error, begun, kind in (
        (Transient(landed="no"), 2, None),
        (ConnectionError(), 1, "outcome_unknown"),
    ):
        bodies = Bodies(error, "paid")
        outcome = await around(bodies, form=form)(attrs.evolve(PAY, timeout=within))
        found: Any = error_of(outcome)
        assert (bodies.begun, found and found.kind) == (begun, kind)


@pytest.mark.parametrize("form", FORMS)
async def test_a_body_that_is_cancelled_may_have_landed(form: str) -> None:
    """A stage that gave up the wait may not begin another one."""
    bodies = Bodies("wait", "paid")

    async def give_up(call: ValidCall, call_next: Any) -> Outcome:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_next, call)
            await bodies.waits.wait()
            tasks.cancel_scope.cancel()
        return cast("Outcome", await call_next(call))

    pipeline = around(bodies, form=form).before("classify", Stage(give_up, announces_body=True), name="give_up")
    with anyio.fail_after(PATIENT):
        outcome: Any = await pipeline(PAY)
    assert (bodies.begun, outcome.failure().kind) == (1, "outcome_unknown")


@pytest.mark.parametrize("form", FORMS)
async def test_a_pipeline_as_the_end_says_once(form: str) -> None:
    """Two pipelines count one body: what it says of itself is enough for a second one, and counts once."""
    turns = (Transient(landed="no"), "lost", "paid")
    bodies = Bodies(*turns)
    bodies.go.set()
    tools = tools_of(bodies, form=form)
    inner = standard(tools).without("retry")

    async def run_inner(call: Call) -> Outcome:
        return await inner(call)

    checked = Stack().check(Resolve(tools)).check(Validate())
    outer = checked.wrap(Retry(5, first_delay=0, sleep=no_sleep)).wrap(Classify()).end(run_inner)
    outcome: Any = await outer(PAY)
    assert (bodies.begun, outcome.failure().kind) == (2, "outcome_unknown")


@pytest.mark.parametrize("same", [True, False])
async def test_a_keyed_call_with_another_key(same: bool) -> None:
    """Under the same key the backend does it once; under another one it may do it twice."""
    bodies = Bodies(ConnectionError(), "paid")

    async def change_key(call: ValidCall, call_next: Any) -> Outcome:
        await call_next(call)
        return cast("Outcome", await call_next(call if same else attrs.evolve(call, idempotency_key="another")))

    pipeline = around(bodies, "keyed").before("classify", Stage(change_key, announces_body=True), name="change_key")
    outcome = await pipeline(PAY)
    assert bodies.begun == (2 if same else 1)
    assert (error_of(outcome) is None) == same


class Heard(Guard):
    """Writes down what it is told."""

    counts_bodies = True
    needs_params = False

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, call: Call) -> None:
        self.told.append("begin")

    def end(self, call: Call) -> None:
        self.told.append("end")

    def learn_landed(self, call: Call, landed: Landed) -> None:
        self.told.append(landed)


@pytest.mark.parametrize("inside_of_an_entry", [False, True])
async def test_every_guard_hears_of_a_body_that_execute_runs_itself(inside_of_an_entry: bool) -> None:
    """Once that it began, once that it ended, and once what became of it, also if somebody around would say it too."""
    for turn, landed in (("paid", "yes"), (ToolFailed("", landed=False), "no"), (ValueError(), "maybe")):
        heard = Heard()
        guards = Guards.of(OneEffect(), heard, TimeLimit())
        call: Any = a_call(Tool("pay", Bodies(turn).pay, "mutating")).under(None, guards)
        if inside_of_an_entry:
            entry, given = enter(call, guards, announces_body=True)
            entry.leave(await Execute()(given))
        else:
            await Execute()(call)
        assert heard.told == ["begin", "end", landed]


async def test_a_call_that_is_begun_twice_is_said_of_twice() -> None:
    """One that stands around knows of the body that nobody has said anything of."""
    effect = OneEffect()
    guards = Guards.of(effect)
    call: Any = a_call(Tool("pay", Bodies("paid").pay, "idempotent")).under(None, guards)
    entry, given = enter(call, guards, announces_body=True)
    inside: Any = given.guards
    inside.begin(given)
    inside.end(given)
    assert await Execute()(given) == Success("paid")
    entry.leave(cast("Any", Failure(ToolFailed("", landed=False))))
    assert effect.undecided == 1  # the second one has landed; the first one has not


def test_a_closed_tool_does_not_begin() -> None:
    """The guards of a call that changes something ask whether its tool is still open."""
    tools = ToolRegistry()
    tool = a_tool("pay", "mutating")
    tools.register(tool)
    effect = OneEffect()
    guards = Guards.of_reads([tools]).with_effect(effect)
    call = a_call(tool).under(None, guards)
    tools.disable("pay")
    with pytest.raises(NotBegunError):
        guards.begin(call)
    assert not effect.undecided
    tools.enable("pay")
    guards.begin(call)
    assert effect.lost is tool


OUTCOMES: dict[str, Callable[[], object]] = {
    "it succeeds": lambda: "paid",
    "it raises": ValueError,
    "it is lost": ConnectionError,
    "it did not land": lambda: ToolFailed("busy", landed=False),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("effect", ["mutating", "idempotent", "keyed"])
async def test_no_cycle_is_left_of_a_call(effect: Effect, form: str, outcome: str) -> None:
    """Without the collector its memory is free when it has been answered."""
    own = (Call, Guards, Guard, StageEntry)
    bodies = Bodies(OUTCOMES[outcome]())
    pipeline = around(bodies, effect, form)
    gc.disable()
    gc.freeze()  # the collection below looks at the objects of these calls only
    try:
        for _ in range(3):
            await pipeline(PAY)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, own)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    assert left == []
