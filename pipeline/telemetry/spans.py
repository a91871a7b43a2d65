"""The spans of attempts and stages: how an attempt's span ends, and how stage spans are made from a report.

Stage spans are made when the call is over, with past timestamps; the specification allows that (trace/api, Span
creation). Span names follow the GenAI conventions (`execute_tool`) or are the names of stages. API only, no SDK.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import current_thread, main_thread
from typing import TypeAlias

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from .. import semconv
from ..errors import Landed
from ..outside_text import get_logger
from ..report import StageRow
from .blame import Verdicts, find_deciding
from .failures import NO_FACTS, Facts, describe_status

INTERNAL = SpanKind.INTERNAL

# Attempt number (0: the call) -> the context of its span, and the ns that turn perf_counter_ns into its wall clock.
Anchors: TypeAlias = dict[int, tuple[Context, int]]
# The span of an attempt, its verdict, its end (wall clock, ns), its executor, whether it landed, and why it failed.
EndedAttempt: TypeAlias = tuple[Span, str | None, int, str, Landed, Facts]
NOTABLE = 1_000_000  # ns of work, beyond which a stage is notable
_APART = 10_000  # ns; a stage that worked so long outside of its span says so
_logger = get_logger()


def is_interrupt(exc: BaseException) -> bool:
    """Whether a person may have interrupted the process, which shows in its main thread only."""
    return isinstance(exc, KeyboardInterrupt) and current_thread() is main_thread()


def end_span(span: Span, verdict: str | None, end: int, facts: Facts = NO_FACTS) -> None:
    """End a span: red with ``error.type`` and what failed if there is a verdict, else with its status unset.

    OK is the application's to set, says the specification. Errors of span processors are logged.
    """
    try:
        if verdict is not None:
            span.set_attribute(semconv.ERROR_TYPE, verdict)
            if facts:
                span.set_attributes(facts)
            span.set_status(StatusCode.ERROR, describe_status(verdict, facts) if facts else None)
        span.end(end)
    except BaseException as exc:  # a span processor may raise anything
        if is_interrupt(exc):
            raise
        _logger.exception("A span could not be ended")


def end_attempts(ended: Sequence[EndedAttempt]) -> None:
    """End the spans of attempts, each with the time at which its attempt ended."""
    for span, verdict, end, executor, landed, facts in ended:
        try:
            span.set_attributes({semconv.EXECUTOR: executor, semconv.LANDED: landed})
        except BaseException as exc:  # a deferred span is started here, by a sampler that may raise anything
            if is_interrupt(exc):
                raise
            _logger.exception("The attributes of an attempt could not be set")
        end_span(span, verdict, end, facts)


def make_stage_spans(
    tracer: Tracer, rows: Sequence[StageRow], anchors: Anchors, verdicts: Verdicts, *, notable: bool = False
) -> None:
    """Start and end one span for each row of a report, under the call or the attempt in which the stage ran.

    A stage that decided the failure of its call or attempt is red. One that only passed it on has its verdict as an
    attribute. With ``notable`` a stage without a failure of its own, a note, or a millisecond of work has no span.
    """
    deciding: frozenset[int] | None = None
    for index, (name, start, end, verdict, attempt, note, own) in enumerate(rows):
        passed_on = None
        if verdict is not None:
            deciding = find_deciding(rows, verdicts) if deciding is None else deciding
            if index not in deciding:
                passed_on, verdict = verdict, None  # noqa: PLW2901
        if notable and verdict is None and not note and own <= NOTABLE:
            continue
        context, offset = anchors.get(attempt) or anchors[0]
        attributes: dict[str, str | float] | None = {semconv.REASON: note} if note else None
        if own - (end - start) > _APART:
            attributes = (attributes or {}) | {semconv.STAGE_SECONDS: own / 1e9}
        if passed_on is not None:
            attributes = (attributes or {}) | {semconv.STAGE_VERDICT: passed_on}
        try:
            span = tracer.start_span(name, context, INTERNAL, attributes, None, start + offset)
        except BaseException as exc:  # a sampler or a span processor may raise anything
            if is_interrupt(exc):
                raise
            _logger.exception("The span of a stage could not be started")
        else:
            end_span(span, verdict, end + offset)
