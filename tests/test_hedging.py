"""A stage that runs its inside more than once, or leaves runs behind: its report and its tree of spans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from returns.result import Failure, Success

from support import Exported
from toolcall_pipeline import Call, Outcome, Pipeline, Stack, ToolRegistry, ValidCall
from toolcall_pipeline.middlewares import Classify, Execute, Resolve, Retry, Trace, Validate, standard
from toolcall_pipeline.testing import assert_trace

Next: TypeAlias = Callable[[ValidCall], Awaitable[Outcome]]
PLACES = ["retry", "classify"]


async def no_sleep(seconds: float) -> None:
    """Return at once."""


class Traced:
    """A pipeline with one tool, a stage of the test, and the spans of its calls."""

    def __init__(self, look: Callable[[], Awaitable[object]], stage: Any, place: str, *, defer: bool = False) -> None:
        tools = ToolRegistry()
        tools.tool(effect="read")(look)
        self.exported = Exported()
        self.observer = Trace(tracer_provider=self.exported.provider, defer=defer)
        pipeline = standard(tools).replace("retry", Retry(first_delay=0.5, jitter=lambda: 1.0, sleep=no_sleep))
        self.pipeline: Pipeline = pipeline.replace("trace", self.observer).before(place, stage)

    @property
    def spans(self) -> list[Any]:
        self.observer.flush()
        return list(self.exported.spans)

    def attempts(self) -> list[Any]:
        found = [span for span in self.spans if span.name.startswith("attempt")]
        return sorted(found, key=lambda span: span.attributes["toolcall.attempt"])


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("place", PLACES)
async def test_a_run_that_is_left_behind(place: str, defer: bool) -> None:
    """An attempt that still runs when the call has ended has a span all the same, which ends when the attempt does."""
    go, began = anyio.Event(), anyio.Event()
    numbers = iter((1, 2))

    async def look() -> int:
        """Look; the second one waits until the call has ended."""
        if (number := next(numbers)) == 2:
            began.set()
            await go.wait()
        return number

    background = anyio.create_task_group()

    async def hedge(call: ValidCall, call_next: Next) -> Outcome:
        async def run_again() -> None:
            await call_next(call)

        outcome = await call_next(call)
        background.start_soon(run_again)
        await began.wait()
        return outcome

    traced = Traced(look, hedge, place, defer=defer)
    async with background:
        report = await traced.pipeline.report(Call("look"))
        assert report.outcome == Success(1)
        assert [span.attributes["toolcall.attempt"] for span in traced.attempts()] == [1]
        go.set()
    assert [span.attributes["toolcall.attempt"] for span in traced.attempts()] == [1, 2]
    (root,) = [span for span in traced.spans if span.parent is None]
    for span in traced.attempts():
        assert span.parent.span_id == root.context.span_id
        assert span.attributes["toolcall.landed"] == "yes"
        assert span.start_time <= span.end_time
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert len([span for span in traced.spans if span.name == "hedge"]) == 1


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("place", PLACES)
async def test_the_slower_run_is_cancelled(place: str, defer: bool) -> None:
    """Of two runs at once the loser is cancelled in an attempt beside the winner's, and the call is not red.

    Inside of Retry the first run is a part of the attempt that Retry made, which ended well.
    """
    numbers = iter((1, 2))

    async def look() -> int:
        """Look; the first one never ends."""
        number = next(numbers)
        if number == 1:
            await anyio.sleep_forever()
        return number

    async def hedge(call: ValidCall, call_next: Next) -> Outcome:
        outcomes: list[Outcome] = []

        async with anyio.create_task_group() as group:

            async def run() -> None:
                outcomes.append(await call_next(call))
                group.cancel_scope.cancel()

            group.start_soon(run)
            group.start_soon(run)
        return outcomes[0]

    traced = Traced(look, hedge, place, defer=defer)
    report = await traced.pipeline.report(Call("look"))
    assert report.outcome == Success(2)
    assert sorted(each.number for each in report.attempts) == [1, 2]
    assert {row.attempt: row.verdict for row in report.stages if row.name == "execute"} == {1: "cancelled", 2: None}
    assert {each.verdict for each in report.attempts} == ({"cancelled", None} if place == "retry" else {None})
    assert {each.wait for each in report.attempts} == {0}
    assert_trace(traced.spans, reports=[report])


async def test_three_runs_of_which_two_are_retried() -> None:
    """Each run of the inside has attempts with waits of its own, numbered through the call."""
    left = [True, True, False, True, False]  # popped from the end: fails, succeeds, fails, succeeds, succeeds
    order: list[bool] = []

    async def look() -> str:
        """Look."""
        fails = not left.pop()
        order.append(fails)
        if fails:
            raise ConnectionError
        return "seen"

    async def again(call: ValidCall, call_next: Next) -> Outcome:
        await call_next(call)
        await call_next(call)
        return await call_next(call)

    traced = Traced(look, again, "retry")
    report = await traced.pipeline.report(Call("look"))
    assert [each.verdict is not None for each in sorted(report.attempts)] == order == [True, False, True, False, False]
    assert [each.wait > 0 for each in sorted(report.attempts)] == [False, True, False, True, False]
    assert [decision.wait for decision in report.decisions] == [0.5, 0.5]
    assert_trace(traced.spans, reports=[report])


async def test_two_stages_that_call_on_twice() -> None:
    """Two such stages around each other make four runs, each an attempt of its own."""

    async def look() -> str:
        """Look."""
        return "seen"

    async def twice(call: ValidCall, call_next: Next) -> Outcome:
        await call_next(call)
        return await call_next(call)

    async def at_once(call: ValidCall, call_next: Next) -> Outcome:
        outcomes: list[Outcome] = []

        async def run() -> None:
            outcomes.append(await call_next(call))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            group.start_soon(run)
        return outcomes[0]

    traced = Traced(look, twice, "retry")
    traced.pipeline = traced.pipeline.before("classify", at_once)
    report = await traced.pipeline.report(Call("look"))
    assert sorted(each.number for each in report.attempts) == [1, 2, 3, 4]
    assert sorted(row.attempt for row in report.stages if row.name == "execute") == [1, 2, 3, 4]
    assert_trace(traced.spans, reports=[report])


async def test_an_inner_pipeline_that_is_traced_too() -> None:
    """An inner pipeline that is handed the outer call has a tree of its own, with its retries, below the attempt."""
    left = [True, False, False]
    tools, exported = ToolRegistry(), Exported()

    @tools.tool(effect="read")
    async def look() -> str:
        """Look."""
        if left.pop():
            return "seen"
        raise ConnectionError

    def observer() -> Trace:
        return Trace(tracer_provider=exported.provider)

    retry = Retry(first_delay=0.5, jitter=lambda: 1.0, sleep=no_sleep)
    inner = (
        Stack().observe(observer()).check(Resolve(tools)).check(Validate()).wrap(retry).wrap(Classify()).end(Execute())
    )

    async def end(call: ValidCall) -> Outcome:
        return await inner(call)

    outer = Stack().observe(observer()).check(Resolve(tools)).check(Validate()).wrap(Retry(sleep=no_sleep)).end(end)
    report = await outer.report(Call("look"))
    assert report.outcome == Success("seen")
    assert (report.decisions, [(each.number, each.wait) for each in report.attempts]) == ([], [(1, 0)])
    spans: list[Any] = list(exported.spans)
    calls = {span.attributes["toolcall.attempts"]: span for span in spans if span.name == "execute_tool look"}
    (attempt,) = [
        span for span in spans if span.name == "attempt look" and span.parent.span_id == calls[1].context.span_id
    ]
    assert calls[3].parent.span_id == attempt.context.span_id
    assert [span.status.is_ok for span in (calls[1], calls[3], attempt)] == [True, True, True]


def red(spans: list[Any]) -> list[str]:
    """The names of the red spans, each with its error.type."""
    return sorted(f"{span.name} {span.attributes['error.type']}" for span in spans if not span.status.is_unset)


async def first_of_two(call: ValidCall, call_next: Next) -> Outcome:
    """Ask twice, and return the first answer."""
    first = await call_next(call)
    await call_next(call)
    return first


async def wrap_again(call: ValidCall, call_next: Next) -> Outcome:
    """Return the error of the inside in another Failure."""
    match await call_next(call):
        case Failure(error):
            return Failure(error)
        case other:
            return other


@pytest.mark.parametrize("place", [*PLACES, "execute"])
@pytest.mark.parametrize("stage", [first_of_two, wrap_again])
async def test_who_passes_a_failure_on_is_not_red(stage: Any, place: str) -> None:
    """A stage that returns the answer of any run of its inside, or its error in another Failure, decided nothing."""

    async def look() -> int:
        raise PermissionError

    traced = Traced(look, stage, place)
    report = await traced.pipeline.report(Call("look"))
    assert [row.verdict for row in report.stages if row.name == stage.__name__] == [None]
    assert not any(each.startswith(stage.__name__) for each in red(traced.spans))
    assert_trace(traced.spans, reports=[report])


@pytest.mark.parametrize(
    ("raised", "kind"), [(ConnectionError, "transient"), (PermissionError, "permission"), (KeyError, "internal")]
)
@pytest.mark.parametrize("retries", [False, True])
async def test_an_attempt_inside_of_classify_has_its_verdict(raised: type[Exception], kind: str, retries: bool) -> None:
    """An attempt that stands inside of Classify, without Retry or beside another one, fails with what that finds."""

    async def look() -> int:
        raise raised

    traced = Traced(look, first_of_two, "execute")
    reader = InMemoryMetricReader()
    observer = Trace(
        tracer_provider=traced.exported.provider, meter_provider=MeterProvider([reader]), stage_durations=True
    )
    pipeline = traced.pipeline.replace("trace", observer).replace("retry", Retry(attempts=1))
    report = await (pipeline if retries else pipeline.without("retry")).report(Call("look"))
    assert [attempt.verdict for attempt in report.attempts] == [kind, kind]
    assert {each.split()[-1] for each in red(traced.spans)} == {kind}
    found: Any = reader.get_metrics_data()
    metrics = {each.name: each for scope in found.resource_metrics[0].scope_metrics for each in scope.metrics}
    of_execute = [
        point.attributes["error.type"]
        for point in metrics["toolcall.stage.duration"].data.data_points
        if point.attributes["toolcall.stage"] == "execute"
    ]
    assert of_execute == [kind]
    assert [point.attributes["error.type"] for point in metrics["toolcall.tool.retries"].data.data_points] == [kind]
    assert_trace(traced.spans, reports=[report])
