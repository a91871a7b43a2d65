"""Metrics: computed from the report of a call, by the GenAI conventions, and costing nothing where nobody listens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from returns.result import Failure

from middlewares import Retry, Trace, standard
from pipeline import Pipeline, Tool, ToolRegistry, Transient
from pipeline.semconv import ACTIVE_METRIC, BUCKETS, DURATION_METRIC, REPAIRS_METRIC, RETRIES_METRIC, STAGE_METRIC
from pipeline.telemetry.metrics import instruments
from support import Exported, a_tool


async def no_wait(_seconds: float) -> None:
    """Nobody waits in a test."""


class Measured:
    """A pipeline over some tools, and what its meter provider has to tell."""

    def __init__(self, *tools: Tool[..., Any], exported: Exported | None = None, **options: Any) -> None:
        self.exported = exported or Exported()
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        registry = ToolRegistry()
        for each in tools or (a_tool(),):
            registry.register(each)
        observer = Trace(tracer_provider=self.exported.provider, meter_provider=self.meters, **options)
        retry = Retry(first_delay=0, sleep=no_wait)
        self.pipeline: Pipeline = standard(registry).replace("trace", observer).replace("retry", retry)

    def points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        """The points of one metric: attributes, and the number or the whole point of a histogram."""
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


async def test_a_call_is_one_point() -> None:
    """The duration is recorded once a call, in seconds, in the advised buckets, without the name of any error."""
    measured = Measured()
    await measured.pipeline.call("probe")
    ((attributes, point),) = measured.points(DURATION_METRIC)
    assert (attributes, point.count, point.explicit_bounds) == (PROBE, 1, BUCKETS)
    (root,) = [span for span in measured.exported.spans if span.parent is None]
    assert root.end_time
    assert root.start_time
    assert point.sum == pytest.approx((root.end_time - root.start_time) / 1e9, rel=0.5, abs=0.01)


async def test_a_failure_is_told_by_its_kind() -> None:
    """error.type is the kind on the metric as on the span; invented names are _OTHER."""
    measured = Measured()
    await measured.pipeline.call("invented by a model")
    ((attributes, point),) = measured.points(DURATION_METRIC)
    assert attributes == {**PROBE, "gen_ai.tool.name": "_OTHER", "error.type": "unknown_tool"}
    assert point.count == 1


async def test_retries_and_repairs_are_counted() -> None:
    """Attempts beyond the first are retries; a retried success is one success; each repair counts by its rule."""
    answers = iter((Failure(Transient()), Failure(Transient()), "fine"))

    async def flaky(**_: object) -> object:
        return next(answers)

    measured = Measured(a_tool(fn=flaky))
    await measured.pipeline.call("functions.probe")
    assert measured.points(RETRIES_METRIC) == [(PROBE, 2)]
    assert measured.points(REPAIRS_METRIC) == [({**PROBE, "toolcall.repair.rule": "transport_noise"}, 1)]
    ((attributes, point),) = measured.points(DURATION_METRIC)
    assert (attributes, point.count) == (PROBE, 1)


async def test_what_runs_now_is_counted() -> None:
    """A call counts as active from its beginning to its end, a cancelled one too."""
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


async def test_an_exemplar_leads_to_the_trace() -> None:
    """The point is recorded under the call's own span."""
    measured = Measured()
    await measured.pipeline.call("probe")
    ((_, point),) = measured.points(DURATION_METRIC)
    (root,) = [span for span in measured.exported.spans if span.parent is None]
    assert root.context
    assert [(each.trace_id, each.span_id) for each in point.exemplars] == [
        (root.context.trace_id, root.context.span_id)
    ]


async def test_stages_are_measured_if_asked_for() -> None:
    """With stage_durations each run of a stage is a point, by stage and tool."""
    measured = Measured(stage_durations=True)
    await measured.pipeline.call("probe")
    stages = [attributes["toolcall.stage"] for attributes, _ in measured.points(STAGE_METRIC)]
    assert stages == ["resolve", "available", "validate", "execute", "classify"]
    assert Measured().points(STAGE_METRIC) == []


async def test_metrics_do_not_hang_on_sampling() -> None:
    """A call that was sampled out is measured as any other, retries included."""
    answers = iter((Failure(Transient()), "fine"))

    async def flaky(**_: object) -> object:
        return next(answers)

    measured = Measured(a_tool(fn=flaky), exported=Exported(sampler=ALWAYS_OFF))
    await measured.pipeline.call("probe")
    assert measured.exported.spans == ()
    assert measured.points(RETRIES_METRIC) == [(PROBE, 1)]


async def test_a_meter_with_a_bug_breaks_no_call() -> None:
    """An instrument that raises is told in the log, and the outcome stands."""
    measured = Measured()
    measured.pipeline.entries[0].obj._metrics = Broken()  # no provider lets itself be broken
    outcome = await measured.pipeline.call("probe")
    assert outcome.unwrap() == "done"
    assert len(measured.exported.spans) == 7


class Broken:
    """Instruments with a bug."""

    def began(self, _name: str) -> None:
        raise RuntimeError

    def ended(self, _name: str, _report: object, _verdict: object) -> None:
        raise RuntimeError


def test_nobody_listens_to_a_provider_that_records_nothing() -> None:
    """The API's own providers have no instruments: they would cost each call a little, for nothing."""
    assert instruments(NoOpMeterProvider(), stages=False) is None
    assert instruments(None, stages=False) is None


def test_a_provider_set_later_is_used() -> None:
    """A global meter provider that is set after the pipeline was built gets its points, from a second later at most."""
    script = """
import anyio
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from middlewares import standard
from pipeline import ToolRegistry
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
