"""Listeners of calls besides their spans: metrics, the sinks of Trace, and the debug log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from opentelemetry.context import get_current

from ..base.foreign_values import FaultBarrier
from ..base.semconv import OTHER, SUPPRESS
from ..engine.report import AttemptRow, CallReport, LiveReport, LiveSink, Recorder, is_live_sink, notify
from ..privacy import get_logger
from ..tools.definition import Tool
from .logs import flow, log_flow

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from .deferred import DeferredSpans
    from .metrics import Instruments
    from .recorders import SpanRecorder

Sink: TypeAlias = Callable[[CallReport], object]  # runs in the caller's thread, so it must not block


class FanOutRecorder:
    """Records one call for several listeners.

    Args:
        span: The recorder of the call's span, or None.
        tool: The tool. None: the name is unknown, or not looked up yet.
        metrics: The instruments, or None.
        sinks: Functions that get the report.
        live_sinks: Follow the call while it runs; the pipeline notifies them.
        deferred: Records the metrics on its own thread. None: the caller's thread does, when the call ends.
    """

    is_sampled = True

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
        self._live = span if span is not None and span.is_sampled else None  # not if it was sampled out
        self.offset = self._live.offset if self._live is not None else time_ns() - perf_counter_ns()
        self._running = metrics.begin_call(OTHER if tool is None else tool.name) if metrics is not None else None

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Start the span of an attempt, if spans are recorded."""
        return self._live.attempt_begins(number, tool) if self._live is not None else None

    def attempt_ends(self, opened: object, row: AttemptRow, error: object = None) -> None:
        """End the span of an attempt."""
        if self._live is not None:
            self._live.attempt_ends(opened, row, error)

    def enter(self, place: int) -> None:
        """Stages are entered in another place."""
        if self._live is not None:
            self._live.enter(place)

    def stage_begins(self, name: str, number: int) -> None:
        """Start the live span of a stage."""
        if self._live is not None:
            self._live.stage_begins(name, number)

    def stage_ends(self, number: int) -> None:
        """End the live span of a stage."""
        if self._live is not None:
            self._live.stage_ends(number)

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
            notify(metrics.record, metrics.measure(report, verdict, None))
        else:
            self._deferred.measure_later(metrics, metrics.measure(report, verdict, get_current()))


_logger = get_logger()
_SECOND = 1_000_000_000  # ns


class Listeners:
    """Finds the active listeners, at most once a second, because that costs more than a call.

    Args:
        sinks: Functions that get the report of every call. A `LiveSink` follows every call while it runs instead.
        meter_provider: Where metrics go. None: the global provider; one that is set later is found within a second.
        stage_durations: Record the duration of each stage as a metric too.
        deferred: Records the metrics on its own thread. None: the caller's thread does.
    """

    def __init__(
        self,
        sinks: Iterable[Sink | LiveSink] = (),
        meter_provider: MeterProvider | None = None,
        *,
        stage_durations: bool,
        deferred: DeferredSpans | None = None,
    ) -> None:
        self._deferred = deferred
        # A call that starts between these times (wall clock, ns) has no listeners and skips `join`. The lower bound is
        # there because the wall clock may be set back.
        self.idle_from = self.idle_until = 0
        sinks = tuple(sinks)
        self._live_sinks = tuple(sink for sink in sinks if is_live_sink(sink))
        self._sinks = tuple(sink for sink in sinks if not is_live_sink(sink))
        self._meter_provider, self._stage_durations = meter_provider, stage_durations
        self._metrics: Instruments | None = None
        self._recorder: type[SpanRecorder] | None = None  # loaded with the metrics, which it counts as well
        self._active_sinks: Sequence[Sink] = ()  # the sinks, and the debug log while it is on
        self._looked = 0  # wall clock, ns

    def join(self, span: Recorder | None, tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        """Return a recorder for a call's span and all other listeners, or the span's own if there are none.

        Args:
            span: The recorder of the call's span, or None.
            tool: The tool. None: the name is unknown, or not looked up yet.
            started: When the call started (wall clock, ns).
        """
        if abs(started - self._looked) >= _SECOND:  # abs: the wall clock may be set back
            self._look(started)
        metrics = self._metrics
        if not self._active_sinks and not self._live_sinks:
            if metrics is None:
                return span
            if type(span) is self._recorder:
                cast("SpanRecorder", span).count(metrics, tool)  # one recorder for both: a third of the cost of two
                return span
        return FanOutRecorder(span, tool, metrics, self._active_sinks, self._live_sinks, self._deferred)

    def _look(self, now: int) -> None:
        self._looked = now
        if self._metrics is None:
            self._metrics = self._find_metrics()
        logs_flow = flow.isEnabledFor(logging.DEBUG) and flow.hasHandlers()
        self._active_sinks = (*self._sinks, log_flow) if logs_flow else self._sinks
        active = self._metrics is not None or bool(self._active_sinks or self._live_sinks)
        self.idle_from, self.idle_until = (0, 0) if active else (now, now + _SECOND)

    def _find_metrics(self) -> Instruments | None:
        with FaultBarrier(_logger, "Metrics could not be set up", BaseException):  # a meter provider is foreign code
            from opentelemetry import metrics

            provider = self._meter_provider
            source = provider if provider is not None else metrics.get_meter_provider()
            # The API's own providers record nothing, but their instruments would still cost each call a little.
            if isinstance(source, metrics.NoOpMeterProvider) or type(source).__module__.startswith(metrics.__name__):
                return None
            from .metrics import make_instruments
            from .recorders import SpanRecorder

            self._recorder = SpanRecorder
            found = make_instruments(source, stages=self._stage_durations)
            if self._deferred is not None:
                self._deferred.report_to(found)
            return found
        return None


is_enabled_for = flow.isEnabledFor  # asked for each call of a pipeline without Trace


def observe_flow(tool: Tool[..., Any] | None, started: int) -> Recorder | None:  # noqa: ARG001  # as an Observer begins
    """Return a recorder that logs the call when it ends, as ``Observer.begin``; None if the log has no reader."""
    if not is_enabled_for(logging.DEBUG) or not flow.hasHandlers() or get_current().get(SUPPRESS):
        return None
    return FanOutRecorder(None, tool, None, (log_flow,))
