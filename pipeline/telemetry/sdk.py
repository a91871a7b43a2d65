"""The OpenTelemetry SDK's part of `configure`: providers, exporters, traces as text. No other module imports it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from threading import Lock
from typing import Any, Literal, TypeAlias

from opentelemetry.metrics import get_meter_provider, set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider, set_tracer_provider

from ..errors import SetupError
from .queues import drain_all
from .span_tree import ASCII, DRAWN, Guides, id_of, tree

__all__ = [  # the SDK's names that others put into their signatures; the rest they call through the module
    "InMemorySpanExporter",
    "ReadableSpan",
    "Sampler",
    "Signal",
    "SpanExporter",
    "Tally",
    "TracerProvider",
    "keeping",
]

Signal: TypeAlias = Literal["traces", "metrics"]
_MOST_TRACES = 1_000  # kept for the console; one whose top never ends here must not fill the memory


class Tally(SpanExporter):
    """An exporter that remembers how many spans the one behind it got rid of, and how many not."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.sent = 0
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hand them on, and count them."""
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            if result is SpanExportResult.SUCCESS:
                self.sent += len(spans)
            else:
                self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Shut down the one behind it."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the one behind it."""
        return self._exporter.force_flush(timeout_millis)


class Trees(SpanProcessor):
    """Writes each trace to stderr as a tree, when the topmost of its spans that was made here ends."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ended: dict[int, list[ReadableSpan]] = {}  # by trace

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it, or write the tree that it is the top of."""
        context, parent = span.context, span.parent
        if context is None or not context.trace_flags.sampled:
            return
        if parent is None or parent.is_remote:
            drain_all()  # its stages may be made later; not under the lock, for they come in here too
            _write(tree(self._take(span, context.trace_id), _guides()))
            return
        with self._lock:
            self._ended.setdefault(context.trace_id, []).append(span)
            if len(self._ended) > _MOST_TRACES:
                del self._ended[next(iter(self._ended))]

    def shutdown(self) -> None:
        """Forget what was not written: the top of it never ended."""
        self._ended.clear()

    def _take(self, top: ReadableSpan, trace_id: int) -> list[ReadableSpan]:
        """That span and those below it; others of its trace, as of a second call for one remote parent, stay."""
        with self._lock:
            rest = self._ended.pop(trace_id, [])
            taken = found = [top]
            while found:
                inside = {id_of(span.context) for span in found}
                found = [span for span in rest if id_of(span.parent) in inside]
                rest = [span for span in rest if id_of(span.parent) not in inside]
                taken = taken + found
            if rest:
                self._ended[trace_id] = rest
        return taken


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # closed, or nobody reads it: no reason to fail whoever ends a span
        sys.stderr.write(f"{text}\n")


def _guides() -> Guides:
    return DRAWN if (sys.stderr.encoding or "").lower().startswith("utf") else ASCII


def described(attributes: Mapping[str, Any]) -> Resource:
    """Who sends: these attributes over those of ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES``."""
    return Resource.create(dict(attributes))


def exporter(signal: Signal, name: str, options: Mapping[str, Any]) -> Any:
    """The exporter that goes by that name. Raises SetupError where none does that is installed."""
    group = f"opentelemetry_{signal}_exporter"  # where a package tells of its exporters
    found = next(iter(entry_points(group=group, name=name)), None)
    if found is None:
        there = ", ".join(sorted({each.name for each in entry_points(group=group)})) or "none"
        raise SetupError(
            f"no exporter for {signal} is called {name!r}; installed are {there} "
            '(those for OTLP by: pip install "toolcall-pipeline[otel]")'
        )
    return found.load()(**options)


def tracing(
    resource: Resource, sampler: Sampler | None, exporters: Iterable[SpanExporter], *, console: bool
) -> tuple[TracerProvider, list[Tally]]:
    """A provider that sends spans in batches (``OTEL_BSP_*``), and who counts them.

    Without a sampler it is that of ``OTEL_TRACES_SAMPLER``.
    """
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    tallies = [Tally(each) for each in exporters]
    for tally in tallies:
        provider.add_span_processor(BatchSpanProcessor(tally))
    if console:
        provider.add_span_processor(Trees())
    return provider, tallies


def metering(resource: Resource, exporters: Iterable[Any]) -> MeterProvider:
    """A provider that sends metrics every ``OTEL_METRIC_EXPORT_INTERVAL``, or has them fetched, as for Prometheus."""
    readers = [each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in exporters]
    return MeterProvider(readers, resource, shutdown_on_exit=False)


def refuse_a_second(*, meter: bool) -> None:
    """Raises SetupError where a provider is already the global one: OpenTelemetry does not let it be replaced."""
    current: object = get_tracer_provider()
    if not isinstance(current, ProxyTracerProvider):
        raise SetupError(
            f"a tracer provider is already set ({_named(current)}), and OpenTelemetry does not let it be replaced: "
            "Trace() uses that one, so leave configure() out, or give it globally=False"
        )
    current = get_meter_provider()
    if meter and not type(current).__module__.startswith("opentelemetry.metrics"):  # not the stand-in of the API
        raise SetupError(
            f"a meter provider is already set ({_named(current)}), and OpenTelemetry does not let it be replaced: "
            'give configure() metrics="none" to keep it'
        )


def install(tracer: TracerProvider, meter: MeterProvider | None = None) -> None:
    """Make them the global ones."""
    set_tracer_provider(tracer)
    if meter is not None:
        set_meter_provider(meter)


def _named(provider: object) -> str:
    return f"{type(provider).__module__}.{type(provider).__qualname__}"


def keeping() -> tuple[TracerProvider, InMemorySpanExporter]:
    """A provider that sends nothing and keeps every span, whatever the environment says of sampling."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return provider, kept
