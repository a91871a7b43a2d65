"""Reports as OpenTelemetry spans: call and attempt live, stages from the report with explicit times. API only.

Names follow the GenAI semantic conventions (`execute_tool` span) where they have one; ours begin with ``toolcall.``.
Stage spans are made late, with past timestamps, which the specification allows (trace/api, Span creation).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import Any, ParamSpec, TypeAlias, TypeVar

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from .definition import Tool
from .report import CallReport, Row

SCOPE = "toolcall_pipeline"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"  # the last one that defines gen_ai.*
SUPPRESS = "suppress_instrumentation"  # the plain key that instrumentations look at
UNKNOWN_NAME = "execute_tool"
OTHER = "_OTHER"  # for a name that no tool has: models invent them without bound
UNKNOWN = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": OTHER, "gen_ai.tool.type": "function"}
INTERNAL = SpanKind.INTERNAL
_LONGEST_NAME = 128  # characters of a name that no tool has

P = ParamSpec("P")
T = TypeVar("T")
Anchors: TypeAlias = dict[int, tuple[Context, int]]  # attempt (0: the call) -> its context, perf_counter -> wall clock
Emit: TypeAlias = Callable[[Tracer, Sequence[Row], Anchors], None]


def _harmless(method: Callable[P, T]) -> Callable[P, T | None]:
    """A processor or exporter that raises must not turn a success into a failure."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return method(*args, **kwargs)
        except Exception:
            logging.getLogger(SCOPE).exception("A span could not be recorded")
            return None

    return guarded


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
    """The recorder of a call that somebody will see."""

    recording = True

    def __init__(
        self, tracer: Tracer, span: Span, started: int, context: Context, emit: Emit, *, named: bool = True
    ) -> None:
        self._tracer, self._span, self._emit, self._named = tracer, span, emit, named
        # Not before the start, even if the wall clock stepped back meanwhile: children nest in time.
        self.offset = -perf_counter_ns() + max(time_ns(), started)
        inside = set_span_in_context(span, context)
        self._anchors: Anchors = {0: (inside, self.offset)}
        self._token = attach(inside)

    @_harmless
    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Start the attempt's span and make it current: the tool's own spans stand under it."""
        name = tool.attempt_name if tool is not None else "attempt"
        outer = get_current()  # with what middlewares put there, as baggage or a span of their own
        span = self._tracer.start_span(name, outer, INTERNAL, {"toolcall.attempt": number})
        inside = set_span_in_context(span, outer)
        offset = -perf_counter_ns() + time_ns()  # read in this order it is late if anything: children nest in time
        self._anchors[number] = (inside, offset)
        return span, attach(inside), offset

    @_harmless
    def attempt_ends(self, opened: Any, verdict: str | None) -> None:
        """End it, red if the attempt failed."""
        if opened is not None:
            span, token, offset = opened
            detach(token)
            settle(span, verdict)
            span.end(perf_counter_ns() + offset)

    @_harmless
    def call_ends(self, report: CallReport | None, verdict: str | None) -> None:
        """End the call's span, and have those of its stages made."""
        detach(self._token)
        span = self._span
        if report is None:
            span.end()
            return
        span.set_attributes(_facts(report))
        settle(span, verdict)
        if not self._named and report.tool is not None:  # a middleware stands before Resolve: better late than wrong
            span.update_name(report.tool.span_name)
            span.set_attribute("gen_ai.tool.name", report.tool.name)
        end = perf_counter_ns() + max(offset for _, offset in self._anchors.values())
        self._emit(self._tracer, report.rows, self._anchors)
        span.end(end)


def _facts(report: CallReport) -> dict[str, Any]:
    """What is known of a call at its end. Neither arguments nor results."""
    call = report.call
    facts: dict[str, Any] = {"toolcall.attempts": len(report.attempts)}
    if call.id:
        facts["gen_ai.tool.call.id"] = str(call.id)
    asked: Any = call.name
    if report.tool is None or asked != report.tool.name:
        facts["toolcall.tool.requested_name"] = (
            asked[:_LONGEST_NAME] if isinstance(asked, str) else type(asked).__name__
        )
    if report.repairs:
        facts["toolcall.repairs"] = [f"{repair.path}: {repair.rule}" for repair in report.repairs]
    return facts


def settle(span: Span, verdict: str | None) -> None:
    """Red where there is a verdict; else untouched, as the specification asks of a library."""
    if verdict is not None:
        span.set_attribute("error.type", verdict)
        span.set_status(StatusCode.ERROR)


def stage_spans(tracer: Tracer, rows: Sequence[Row], anchors: Anchors) -> None:
    """Make the spans of a call's stages."""
    for name, start, end, verdict, attempt, note in rows:
        context, offset = anchors.get(attempt) or anchors[0]
        attributes = {"toolcall.reason": note} if note else None
        span = tracer.start_span(name, context, INTERNAL, attributes, None, start + offset)
        settle(span, verdict)
        span.end(end + offset)
