"""The demo's OpenTelemetry: every span is kept for the terminal and, where asked for, sent to a collector as well."""

from __future__ import annotations

from urllib.parse import urlsplit

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from ...telemetry.setup import configure

_PATIENCE = 3.0  # seconds for a collector that does not answer; the exporter's own ten are long for a demo


def endpoint(url: str) -> str:
    """The address that spans are posted to: the URL, with ``/v1/traces`` where it has no path. Raises ValueError."""
    parts = urlsplit(url)
    _ = parts.port  # raises for what is no port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an http:// or https:// URL is needed, such as http://localhost:4318")
    return url if parts.path.strip("/") else parts._replace(path="/v1/traces").geturl()


class Tracing:
    """A provider of its own: the global one, and what the environment names, are the application's business."""

    def __init__(self, otlp: str | None = None) -> None:
        exporters: list[SpanExporter] = []
        if otlp is not None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporters.append(OTLPSpanExporter(otlp, timeout=_PATIENCE))
        self.telemetry = configure(
            service_name="toolcall-demo",
            traces="none",
            metrics="none",
            # Always: a demo that an OTEL_TRACES_SAMPLER in the environment left without spans would show nothing.
            sampler=ALWAYS_ON,
            exporters=exporters,
            globally=False,
        )
        self.provider = self.telemetry.tracer_provider
        self._kept = InMemorySpanExporter()
        if isinstance(self.provider, TracerProvider):  # it is none where OTEL_SDK_DISABLED is set
            # At once, for each call shows its own spans.
            self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    def take(self) -> tuple[ReadableSpan, ...]:
        """The spans that ended since this was last asked."""
        spans = self._kept.get_finished_spans()
        self._kept.clear()
        return spans
