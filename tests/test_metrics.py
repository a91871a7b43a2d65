"""Metrics: computed from the report of a call, as the GenAI conventions define them, and off while nobody listens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from time import time_ns
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from opentelemetry import metrics
from opentelemetry.metrics import NoOpMeter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from returns.result import Failure, Success

from support import Exported, a_tool
from toolcall_pipeline import Call, Pipeline, Tool, ToolRegistry, Transient, __version__
from toolcall_pipeline.base.semconv import (
    ACTIVE_METRIC,
    ANSWERS_METRIC,
    DROPPED_METRIC,
    DURATION_METRIC,
    REPAIRS_METRIC,
    RETRIES_METRIC,
    SCHEMA_URL,
    STAGE_METRIC,
)
from toolcall_pipeline.middlewares import Retry, Trace, standard
from toolcall_pipeline.telemetry import Listeners
from toolcall_pipeline.testing import FakeClock


class Measured:
    """A pipeline over some tools, and the metrics of its calls."""

    def __init__(
        self, *tools: Tool[..., Any], exported: Exported | None = None, meters: Any = None, **options: Any
    ) -> None:
        self.exported = exported or Exported()
        self.reader = InMemoryMetricReader()
        self.meters = meters or MeterProvider([self.reader], shutdown_on_exit=False)
        registry = ToolRegistry()
        for each in tools or (a_tool(),):
            registry.register(each)
        self.observer = observer = Trace(tracer_provider=self.exported.provider, meter_provider=self.meters, **options)
        retry = Retry(sleep=FakeClock().sleep)
        self.pipeline: Pipeline = standard(registry).replace("trace", observer).replace("retry", retry)

    def points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        """The points of one metric: attributes, and the value (of a histogram, the whole point)."""
        data: Any = self.reader.get_metrics_data()
        found = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        return [
            (dict(point.attributes), point if hasattr(point, "count") else point.value)
            for metric in found
            for point in metric.data.data_points
        ]


PROBE = {"gen_ai.tool.name": "probe", "gen_ai.tool.type": "function"}
ADVISED = tuple(0.01 * 2**power for power in range(14))  # seconds, by the conventions: 0.01, 0.02, 0.04, … 81.92


async def test_a_call_is_one_point() -> None:
    """A call that succeeds is one point in the advised buckets: its duration in seconds, without error.type."""
    measured = Measured()
    await measured.pipeline.call("probe")
    ((attributes, point),) = measured.points(DURATION_METRIC)
    assert (attributes, point.count, point.explicit_bounds) == (PROBE, 1, ADVISED)
    (root,) = [span for span in measured.exported.spans if span.parent is None]
    assert root.end_time
    assert root.start_time
    assert point.sum == pytest.approx((root.end_time - root.start_time) / 1e9, rel=0.5, abs=0.01)


async def test_a_failure_has_its_kind() -> None:
    """The point of a failed call has the kind of error as error.type; a name that no tool has is _OTHER."""
    measured = Measured()
    await measured.pipeline.call("invented by a model")
    ((attributes, point),) = measured.points(DURATION_METRIC)
    of_error = {"error.type": "unknown_tool", "toolcall.decided_by": "resolve"}
    assert attributes == {**PROBE, "gen_ai.tool.name": "_OTHER", **of_error}
    assert point.count == 1


async def test_retries_and_repairs_are_counted() -> None:
    """Attempts beyond the first count as retries, repairs count by rule, and the call is one success."""
    answers = iter((Failure(Transient()), Failure(Transient()), "fine"))

    async def flaky(**_: object) -> object:
        return next(answers)

    measured = Measured(a_tool(fn=flaky))
    await measured.pipeline.call("functions.probe")
    assert measured.points(RETRIES_METRIC) == [({**PROBE, "error.type": "transient"}, 2)]
    assert measured.points(REPAIRS_METRIC) == [({**PROBE, "toolcall.repair.rule": "transport_noise"}, 1)]
    ((attributes, point),) = measured.points(DURATION_METRIC)
    assert (attributes, point.count) == (PROBE, 1)


async def test_active_calls_are_counted() -> None:
    """A call counts as active until it ends, also if it ends by cancellation."""
    inside = anyio.Event()

    async def wait(**_: object) -> None:
        inside.set()
        await anyio.sleep_forever()

    measured = Measured(a_tool(fn=wait))
    async with anyio.create_task_group() as group:
        group.start_soon(measured.pipeline.call, "probe")
        await inside.wait()
        assert measured.points(ACTIVE_METRIC) == [({"gen_ai.tool.name": "probe"}, 1)]
        group.cancel_scope.cancel()
    assert measured.points(ACTIVE_METRIC) == [({"gen_ai.tool.name": "probe"}, 0)]
    ((attributes, _),) = measured.points(DURATION_METRIC)
    assert attributes["error.type"] == "cancelled"


def ignore(report: object) -> None:
    """A sink."""


@pytest.mark.parametrize("sinks", [[], [ignore]], ids=["spans only", "a sink as well"])
@pytest.mark.parametrize("defer", [False, True])
async def test_an_exemplar_leads_to_the_trace(defer: bool, sinks: Any) -> None:
    """The exemplar of a point has the ids of the call span, also if another thread records it."""
    measured = Measured(defer=defer, sinks=sinks)
    await measured.pipeline.call("probe")
    ((_, point),) = measured.points(DURATION_METRIC)
    (root,) = [span for span in measured.exported.spans if span.parent is None]
    assert root.context
    assert [(each.trace_id, each.span_id) for each in point.exemplars] == [
        (root.context.trace_id, root.context.span_id)
    ]


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF], ids=["sampled", "sampled out"])
async def test_a_collection_has_every_call(sampler: Sampler) -> None:
    """What is deferred is measured before metrics are collected: no call that has ended is missing."""
    answers = iter((Failure(Transient()), "fine", "fine"))

    async def flaky(**_: object) -> object:
        return next(answers)

    measured = Measured(a_tool(fn=flaky), exported=Exported(sampler=sampler), defer=True, stage_durations=True)
    await measured.pipeline.call("functions.probe")
    await measured.pipeline.call("probe")
    ((attributes, point),) = measured.points(DURATION_METRIC)
    assert (attributes, point.count) == (PROBE, 2)
    assert measured.points(RETRIES_METRIC) == [({**PROBE, "error.type": "transient"}, 1)]
    assert [value for _, value in measured.points(REPAIRS_METRIC)] == [1]
    assert measured.points(ACTIVE_METRIC) == [({"gen_ai.tool.name": "probe"}, 0)]
    assert sum(point.count for _, point in measured.points(STAGE_METRIC)) == 3 * 2 + 3 * 2 + 1


async def test_metrics_have_the_version_of_the_library() -> None:
    """The scope of all instruments has a version and a schema, as that of the spans."""
    measured = Measured()
    await measured.pipeline.call("probe")
    data = measured.reader.get_metrics_data()
    assert data is not None
    scopes = [each for resource in data.resource_metrics for each in resource.scope_metrics]
    assert [(each.scope.version, each.scope.schema_url, each.schema_url) for each in scopes] == [
        (__version__, SCHEMA_URL, SCHEMA_URL)
    ]


async def test_two_pipelines_count_their_active_calls_together() -> None:
    """Two pipelines with one meter provider share the count of active calls, as SDKs share an instrument."""
    inside = anyio.Event()
    release = anyio.Event()

    async def wait(**_: object) -> None:
        inside.set()
        await release.wait()

    measured = Measured(a_tool(fn=wait))
    other = Measured(a_tool(fn=wait), meters=measured.meters)
    async with anyio.create_task_group() as group:
        for each in (measured, other):
            inside = anyio.Event()
            group.start_soon(each.pipeline.call, "probe")
            await inside.wait()
        assert measured.points(ACTIVE_METRIC) == [({"gen_ai.tool.name": "probe"}, 2)]
        release.set()
    assert measured.points(ACTIVE_METRIC) == [({"gen_ai.tool.name": "probe"}, 0)]


async def test_dropped_calls_are_a_metric() -> None:
    """Calls that lost their deferred spans are counted, those before the first look included; they are measured."""
    measured = Measured(defer=True)
    deferred = measured.observer.deferred
    assert deferred is not None
    deferred.max_queue = 0
    for _ in range(3):
        await measured.pipeline.call("probe")
    assert measured.points(DROPPED_METRIC) == [({}, 3)]
    ((_, point),) = measured.points(DURATION_METRIC)
    assert point.count == 3


async def test_stage_durations() -> None:
    """With stage_durations each run of a stage is a point with the names of stage and tool; without it none is."""
    measured = Measured(stage_durations=True)
    await measured.pipeline.call("probe")
    stages = [attributes["toolcall.stage"] for attributes, _ in measured.points(STAGE_METRIC)]
    assert stages == ["resolve", "available", "validate", "execute", "classify"]
    assert Measured().points(STAGE_METRIC) == []


async def test_a_failed_stage_counts_what_was_decided() -> None:
    """A lost connection that Execute passed on is no `internal` of Execute: its point has what the attempt has."""

    async def lost(**_: object) -> object:
        raise ConnectionError

    measured = Measured(a_tool(fn=lost), stage_durations=True)
    await measured.pipeline.call("probe")
    kinds = {
        attributes["toolcall.stage"]: attributes.get("error.type") for attributes, _ in measured.points(STAGE_METRIC)
    }
    assert (kinds["execute"], kinds["classify"], kinds["resolve"]) == ("transient", "transient", None)


async def test_metrics_do_not_depend_on_sampling() -> None:
    """A call that is sampled out is measured like any other, retries included."""
    answers = iter((Failure(Transient()), "fine"))

    async def flaky(**_: object) -> object:
        return next(answers)

    measured = Measured(a_tool(fn=flaky), exported=Exported(sampler=ALWAYS_OFF))
    await measured.pipeline.call("probe")
    assert measured.exported.spans == ()
    assert measured.points(RETRIES_METRIC) == [({**PROBE, "error.type": "transient"}, 1)]


class RaisesInCalls(NoOpMeter):
    """A meter whose instruments have a bug."""

    def __init__(self) -> None:
        super().__init__("test")

    def _raise(self, *_: object, **__: object) -> Any:
        raise RuntimeError("a bug in an instrument")

    def _instrument(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(add=self._raise, record=self._raise)

    create_histogram = create_counter = create_up_down_counter = _instrument


class RaisesAtSetUp(RaisesInCalls):
    """A meter that makes no instruments."""

    create_histogram = create_counter = create_up_down_counter = RaisesInCalls._raise


class Provider(metrics.MeterProvider):
    """A provider of one meter."""

    def __init__(self, meter: metrics.Meter) -> None:
        self._meter = meter

    def get_meter(self, *_: Any, **__: Any) -> metrics.Meter:
        return self._meter


@pytest.mark.parametrize(
    ("meter", "logged"),
    [
        (RaisesInCalls(), "A listener failed: a call could not be measured"),
        (RaisesAtSetUp(), "Metrics could not be set up"),
    ],
    ids=["in calls", "at set-up"],
)
async def test_a_meter_provider_that_raises_fails_no_call(
    meter: metrics.Meter, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What a meter provider or its instruments raise is logged, and the outcome and the spans stand."""
    exported = Exported()
    tools = ToolRegistry()
    tools.register(a_tool())
    observer = Trace(tracer_provider=exported.provider, meter_provider=Provider(meter))
    assert await standard(tools).replace("trace", observer).call("probe") == Success("done")
    assert len(exported.spans) == 7
    assert logged in caplog.messages


def test_a_provider_that_records_nothing_has_no_instruments() -> None:
    """The providers of the API have no instruments here: they would cost each call a little, for nothing."""
    for provider in (NoOpMeterProvider(), None):
        assert Listeners(meter_provider=provider, stage_durations=False).join(None, None, time_ns()) is None


@pytest.fixture
def global_meter_provider(monkeypatch: pytest.MonkeyPatch) -> list[metrics.MeterProvider]:
    """The global meter provider, as a list of one, which a test may change; and every time it is asked for."""
    holder: list[metrics.MeterProvider] = [NoOpMeterProvider()]
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: holder[0])
    return holder


SECOND = 1_000_000_000  # ns


def test_a_provider_set_later_is_found_within_a_second(global_meter_provider: list[metrics.MeterProvider]) -> None:
    """While nobody listens, calls within a second of the last look are not even asked about; then one looks again."""
    listeners = Listeners(stage_durations=False)
    start = 5 * SECOND
    assert listeners.idle_until <= start
    assert listeners.join(None, None, start) is None
    assert listeners.idle_until == start + SECOND
    global_meter_provider[0] = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    assert listeners.join(None, None, start + SECOND - 1) is None
    recorder = listeners.join(None, None, start + SECOND)
    assert recorder is not None
    assert recorder.is_sampled
    assert listeners.idle_until == 0


def test_the_global_provider_is_used() -> None:
    """A global meter provider that is set after the pipeline was built gets the metrics."""
    script = """
import anyio
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolRegistry
tools = ToolRegistry()
@tools.tool(effect="read")
async def probe() -> str: return "done"
run = standard(tools)
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
anyio.run(run.call, "probe")
print([metric.name for each in reader.get_metrics_data().resource_metrics[0].scope_metrics for metric in each.metrics])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "gen_ai.execute_tool.duration" in done.stdout


async def test_answers_to_failures_are_counted() -> None:
    """By the first failure and the attempt, in a conversation; calls of one reply do not answer each other."""

    async def run(to: str, date: int) -> str:
        if date == 0:
            raise ConnectionError
        return "sent"

    measured = Measured(Tool(name="probe", fn=run, effect="read"))
    half: dict[str, Any] = {"to": "a"}
    away, right = {**half, "date": 0}, {**half, "date": 1}
    nothing: dict[str, Any] = {}
    talks = [[half, right, right], [half, half, right], [half, nothing, away, away, right], [right]]
    for talk, turns in enumerate(talks):
        for turn, sent in enumerate(turns):
            await measured.pipeline(Call("probe", sent, conversation=f"c{talk}", reply=f"r{talk}.{turn}"))
    for reply in ("one", "one", ""):
        await measured.pipeline(Call("probe", half, conversation="together", reply=reply))
    await measured.pipeline.call("probe", half)
    await measured.pipeline.call("probe", right)
    found = {
        (point["error.type"], point["toolcall.answer.attempt"], point["toolcall.answer.mended"]): value
        for point, value in measured.points(ANSWERS_METRIC)
    }
    assert found == {
        ("validation", "2", True): 1,
        ("validation", "2", False): 3,
        ("validation", "3", True): 1,
        ("validation", "3", False): 1,
        ("validation", "4+", False): 1,
        ("validation", "4+", True): 1,
    }
