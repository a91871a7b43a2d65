"""Effects: a body that may have taken effect is not begun again, and nobody is told that it did not begin."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, cast, get_args

import anyio
import anyio.to_thread
import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from returns.result import Failure, Success

from effects_world import ANSWERS, Body, Event, Kind, Part, Shape, World
from support import PATIENT, a_tool
from toolcall_pipeline import (
    Call,
    Denied,
    Effect,
    Outcome,
    Placement,
    SetupError,
    TimedOut,
    ToolError,
    ToolRegistry,
    Transient,
    Unavailable,
    ValidCall,
    middlewares,
    render,
)
from toolcall_pipeline.engine.report import error_of
from toolcall_pipeline.executors import Thread
from toolcall_pipeline.middlewares import Concurrency, Retry, Timeout, standard

SAYS_WHAT_RAN = {"outcome_unknown", "execution"}

EVENTS = st.one_of(st.just(""), st.sampled_from(get_args(Event)))
PARTS = st.builds(Part, st.sampled_from(get_args(Kind)), EVENTS, EVENTS, st.sampled_from(sorted(ANSWERS)))
STACKS = st.lists(st.one_of(PARTS, PARTS, st.sampled_from(["retry", "limit", "queue"])), max_size=5).filter(
    lambda parts: parts.count("retry") <= 1
)
SHAPES = st.builds(
    Shape,
    STACKS.map(tuple),
    st.sampled_from(["execute", "own end", "own end around execute", "own executor", "own executor around loop"]),
    st.sampled_from(["read", "idempotent", "keyed", "mutating", "mutating", "mutating"]),
    st.lists(st.sampled_from(get_args(Body)), min_size=1, max_size=3).map(tuple),
    EVENTS,
    st.booleans(),
)

EXAMPLES = int(os.environ.get("TOOLCALL_EXAMPLES", "250"))  # `make torture` asks for more


def kind_of(outcome: Any) -> str:
    return "cancelled" if outcome is None else "success" if type(outcome) is Success else outcome.failure().kind


def check(shape: Shape, backend: str, *, watched: bool) -> str:
    world = World(shape)
    outcome = anyio.run(lambda: world.run(watched=watched), backend=backend)
    assert world.caller.cancel_called or outcome is not None
    if shape.effect == "mutating":
        assert not world.doubled, "a body began after one that may have landed"
        error: Any = error_of(outcome)
        if error is not None and world.landed:
            assert getattr(error, "landed", "") != "no", "told that it did not land"
            assert error.kind in SAYS_WHAT_RAN | world.said, f"told {error.kind}"
    return kind_of(outcome)


def judge(shape: Shape, backend: str) -> None:
    """Run a shape with a report and without."""
    kinds = {watched: check(shape, backend, watched=watched) for watched in (True, False)}
    side_by_side = any(isinstance(part, Part) and part.kind in ("at once", "behind") for part in shape.parts)
    if backend == "asyncio" or not side_by_side:  # trio takes tasks that are ready in a random order
        assert kinds[True] == kinds[False]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(
    max_examples=int(os.environ.get("TOOLCALL_EXAMPLES", "250")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@example(
    shape=Shape((Part("pass on", "disable"), "limit", Part("behind", answer="crashed")), "execute", "read", ("ok",))
)
@given(shape=SHAPES)
def test_what_may_have_landed_is_not_begun_again_nor_denied(backend: str, shape: Shape) -> None:
    """No stack of stages runs a mutating body twice, or tells that it did not run; a report changes nothing."""
    judge(shape, backend)


BOTH = pytest.mark.parametrize("watched", [True, False])


@BOTH
@pytest.mark.parametrize("end", ["own end", "own executor"])
async def test_a_body_that_knows_nothing_of_markers_runs_once(end: Any, watched: bool) -> None:
    """An end or executor that does not mark has begun when it is entered: what is cut off may have landed."""
    world = World(Shape(("retry", "limit"), end, "mutating", ("hang",)))
    outcome: Any = await world.run(watched=watched)
    assert (kind_of(outcome), outcome.failure().cause.landed, world.begun) == ("outcome_unknown", "maybe", 1)


@BOTH
@pytest.mark.parametrize("parts", [("retry", "limit", "work"), ("work", "retry", "limit"), ("limit", "retry", "work")])
async def test_a_middleware_that_does_the_work_runs_once(parts: tuple[Any, ...], watched: bool) -> None:
    """A middleware that does the work itself counts as begun, inside and outside of Retry and Timeout."""
    shape = tuple(Part("work") if part == "work" else part for part in parts)
    world = World(Shape(shape, "execute", "mutating", ("hang",), timeout=True))
    outcome: Any = await world.run(watched=watched)
    assert (kind_of(outcome), world.begun) == ("outcome_unknown", 1)


@BOTH
@pytest.mark.parametrize("end", ["own end around execute", "own executor around loop"])
async def test_what_stands_around_a_body_that_marks_gives_way_to_it(end: Any, watched: bool) -> None:
    """An end around Execute, or an executor around Loop, is not taken for a first body beside the real one."""
    table: list[tuple[tuple[Body, ...], tuple[str, int]]] = [
        (("ok",), ("success", 1)),
        (("undone", "ok"), ("success", 2)),
    ]
    for bodies, expected in table:
        world = World(Shape(("retry",), end, "mutating", bodies))
        assert (kind_of(await world.run(watched=watched)), world.begun) == expected


@BOTH
@pytest.mark.parametrize("kind", ["twice", "at once", "behind"])
async def test_a_stage_that_calls_on_more_than_once_runs_one_body(kind: Any, watched: bool) -> None:
    """A mutating body runs once, however often, from wherever a stage calls on; a read as often as it likes."""
    world = World(Shape((Part("twice"), Part(kind, answer="success")), "execute", "mutating", ("reset",)))
    await world.run(watched=watched)
    assert world.begun == 1
    world = World(Shape((Part(kind, answer="success"),), "execute", "read", ("ok",)))
    await world.run(watched=watched)
    assert world.begun == (1 if kind == "behind" else 2)


@BOTH
@pytest.mark.parametrize("answer", [answer for answer in ANSWERS if answer not in ("success", "execution")])
@pytest.mark.parametrize("body", ["ok", "reset", "crash"])
async def test_a_stage_cannot_answer_that_nothing_ran(answer: str, body: Any, watched: bool) -> None:
    """After a mutating body began, what a stage makes up in place of its outcome is unknown, and not repeated."""
    world = World(Shape(("retry", Part("swallow", answer=answer)), "execute", "mutating", (body,)))
    said = "internal" if (answer, body) == ("crashed", "crash") else "outcome_unknown"
    assert (kind_of(await world.run(watched=watched)), world.begun) == (said, 1)


@BOTH
async def test_a_stage_that_raises_after_the_body_hides_no_effect(
    watched: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The bug of a stage is logged with its stack, and the model is told that the call may have taken effect."""
    world = World(Shape((Part("raise"),), "execute", "mutating", ("ok",)))
    assert kind_of(await world.run(watched=watched)) == "outcome_unknown"
    assert [getattr(record, "error.type", "") for record in caplog.records] == ["internal", "outcome_unknown"]
    world = World(Shape((Part("raise"),), "execute", "mutating", ("undone",)))
    assert kind_of(await world.run(watched=watched)) == "internal"


@BOTH
async def test_a_refusal_of_a_second_run_is_not_the_answer_of_the_first(watched: bool) -> None:
    """Two runs at once, of which one is refused by a queue: the other one may have landed."""
    for answer in ("success", "denied"):
        world = World(Shape((Part("at once", answer=answer), "queue"), "execute", "mutating", ("ok",)))
        assert kind_of(await world.run(watched=watched)) in ("success", "outcome_unknown")
        assert world.begun == 1


@BOTH
@pytest.mark.parametrize("event", ["disable", "pause"])
@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_a_tool_that_is_closed_meanwhile_does_not_run(event: Any, effect: Any, watched: bool) -> None:
    """The gate is asked right before each body: after the wait for a retry, after a queue, for a call of a stage."""
    world = World(Shape(("retry",), "execute", effect, ("undone",), event))
    assert (kind_of(await world.run(watched=watched)), world.begun) == ("unavailable", 1)
    stacks: list[tuple[Part | Literal["limit"], ...]] = [
        (Part("pass on", event),),
        (Part("pass on", event), "limit"),
        (Part("call of its own", event), "limit"),
    ]
    for parts in stacks:
        world = World(Shape(parts, "execute", effect, ("ok",)))
        assert (kind_of(await world.run(watched=watched)), world.begun) == ("unavailable", 0)


@BOTH
async def test_a_view_that_is_closed_while_a_call_waits_for_a_thread(watched: bool) -> None:
    """A call that waits in Concurrency, or for a worker thread, does not run once its tool is closed in the view."""
    runs: list[int] = []
    release, began = threading.Event(), threading.Event()

    def work() -> None:
        runs.append(1)
        began.set()
        release.wait(PATIENT)

    for stage in ("thread", "queue"):
        runs.clear()
        release.clear()
        began.clear()
        whole = ToolRegistry()
        whole.register(a_tool(fn=work, effect="mutating"))
        view = whole.view({"probe"})
        pipeline = standard(view, executors={"thread": Thread(1 if stage == "thread" else 4)})
        if stage == "queue":
            pipeline = pipeline.after("validate", Concurrency(1))
        outcomes: list[Any] = []

        async def one(pipeline: Any = pipeline, outcomes: list[Any] = outcomes) -> None:
            call = Call("probe")
            outcomes.append((await pipeline.report(call)).outcome if watched else await pipeline(call))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            await anyio.to_thread.run_sync(began.wait, PATIENT)
            tasks.start_soon(one)
            await anyio.wait_all_tasks_blocked()
            view.disable("probe")
            release.set()
        assert (sorted(map(kind_of, outcomes)), len(runs)) == (["success", "unavailable"], 1)


@BOTH
async def test_what_the_one_body_said_of_itself_is_believed(watched: bool) -> None:
    """A stage may call on again after a body that did not land, and hands on what the second one answers."""
    world = World(Shape((Part("twice"),), "execute", "mutating", ("undone", "crash")))
    assert (kind_of(await world.run(watched=watched)), world.begun) == ("internal", 2)


@BOTH
async def test_a_call_that_the_last_stage_made_is_guarded(watched: bool) -> None:
    """A read that a stage calls by itself does not run either once its tool is closed."""
    tools = ToolRegistry()
    ran: list[int] = []
    tools.register(a_tool("look", fn=lambda: ran.append(1)))

    async def own(call: Any, call_next: Any) -> Any:
        tools.disable("look")
        return await call_next(Call("look").resolved(call.tool).validated({}))

    pipeline = standard(tools).before("execute", own)
    outcome = (await pipeline.report(Call("look"))).outcome if watched else await pipeline.call("look")
    assert (kind_of(outcome), ran) == ("unavailable", [])


@BOTH
async def test_a_later_attempt_that_never_began_takes_nothing_back(watched: bool) -> None:
    """Attempt 1 did not land, attempt 2 waits when the time of the whole call ends: nothing landed."""
    world = World(Shape(("limit", "retry"), "execute", "mutating", ("undone",), "expire outer"))  # while Retry waits
    outcome: Any = await world.run(watched=watched)
    assert (kind_of(outcome), outcome.failure().landed) == ("timeout", "no")


@BOTH
async def test_a_key_of_another_attempt_is_no_key(watched: bool) -> None:
    """A keyed body that may have landed runs again under its own key only."""
    world = World(Shape((Part("twice"), Part("call of its own")), "execute", "keyed", ("reset", "ok")))
    assert (kind_of(await world.run(watched=watched)), world.begun) == ("outcome_unknown", 1)
    world = World(Shape(("retry", Part("pass on")), "execute", "keyed", ("reset", "ok")))
    assert (kind_of(await world.run(watched=watched)), world.begun) == ("success", 2)


@BOTH
async def test_no_stage_makes_another_call_of_a_read(watched: bool) -> None:
    """A call that was resolved to a read runs no tool that changes something."""
    tools = ToolRegistry()
    ran: list[int] = []

    async def change(**_: object) -> None:
        ran.append(1)

    pay = a_tool("pay", "mutating", change)
    tools.register(a_tool("look"))
    tools.register(pay)

    async def swap(call: Any, call_next: Any) -> Any:
        return await call_next(attrs.evolve(call, tool=pay))

    for timeout in (None, 60):
        pipeline = standard(tools, timeout=timeout).after("retry", swap)
        outcome = (await pipeline.report(Call("look"))).outcome if watched else await pipeline.call("look")
        assert (kind_of(outcome), ran) == ("internal", [])


def test_two_stages_that_repeat_are_refused() -> None:
    """A pipeline has one stage that repeats."""
    with pytest.raises(SetupError, match="both repeat"):
        standard(ToolRegistry()).after("retry", Retry(), name="again")


ANSWERS_OF_OTHERS: dict[str, ToolError] = {
    "transient": Transient(retry_after=30),
    "timed out": TimedOut(3.0),
    "denied": Denied("quota"),
    "unavailable": Unavailable("probe", "quota"),
}


@BOTH
@pytest.mark.parametrize("announces_body", [False, True])
@pytest.mark.parametrize(("effect", "limited"), [("idempotent", False), ("mutating", False), ("mutating", True)])
@pytest.mark.parametrize("place", ["retry", "classify", "execute", "a check", "the first check"])
@pytest.mark.parametrize("error", ANSWERS_OF_OTHERS.values(), ids=ANSWERS_OF_OTHERS)
async def test_a_stage_that_did_not_call_on_has_landed_nothing(
    error: ToolError, place: str, effect: Effect, limited: bool, announces_body: bool, watched: bool
) -> None:
    """Whatever it answers, also inside of a Timeout, the model does not read that the call may have taken effect."""
    begun: list[int] = []
    tools = ToolRegistry()
    tools.register(a_tool(fn=lambda: begun.append(1), effect=effect))

    class Refuses:
        placement = Placement(announces_body=announces_body)

        async def __call__(self, call: ValidCall, call_next: Any) -> Outcome:
            return Failure(error)

    def check(call: Any) -> Any:
        return Failure(error)

    pipeline = standard(tools, attempts=1)
    if limited:
        pipeline = pipeline.after("validate", Timeout(60))
    if place.endswith("check"):
        pipeline = pipeline.before("retry" if place == "a check" else "resolve", check)
    else:
        pipeline = pipeline.before(place, Refuses())
    outcome = (await pipeline.report(Call("probe"))).outcome if watched else await pipeline.call("probe")
    assert isinstance(outcome, Failure)
    told = outcome.failure()
    assert type(told) is type(error)
    assert getattr(told, "landed", "no") == "no"
    assert "may have taken effect" not in render(outcome)
    assert begun == []


async def test_a_stage_that_did_not_call_on_may_be_repeated() -> None:
    """Retry repeats what a stage inside of it refused for a while, also for a tool that changes something."""
    begun: list[int] = []
    waits: list[float] = []
    tools = ToolRegistry()
    tools.register(a_tool(fn=lambda: begun.append(1), effect="mutating"))
    answers = [Failure(Transient(retry_after=1.5)), None]

    async def busy_once(call: ValidCall, call_next: Any) -> Outcome:
        answer = answers.pop(0)
        return await call_next(call) if answer is None else answer

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    retry = Retry(first_delay=0, sleep=wait)
    pipeline = standard(tools).replace("retry", retry).before("classify", busy_once)
    assert await pipeline.call("probe") == Success(None)
    assert (begun, waits) == ([1], [1.5])


async def test_a_stage_that_raises_before_it_calls_on_may_have_been_at_work() -> None:
    """It may do the work itself: only an answer says that it did not."""
    tools = ToolRegistry()
    tools.register(a_tool(effect="mutating"))

    async def breaks(call: ValidCall, call_next: Any) -> Outcome:
        raise RuntimeError

    outcome = await standard(tools).before("retry", breaks).call("probe")
    assert kind_of(outcome) == "outcome_unknown"


@BOTH
@pytest.mark.parametrize("place", ["available", "validate", "retry"])
async def test_a_check_may_answer_a_success_that_holds_the_call(place: str, watched: bool) -> None:
    """It means the same as the call itself, at the front and behind a middleware."""
    tools = ToolRegistry()
    tools.register(a_tool(fn=lambda: "done"))

    def check(call: Any) -> Any:
        return Success(call)

    async def own(call: Any, call_next: Any) -> Outcome:
        return cast("Outcome", await call_next(call))

    pipeline = standard(tools).before(place, check)
    for each in (pipeline, pipeline.before("check", own)):
        outcome = (await each.report(Call("probe"))).outcome if watched else await each.call("probe")
        assert outcome == Success("done")


def vendor(stage: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a stage as a package that copied it has it, under a name of its own."""
    source = (Path(middlewares.__path__[0]) / f"{stage}.py").read_text()
    source = source.replace("from .. import", "from toolcall_pipeline import").replace(
        "from ..", "from toolcall_pipeline."
    )
    module = ModuleType(f"vendored.{stage}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, module.__dict__)  # our own source
    return module


@BOTH
async def test_a_vendored_stage_behaves_as_ours(watched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stage is known by its module: its placement says what the guards need to know."""
    retry, classify = (vendor(name, monkeypatch) for name in ("retry", "classify"))
    begun: list[int] = []
    tools = ToolRegistry()

    def probe() -> Outcome[None]:
        begun.append(1)
        return Success(None) if len(begun) == 3 else Failure(Transient(landed="no"))

    async def no_wait(_seconds: float) -> None: ...

    tools.register(a_tool(fn=probe, effect="mutating"))
    ours = standard(tools).replace("retry", Retry(3, sleep=no_wait))
    vendored = ours.replace("retry", retry.Retry(3, sleep=no_wait)).replace("classify", classify.Classify())
    for pipeline in (ours, vendored):
        begun.clear()
        report = await pipeline.report(Call("probe"))
        outcome = report.outcome if watched else None
        if not watched:
            begun.clear()
            outcome = await pipeline.call("probe")
        assert (kind_of(outcome), len(begun)) == ("success", 3)
        assert [attempt.landed for attempt in report.attempts] == ["no", "no", "yes"]
