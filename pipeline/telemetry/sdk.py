"""The part of `configure` that needs the OpenTelemetry SDK; beside `log_export`, only this module imports it."""

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

from ..base.forking import register_after_fork
from ..base.setup_error import SetupError
from .queues import drain_queues, flush_queues
from .span_tree import ASCII, UNICODE, Guides, draw_tree, id_of

__all__ = [  # the names that other modules use in signatures; they call the rest as sdk.…
    "CountingExporter",
    "FlushDeferred",
    "InMemorySpanExporter",
    "ReadableSpan",
    "Sampler",
    "Signal",
    "SpanExporter",
    "TracerProvider",
    "make_recording_provider",
]

Signal: TypeAlias = Literal["traces", "metrics", "logs"]
_PROJECT = "openinference.project.name"
_MAX_TRACES = 1_000  # incomplete traces kept for the console; their top span may never end in this process


class CountingExporter(SpanExporter):
    """Passes spans on to another exporter, and counts delivered ones (``sent``) and the others (``lost``)."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.sent = 0
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Pass the spans on, and count them."""
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
        """Shut the other exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the other exporter."""
        return self._exporter.force_flush(timeout_millis)


class FlushDeferred(SpanProcessor):
    """Makes the spans of ``Trace(defer=True)`` before the processors after it are flushed or shut down.

    Add it to a provider of your own before its other processors; `configure` does so::

        provider.add_span_processor(FlushDeferred())
    """

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Make the deferred spans, for at most so many milliseconds. Return False if some still wait."""
        return flush_queues(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Make the deferred spans. Those left after 5 seconds are dropped, and counted in ``deferred.dropped``."""
        drain_queues()


class TreePrinter(SpanProcessor):
    """Writes each trace to stderr as a tree, when its topmost span of this process ends."""

    def __init__(self) -> None:
        self._incomplete: dict[int, list[ReadableSpan]] = {}  # by trace id: ended spans whose top span has not ended
        self._renew_lock()
        register_after_fork(self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = Lock()

    def on_end(self, span: ReadableSpan) -> None:
        """Write the tree if the span is the top of one, else keep the span."""
        context, parent = span.context, span.parent
        if context is None or not context.trace_flags.sampled:
            return
        if parent is None or parent.is_remote:
            flush_queues()  # stage spans may be deferred; outside the lock, because they end here too
            _write(draw_tree(self._take(span, context.trace_id), _choose_guides()))
            return
        with self._lock:
            self._incomplete.setdefault(context.trace_id, []).append(span)
            if len(self._incomplete) > _MAX_TRACES:
                del self._incomplete[next(iter(self._incomplete))]

    def shutdown(self) -> None:
        """Forget the spans that were not written, because their top never ended."""
        self._incomplete.clear()

    def _take(self, top: ReadableSpan, trace_id: int) -> list[ReadableSpan]:
        """Remove and return a span and all below it. The rest of the trace stays, as for a second remote child."""
        with self._lock:
            rest = self._incomplete.pop(trace_id, [])
            taken = level = [top]
            while level:
                ids = {id_of(span.context) for span in level}
                level = [span for span in rest if id_of(span.parent) in ids]
                rest = [span for span in rest if id_of(span.parent) not in ids]
                taken = taken + level
            if rest:
                self._incomplete[trace_id] = rest
        return taken


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # stderr may be closed, which must not fail the code that ends a span
        sys.stderr.write(f"{text}\n")


def _choose_guides() -> Guides:
    return UNICODE if (sys.stderr.encoding or "").lower().startswith("utf") else ASCII


def make_resource(attributes: Mapping[str, Any]) -> Resource:
    """Return the resource that describes this process: these attributes over ``OTEL_RESOURCE_ATTRIBUTES``."""
    return Resource.create(dict(attributes))


def _with_project(resource: Resource) -> Resource:
    """Phoenix files traces under a project of its own: the name of the service, unless the resource has a project."""
    name = str(resource.attributes.get("service.name", "unknown_service"))
    return resource if name.startswith("unknown_service") else Resource({_PROJECT: name}).merge(resource)


def make_exporter(signal: Signal, name: str, options: Mapping[str, Any]) -> Any:
    """Return the exporter with that entry point. Raises SetupError if it is not installed."""
    group = f"opentelemetry_{signal}_exporter"  # the group of entry points for exporters
    found = next(iter(entry_points(group=group, name=name)), None)
    if found is None:
        installed = ", ".join(sorted({each.name for each in entry_points(group=group)})) or "none"
        raise SetupError(
            f"unknown exporter {name!r} for {signal}; installed: {installed} "
            '(for OTLP: pip install "toolcall-pipeline[otel]")'
        )
    return found.load()(**options)


def make_tracer_provider(
    resource: Resource, sampler: Sampler | None, exporters: Iterable[SpanExporter], *, console: bool
) -> tuple[TracerProvider, list[CountingExporter]]:
    """Return a provider that sends spans in batches (``OTEL_BSP_*``), and the exporters that count them.

    Without a sampler the provider uses ``OTEL_TRACES_SAMPLER``.
    """
    provider = TracerProvider(sampler=sampler, resource=_with_project(resource), shutdown_on_exit=False)
    provider.add_span_processor(FlushDeferred())
    counting = [CountingExporter(exporter) for exporter in exporters]
    for exporter in counting:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    if console:
        provider.add_span_processor(TreePrinter())
    return provider, counting


def make_meter_provider(resource: Resource, exporters: Iterable[Any]) -> MeterProvider:
    """Return a provider that sends metrics every ``OTEL_METRIC_EXPORT_INTERVAL``. Prometheus scrapes its reader."""
    readers = [each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in exporters]
    return MeterProvider(readers, resource, shutdown_on_exit=False)


def make_recording_provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    """Return a provider that sends nothing and keeps every span, whatever the environment says about sampling."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return provider, kept


def refuse_second_provider(*, meter: bool) -> None:
    """Raise SetupError if a global provider is set already: OpenTelemetry does not let it be replaced."""
    current: object = get_tracer_provider()
    if not isinstance(current, ProxyTracerProvider):
        raise SetupError(
            f"a tracer provider is already set ({_class_path(current)}), and OpenTelemetry does not let it be "
            "replaced: Trace() uses it, so leave configure() out, or call configure(globally=False)"
        )
    current = get_meter_provider()
    if meter and not type(current).__module__.startswith("opentelemetry.metrics"):  # the API's own is a placeholder
        raise SetupError(
            f"a meter provider is already set ({_class_path(current)}), and OpenTelemetry does not let it be "
            'replaced: to keep it, call configure(metrics="none")'
        )


def set_global_providers(tracer: TracerProvider, meter: MeterProvider | None = None) -> None:
    """Make them the global providers."""
    set_tracer_provider(tracer)
    if meter is not None:
        set_meter_provider(meter)


def _class_path(provider: object) -> str:
    return f"{type(provider).__module__}.{type(provider).__qualname__}"
