"""Time limits: of an attempt, of a whole call, and what is said of a tool that they cut off."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest
from returns.result import Failure, Success

from middlewares import Retry, Timeout, standard
from pipeline import Call, Effect, Outcome, OutcomeUnknown, TimedOut, ToolContext, ToolRegistry, Transient, is_failure
from pipeline.testing import script
from support import a_call, a_tool

SOON = 0.02  # seconds


def registry(fn: Any, effect: Effect = "read", **options: Any) -> ToolRegistry:
    tools = ToolRegistry()
    tools.register(a_tool(fn=fn, effect=effect, **options))
    return tools


async def test_what_is_in_time_passes() -> None:
    """Within the limit the inside's outcome is the outcome, the very object."""
    outcome: Outcome = Success("done")
    assert await Timeout(60)(a_call(), script(outcome)) is outcome


async def test_the_body_had_begun() -> None:
    """A body that was cut off may have landed."""
    outcome = await standard(registry(anyio.sleep_forever), timeout=SOON, attempts=1).call("probe")
    assert outcome == Failure(TimedOut(SOON, landed="maybe"))


async def test_the_body_had_not_begun() -> None:
    """What was cut off while it queued did not land, and is repeated for any tool."""

    async def queue(call: Any, call_next: Any) -> Outcome:
        await anyio.sleep_forever()
        raise AssertionError

    pipeline = standard(registry(anyio.sleep_forever, "mutating"), timeout=SOON, attempts=2)
    report = await pipeline.after("timeout", queue).replace("retry", Retry(2, 0)).report(Call("probe"))
    assert report.outcome == Failure(TimedOut(SOON, landed="no"))
    assert len(report.attempts) == 2


async def test_a_mutating_tool_cut_off_is_unknown_and_not_repeated() -> None:
    """A mutating tool whose body began runs once, and what came of it is unknown."""
    runs: list[int] = []

    async def send() -> None:
        runs.append(1)
        await anyio.sleep_forever()

    outcome = await standard(registry(send, "mutating"), timeout=SOON).call("probe")
    assert outcome == Failure(OutcomeUnknown(TimedOut(SOON)))
    assert len(runs) == 1


async def test_a_thread_cannot_be_stopped_only_left_behind() -> None:
    """A sync tool over its limit is left behind, and reported as still running."""
    release = threading.Event()
    try:
        pipeline = standard(registry(lambda: release.wait(10)), timeout=SOON, attempts=1)
        assert await pipeline.call("probe") == Failure(TimedOut(SOON, still_running=True))
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
