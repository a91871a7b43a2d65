"""The one exporter of every process: it keeps the spans of a judged call, and drops a measured one's."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class Recorder(SpanExporter):
    """Set up as the documentation of OpenTelemetry advises for production: a batch processor, the global provider."""

    def __init__(self) -> None:
        self.keeps = False
        self._kept: list[str] = []
        self._provider: TracerProvider | None = None

    def install(self) -> None:
        """Record from now on."""
        self._provider = TracerProvider()
        processor = BatchSpanProcessor(self, max_queue_size=2**16)  # so that a burst loses none
        self._provider.add_span_processor(processor)
        trace.set_tracer_provider(self._provider)

    def flush(self) -> None:
        """Export what is waiting."""
        if self._provider is not None:
            self._provider.force_flush()

    def take(self) -> str:
        """The spans since the last time, each as a line of JSON."""
        self.flush()
        kept, self._kept = self._kept, []
        return "\n".join(kept)

    def add(self, line: str) -> None:
        """Keep a span that is none of OpenTelemetry's."""
        if self.keeps:
            self._kept.append(line)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take what the processor has."""
        if self.keeps:
            self._kept += [span.to_json(indent=None) for span in spans]
        return SpanExportResult.SUCCESS
