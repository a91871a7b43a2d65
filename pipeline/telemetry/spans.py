"""Reports as OpenTelemetry spans: call and attempt live, stages from the report with explicit times. API only.

Names follow the GenAI semantic conventions (`execute_tool` span) where they have one; ours begin with ``toolcall.``.
Stage spans are made late, with past timestamps, which the specification allows (trace/api, Span creation).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter_ns, time_ns
from typing import Any, TypeAlias

import attrs
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from .. import semconv
from ..report import LiveReport, StageRow
from ..semconv import EXECUTE_TOOL, OTHER, SCOPE
from ..tools.definition import Tool, call_attributes
from . import openinference
from .attributes import content_of, tell_of, wire_text

UNKNOWN_NAME = EXECUTE_TOOL
UNKNOWN = call_attributes(OTHER)
INTERNAL = SpanKind.INTERNAL

Anchors: TypeAlias = dict[int, tuple[Context, int]]  # attempt (0: the call) -> its context, perf_counter -> wall clock
Ended: TypeAlias = tuple[Span, str | None, int]  # an attempt's span, its verdict, and when it ended (wall clock, ns)
Emit: TypeAlias = Callable[[Tracer, Sequence[StageRow], Anchors, Sequence[Ended]], None]
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

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:  # noqa: ARG002
        """Leave the span's context."""
        detach(self._token)
        self._span.end()


@attrs.frozen
class Detail:
    """How much a trace tells, where it is not as usual."""

    stages: bool = True  # a span for each; else an attribute of the call's span for how long each took
    content: bool = False  # arguments and results: whoever reads the traces may read them
    openinference: bool = False  # also the attributes by which Phoenix and its kin know a tool


USUAL = Detail()


class SpanRecorder:
    """The recorder of a call that somebody will see.

    With ``later`` all that need not be live is left to it: the ends of the attempts, and the stages.
    """

    __slots__ = ("_anchors", "_detail", "_ended", "_later", "_named", "_span", "_token", "_tracer", "offset")
    recording = True

    def __init__(
        self,
        tracer: Tracer,
        span: Span,
        started: int,
        context: Context,
        later: Emit | None,
        detail: Detail = USUAL,
        *,
        named: bool = True,
    ) -> None:
        self._tracer, self._span, self._later, self._named, self._detail = tracer, span, later, named, detail
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
            span = self._tracer.start_span(name, outer, INTERNAL, {semconv.ATTEMPT: number})
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

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        """End the call's span, and have those of its stages made."""
        detach(self._token)
        span = self._span
        end = perf_counter_ns() + self.offset
        for _, offset in self._anchors.values():
            end = max(end, perf_counter_ns() + offset)
        try:
            if report is not None:
                tell_of(span, report)
                if not self._named and report.tool is not None:  # a middleware hid it: better late than wrong
                    span.update_name(report.tool.span_name)
                    span.set_attribute(semconv.TOOL_NAME, report.tool.name)
                rows: Sequence[StageRow] = report.rows
                if self._detail is not USUAL:
                    rows = _in_detail(span, report, self._detail)
                if self._later is not None:
                    self._later(self._tracer, rows, self._anchors, self._ended)
                elif rows:
                    stage_spans(self._tracer, rows, self._anchors)
        except Exception:
            _logger.exception("What is known of a call could not be recorded")
        end_span(span, verdict, end)


def _in_detail(span: Span, report: LiveReport, detail: Detail) -> Sequence[StageRow]:
    """What is told besides; the rows that are still to become spans."""
    told = content_of(report) if detail.content else {}
    span.set_attributes(told)
    if detail.openinference:
        span.set_attributes(openinference.of_call(report, wire_text(report.call.id), told))
    if detail.stages:
        return report.rows
    taken: dict[str, float] = {}
    for name, start, end, *_ in report.rows:
        key = semconv.STAGE_DURATION.format(name)
        taken[key] = taken.get(key, 0.0) + (end - start) / 1e9
    span.set_attributes(taken)
    return ()


def end_span(span: Span, verdict: str | None, end: int) -> None:
    """End it; red where there is a verdict, else untouched, as the specification asks of a library."""
    try:
        if verdict is not None:
            span.set_attribute(semconv.ERROR_TYPE, verdict)
            span.set_status(StatusCode.ERROR)
        span.end(end)
    except Exception:
        _logger.exception("A span could not be ended")


def end_attempts(ended: Sequence[Ended]) -> None:
    """End the spans of attempts at the times at which the attempts ended."""
    for span, verdict, end in ended:
        end_span(span, verdict, end)


def stage_spans(tracer: Tracer, rows: Sequence[StageRow], anchors: Anchors) -> None:
    """Make the spans of a call's stages."""
    for name, start, end, verdict, attempt, note in rows:
        context, offset = anchors.get(attempt) or anchors[0]
        attributes = {semconv.REASON: note} if note else None
        try:
            span = tracer.start_span(name, context, INTERNAL, attributes, None, start + offset)
        except Exception:
            _logger.exception("The span of a stage could not be begun")
        else:
            end_span(span, verdict, end + offset)


@contextmanager
def continued(carrier: Mapping[str, str]) -> Generator[None]:
    """Within it calls belong to the trace that a carrier names: request headers, the ``_meta`` of an MCP request.

    By the propagators that are set, W3C Trace Context and Baggage unless told otherwise; a carrier that names none
    changes nothing. In an async function the block must not yield to another task's consumer, as a generator does.
    """
    from opentelemetry.propagate import extract  # looks the propagators up among all that is installed: 15 ms

    token = attach(extract(carrier))
    try:
        yield
    finally:
        detach(token)
