"""Providers that export to nowhere, and the bare spans that tracing is measured in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from benchmarks.overhead.subjects import ARGUMENTS, calls
from toolcall_pipeline import Call, Pipeline
from toolcall_pipeline.middlewares import Trace
from toolcall_pipeline.telemetry import Stages
from toolcall_pipeline.testing.overhead.slices import Scenario

_QUEUE = 1 << 17  # spans; the processor's other settings are its defaults


class _CountingExporter(SpanExporter):
    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class Provider:
    """A tracer provider with a batch processor, which counts what came out of it.

    Args:
        sampler: decides which spans are recorded; by default all of them.
        meters: record the metrics of the calls as well.
    """

    def __init__(self, sampler: Sampler = ALWAYS_ON, *, meters: bool = False) -> None:
        none = NoOpMeterProvider()
        self.meters: AnyMeterProvider = (
            MeterProvider([InMemoryMetricReader()], Resource.get_empty(), shutdown_on_exit=False) if meters else none
        )
        self._tracers = TracerProvider(sampler, Resource.get_empty(), shutdown_on_exit=False, meter_provider=none)
        self._exported = _CountingExporter()
        self._tracers.add_span_processor(BatchSpanProcessor(self._exported, max_queue_size=_QUEUE, meter_provider=none))
        self.start_span = self._tracers.get_tracer("benchmark").start_span
        self._expected: list[tuple[Scenario, int]] = []
        self._traces: list[Trace] = []

    def bare(self, each: int = 1, *, whole: bool = False) -> Scenario:
        """Start and end that many spans without attributes, without making them current."""
        return self._spans("bare", None, each, exported=each, whole=whole)

    def sampled_out(self, name: str, attributes: Mapping[str, str | int]) -> Scenario:
        """Start and end a span with attributes that the sampler does not want."""
        return self._spans(name, attributes, 1, exported=0)

    def traced(
        self,
        pipeline: Pipeline,
        tool: str,
        spans: int,
        *,
        defer: bool = False,
        stages: Stages = True,
        whole: bool = False,
    ) -> Scenario:
        """Call that tool, recorded by this provider; each call makes so many spans.

        With ``whole``, the CPU time of all threads is measured until the spans have been exported.
        """
        trace = Trace(defer=defer, stages=stages, tracer_provider=self._tracers, meter_provider=self.meters)
        self._traces.append(trace)
        return self.counted(calls(pipeline.replace("trace", trace), Call(tool, ARGUMENTS)), spans, whole=whole)

    def counted(self, scenario: Scenario, spans: int, *, whole: bool = False) -> Scenario:
        """Note that each step of the scenario makes so many spans, and wait for their export after each slice."""
        scenario.settle, scenario.whole = self._settle, whole
        self._expected.append((scenario, spans))
        return scenario

    def close(self) -> None:
        """Shut down. Raises RuntimeError if a span was lost: then the figures are worth nothing.

        There may be more: under load a stage takes longer, and is notable.
        """
        self._settle()
        self._tracers.shutdown()
        dropped = sum(trace.deferred.dropped for trace in self._traces if trace.deferred is not None)
        expected = sum(scenario.done * spans for scenario, spans in self._expected)
        if dropped or self._exported.spans < expected:
            raise RuntimeError(f"{self._exported.spans} spans of {expected}, and {dropped} calls dropped")

    def _spans(
        self, name: str, attributes: Mapping[str, str | int] | None, each: int, exported: int, *, whole: bool = False
    ) -> Scenario:
        start = self.start_span

        async def batch(times: int) -> None:
            for _ in range(times * each):
                start(name, attributes=attributes).end()

        return self.counted(Scenario(batch), exported, whole=whole)

    def _settle(self) -> None:
        for trace in self._traces:
            trace.flush()
        self._tracers.force_flush()
