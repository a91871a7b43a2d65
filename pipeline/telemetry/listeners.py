"""Everybody else who listens to a call: metrics, the debug log, sinks. Each is handed the finished report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import Any, TypeAlias

from ..report import LiveReport, Recorder
from ..semconv import OTHER, SCOPE
from ..tools.definition import Tool
from .logs import flow, log_flow
from .metrics import Instruments

Sink: TypeAlias = Callable[[LiveReport], object]  # called in the caller's own thread: it must not block
_logger = logging.getLogger(SCOPE)


class Listening:
    """The recorder of a call that has other listeners than a span, and perhaps a span as well."""

    recording = True

    def __init__(
        self,
        span: Recorder | None,
        tool: Tool[..., Any] | None,
        metrics: Instruments | None,
        sinks: Sequence[Sink],
    ) -> None:
        self._span, self._metrics, self._sinks = span, metrics, sinks
        self._live = span if span is not None and span.recording else None
        self.offset = self._live.offset if self._live is not None else time_ns() - perf_counter_ns()
        self._name = tool.name if tool is not None else OTHER
        if metrics is not None:
            _told(metrics.began, self._name)

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Open the attempt's span, where there is one."""
        return self._live.attempt_begins(number, tool) if self._live is not None else None

    def attempt_ends(self, opened: object, verdict: str | None) -> None:
        """Close it."""
        if self._live is not None:
            self._live.attempt_ends(opened, verdict)

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        """Tell all of them, under the call's own span, and end that."""
        try:
            if report is not None:
                if self._metrics is not None:
                    _told(self._metrics.ended, self._name, report, verdict)
                finished = report.copy() if self._sinks else report  # what a tool left behind does is told nobody
                for sink in self._sinks:
                    _told(sink, finished)
        finally:
            if self._span is not None:
                self._span.call_ends(report if self._live is not None else None, verdict)


def _told(listener: Callable[..., object], *facts: object) -> None:
    """A listener with a bug is no reason to lose an outcome, nor what the others are told."""
    try:
        listener(*facts)
    except Exception:
        _logger.exception("A listener failed")


def debugging() -> Sequence[Sink]:
    """The debug log, as a sink, where somebody reads it."""
    return (log_flow,) if flow.isEnabledFor(logging.DEBUG) and flow.hasHandlers() else ()
