"""Reports as OpenTelemetry spans: call and attempt live, stages from the report with explicit times. API only.

Names follow the GenAI semantic conventions (`execute_tool` span) where they have one; ours begin with ``toolcall.``.
Stage spans are made late, with past timestamps, which the specification allows (trace/api, Span creation).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import Any, TypeAlias

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from .definition import Tool, call_attributes
from .report import CallReport, Row

SCOPE = "toolcall_pipeline"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"  # the last one that defines gen_ai.*
SUPPRESS = "suppress_instrumentation"  # the plain key that instrumentations look at
UNKNOWN_NAME = "execute_tool"
OTHER = "_OTHER"  # for a name that no tool has: models invent them without bound
UNKNOWN = call_attributes(OTHER)
INTERNAL = SpanKind.INTERNAL
_LONGEST_NAME = 128  # characters of a name or an id: what a model or a provider sent may be of any size

Anchors: TypeAlias = dict[int, tuple[Context, int]]  # attempt (0: the call) -> its context, perf_counter -> wall clock
Ended: TypeAlias = tuple[Span, str | None, int]  # an attempt's span, its verdict, and when it ended (wall clock, ns)
Emit: TypeAlias = Callable[[Tracer, Sequence[Row], Anchors, Sequence[Ended]], None]
_logger = logging.getLogger(SCOPE)  # a processor that raises must not turn a success into a failure: it is told here


class SampledOut:
    """The recorder of a call that nobody will see: what runs inside inherits the decision."""

    recording = False
    offset = 0

    def __init__(self, span: Span, context: Context) -> None:
        self._span = span
        self._token = attach(set_span_in_context(span, context))

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Nothing to open."""

    def attempt_ends(self, opened: object, verdict: str | None) -> None:
        """Nothing to close."""

    def call_ends(self, report: CallReport | None, verdict: str | None) -> None:  # noqa: ARG002
        """Leave the span's context."""
        detach(self._token)
        self._span.end()


class SpanRecorder:
    """The recorder of a call that somebody will see.

    With ``later`` all that need not be live is left to it: the ends of the attempts, and the stages.
    """

    __slots__ = ("_anchors", "_ended", "_later", "_named", "_span", "_token", "_tracer", "offset")
    recording = True

    def __init__(
        self, tracer: Tracer, span: Span, started: int, context: Context, later: Emit | None, *, named: bool = True
    ) -> None:
        self._tracer, self._span, self._later, self._named = tracer, span, later, named
        # Not before the start, even if the wall clock stepped back meanwhile: children nest in time.
        self.offset = -perf_counter_ns() + max(time_ns(), started)
        inside = set_span_in_context(span, context)
        self._anchors: Anchors = {0: (inside, self.offset)}
        self._ended: list[Ended] = []
        self._token = attach(inside)

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Start the attempt's span and make it current: the tool's own spans stand under it."""
        outer = get_current()  # with what middlewares put there, as baggage or a span of their own
        try:
            name = tool.attempt_name if tool is not None else "attempt"
            span = self._tracer.start_span(name, outer, INTERNAL, {"toolcall.attempt": number})
        except Exception:
            _logger.exception("The span of an attempt could not be begun")
            return None
        inside = set_span_in_context(span, outer)
        offset = -perf_counter_ns() + time_ns()  # read in this order it is late if anything: children nest in time
        self._anchors[number] = (inside, offset)
        return span, attach(inside), offset

    def attempt_ends(self, opened: Any, verdict: str | None) -> None:
        """End it, red if the attempt failed."""
        if opened is None:
            return
        span, token, offset = opened
        detach(token)
        ended = (span, verdict, perf_counter_ns() + offset)
        if self._later is None:
            end_attempts([ended])
        else:
            self._ended.append(ended)

    def call_ends(self, report: CallReport | None, verdict: str | None) -> None:
        """End the call's span, and have those of its stages made."""
        detach(self._token)
        span = self._span
        end = perf_counter_ns() + self.offset
        for _, offset in self._anchors.values():
            end = max(end, perf_counter_ns() + offset)
        try:
            if report is not None:
                _tell(span, report)
                if not self._named and report.tool is not None:  # a middleware hid it: better late than wrong
                    span.update_name(report.tool.span_name)
                    span.set_attribute("gen_ai.tool.name", report.tool.name)
                if self._later is None:
                    stage_spans(self._tracer, report.rows, self._anchors)
                else:
                    self._later(self._tracer, report.rows, self._anchors, self._ended)
        except Exception:
            _logger.exception("What is known of a call could not be recorded")
        end_span(span, verdict, end)


def _tell(span: Span, report: CallReport) -> None:
    """What is known of a call at its end. Neither arguments nor results."""
    call = report.call
    if (attempts := len(report.attempt_rows)) != 1:
        span.set_attribute("toolcall.attempts", attempts)
    if call.id:
        span.set_attribute("gen_ai.tool.call.id", _text(call.id))
    asked: Any = call.name
    if report.tool is None or asked != report.tool.name:
        requested = _text(asked) if isinstance(asked, str) else type(asked).__name__
        span.set_attribute("toolcall.tool.requested_name", requested)
    if report.repairs:
        told = [f"{repair.path}: {repair.rule}" for repair in report.repairs]
        span.set_attribute("toolcall.repairs", told)


def end_span(span: Span, verdict: str | None, end: int) -> None:
    """End it; red where there is a verdict, else untouched, as the specification asks of a library."""
    try:
        if verdict is not None:
            span.set_attribute("error.type", verdict)
            span.set_status(StatusCode.ERROR)
        span.end(end)
    except Exception:
        _logger.exception("A span could not be ended")


def end_attempts(ended: Sequence[Ended]) -> None:
    """End the spans of attempts at the times at which the attempts ended."""
    for span, verdict, end in ended:
        end_span(span, verdict, end)


def stage_spans(tracer: Tracer, rows: Sequence[Row], anchors: Anchors) -> None:
    """Make the spans of a call's stages."""
    for name, start, end, verdict, attempt, note in rows:
        context, offset = anchors.get(attempt) or anchors[0]
        attributes = {"toolcall.reason": note} if note else None
        try:
            span = tracer.start_span(name, context, INTERNAL, attributes, None, start + offset)
        except Exception:
            _logger.exception("The span of a stage could not be begun")
        else:
            end_span(span, verdict, end + offset)


def _text(value: object) -> str:
    """As the wire can carry it: a lone surrogate makes an exporter drop the attribute."""
    return str(value)[:_LONGEST_NAME].encode(errors="replace").decode()
