"""run_turn: for which calls the model is asked again, how, how often, and with what result; also with real clients."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Annotated, Any, cast

import anthropic as anthropic_sdk
import anyio
import attrs
import openai as openai_sdk
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fake_providers as fake
from fake_providers import FakeProvider, adders
from support import StoppedTime
from toolcall_pipeline import (
    AwaitingApproval,
    Call,
    Crashed,
    Denied,
    ExecutionFailed,
    Failure,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    OutcomeUnknown,
    Pipeline,
    PublicText,
    ResourceNotFound,
    Secret,
    SetupError,
    Success,
    TimedOut,
    ToolError,
    ToolRegistry,
    Transient,
    Unavailable,
    UnknownTool,
)
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.dialogue import Hints, run_turn
from toolcall_pipeline.dialogue.records import Answered, Rate, Record, Turn, success_rates
from toolcall_pipeline.dialogue.requests import Request, match_requests
from toolcall_pipeline.dialogue.turn_state import DOCUMENT_GUIDANCE, GUIDANCE
from toolcall_pipeline.engine.errors import ERROR_TYPES
from toolcall_pipeline.middlewares import standard

GOOD, BAD = {"n": 1}, {"n": "one"}


class Scripted:
    """A model that gives the replies of a script, and keeps what it was asked."""

    def __init__(self, *replies: Sequence[Call] | BaseException) -> None:
        self.replies = list(replies)
        self.told: list[tuple[Sequence[Answered], str, Hints]] = []

    async def __call__(self, answered: Sequence[Answered], guidance: str, hints: Hints) -> Sequence[Call]:
        self.told.append((answered, guidance, hints))
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply


class Desk:
    """Tools that give the answers of a script, and keep the names of those that ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.answers: list[ToolError] = []
        self.busy = 0.0  # seconds of CPU for each unit of `look`
        tools = ToolRegistry()

        @tools.tool(effect="read", aliases=("peek",))
        async def look(n: int) -> int:
            self.ran.append("look")
            until = perf_counter() + n * self.busy
            while perf_counter() < until:
                pass
            return n

        @tools.tool
        async def send(n: int) -> object:
            self.ran.append("send")
            return Failure(self.answers.pop(0)) if self.answers else n

        @tools.tool(effect="read")
        async def ask() -> object:
            self.ran.append("ask")
            return Failure(self.answers.pop(0)) if self.answers else "answered"

        @tools.tool
        async def write(text: str) -> str:
            return text

        @tools.tool(effect="read", context=True)
        async def whose(context: Any, n: int) -> list[object]:
            return [context.principal, context.deps]

        self.tools = tools
        self.pipeline: Pipeline = standard(tools).without("retry")

    async def turn(self, model: Scripted, *calls: Call, **options: Any) -> Turn:
        return await run_turn(model, calls, self.pipeline, **options)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def kinds(turn: Turn) -> list[tuple[str, int, str | None, bool]]:
    return [(each.name, each.attempt, each.kind, each.requires_retry) for each in turn.records]


async def test_success_asks_nobody(desk: Desk) -> None:
    """If all calls succeed, the model is not asked, and their answers are still untold."""
    model = Scripted()
    turn = await desk.turn(model, Call("look", GOOD, "1"), Call("look", {"n": 2}, "2"))
    assert (turn.outcomes, turn.attempts, model.told) == ((Success(1), Success(2)), 1, [])
    assert turn.untold == turn.answered
    assert await desk.turn(model) == Turn((), (), (), (), 1)


async def test_a_call_is_corrected(desk: Desk) -> None:
    """The model gets all answers and the guidance; the call that failed runs again, the one that succeeded does not."""
    model = Scripted([Call("look", {"n": 3}, "new")])
    turn = await desk.turn(model, Call("look", BAD, "1"), Call("send", GOOD, "2"))
    ((answered, guidance, hints),) = model.told
    assert [(each.call.id, each.text) for each in answered] == [
        ("1", "Error: Invalid parameter value for n: must be an integer, not a string"),
        ("2", "1"),
    ]
    assert (guidance, hints) == (GUIDANCE, Hints(0.7, 1200, "auto"))
    assert (turn.outcomes, turn.attempts, desk.ran) == ((Success(3), Success(1)), 2, ["send", "look"])
    assert [each.call.id for each in turn.answered] == ["1", "2"]
    assert [each.call.id for each in turn.untold] == ["new"]
    assert kinds(turn) == [
        ("look", 1, "validation", True),
        ("send", 1, None, False),
        ("look", 2, None, False),
    ]


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
async def test_attempts_are_counted_in_all(desk: Desk, attempts: int) -> None:
    """A call that stays wrong runs ``attempts`` times, the first included, and ends in its own failure."""
    model = Scripted(*[[Call("look", BAD)]] * attempts)
    turn = await desk.turn(model, Call("look", BAD), attempts=attempts)
    assert (turn.attempts, len(turn.records), len(model.told)) == (attempts, attempts, attempts - 1)
    assert isinstance(turn.outcomes[0].failure(), InvalidParams)
    assert [each.requires_retry for each in turn.records] == [True] * attempts


async def test_the_default_is_three_attempts(desk: Desk) -> None:
    """By default there are three attempts; document 003 says three, and its loop makes four."""
    model = Scripted(*[[Call("look", BAD)]] * 9)
    assert (await desk.turn(model, Call("look", BAD))).attempts == 3


EACH: list[tuple[ToolError, bool]] = [
    (UnknownTool("x"), True),
    (MalformedCall("x"), True),
    (InvalidParams(()), True),
    (ResourceNotFound(), True),
    (ExecutionFailed(), True),
    (OutcomeUnknown(), False),
    (NeedsUserInput("Who?"), False),
    (Unavailable("ask", "busy"), False),
    (NotExecuted("x"), False),
    (Denied("x"), False),
    (AwaitingApproval("x"), False),
    (NeedsSetup("x"), False),
    (TimedOut(1.0, landed="no"), False),
    (Transient(landed="no"), False),
    (Crashed(), False),
]


def test_the_table_has_every_kind() -> None:
    """The table has every kind of error."""
    assert {type(error) for error, _ in EACH} == ERROR_TYPES


@pytest.mark.parametrize(("error", "again"), [pytest.param(*each, id=each[0].kind) for each in EACH])
async def test_only_what_the_model_can_fix_goes_back_to_it(desk: Desk, error: ToolError, again: bool) -> None:
    """The kind of the error decides whether the model is asked again; what may have taken effect never is."""
    desk.answers = [error]
    model = Scripted([Call("ask")])
    turn = await desk.turn(model, Call("ask"))
    assert (desk.ran, len(model.told)) == (["ask"] * (1 + again), int(again))
    assert turn.outcomes == ((Success("answered"),) if again else (Failure(error),))
    assert turn.records[0].requires_retry is again


async def test_a_question_ends_the_turn(desk: Desk) -> None:
    """A question that only the user can answer ends the turn, whatever else the model could fix."""
    desk.answers = [NeedsUserInput("Who should get it?", "to")]
    model = Scripted()
    turn = await desk.turn(model, Call("look", BAD), Call("send", GOOD))
    assert (turn.question, turn.attempts, model.told) == ("Who should get it?", 1, [])
    assert [each.failure().kind for each in turn.outcomes] == ["validation", "needs_input"]
    assert [each.text for each in turn.untold][1] == "Question: Who should get it?"


async def test_what_may_have_landed_does_not_run_again(desk: Desk) -> None:
    """The model is told that a call may have taken effect; if it sends the call again, that does not run."""
    desk.answers = [OutcomeUnknown()]
    model = Scripted([Call("send", '{"n": 1}', "3"), Call("look", GOOD, "4")])
    turn = await desk.turn(model, Call("send", GOOD, "1"), Call("look", BAD, "2"))
    ((answered, _, hints),) = model.told
    assert "may have taken effect" in answered[0].text
    assert hints.temperature == 0.5
    assert (desk.ran, turn.outcomes) == (["send", "look"], (Failure(OutcomeUnknown()), Success(1)))
    assert [(each.call.id, each.outcome) for each in turn.untold] == [
        ("3", Failure(OutcomeUnknown())),
        ("4", Success(1)),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "ran"),
    [
        pytest.param("send", GOOD, 1, id="a change runs once"),
        pytest.param("send", '{ "n":1 }', 1, id="the same as JSON text"),
        pytest.param("send", {"n": 2}, 2, id="other arguments are another call"),
        pytest.param("look", GOOD, 2, id="a read may run again"),
        pytest.param("peek", GOOD, 2, id="also by an alias"),
    ],
)
async def test_a_model_that_sends_all_calls_again(desk: Desk, name: str, arguments: Any, ran: int) -> None:
    """A model asked for one call may send all: what took effect is answered from the first time, and not done twice."""
    first = "look" if name == "peek" else name
    model = Scripted([Call(name, arguments, "3"), Call("ask", None, "4")])
    desk.answers = []
    desk.pipeline = desk.pipeline.before("execute", Once(), name="once")
    turn = await desk.turn(model, Call(first, GOOD, "1"), Call("ask", None, "2"))
    assert desk.ran.count(first) == ran
    assert [each.call.id for each in turn.untold] == ["3", "4"]
    assert turn.outcomes == (Success(1), Success("answered"))
    assert len(turn.added) == ran - 1
    assert len(turn.records) == 2 + ran


class Once:
    """Makes the first call of `ask` fail, and no other."""

    def __init__(self) -> None:
        self.failed = False

    async def __call__(self, call: Any, call_next: Any) -> Any:
        if call.name == "ask" and not self.failed:
            self.failed = True
            return Failure(ResourceNotFound())
        return await call_next(call)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param([Call("look", BAD)], 0.7, id="a read"),
        pytest.param([Call("send", BAD)], 0.5, id="mutating"),
        pytest.param([Call("look", BAD), Call("send", BAD)], 0.5, id="one of them mutating"),
        pytest.param([Call("look", BAD), Call("send", GOOD)], 0.7, id="mutating, and it succeeded"),
        pytest.param([Call("nothing")], 0.5, id="an unknown tool"),
    ],
)
async def test_the_temperature(desk: Desk, calls: list[Call], expected: float) -> None:
    """The temperature rises only if every failed tool is read-only; the model must not invent a recipient."""
    model = Scripted([])
    turn = await desk.turn(model, *calls)
    assert [hints for _, _, hints in model.told] == [Hints(expected, 1200, "auto")]
    assert turn.untold == ()  # the model was told, and gave up


async def test_hints_for_a_first_request_and_after_a_cut(desk: Desk) -> None:
    """A first request has temperature 0.5; after a call that was cut off there is no token limit."""
    model = Scripted([])
    await desk.turn(model, Call("look", '{"n": 1', finish_reason="length"))
    assert (Hints(), model.told[0][2].max_tokens) == (Hints(0.5, 1200, "auto"), None)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(Call("write"), GUIDANCE + DOCUMENT_GUIDANCE, id="the body is missing"),
        pytest.param(Call("write", {"text": []}), GUIDANCE, id="the body is wrong"),
        pytest.param(Call("look"), GUIDANCE, id="another parameter is missing"),
    ],
)
async def test_the_guidance(desk: Desk, call: Call, expected: str) -> None:
    """The guidance is that of document 003; its sentence on documents is added if a document's text is missing."""
    model = Scripted([])
    await desk.turn(model, call)
    assert model.told[0][1] == expected


def test_the_text_of_document_003() -> None:
    """The guidance is the text of document 003, byte for byte."""
    assert GUIDANCE + DOCUMENT_GUIDANCE == (
        "The previous tool call(s) need additional information. Please retry with the missing parameters based on the "
        "error messages. For document creation, include a 'text' or 'content' parameter with the document body."
    )


async def test_a_text_says_what_changed_in_that_call(desk: Desk) -> None:
    """A text compares with the attempt before at the same call, not with another call of the reply."""
    model = Scripted([Call("look", BAD, "2"), Call("look", {}, "1")], [])
    turn = await desk.turn(model, Call("look", {}, "1"), Call("look", BAD, "2"))
    first, second = (told[0] for told in model.told)
    assert not any("before" in each.text or "wrong" in each.text for each in first)
    assert [each.text.endswith("These are the same arguments as before.") for each in second] == [True, True]
    assert [each.after for each in turn.records] == [None, None, "validation", "validation"]


@pytest.mark.parametrize(
    "options", [{"profile": "agentopia"}, {"verbosity": "terse"}, {"templates": {"validation": "No."}}]
)
async def test_the_wording_is_the_callers_choice(desk: Desk, options: dict[str, Any]) -> None:
    """Profile, verbosity and templates decide the texts."""
    turn = await desk.turn(Scripted(), Call("look", {}), attempts=1, **options)
    plain = await desk.turn(Scripted(), Call("look", {}), attempts=1)
    assert turn.answered[0].text != plain.answered[0].text
    assert turn.records[0].error == turn.answered[0].text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"attempts": 0}, "^run_turn: `attempts` must be ≥ 1, not 0$"),
        ({"profile": "none"}, "none"),
        ({"verbosity": "none"}, "none"),
    ],
)
async def test_wrong_options_are_refused_before_anything_runs(desk: Desk, options: dict[str, Any], told: str) -> None:
    """A wrong option is a SetupError before any tool runs."""
    with pytest.raises(SetupError, match=told):
        await desk.turn(Scripted(), Call("look", GOOD), **options)
    assert desk.ran == []


@pytest.mark.parametrize("reply", [ValueError("no net"), ExceptionGroup("two", [OSError()])])
async def test_a_client_that_fails_loses_nothing(desk: Desk, reply: Exception) -> None:
    """The exception of a model's client is in the turn, beside everything that has run."""
    turn = await desk.turn(Scripted(reply), Call("look", BAD), Call("look", GOOD))
    assert (turn.error, turn.outcomes[1], len(turn.untold)) == (reply, Success(1), 2)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ([{"name": "look"}], "a Model returns calls, not dict"),
        ([Call("look", GOOD), 5, b"", 6], "a Model returns calls, not int, bytes"),
        ("look", "a Model returns calls, not str"),
        (5, "'int' object is not iterable"),
    ],
    ids=str,
)
async def test_a_reply_must_be_calls(desk: Desk, reply: Any, words: str) -> None:
    """A reply that is not calls ends the turn like an exception of the client, and the error names what it has."""
    turn = await desk.turn(Scripted(reply), Call("look", BAD))
    assert isinstance(turn.error, TypeError)
    assert str(turn.error) == words


async def test_cancellation_passes(desk: Desk) -> None:
    """Cancelling a turn while the model is asked passes."""
    with anyio.CancelScope() as scope:

        async def model(answered: Any, guidance: str, hints: Hints) -> list[Call]:
            scope.cancel()
            await anyio.sleep_forever()
            return []

        await run_turn(model, [Call("look", BAD)], desk.pipeline)
    assert scope.cancelled_caught


async def test_principal_and_deps_are_inherited(desk: Desk) -> None:
    """An attempt inherits principal, deps and time limit from its first call, a new call from the first of the turn."""
    deps = object()
    model = Scripted([Call("whose", {"n": 5}), Call("whose", GOOD), Call("whose", GOOD, principal="own")])
    turn = await desk.turn(model, Call("whose", BAD, principal="tenant", deps=deps, timeout=9.0))
    outcomes = [each.outcome for each in turn.untold]
    assert outcomes == [Success(["tenant", deps]), Success(["tenant", deps]), Success(["own", deps])]
    assert [each.call.timeout for each in turn.untold] == [9.0] * 3
    model = Scripted([Call("whose", GOOD), Call("whose", {"n": 2})])
    turn = await desk.turn(model, Call("whose", BAD, principal="one"), Call("whose", BAD, principal="two"))
    assert turn.outcomes == (Success(["one", None]), Success(["two", None]))


async def test_new_calls_are_added(desk: Desk) -> None:
    """A new call runs and is answered; for an open one the model is asked as long as there are attempts."""
    model = Scripted([Call("ask")], [Call("look", GOOD)])
    turn = await desk.turn(model, Call("look", BAD))
    assert ([each.outcome for each in turn.added], turn.outcomes) == ([Success("answered")], (Success(1),))
    assert [len(told[0]) for told in model.told] == [1, 1]
    assert kinds(turn)[1:] == [("ask", 1, None, False), ("look", 2, None, False)]


def a_request(name: str, id_: str, suggestions: tuple[str, ...] | None = None) -> Request:
    error: ToolError = InvalidParams(()) if suggestions is None else UnknownTool(name, suggestions)
    return Request(Call(name, None, id_), outcome=Failure(error))


ONE = [a_request("a", "1"), a_request("b", "2"), a_request("a", "3")]
UNLIKE = [Request(Call("a", {each: 1}, each), outcome=ONE[0].outcome) for each in "pqr"]
LATER = [a_request("a", "4"), Request(Call("a", None, "1"), Call("a", None, "7"), ONE[0].outcome)]
LOST = [a_request("x", "1", ()), a_request("y", "2", ("b",))]


@pytest.mark.parametrize(
    ("open_", "again", "expected"),
    [
        pytest.param(ONE, "a3 b2 a1", [2, 1, 0], id="by id and name"),
        pytest.param(ONE, "a7 a8 b9", [0, 2, 1], id="by name, in order"),
        pytest.param(ONE, "a8 a3 a9", [0, 2, None], id="a third is new"),
        pytest.param(ONE, "b1 a2", [1, 0], id="ids that are numbered anew"),
        pytest.param(ONE, "c2", [None], id="another tool, whose id may be numbered anew"),
        pytest.param(ONE, "c9", [None], id="another tool"),
        pytest.param(ONE, "a b", [0, 1], id="no ids"),
        pytest.param(LOST, "a8 b9", [0, 1], id="a suggested name first"),
        pytest.param(LOST, "b9 b8 b7", [1, 0, None], id="then any"),
        pytest.param(LATER, "a7", [1], id="by the id of the attempt before"),
        pytest.param(LATER, "a1", [1], id="by the id of the first attempt"),
        pytest.param([], "a1", [None], id="nothing is open"),
        pytest.param([*UNLIKE, ONE[1]], "a7 a8 a9 b9", [0, 1, 2, 3], id="as many calls as requests that differ"),
        pytest.param([*UNLIKE[1:], ONE[1]], "a9 b9", [None, 2], id="a call of another tool is no rival"),
        pytest.param(UNLIKE, "ap a9", [0, None], id="nor is one that has its request"),
    ],
)
def test_which_request_a_call_tries_again(open_: list[Request], again: str, expected: list[int | None]) -> None:
    """Calls match by name, then by id, then in order; a call with an unknown name matches another name."""
    calls = [Call(each[0], None, each[1:]) for each in again.split()]
    assert match_requests(calls, open_) == [None if place is None else open_[place] for place in expected]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1", "2"]))), st.data())
def test_no_request_is_matched_twice(open_: list[tuple[str, str]], data: st.DataObject) -> None:
    """Each request is matched at most once, and there is one entry for each call."""
    waiting = [a_request(*each) for each in open_]
    again = data.draw(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "1", "9"]))))
    found = match_requests([Call(name, None, id_) for name, id_ in again], waiting)
    old = [id(each) for each in found if each is not None]
    assert len(found) == len(again)
    assert len(set(old)) == len(old)


WILD = st.builds(
    Call,
    cast("st.SearchStrategy[str]", st.sampled_from(["look", "send", "peek", "nothing", "", None, 5])),
    st.sampled_from([GOOD, BAD, None, "{", "[]", {"n": object()}, float("nan"), {1: 2}]),
    st.sampled_from(["", "1", "2"]),
)


@given(st.lists(WILD, max_size=4), st.lists(st.lists(WILD, max_size=4), min_size=3, max_size=3))
def test_a_turn_never_raises_for_what_a_model_did(first: list[Call], replies: list[list[Call]]) -> None:
    """Whatever a model sends, each call of the reply has an outcome, and at most three attempts run."""
    desk = Desk()
    turn = anyio.run(lambda: desk.turn(Scripted(*replies), *first))
    assert len(turn.outcomes) == len(first)
    assert turn.error is None
    assert turn.attempts <= 3
    assert all((each.error is None) is each.success for each in turn.records)


def record(attempt: int, kind: str | None, after: str | None = None) -> Record:
    text = None if kind is None else PublicText("Error.")
    return Record("t", 1.0, kind is None, {}, text, kind is not None, attempt, kind, after)


async def test_a_record_has_what_document_003_lists(desk: Desk) -> None:
    """A record has the six fields of document 003: milliseconds, and the arguments as the model wrote them."""
    desk.busy = 0.002
    turn = await desk.turn(Scripted(), Call("look", '{"n": 1}'), Call("look", BAD), attempts=1)
    good, bad = turn.records
    assert (good.name, good.success, good.input_params, good.error) == ("look", True, '{"n": 1}', None)
    assert 2 <= good.execution_time_ms < 60_000
    assert (bad.input_params, bad.error, bad.requires_retry) == (BAD, turn.answered[1].text, True)


def test_success_rates() -> None:
    """Success is counted by the number of the attempt, and by the kind of error before it."""
    one = Turn((), (), (), (record(1, "validation"), record(1, None), record(2, None, "validation")), 2)
    two = Turn((), (), (), (record(1, "unknown_tool"), record(2, "validation", "unknown_tool")), 2)
    three = (record(1, "validation"), record(2, "validation", "validation"), record(3, None, "validation"))
    rates = success_rates([one, two, Turn((), (), (), three, 3)])
    assert rates.by_attempt == {1: Rate(1, 4), 2: Rate(1, 3), 3: Rate(1, 1)}
    assert rates.by_kind == {"unknown_tool": Rate(0, 1), "validation": Rate(2, 3)}
    assert (rates.by_attempt[1].share, Rate(0, 0).share) == (0.25, 0.0)
    assert success_rates([]).by_attempt == {}


BAD_TEXT = "Error: Invalid parameter value for a: must be an integer, not a string"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # in trio the client leaves its own generators open
async def test_through_the_openai_client() -> None:
    """Ten lines make a Model of the official client, which then sends what the wire format asks for."""
    tools = adders()
    read = openai.tools(tools)[1]["function"]["name"]
    replies = (
        fake.completion(("call_1", "add", '{"a": "one"}'), ("call_2", read, '{"path": "x"}')),
        fake.completion(("call_3", "add", '{"a": 1}')),
        fake.completion(text="Done."),
    )
    with FakeProvider(*replies) as server:
        async with openai_sdk.AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client:
            history: list[Any] = [{"role": "user", "content": "Go."}]

            async def request(hints: Hints) -> list[Call]:
                create: Any = client.chat.completions.create
                reply = await create(model="fake", messages=history, tools=openai.tools(tools), **attrs.asdict(hints))
                history.append(reply.choices[0].message)
                return openai.calls(reply, tools)

            async def model(answered: Sequence[Answered], guidance: str, hints: Hints) -> list[Call]:
                history.extend(openai.message(each.call, each.outcome, text=each.text) for each in answered)
                history.append({"role": "system", "content": guidance})
                return await request(hints)

            turn = await run_turn(model, await request(Hints()), standard(tools))
            history.extend(openai.message(each.call, each.outcome, text=each.text) for each in turn.untold)
            assert await request(Hints()) == []
    assert (turn.outcomes, turn.error) == ((Success(1), Success("what x holds")), None)
    assert [(each["temperature"], each["max_tokens"]) for each in server.requests] == [
        (0.5, 1200),
        (0.7, 1200),
        (0.5, 1200),
    ]
    assert [each.get("content") for each in server.requests[1]["messages"][-3:]] == [BAD_TEXT, "what x holds", GUIDANCE]
    assert server.requests[2]["messages"][-1] == {"role": "tool", "tool_call_id": "call_3", "content": "1"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # as above
async def test_through_the_anthropic_client() -> None:
    """With Anthropic's client one user message has all answers, followed by the guidance."""
    tools = adders()
    read = anthropic.tools(tools)[1]["name"]
    replies = (
        fake.message(("toolu_1", "add", {"a": "one"}), ("toolu_2", read, {"path": "x"})),
        fake.message(("toolu_3", "add", {"a": 1})),
    )
    with FakeProvider(*replies) as server:
        async with anthropic_sdk.AsyncAnthropic(api_key="none", base_url=server.url, max_retries=0) as client:
            history: list[Any] = [{"role": "user", "content": "Go."}]

            async def request(hints: Hints) -> list[Call]:
                choice: Any = {"type": hints.tool_choice}
                reply = await client.messages.create(
                    model="fake", messages=history, tools=anthropic.tools(tools), tool_choice=choice,
                    max_tokens=hints.max_tokens or 4096, extra_body={"temperature": hints.temperature},
                )  # fmt: skip
                history.append({"role": "assistant", "content": reply.content})
                return anthropic.calls(reply, tools)

            async def model(answered: Sequence[Answered], guidance: str, hints: Hints) -> list[Call]:
                results = [anthropic.result(each.call, each.outcome, text=each.text) for each in answered]
                history.append({"role": "user", "content": [*results, {"type": "text", "text": guidance}]})
                return await request(hints)

            turn = await run_turn(model, await request(Hints()), standard(tools))
    assert (turn.outcomes, turn.error) == ((Success(1), Success("what x holds")), None)
    first, second, said = server.requests[1]["messages"][-1]["content"]
    assert (first["content"], first["is_error"], second["is_error"]) == (BAD_TEXT, True, False)
    assert (said["text"], server.requests[1]["temperature"]) == (GUIDANCE, 0.7)
    assert json.loads(json.dumps(server.requests[0]["tool_choice"])) == {"type": "auto"}


async def test_the_record_of_a_call_that_was_held_back_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that never ran has no report, and its arguments are redacted like those of one that ran."""
    tools, release, stopped = ToolRegistry(), threading.Event(), StoppedTime(monkeypatch)

    @tools.tool(effect="mutating", resource="account")
    def pay(amount: int, token: Annotated[str, Secret]) -> int:
        anyio.from_thread.run_sync(stopped.advance, 60)
        release.wait()
        return amount

    async def ask(answered: Sequence[Answered], guidance: str, hints: Hints) -> Sequence[Call]:
        raise AssertionError(answered)

    calls = [Call("pay", {"amount": n, "token": "hunter2-hunter2"}) for n in (1, 2)]
    try:
        turn = await run_turn(ask, calls, standard(tools, timeout=60, attempts=1))
    finally:
        release.set()
    assert [each.kind for each in turn.records] == ["outcome_unknown", "not_executed"]
    assert [each.input_params for each in turn.records] == [{"amount": n, "token": "[redacted]"} for n in (1, 2)]
