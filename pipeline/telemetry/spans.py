"""The spans of attempts and stages: how an attempt's span ends, and how stage spans are made from a report.

Stage spans are made when the call is over, with past timestamps; the specification allows that (trace/api, Span
creation). Span names follow the GenAI conventions (`execute_tool`) or are the names of stages. API only, no SDK.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from .. import semconv
from ..outside_text import get_logger
from ..report import StageRow
from .blame import Verdicts, find_deciding

INTERNAL = SpanKind.INTERNAL

# Attempt number (0: the call) -> the context of its span, and the ns that turn perf_counter_ns into its wall clock.
Anchors: TypeAlias = dict[int, tuple[Context, int]]
EndedAttempt: TypeAlias = tuple[Span, str | None, int]  # its span, its verdict, and its end (wall clock, ns)
_APART = 10_000  # ns; a stage that worked so long outside of its span says so
_logger = get_logger()


def end_span(span: Span, verdict: str | None, end: int) -> None:
    """End a span: red with ``error.type`` if there is a verdict, else with its status unset.

    OK is the application's to set, says the specification. Errors of span processors are logged.
    """
    try:
        if verdict is not None:
            span.set_attribute(semconv.ERROR_TYPE, verdict)
            span.set_status(StatusCode.ERROR)
        span.end(end)
    except Exception:  # a span processor may raise anything
        _logger.exception("A span could not be ended")


def end_attempts(ended: Sequence[EndedAttempt]) -> None:
    """End the spans of attempts, each with the time at which its attempt ended."""
    for span, verdict, end in ended:
        end_span(span, verdict, end)


def make_stage_spans(tracer: Tracer, rows: Sequence[StageRow], anchors: Anchors, verdicts: Verdicts) -> None:
    """Start and end one span for each row of a report, under the call or the attempt in which the stage ran.

    A stage that decided the failure of its call or attempt is red. One that only passed it on has its verdict as an
    attribute.
    """
    deciding: frozenset[int] | None = None
    for index, (name, start, end, verdict, attempt, note, own) in enumerate(rows):
        context, offset = anchors.get(attempt) or anchors[0]
        attributes: dict[str, str | float] | None = {semconv.REASON: note} if note else None
        if own - (end - start) > _APART:
            attributes = (attributes or {}) | {semconv.STAGE_SECONDS: own / 1e9}
        if verdict is not None:
            deciding = find_deciding(rows, verdicts) if deciding is None else deciding
            if index not in deciding:
                attributes, verdict = (attributes or {}) | {semconv.STAGE_VERDICT: verdict}, None  # noqa: PLW2901
        try:
            span = tracer.start_span(name, context, INTERNAL, attributes, None, start + offset)
        except Exception:  # a sampler or a span processor may raise anything
            _logger.exception("The span of a stage could not be started")
        else:
            end_span(span, verdict, end + offset)
