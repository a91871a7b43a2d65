"""One recorder for several listeners: the span of a call, metrics, and sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import Any, TypeAlias

from opentelemetry.context import get_current

from ..report import AttemptRow, CallReport, LiveReport, LiveSink, Recorder, notify
from ..semconv import OTHER
from ..tools.definition import Tool
from .deferred import DeferredSpans
from .metrics import Instruments, measure

Sink: TypeAlias = Callable[[CallReport], object]  # runs in the caller's thread, so it must not block


class FanOutRecorder:
    """Records one call for several listeners.

    Args:
        span: The recorder of the call's span. None: there is no span.
        tool: The tool of the call. None: no tool has that name, or it is not known yet.
        metrics: The instruments. None: there are no metrics.
        sinks: Functions that get the report.
        live_sinks: Who hears of the call while it runs; the pipeline tells them.
        deferred: Measures the call on its own thread. None: the caller's thread does, when the call ends.
    """

    recording = True

    def __init__(
        self,
        span: Recorder | None,
        tool: Tool[..., Any] | None,
        metrics: Instruments | None,
        sinks: Sequence[Sink],
        live_sinks: Sequence[LiveSink] = (),
        deferred: DeferredSpans | None = None,
    ) -> None:
        self._deferred, self.live_sinks = deferred, live_sinks
        self._span, self._metrics, self._sinks = span, metrics, sinks
        self._live = span if span is not None and span.recording else None  # not if it was sampled out
        self.offset = self._live.offset if self._live is not None else time_ns() - perf_counter_ns()
        self._running = metrics.begin_call(OTHER if tool is None else tool.name) if metrics is not None else None

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Start the span of an attempt, if spans are recorded."""
        return self._live.attempt_begins(number, tool) if self._live is not None else None

    def attempt_ends(self, opened: object, row: AttemptRow, error: object = None) -> None:
        """End it."""
        if self._live is not None:
            self._live.attempt_ends(opened, row, error)

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        """Give the report to metrics and sinks while the call's span is current, then end that span."""
        if self._running is not None:
            self._running.pop()
        try:
            if report is not None:
                if self._metrics is not None:
                    self._measure(self._metrics, report, verdict)
                if self._sinks:
                    record = report.copy()  # tasks that the tool left running may still write to the live report
                    for sink in self._sinks:
                        notify(sink, record)
        finally:
            if self._span is not None:
                self._span.call_ends(report if self._live is not None else None, verdict)

    def _measure(self, metrics: Instruments, report: LiveReport, verdict: str | None) -> None:
        if self._deferred is None:
            notify(metrics.record, measure(report, verdict, None))
        else:
            self._deferred.measure_later(metrics, measure(report, verdict, get_current()))
