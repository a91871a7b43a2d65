"""Providers that export to nowhere, and the bare spans that tracing is measured in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from benchmarks.subjects import calls
from benchmarks.timing import Batch, Scenario
from middlewares import Trace
from pipeline import Pipeline

_ROOM = 1 << 17  # spans; the processor's other settings are its defaults


class _Counted(SpanExporter):
    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class Sink:
    """A provider without meters, its batch processor, and what must have come out of it in the end."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        meters = NoOpMeterProvider()
        self._provider = TracerProvider(sampler, Resource.get_empty(), shutdown_on_exit=False, meter_provider=meters)
        self._exported = _Counted()
        self._provider.add_span_processor(
            BatchSpanProcessor(self._exported, max_queue_size=_ROOM, meter_provider=meters)
        )
        self._expected: list[tuple[Scenario, int]] = []
        self._traces: list[Trace] = []

    def bare(self, each: int = 1) -> Scenario:
        """Spans without attributes, made current for nobody."""
        return self._counted(self._spans("bare", None, each), each)

    def sampled_out(self, name: str, attributes: Mapping[str, str | int]) -> Scenario:
        """The same with attributes, where the sampler wants none."""
        return self._counted(self._spans(name, attributes, 1), 0)

    def traced(self, pipeline: Pipeline, tool: str, spans: int, *, defer: bool = False) -> Scenario:
        """Calls of that tool, recorded here, each of which makes so many spans."""
        trace = Trace(defer=defer, tracer_provider=self._provider)
        self._traces.append(trace)
        return self._counted(calls(pipeline.replace("trace", trace).call, tool), spans)

    def close(self) -> None:
        """Raises RuntimeError where a span was lost: then the figures say nothing."""
        self._settle()
        self._provider.shutdown()
        dropped = sum(trace.deferred.dropped for trace in self._traces if trace.deferred is not None)
        expected = sum(scenario.done * spans for scenario, spans in self._expected)
        if dropped or self._exported.spans != expected:
            raise RuntimeError(f"{self._exported.spans} spans of {expected}, and {dropped} calls dropped")

    def _spans(self, name: str, attributes: Mapping[str, str | int] | None, each: int) -> Batch:
        start = self._provider.get_tracer("benchmark").start_span

        async def batch(times: int) -> None:
            for _ in range(times * each):
                start(name, attributes=attributes).end()

        return batch

    def _counted(self, batch: Batch, spans: int) -> Scenario:
        scenario = Scenario(batch, self._settle)
        self._expected.append((scenario, spans))
        return scenario

    def _settle(self) -> None:
        for trace in self._traces:
            trace.flush()
        self._provider.force_flush()
