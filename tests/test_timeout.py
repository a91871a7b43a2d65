"""Time limits: of an attempt, of a whole call, and what is said of a tool that they cut off."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from returns.result import Failure, Success

from support import PATIENT, StoppedTime, a_call, a_tool
from toolcall_pipeline import (
    Call,
    Effect,
    Handler,
    Outcome,
    OutcomeUnknown,
    Placement,
    SetupError,
    Stack,
    TimedOut,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    Transient,
    ValidCall,
    is_failure,
)
from toolcall_pipeline.base import timing
from toolcall_pipeline.engine.compose.deadline import run_within
from toolcall_pipeline.engine.guards import Guards, NotBegunError
from toolcall_pipeline.executors import Thread
from toolcall_pipeline.middlewares import Execute, Resolve, Retry, Timeout, Validate, standard
from toolcall_pipeline.testing import script

SOON = 0.1  # seconds; a body in the event loop has begun by then, for nothing in front of it gives the loop away


def registry(fn: Any, effect: Effect = "read", **options: Any) -> ToolRegistry:
    tools = ToolRegistry()
    tools.register(a_tool(fn=fn, effect=effect, **options))
    return tools


async def time_left() -> float:
    return timing.time_left()


async def test_the_time_that_is_left() -> None:
    """Infinite without a deadline, seconds with one, and less than any time for a task that is cancelled."""
    assert await time_left() == math.inf
    with anyio.move_on_after(1000):
        assert 0 < await time_left() <= 1000
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert await time_left() == -math.inf


async def test_what_is_in_time_passes() -> None:
    """Within the limit the inside's outcome is the outcome, the very object."""
    outcome: Outcome = Success("done")
    assert await Timeout(60)(a_call(), script(outcome)) is outcome


async def test_the_body_had_begun() -> None:
    """A body that was cut off may have landed."""
    outcome = await standard(registry(anyio.sleep_forever), timeout=SOON, attempts=1).call("probe")
    assert outcome == Failure(TimedOut(SOON, landed="maybe"))


async def queue(call: Any, call_next: Any) -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


class Queue:
    """One that says that it never does the work of a tool."""

    placement = Placement(announces_body=True)

    async def __call__(self, call: Any, call_next: Any) -> Outcome:
        return await queue(call, call_next)


async def test_the_body_had_not_begun() -> None:
    """What was cut off while it queued did not land, and is repeated for any tool."""
    pipeline = standard(registry(anyio.sleep_forever, "mutating"), timeout=SOON, attempts=2)
    report = await pipeline.after("timeout", Queue()).replace("retry", Retry(2, 0)).report(Call("probe"))
    assert report.outcome == Failure(TimedOut(SOON, landed="no"))
    assert len(report.attempts) == 2


class Linger:
    """Calls on, and does not return until the time is up."""

    placement = Placement(announces_body=True)

    def __init__(self, stopped: StoppedTime) -> None:
        self._stopped = stopped

    async def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        await call_next(call)
        await self._stopped.hang()
        raise AssertionError


@pytest.mark.parametrize("fails", [False, True], ids=["value", "failure"])
@pytest.mark.parametrize("in_thread", [False, True], ids=["loop", "thread"])
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_body_that_ended_before_the_time_may_have_landed(
    monkeypatch: pytest.MonkeyPatch, effect: Any, in_thread: bool, fails: bool
) -> None:
    """Where a stage inside is cut off after the body ended, the error does not say that nothing happened."""

    def work() -> None:
        if fails:
            raise ConnectionResetError

    async def work_in_loop() -> None:
        work()

    pipeline = standard(registry(work if in_thread else work_in_loop, effect), timeout=SOON, attempts=1)
    report = await pipeline.after("timeout", Linger(StoppedTime(monkeypatch))).report(Call("probe"))
    assert report.outcome == Failure(TimedOut(SOON, landed="maybe"))
    assert [each.landed for each in report.attempts] == ["maybe"]


async def test_a_stage_that_does_not_mark_may_have_done_the_work() -> None:
    """Of a call that was cut off in a stage of somebody else, before it called on, nobody knows whether it landed."""
    pipeline = standard(registry(anyio.sleep_forever, "mutating"), timeout=SOON, attempts=2).after("timeout", queue)
    for outcome in (await pipeline.call("probe"), (await pipeline.report(Call("probe"))).outcome):
        assert outcome == Failure(OutcomeUnknown(TimedOut(SOON)))


async def test_a_mutating_tool_cut_off_is_unknown_and_not_repeated() -> None:
    """A mutating tool whose body began runs once, and what came of it is unknown."""
    runs: list[int] = []

    async def send() -> None:
        runs.append(1)
        await anyio.sleep_forever()

    outcome = await standard(registry(send, "mutating"), timeout=SOON).call("probe")
    assert outcome == Failure(OutcomeUnknown(TimedOut(SOON)))
    assert len(runs) == 1


async def test_a_thread_cannot_be_stopped_only_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync tool over its limit is left behind, and reported as still running."""
    release, stopped = threading.Event(), StoppedTime(monkeypatch)

    def slow() -> None:
        anyio.from_thread.run_sync(stopped.advance, 60)
        release.wait(PATIENT)

    try:
        pipeline = standard(registry(slow), timeout=60, attempts=1)
        assert await pipeline.call("probe") == Failure(TimedOut(60.0, still_running=True))
    finally:
        release.set()


async def test_a_timeout_of_the_tool_is_the_tools() -> None:
    """A TimeoutError that the tool raises is not the limit's, whose time is not up."""

    async def fail() -> None:
        raise TimeoutError("the tool's own")

    outcome = await standard(registry(fail), timeout=60, attempts=1).call("probe")
    assert outcome == Failure(TimedOut(None))


async def test_a_tool_that_answers_late_is_answered_for() -> None:
    """A tool that catches the cancellation and answers all the same has answered."""

    async def stubborn() -> str:
        try:
            await anyio.sleep(60)
        except anyio.get_cancelled_exc_class():
            return "late"
        return "in time"

    assert await standard(registry(stubborn), timeout=SOON, attempts=1).call("probe") == Success("late")


async def test_an_outer_deadline_passes_as_cancellation() -> None:
    """A deadline of the caller's is no TimedOut of ours: it cancels."""
    with anyio.move_on_after(SOON) as scope:
        await standard(registry(anyio.sleep_forever), timeout=60).call("probe")
    assert scope.cancelled_caught


@pytest.mark.parametrize("traced", [True, False])
async def test_a_call_may_have_a_limit_of_its_own(traced: bool) -> None:
    """`call(timeout=)` limits the whole call, all attempts included, in any stack."""
    pipeline = standard(registry(anyio.sleep_forever, "mutating"))
    pipeline = pipeline if traced else pipeline.without("trace")
    outcome = await pipeline.call("probe", timeout=SOON)
    assert outcome == Failure(OutcomeUnknown(TimedOut(SOON)))
    report = await pipeline.report(Call("probe", timeout=SOON))
    assert report.outcome == outcome
    reading = standard(registry(script_of_failures()), attempts=1000).replace("retry", Retry(1000, 0.01))
    assert is_failure(await reading.call("probe", timeout=SOON))


def script_of_failures() -> Any:
    async def fail() -> None:
        raise ConnectionError

    return fail


async def test_an_odd_limit_of_a_call() -> None:
    """A huge number is no limit in effect; what is no number is told to the developer, and the tool does not run."""
    pipeline = standard(registry(anyio.lowlevel.checkpoint))
    assert await pipeline.call("probe", timeout=10**400) == Success(None)
    wrong: Any = "5"
    error = (await pipeline.call("probe", timeout=wrong)).failure()
    assert "`timeout` of a call must be a number of seconds, not '5'" in str(getattr(error, "cause", None))


async def test_limits_nest() -> None:
    """Inside of two limits each knows whether the body began."""
    pipeline = standard(registry(anyio.sleep_forever), timeout=60, attempts=1)
    assert await pipeline.call("probe", timeout=SOON) == Failure(TimedOut(SOON, landed="maybe"))


async def test_a_tool_knows_its_deadline() -> None:
    """A ToolContext holds the nearest deadline, on the clock that any thread may read; None where there is none."""
    seen: list[ToolContext] = []

    async def look(context: ToolContext) -> None:
        seen.append(context)

    tools = registry(look, context=True)
    await standard(tools).call("probe")
    await standard(tools, timeout=60).call("probe", timeout=30)
    assert seen[0].deadline is None
    assert seen[1].deadline is not None


async def test_no_error_is_lost_on_the_way() -> None:
    """A limit passes failures on as they are."""
    outcome: Outcome = Failure(Transient())
    assert await Timeout(60)(a_call(), script(outcome)) is outcome


@pytest.mark.parametrize("seconds", [0, -3.0, float("nan")])
@pytest.mark.parametrize("traced", [True, False])
async def test_with_no_time_left_nothing_begins(seconds: float, traced: bool) -> None:
    """A call whose time is up already does not run, and may be made again."""
    runs: list[int] = []
    pipeline = standard(registry(lambda: runs.append(1), "mutating"))
    outcome = await (pipeline if traced else pipeline.without("trace")).call("probe", timeout=seconds)
    assert outcome == Failure(TimedOut(0.0, landed="no"))
    assert runs == []


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
async def test_with_no_time_left_the_inside_is_not_entered(seconds: float) -> None:
    """Not even up to its first await."""
    inside = script(Success("done"))
    assert await run_within(seconds, a_call(), inside) == Failure(TimedOut(0.0, landed="no"))
    assert not inside.calls


async def test_what_was_given_back_as_not_run_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that comes to its body after the time is up does not begin it: its call may have been repeated."""
    runs: list[int] = []
    refused: list[bool] = []
    late, over, begin = threading.Event(), threading.Semaphore(0), Guards.begin

    def begin_late(guards: Guards, call: Any) -> None:
        late.wait(PATIENT)
        try:
            begin(guards, call)
        except NotBegunError:
            refused.append(True)
            raise
        finally:
            over.release()

    monkeypatch.setattr(Guards, "begin", begin_late)
    pipeline = standard(registry(lambda: runs.append(1), "mutating"), timeout=SOON)
    outcome = await pipeline.replace("retry", Retry(3, 0)).call("probe")
    assert outcome == Failure(TimedOut(SOON, landed="no"))
    late.set()
    for _ in range(3):
        assert await anyio.to_thread.run_sync(over.acquire, True, PATIENT)
    assert refused == [True, True, True]
    assert runs == []


async def test_a_second_attempt_may_be_the_one_that_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several attempts it is told whether one still runs, though an earlier one ended."""
    release, stopped, seen = threading.Event(), StoppedTime(monkeypatch), list[int]()

    def slow() -> None:
        seen.append(1)
        if len(seen) == 1:
            raise ConnectionError
        anyio.from_thread.run_sync(stopped.advance, 60)
        release.wait(PATIENT)

    try:
        pipeline = standard(registry(slow)).replace("retry", Retry(2, 0))
        assert await pipeline.call("probe", timeout=60) == Failure(TimedOut(60.0, still_running=True))
    finally:
        release.set()


@pytest.mark.parametrize("context", [False, True])
async def test_an_idempotent_tool_is_never_beside_itself(context: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idempotent tool that still runs in a thread of an earlier attempt is not repeated."""
    release, stopped, seen = threading.Event(), StoppedTime(monkeypatch), list[int]()

    def put(*_context: ToolContext) -> None:
        seen.append(1)
        anyio.from_thread.run_sync(stopped.advance, 60)
        release.wait(PATIENT)

    try:
        pipeline = standard(registry(put, "idempotent", context=context), timeout=60).replace("retry", Retry(3, 0))
        assert await pipeline.call("probe") == Failure(TimedOut(60.0, still_running=True))
    finally:
        release.set()
    assert seen == [1]


LANDED: list[tuple[Any, str]] = [
    (None, "yes"),
    (ValueError(), "maybe"),
    (ToolFailed("no"), "maybe"),
    (ToolFailed("no", landed=True), "yes"),
    (ToolFailed("no", landed=False), "no"),
    (ToolFailed("no", kind="unavailable", landed=True), "yes"),
    (ToolFailed("no", kind="validation"), "maybe"),
    (ToolFailed("no", kind="transient", landed=False), "no"),
]


@pytest.mark.parametrize(("error", "landed"), [pytest.param(*row, id=str(n)) for n, row in enumerate(LANDED)])
async def test_an_attempt_tells_whether_it_landed(error: Exception | None, landed: str) -> None:
    """What the tool says of its side effect is in the attempt's row; of what it raised otherwise nobody knows."""

    async def act() -> None:
        if error is not None:
            raise error

    report = await standard(registry(act), attempts=1).report(Call("probe"))
    assert [attempt.landed for attempt in report.attempts] == [landed]


@pytest.mark.parametrize("traced", [True, False])
async def test_a_limit_of_a_tools_own(traced: bool) -> None:
    """`tools=` says by name what another tool's limit is; None is none, and then there is no deadline at all."""
    seen: dict[str, float | None] = {}

    async def look(context: ToolContext) -> None:
        seen[context.call_id] = context.deadline

    tools = ToolRegistry()
    for name in ("usual", "slow", "endless"):
        tools.register(a_tool(name, fn=look, context=True))
    limits = Timeout(60, tools={"slow": 600, "endless": None})
    pipeline = standard(tools, timeout=1).replace("timeout", limits)
    pipeline = pipeline if traced else pipeline.without("trace")
    now = time.monotonic()
    for name in tools.tools:
        await pipeline.call(name, id=name)
    assert seen["endless"] is None
    assert [round((seen[name] or 0) - now, -1) for name in ("usual", "slow")] == [60, 600]


@pytest.mark.parametrize(
    "limit", [Timeout(None), Timeout(60, tools={"probe": None}), Timeout(None, tools={"other": 60})], ids=repr
)
def test_no_limit_costs_no_scope(limit: Timeout) -> None:
    """Where there is none the inside is called as if there were no stage: what comes back is the inside's own."""
    inside: Any = object()
    asked: list[Any] = []

    def call_next(call: Any) -> Any:
        asked.append(call)
        return inside

    call = a_call()
    assert limit(call, call_next) is inside
    assert asked == [call]


@pytest.mark.parametrize("limit", [0, -1, float("nan"), "60"], ids=repr)
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    """A limit that leaves no time, or is no number, is a set-up error, also that of one tool."""
    with pytest.raises(SetupError, match="must be a number of seconds > 0"):
        Timeout(limit)
    with pytest.raises(SetupError, match="must be a number of seconds > 0"):
        Timeout(60, tools={"probe": limit})


@pytest.mark.parametrize(
    ("whole", "each", "name", "after"), [(SOON, 60, "whole", SOON), (60, SOON, "timeout", SOON)], ids=["whole", "each"]
)
async def test_the_name_tells_which_limit_it_was(whole: float, each: float, name: str, after: float) -> None:
    """Of a limit for the whole call and one for an attempt, the report says by name whose time was up."""
    pipeline = standard(registry(anyio.sleep_forever), timeout=each, attempts=1)
    report = await pipeline.before("retry", Timeout(whole), name="whole").report(Call("probe"))
    assert report.outcome == Failure(TimedOut(after))
    assert {stage.name for stage in report.stages if stage.verdict == "timeout"} == {name}


async def test_the_whole_limit_holds_over_all_attempts() -> None:
    """Outside of Retry a limit is that of all attempts and waits: one that is too long is not begun."""
    pipeline = standard(registry(script_of_failures())).replace("retry", Retry(3, 20, jitter=lambda: 0.99))
    report = await pipeline.before("retry", Timeout(10)).report(Call("probe"))
    assert [decision.reason for decision in report.decisions] == ["not repeated: the deadline comes first"]


async def test_a_tool_that_holds_cancellation_off_is_waited_for() -> None:
    """It runs in the caller's own task, so nobody could go on without it; what it answers, late, is the answer."""

    async def shielded() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(SOON * 1.5)
        return "late"

    assert await standard(registry(shielded), timeout=SOON, attempts=1).call("probe") == Success("late")


async def test_cut_off_while_it_waits_for_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that got no thread in time did not begin: it is repeated, be it mutating, and runs once in the end."""
    runs: list[int] = []
    release, begun, tools = threading.Event(), anyio.Event(), registry(lambda: runs.append(1), "mutating")
    stopped = StoppedTime(monkeypatch)

    def hold() -> None:
        anyio.from_thread.run_sync(begun.set)
        release.wait(PATIENT)

    async def let_go(_seconds: float) -> None:
        release.set()
        await held.wait()

    tools.register(a_tool("hold", fn=hold))
    held = anyio.Event()
    pipeline = (
        standard(tools)
        .replace("execute", Execute(executors={"thread": Thread(1)}))
        .replace("retry", Retry(2, sleep=let_go))
    )

    async def occupy() -> None:
        await pipeline.call("hold")
        held.set()

    async def end_the_time() -> None:
        await anyio.wait_all_tasks_blocked()
        stopped.advance(60)

    async with anyio.create_task_group() as group:
        group.start_soon(occupy)
        await begun.wait()
        group.start_soon(end_the_time)
        report = await pipeline.after("retry", Timeout(60)).report(Call("probe"))
        assert report.outcome == Success(None)
        assert [(attempt.verdict, attempt.landed) for attempt in report.attempts] == [("timeout", "no"), (None, "yes")]
        assert runs == [1]


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("late", [True, False], ids=["registered later", "registered before"])
async def test_a_tools_own_limit_holds_without_a_stage(traced: bool, late: bool) -> None:
    """The `timeout=` of a tool limits each attempt in a stack without Timeout, whenever the tool was registered."""
    tools = ToolRegistry()
    tool = a_tool(fn=anyio.sleep_forever, timeout=SOON)
    if not late:
        tools.register(tool)
    pipeline = standard(tools, attempts=1)
    own = Stack().check(Resolve(tools)).check(Validate()).end(Execute())
    if late:
        tools.register(tool)
    assert "timeout" not in pipeline.stages
    for each in (pipeline if traced else pipeline.without("trace"), own):
        with anyio.fail_after(30):
            report = await each.report(Call("probe"))
            outcome = await each.call("probe")
        assert outcome == report.outcome == Failure(TimedOut(SOON, landed="maybe"))
        assert [attempt.landed for attempt in report.attempts] == ["maybe"]


async def test_a_stage_that_says_no_limit_for_a_tool_wins_over_the_tools_own() -> None:
    """Where a Timeout stands, it decides: ``tools={"probe": None}`` lifts the limit of the tool itself."""
    tools = ToolRegistry()
    tools.register(a_tool(fn=anyio.lowlevel.checkpoint, timeout=0.000001))
    pipeline = standard(tools).after("retry", Timeout(None, tools={"probe": None}))
    assert await pipeline.call("probe") == Success(None)
