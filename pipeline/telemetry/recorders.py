"""SpanRecorder: makes the spans of one call that is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns, time_ns
from typing import Any

import attrs
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, Tracer, get_current_span, set_span_in_context

from ..base.foreign_values import FaultBarrier
from ..base.semconv import OTHER
from ..engine.report import AttemptRow, LiveReport, StageRow
from ..privacy import get_logger
from ..tools.definition import Tool
from .attempt_span import STARTS_ATTEMPT, AttemptSpan, set_ended_attributes, start_attempt
from .attributes import INTERNAL, NO_FACTS, describe_failure, end_span, make_span_start, set_call_attributes
from .deferred import DeferredSpans
from .detail import NOTABLE_STAGES, SpanDetail, set_detail_attributes, sum_stage_durations
from .metrics import Instruments, record_safely
from .spans import NO_PLACES, STARTS_STAGE, Anchors, LiveStage, StagePlaces, has_notable, make_stage_spans

_RECORDS = FaultBarrier(get_logger(), "A call could not be recorded", BaseException)
_TOGETHER = 5_000  # ns; reading two clocks takes a tenth of it
_MAX_READINGS = 4


@attrs.frozen
class SpanOptions:
    """Options that the recorders of one trace share.

    Args:
        tracer: Starts the spans of attempts and stages.
        deferred: Makes them on its own thread. None: the recorder does, when the call ends.
        detail: Options of spans.
    """

    tracer: Tracer
    deferred: DeferredSpans | None
    detail: SpanDetail


class SpanRecorder:
    """Records one call: the spans of the call and its attempts are live, those of its stages are made at its end.

    Args:
        options: The options of the trace.
        span: The span of the call, started.
        started: When the call started (wall clock, ns).
        context: The caller's context.
        named: Whether the span has its final name. False: the tool was not known when it started.
    """

    is_sampled = True
    live_sinks = ()
    # Most recorders never set these. As class attributes they add nothing to the start of a call.
    _metrics: Instruments | None = None
    _rows: Sequence[StageRow] = ()
    _placed = NO_PLACES
    _facts = NO_FACTS
    _over = False

    def __init__(self, options: SpanOptions, span: Span, started: int, context: Context, *, named: bool) -> None:
        self._options, self._span, self._named = options, span, named
        # If the wall clock was set back since the call started, count from the start, so that children nest in time.
        now, wall = _read_clocks()
        self.offset = self._latest = offset = max(wall, started) - now
        inside = set_span_in_context(span, context)
        self._anchors: Anchors = {0: (inside, offset)}
        self._attempts: list[AttemptSpan] = []  # ended ones, if the trace defers their spans
        self._open: list[Span] = []  # running ones: several if a stage calls its inside again during an attempt
        self._token = attach(inside)

    def count(self, metrics: Instruments, tool: Tool[..., Any] | None) -> None:
        """Record metrics of the call as well. It begins now."""
        self._running = metrics.begin_call(OTHER if tool is None else tool.name)
        self._metrics = metrics

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Make the span of an attempt current, so that the tool's own spans become its children."""
        outer = get_current()  # it may hold baggage or a span of a middleware
        if self._open and get_current_span(outer) in self._open:  # attempts are siblings
            outer = set_span_in_context(self._span, outer)
        options = self._options
        live: Span | None = None
        if options.deferred is None:
            with STARTS_ATTEMPT:
                live = start_attempt(options.tracer, outer, number, tool)
            if live is None:
                return None
        offset = self._find_offset()
        if live is None:
            live = AttemptSpan(options.tracer, outer, number, tool, perf_counter_ns() + offset, offset)
        inside = set_span_in_context(live, outer)
        self._anchors[number] = (inside, offset)
        self._open.append(live)
        return live, attach(inside), offset, tool

    def attempt_ends(self, opened: Any, row: AttemptRow, error: object = None) -> None:
        """End the span of an attempt, red if it failed; if spans are deferred, keep it for the thread."""
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

    def enter(self, place: int) -> None:
        """Remember the current context: stages are entered in it."""
        self._own_places.places[place] = get_current(), self._find_offset()

    def _find_offset(self) -> int:
        """Return the offset of what begins now: the latest one, unless the wall clock was set since it was read."""
        now, wall = perf_counter_ns(), time_ns()
        if abs(wall - now - self._latest) < _TOGETHER:  # nor was there a delay between these readings
            return self._latest
        now, wall = _read_clocks()
        self._latest = max(self._latest, wall - now)
        return wall - now

    @property
    def _own_places(self) -> StagePlaces:
        if self._placed is NO_PLACES:
            self._placed = StagePlaces()
        return self._placed

    def stage_begins(self, name: str, number: int) -> None:
        """Start the live span of a stage, and make it current."""
        if not self._options.detail.stages:
            return
        with STARTS_STAGE:
            context = get_current()
            span = self._options.tracer.start_span(name, context, INTERNAL)
            offset = self._find_offset()
            self._own_places.live[number] = LiveStage(span, offset, attach(set_span_in_context(span, context)))

    def stage_ends(self, number: int) -> None:
        """Leave the live span of a stage. It ends when it is known whether the stage decided the outcome."""
        live = self._placed.live.get(number)
        if live is None:
            return
        detach(live.token)
        live.token, live.ended = None, perf_counter_ns() + live.offset
        if self._over:  # a stage left it running when the call ended
            end_span(live.span, None, live.ended)

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        """Set the attributes of the call's span, and make or queue all other spans."""
        detach(self._token)
        del self._token  # it holds the caller's context variables, and this recorder may wait in a queue
        options, self._over, self._verdict = self._options, True, verdict
        # The latest offset: the wall clock may have been set between two attempts.
        self._end = perf_counter_ns() + self._latest
        if self._metrics is not None:
            self._measure(self._metrics, report, verdict)
        if report is not None:
            # Copies: a run that a stage left behind may still write to the report.
            self._rows, self._attempt_rows = report.rows.copy(), report.attempt_rows.copy()
            if report.marks:
                self._own_places.marks = report.marks.copy()
            span, tool, detail = self._span, report.tool, options.detail
            with _RECORDS:  # rendering the user's values runs foreign code, and so do span processors
                if verdict is not None:
                    self._facts = describe_failure(report.error, tool, report.decided_by)
                if not self._named and tool is not None:
                    name, attributes = make_span_start(tool.name, tool.description)
                    span.update_name(name)
                    span.set_attributes(attributes)
                set_call_attributes(span, report)
                if detail.more:
                    set_detail_attributes(span, report, detail)
        if options.deferred is None:
            self.make_spans()
            return
        options.deferred.add(self)
        if options.detail.stages:  # else `make_spans` sets their durations on the call's span
            end_span(self._span, verdict, self._end, self._facts)

    def make_spans(self) -> None:
        """End the spans of the attempts, make those of the stages, and end the call's span if it has not ended."""
        options, rows = self._options, self._rows
        stages = options.detail.stages
        with _RECORDS:
            for attempt in self._attempts:
                attempt.finish()
            if rows and stages:
                if stages != NOTABLE_STAGES or self._placed.live or has_notable(rows):
                    make_stage_spans(
                        options.tracer,
                        rows,
                        self._anchors,
                        self._attempt_rows,
                        self._verdict,
                        placed=self._placed,
                        notable=stages == NOTABLE_STAGES,
                    )
            elif rows:
                self._span.set_attributes(sum_stage_durations(rows))
            for left in self._placed.live.values():  # of a repeating stage, or of a call that lost its stages
                if left.ended and left.span.is_recording():
                    end_span(left.span, None, left.ended)
        if options.deferred is None or not stages:
            end_span(self._span, self._verdict, self._end, self._facts)

    def make_without_stages(self) -> None:
        """Do as `make_spans`, without the stages."""
        self._rows = ()
        self.make_spans()

    def _measure(self, metrics: Instruments, report: LiveReport | None, verdict: str | None) -> None:
        self._running.pop()
        if report is None:
            return
        measurement, deferred = metrics.measure(report, verdict, self._anchors[0][0]), self._options.deferred
        if deferred is None:
            record_safely(metrics, measurement)
        else:
            deferred.measure_later(metrics, measurement)


def _read_clocks() -> tuple[int, int]:
    """Read the monotonic clock and the wall clock at the same moment.

    The monotonic clock is read first: a delay between the readings can only make a stage span start later, so children
    start no earlier than their parents. After a long delay, caused by another process, stages would seem to start after
    the attempt that followed them: then both are read again.
    """
    for _ in range(_MAX_READINGS - 1):
        now, wall = perf_counter_ns(), time_ns()
        if perf_counter_ns() - now < _TOGETHER:
            return now, wall
    return perf_counter_ns(), time_ns()
