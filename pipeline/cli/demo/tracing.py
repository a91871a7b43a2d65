"""The spans of the demo: kept for the terminal and, with ``--otlp``, sent to a collector."""

from __future__ import annotations

from urllib.parse import urlsplit

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from ...telemetry.setup import configure

_EXPORT_TIMEOUT = 3.0  # seconds; the exporter's own default of ten is long for a demo


def resolve_endpoint(url: str) -> str:
    """The URL that spans are posted to; ``/v1/traces`` is added to a URL without a path.

    Raises:
        ValueError: it is not an HTTP URL.
    """
    parts = urlsplit(url)
    _ = parts.port  # raises ValueError if it is not a port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an http:// or https:// URL is needed, for example http://localhost:4318")
    return url if parts.path.strip("/") else parts._replace(path="/v1/traces").geturl()


class Tracing:
    """A tracer provider for the demo alone; the global one and the exporters of the environment are not touched.

    Args:
        otlp: Where to post the spans as well; None: nowhere.
    """

    def __init__(self, otlp: str | None = None) -> None:
        exporters: list[SpanExporter] = []
        if otlp is not None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporters.append(OTLPSpanExporter(otlp, timeout=_EXPORT_TIMEOUT))
        self.telemetry = configure(
            service_name="toolcall-demo",
            traces="none",
            metrics="none",
            logs="none",
            sampler=ALWAYS_ON,  # with OTEL_TRACES_SAMPLER=always_off in the environment there would be nothing to show
            exporters=exporters,
            globally=False,
        )
        self.provider = self.telemetry.tracer_provider
        self._kept = InMemorySpanExporter()
        if isinstance(self.provider, TracerProvider):  # not with OTEL_SDK_DISABLED
            self.provider.add_span_processor(SimpleSpanProcessor(self._kept))  # at once: each call shows its spans

    def take_spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that ended since the last time."""
        spans = self._kept.get_finished_spans()
        self._kept.clear()
        return spans
