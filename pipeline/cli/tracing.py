"""The demo's OpenTelemetry: every span is kept for the terminal and, where asked for, sent to a collector as well."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

_PATIENCE = 3.0  # seconds for a collector that does not answer; the exporter's own ten are long for a demo


def endpoint(url: str) -> str:
    """The address that spans are posted to: the URL, with ``/v1/traces`` where it has no path. Raises ValueError."""
    parts = urlsplit(url)
    _ = parts.port  # raises for what is no port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an http:// or https:// URL is needed, such as http://localhost:4318")
    return url if parts.path.strip("/") else parts._replace(path="/v1/traces").geturl()


class Tally(SpanExporter):
    """An exporter that remembers how many spans the one behind it got rid of, and how many not."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.sent = 0
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hand them on, and count them."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        else:
            self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Shut down the one behind it."""
        self._exporter.shutdown()


class Tracing:
    """A provider of its own: the global one is the application's business."""

    def __init__(self, otlp: str | None = None) -> None:
        # Sampled always: a demo that an OTEL_TRACES_SAMPLER in the environment left without spans would show nothing.
        self.provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource.create({"service.name": "toolcall-demo"}), shutdown_on_exit=False
        )
        self._kept = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))  # at once: each call shows its own spans
        self.tally: Tally | None = None
        if otlp is not None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            self.tally = Tally(OTLPSpanExporter(otlp, timeout=_PATIENCE))
            self.provider.add_span_processor(BatchSpanProcessor(self.tally))

    def take(self) -> tuple[ReadableSpan, ...]:
        """The spans that ended since this was last asked."""
        spans = self._kept.get_finished_spans()
        self._kept.clear()
        return spans

    def finish(self) -> None:
        """Send what is still waiting to be sent."""
        self.provider.force_flush()
        self.provider.shutdown()
