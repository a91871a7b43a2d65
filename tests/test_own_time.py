"""The time of a stage is what it did itself: before it called on, between two calls of the inside, and after them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import pytest
from returns.result import Success

from toolcall_pipeline import Call, CallReport, Outcome, Stack, ToolRegistry, Transient, ValidCall
from toolcall_pipeline.engine.compose import recorded_chain
from toolcall_pipeline.middlewares import Classify, Execute, Resolve, Retry, Trace, Validate, standard
from toolcall_pipeline.testing import assert_trace, recorded_spans

MS = 1_000_000  # ns
Next: TypeAlias = Callable[[ValidCall], Awaitable[Outcome]]


class Time:
    """A clock that stands still unless somebody works."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def work(self, milliseconds: float) -> None:
        self.now += int(milliseconds * MS)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(recorded_chain, "perf_counter_ns", time)
    return time


def tools_that_take(time: Time, milliseconds: float = 7) -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look() -> str:
        """Look."""
        time.work(milliseconds)
        return "seen"

    return tools


def row_of(report: CallReport, name: str) -> Any:
    (row,) = [row for row in report.stages if row.name == name]
    return row


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (0.8, 0, 0),
        (5, 4, 5),
        (4, 5, 5),
        (0, 3, 3),
        (3, 0, 3),
        (0, 0, 0),
        (0.5, 0.2, 0.2),
        (1, 0, 0),
        (1.0000012, 0, 1.000001),
    ],
)
async def test_what_a_middleware_did_before_and_after(time: Time, before: float, after: float, shown: float) -> None:
    """Its seconds are both parts together; start and end are those of one part."""

    async def audit(call: ValidCall, call_next: Next) -> Outcome:
        time.work(before)
        outcome = await call_next(call)
        time.work(after)
        return outcome

    pipeline = standard(tools_that_take(time)).before("classify", audit)
    row = row_of(await pipeline.report(Call("look")), "audit")
    assert row.seconds * 1e3 == pytest.approx(before + after)
    assert (row.end - row.start) / MS == pytest.approx(shown)


async def test_a_middleware_that_calls_on_twice_in_a_row(time: Time) -> None:
    """What it did between the two counts as well, and each run of the inside is an attempt with its own wait."""

    async def again(call: ValidCall, call_next: Next) -> Outcome:
        time.work(1)
        await call_next(call)
        time.work(2)
        outcome = await call_next(call)
        time.work(4)
        return outcome

    for pipeline in (
        standard(tools_that_take(time)).before("retry", again),
        standard(tools_that_take(time)).before("classify", again),
        standard(tools_that_take(time)).without("retry").before("classify", again),
    ):
        report = await pipeline.report(Call("look"))
        assert row_of(report, "again").seconds * 1e3 == pytest.approx(7)
        assert sorted((each.number, each.wait) for each in report.attempts) == [(1, 0), (2, 0)]
        assert sorted(row.attempt for row in report.stages if row.name == "execute") == [1, 2]


async def test_the_wait_of_an_attempt_is_that_before_it() -> None:
    """A second run of Retry does not show the wait of the first one."""
    left = [True, True, False]
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look() -> str:
        """Look."""
        if left.pop():
            return "seen"
        raise ConnectionError

    async def again(call: ValidCall, call_next: Next) -> Outcome:
        await call_next(call)
        return await call_next(call)

    async def no_sleep(seconds: float) -> None:
        """Return at once."""

    pipeline = standard(tools).replace("retry", Retry(first_delay=0.5, jitter=lambda: 1.0, sleep=no_sleep))
    report = await pipeline.before("retry", again).report(Call("look"))
    assert [each.wait > 0 for each in report.attempts] == [False, True, False]


@pytest.mark.parametrize("place", ["retry", "classify"])
async def test_runs_of_the_inside_at_once(place: str) -> None:
    """A stage that calls on twice at once has one attempt for each in a well-formed tree, each with its own stages."""
    tools, began = ToolRegistry(), anyio.Event()
    numbers = iter((1, 2))

    @tools.tool(effect="read")
    async def look() -> int:
        """Look; the first one waits for the second."""
        number = next(numbers)
        await (began.wait() if number == 1 else anyio.lowlevel.checkpoint())
        began.set()
        return number

    async def hedge(call: ValidCall, call_next: Next) -> Outcome:
        outcomes: list[Outcome] = []

        async def run() -> None:
            outcomes.append(await call_next(call))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            group.start_soon(run)
        return outcomes[0]

    with recorded_spans() as recorded:
        traced = standard(tools).replace("trace", Trace(tracer_provider=recorded.tracer_provider))
        report = await traced.before(place, hedge).report(Call("look"))
    assert sorted(each.number for each in report.attempts) == [1, 2]
    assert sorted(row.attempt for row in report.stages if row.name == "execute") == [1, 2]
    assert row_of(report, "hedge").attempt == (0 if place == "retry" else 1)
    assert_trace(recorded.spans, reports=[report])


async def test_an_inner_pipeline_writes_no_outer_report() -> None:
    """A pipeline that is handed the call of another one keeps its retries, stages and attempts in its own report."""
    left = [True, False]
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look() -> str:
        """Look."""
        if left.pop():
            return "seen"
        raise ConnectionError

    async def no_sleep(seconds: float) -> None:
        """Return at once."""

    inner = Stack().check(Resolve(tools)).check(Validate()).wrap(Retry(sleep=no_sleep)).wrap(Classify()).end(Execute())

    async def end(call: Call) -> Outcome:
        return await inner(call)

    outer = Stack().observe(Trace()).end(end)
    report = await outer.report(Call("look"))
    assert report.outcome == Success("seen")
    assert (report.decisions, [row.name for row in report.stages], len(report.attempts)) == ([], ["end"], 1)


@pytest.mark.parametrize("place", ["retry", "classify", "execute"])
async def test_who_let_an_exception_pass_has_no_verdict(place: str) -> None:
    """Of a stage that raises, it alone is told as internal; the stages around it only let it pass."""

    async def broken(call: ValidCall, call_next: Next) -> Outcome:
        raise RuntimeError

    async def around(call: ValidCall, call_next: Next) -> Outcome:
        return await call_next(call)

    tools = tools_that_take(Time())
    report = await standard(tools).before(place, broken).before("retry", around).report(Call("look"))
    assert [(row.name, row.verdict) for row in report.stages if row.verdict] == [("broken", "internal")]


async def test_an_exception_that_was_caught_passes_no_more() -> None:
    """A stage that raises after another one caught an exception is told as internal itself."""
    failure = RuntimeError()

    async def broken(call: ValidCall, call_next: Next) -> Outcome:
        raise failure

    async def catch(call: ValidCall, call_next: Next) -> Outcome:
        try:
            return await call_next(call)
        except RuntimeError:
            return Success(Transient())

    async def again(call: ValidCall, call_next: Next) -> Outcome:
        await call_next(call)
        raise failure

    tools = tools_that_take(Time())
    pipeline = standard(tools).before("retry", again).before("retry", catch).before("retry", broken)
    report = await pipeline.report(Call("look"))
    assert [row.name for row in report.stages if row.verdict == "internal"] == ["broken", "again"]
