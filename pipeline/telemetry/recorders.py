"""The recorders of one call's spans: one for a call that is recorded, one for a call that was sampled out."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns, time_ns
from typing import Any

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, Tracer, get_current_span, set_span_in_context

from .. import semconv
from ..outside_text import get_logger
from ..report import AttemptRow, LiveReport, StageRow
from ..semconv import OTHER
from ..tools.definition import Tool
from .attempt_span import AttemptSpan
from .attributes import attempt_attributes, make_span_start, set_call_attributes
from .blame import Verdicts, collect_verdicts
from .deferred import DeferredSpans
from .detail import DEFAULT_DETAIL, NOTABLE_STAGES, SpanDetail, set_detail_attributes
from .failures import NO_FACTS, describe_failure
from .metrics import Instruments, measure
from .spans import INTERNAL, Anchors, EndedAttempt, end_attempts, end_span, make_stage_spans

_logger = get_logger()


class SampledOutRecorder:
    """Keeps the span of a call that was sampled out current, so that whatever runs inside is sampled out too."""

    recording = False
    offset = 0

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


class SpanRecorder:
    """Records one call: its span and the spans of its attempts are live, those of stages are made at its end.

    Args:
        tracer: Starts the spans of attempts and stages.
        span: The span of the call, started.
        started: When the call started (wall clock, ns).
        context: The context in which the call was made.
        deferred: Ends the attempts' spans and makes the stage spans. None: this recorder does, when the call ends.
        detail: What the spans hold.
        named: The span has its final name. False: the tool was not known when the span started.
    """

    __slots__ = (
        "_anchors",
        "_deferred",
        "_detail",
        "_ended",
        "_metrics",
        "_named",
        "_open",
        "_running",
        "_span",
        "_token",
        "_tracer",
        "offset",
    )
    recording = True

    def __init__(
        self,
        tracer: Tracer,
        span: Span,
        started: int,
        context: Context,
        deferred: DeferredSpans | None,
        detail: SpanDetail,
        *,
        named: bool,
    ) -> None:
        self._tracer, self._span, self._deferred = tracer, span, deferred
        self._named, self._detail = named, detail
        # If the wall clock was set back since the call started, count from the start: children nest in time.
        self.offset = -perf_counter_ns() + max(time_ns(), started)
        inside = set_span_in_context(span, context)
        self._anchors: Anchors = {0: (inside, self.offset)}
        self._ended: list[EndedAttempt] = []
        self._open: list[Span] = []  # of attempts that run: more than one if a stage calls on while an attempt runs
        self._token = attach(inside)
        self._metrics: Instruments | None = None

    def count(self, metrics: Instruments, tool: Tool[..., Any] | None) -> None:
        """Measure the call as well, on the deferring thread. It begins now."""
        self._running = metrics.begin_call(OTHER if tool is None else tool.name)
        self._metrics = metrics

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Start the span of an attempt and make it current: the tool's own spans stand under it."""
        outer = get_current()  # with baggage or a span that a middleware put there
        if self._open and get_current_span(outer) in self._open:  # attempts stand side by side
            outer = set_span_in_context(self._span, outer)
        name = "attempt" if tool is None else f"attempt {tool.name}"
        span: Span
        try:
            if self._deferred is None:
                span = self._tracer.start_span(name, outer, INTERNAL, attempt_attributes(number, tool))
            else:
                span = AttemptSpan(self._tracer, name, outer, number, tool, time_ns())
        except Exception:  # a sampler or a span processor may raise anything
            _logger.exception("The span of an attempt could not be started")
            return None
        inside = set_span_in_context(span, outer)
        # The monotonic clock first: between the two readings the offset can only grow, so children start no earlier.
        offset = -perf_counter_ns() + time_ns()
        self._anchors[number] = (inside, offset)
        self._open.append(span)
        return span, attach(inside), offset, tool

    def attempt_ends(self, opened: Any, row: AttemptRow, error: object = None) -> None:
        """End the span of an attempt, red if the attempt failed."""
        if opened is None:
            return
        span, token, offset, tool = opened
        detach(token)
        self._open.remove(span)
        _, executor, _, _, _, verdict, landed = row
        facts = NO_FACTS if error is None else describe_failure(error, tool)
        ended = (span, verdict, perf_counter_ns() + offset, executor, landed, facts)
        if self._deferred is None:
            end_attempts([ended])
        else:
            self._ended.append(ended)

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        """Set the attributes of the call's span, make the stage spans, and end the call's span."""
        detach(self._token)
        if self._metrics is not None:
            self._measure(self._metrics, report, verdict)
        end = perf_counter_ns() + self.offset
        for _, offset in self._anchors.values():  # the latest: the wall clock may have been set between two attempts
            end = max(end, perf_counter_ns() + offset)
        if report is not None:
            try:
                self._record(report, verdict)
            except Exception:  # the tracer, its processors, and the text of the user's own values are foreign code
                _logger.exception("A call could not be recorded")
        facts = NO_FACTS
        if verdict is not None and report is not None:
            facts = describe_failure(report.error, report.tool)
        end_span(self._span, verdict, end, facts)

    def _measure(self, metrics: Instruments, report: LiveReport | None, verdict: str | None) -> None:
        self._running.pop()
        if report is not None and self._deferred is not None:
            self._deferred.measure_later(metrics, measure(report, verdict, self._anchors[0][0]))

    def _record(self, report: LiveReport, verdict: str | None) -> None:
        span, detail = self._span, self._detail
        set_call_attributes(span, report)
        if not self._named and report.tool is not None:
            span.update_name(make_span_start(report.tool.name)[0])
            span.set_attribute(semconv.TOOL_NAME, report.tool.name)
        if detail is not DEFAULT_DETAIL:
            set_detail_attributes(span, report, detail)
        rows: Sequence[StageRow] = report.rows if detail.stages else ()
        verdicts: Verdicts = collect_verdicts(report.attempt_rows, verdict) if rows else {}
        notable = detail.stages == NOTABLE_STAGES
        if self._deferred is not None:
            self._deferred.add(self._tracer, rows, self._anchors, self._ended, verdicts, notable=notable)
        elif rows:
            make_stage_spans(self._tracer, rows, self._anchors, verdicts, notable=notable)
