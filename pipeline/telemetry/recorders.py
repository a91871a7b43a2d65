"""The recorders of one call's spans: one for a call that is recorded, one for a call that was sampled out."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns, time_ns
from typing import Any

import attrs
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, Tracer, get_current_span, set_span_in_context

from .. import semconv
from ..event_loops import is_interrupt
from ..outside_text import get_logger
from ..report import AttemptRow, LiveReport, StageRow
from ..semconv import OTHER
from ..tools.definition import Tool
from .attempt_span import AttemptSpan, set_ended_attributes, start_attempt
from .attributes import make_span_start, set_call_attributes
from .deferred import DeferredSpans
from .detail import NOTABLE_STAGES, SpanDetail, set_detail_attributes, sum_stage_durations
from .failures import NO_FACTS, describe_failure
from .metrics import Instruments, measure, record_safely
from .spans import Anchors, end_span, has_notable, make_stage_spans

_logger = get_logger()
_TOGETHER = 5_000  # ns; two readings of clocks take a tenth of it
_MAX_READINGS = 4


class SampledOutRecorder:
    """Keeps the span of a call that was sampled out current, so that whatever runs inside is sampled out too."""

    is_sampled = False
    offset = 0
    live_sinks = ()  # said here: to look for an attribute that there is not takes five times as long

    def __init__(self, span: Span, context: Context) -> None:
        self._span = span
        self._token = attach(set_span_in_context(span, context))

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Do nothing."""

    def attempt_ends(self, opened: object, row: AttemptRow, error: object = None) -> None:
        """Do nothing."""

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:  # noqa: ARG002
        """Leave the context of the span, and end it."""
        detach(self._token)
        self._span.end()


@attrs.frozen
class SpanOptions:
    """What the recorders of one trace have in common.

    Args:
        tracer: Starts the spans of attempts and stages.
        deferred: Makes them on a thread of its own. None: the recorder does, when the call ends.
        detail: What the spans hold.
    """

    tracer: Tracer
    deferred: DeferredSpans | None
    detail: SpanDetail


class SpanRecorder:
    """Records one call: its span and those of its attempts are live, those of stages are made at its end.

    Args:
        options: Those of the trace.
        span: The span of the call, started.
        started: When the call started (wall clock, ns).
        context: The context in which the call was made.
        named: The span has its final name. False: the tool was not known when the span started.
    """

    is_sampled = True
    live_sinks = ()
    # What most recorders never set. An attribute of the class costs the start of a call nothing.
    _metrics: Instruments | None = None
    _rows: Sequence[StageRow] = ()
    _facts = NO_FACTS
    _over = False

    def __init__(self, options: SpanOptions, span: Span, started: int, context: Context, *, named: bool) -> None:
        self._options, self._span, self._named = options, span, named
        # If the wall clock was set back since the call started, count from the start: children nest in time.
        now, wall = _read_clocks()
        self.offset = self._latest = offset = max(wall, started) - now
        inside = set_span_in_context(span, context)
        self._anchors: Anchors = {0: (inside, offset)}
        self._attempts: list[AttemptSpan] = []  # that ended, of a trace that defers their spans
        self._open: list[Span] = []  # that run: more than one if a stage calls on while an attempt runs
        self._token = attach(inside)

    def count(self, metrics: Instruments, tool: Tool[..., Any] | None) -> None:
        """Measure the call as well. It begins now."""
        self._running = metrics.begin_call(OTHER if tool is None else tool.name)
        self._metrics = metrics

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Make the span of an attempt current: the tool's own spans stand under it."""
        outer = get_current()  # with baggage or a span that a middleware put there
        if self._open and get_current_span(outer) in self._open:  # attempts stand side by side
            outer = set_span_in_context(self._span, outer)
        options = self._options
        live: Span | None = None
        if options.deferred is None:
            try:
                live = start_attempt(options.tracer, outer, number, tool)
            except BaseException as exc:  # a sampler or a span processor may raise anything
                if is_interrupt(exc):
                    raise
                _logger.exception("The span of an attempt could not be started")
                return None
        now, started = _read_clocks()
        offset = started - now
        self._latest = max(self._latest, offset)
        span = AttemptSpan(options.tracer, outer, number, tool, started, offset) if live is None else live
        inside = set_span_in_context(span, outer)
        self._anchors[number] = (inside, offset)
        self._open.append(span)
        return span, attach(inside), offset, tool

    def attempt_ends(self, opened: Any, row: AttemptRow, error: object = None) -> None:
        """End the span of an attempt, red if the attempt failed; with ``defer``, have it ended."""
        if opened is None:
            return
        span, token, offset, tool = opened
        detach(token)
        self._open.remove(span)
        facts = NO_FACTS if error is None else describe_failure(error, tool)
        if type(span) is not AttemptSpan:
            set_ended_attributes(span, row, tool)
            end_span(span, row[5], row[3] + offset, facts)
            return
        span.row, span.facts = row, facts
        if self._over:  # a stage left it running when the call ended
            span.finish()
        else:
            self._attempts.append(span)

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        """Set the attributes of the call's span, and have all spans made and ended."""
        detach(self._token)
        del self._token  # it holds the caller's context variables, and this recorder may wait in a queue
        options, self._over, self._verdict = self._options, True, verdict
        # The latest offset: the wall clock may have been set between two attempts.
        self._end = perf_counter_ns() + self._latest
        if self._metrics is not None:
            self._measure(self._metrics, report, verdict)
        if report is not None:
            # Copies: a run of the inside that a stage left behind still writes to the report.
            self._rows, self._attempt_rows = report.rows.copy(), report.attempt_rows.copy()
            span, tool, detail = self._span, report.tool, options.detail
            try:
                if verdict is not None:
                    self._facts = describe_failure(report.error, tool)
                set_call_attributes(span, report)
                if not self._named and tool is not None:
                    span.update_name(make_span_start(tool.name)[0])
                    span.set_attribute(semconv.TOOL_NAME, tool.name)
                if detail.more:
                    set_detail_attributes(span, report, detail)
            except BaseException as exc:  # the text of the user's own values is foreign code, and so are processors
                if is_interrupt(exc):
                    raise
                _logger.exception("A call could not be recorded")
        if options.deferred is None:
            self.make_spans()
            return
        options.deferred.add(self)
        if options.detail.stages:  # else its span gets their durations
            end_span(self._span, verdict, self._end, self._facts)

    def make_spans(self) -> None:
        """End the spans of the attempts, make those of the stages, and end the call's span if that has not ended."""
        options, rows = self._options, self._rows
        stages = options.detail.stages
        try:
            for attempt in self._attempts:
                attempt.finish()
            if rows and stages:
                if stages != NOTABLE_STAGES or has_notable(rows):
                    make_stage_spans(
                        options.tracer,
                        rows,
                        self._anchors,
                        self._attempt_rows,
                        self._verdict,
                        notable=stages == NOTABLE_STAGES,
                    )
            elif rows:
                self._span.set_attributes(sum_stage_durations(rows))
        except BaseException as exc:  # a tracer of somebody else may raise anything
            if is_interrupt(exc):
                raise
            _logger.exception("A call could not be recorded")
        if options.deferred is None or not stages:
            end_span(self._span, self._verdict, self._end, self._facts)

    def make_without_stages(self) -> None:
        """What `make_spans` does, but for the stages."""
        self._rows = ()
        self.make_spans()

    def _measure(self, metrics: Instruments, report: LiveReport | None, verdict: str | None) -> None:
        self._running.pop()
        if report is None:
            return
        measurement, deferred = measure(report, verdict, self._anchors[0][0]), self._options.deferred
        if deferred is None:
            record_safely(metrics, measurement)
        else:
            deferred.measure_later(metrics, measurement)


def _read_clocks() -> tuple[int, int]:
    """The monotonic clock and the wall clock, of the same moment.

    The monotonic clock is read first: what comes between the readings can only make a span of a stage start later, so
    children start no earlier than their parents. If that took long, another process ran between them, and the stages
    would seem to start after the attempt that they came before: both are read again.
    """
    for _ in range(_MAX_READINGS - 1):
        now, wall = perf_counter_ns(), time_ns()
        if perf_counter_ns() - now < _TOGETHER:
            return now, wall
    return perf_counter_ns(), time_ns()
