"""Find the stage that decided a failure, and make the spans of stages from a report.

Stage spans are made when the call is over, with past timestamps; the specification allows that (trace/api, Span
creation). Span names follow the GenAI conventions (`execute_tool`) or are the names of stages. API only, no SDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from opentelemetry.context import Context
from opentelemetry.trace import Span, Tracer

from ..base import semconv
from ..base.foreign_values import FaultBarrier
from ..engine.report import CANCELLED, AttemptRow, StageRow
from ..privacy import get_logger
from .attributes import INTERNAL, end_span

# Attempt number (0: the call) -> the context of its span, and the ns that turn perf_counter_ns into its wall clock.
Anchors: TypeAlias = dict[int, tuple[Context, int]]
_UNMARKED = 0, 0
NOTABLE = 1_000_000  # ns of work; a stage with more is notable
_APART = 10_000  # ns; a stage that worked longer than that outside of its span has an attribute for it
_logger = get_logger()
# Samplers and span processors are foreign code.
STARTS_STAGE = FaultBarrier(_logger, "The span of a stage could not be started", BaseException)
_MAKES = FaultBarrier(_logger, "The span of a stage could not be made", BaseException)


@attrs.define(eq=False)
class LiveStage:
    """The span of a stage that asked for a live one.

    Attributes:
        span: The span.
        offset: The ns that turn ``perf_counter_ns`` into its wall clock.
        token: Of its context. None: it was left.
        ended: Wall clock, ns. 0: it has not ended.
    """

    span: Span
    offset: int
    token: Any
    ended: int = 0


@attrs.define(eq=False)
class StagePlaces:
    """The places of the spans of stages that are not right in the call or in an attempt, and of those that are live.

    Attributes:
        places: The context of each place in which a stage was entered, as an anchor, by its number.
        live: The live spans, by their numbers.
        marks: The number of the place and that of the live span, by the index of a row; 0 for none.
    """

    places: Anchors = attrs.field(factory=dict[int, tuple[Context, int]])
    live: dict[int, LiveStage] = attrs.field(factory=dict[int, LiveStage])
    marks: Mapping[int, tuple[int, int]] = attrs.field(factory=dict[int, tuple[int, int]])


NO_PLACES = StagePlaces()


def has_notable(rows: Sequence[StageRow]) -> bool:
    """Return True if a stage failed, has a note, or worked for more than a millisecond. In most calls none does."""
    for _, _, _, of_stage, _, note, own in rows:  # noqa: SIM110  # a generator takes twice as long
        if of_stage is not None or note or own > NOTABLE:
            return True
    return False


def make_stage_spans(
    tracer: Tracer,
    rows: Sequence[StageRow],
    anchors: Anchors,
    attempts: Sequence[AttemptRow],
    verdict: str | None,
    *,
    placed: StagePlaces = NO_PLACES,
    notable: bool = False,
) -> None:
    """Start and end one span for each row of a report, under the call or the attempt in which the stage ran.

    The stage that decided the failure of its call or attempt is red. A stage that only passed it on has its verdict as
    an attribute.

    Args:
        tracer: Starts them.
        rows: The stages.
        anchors: The contexts of the call and of its attempts.
        attempts: The attempts of the call.
        verdict: The verdict of the call.
        placed: Where stages were entered that another stage has put a span around, and live spans. Default: none.
        notable: Skip stages without a failure of their own, a note, or a millisecond of work.
    """
    start_span, of_call = tracer.start_span, anchors[0]
    deciding: frozenset[int] | None = None
    for index, (name, start, end, of_stage, attempt, note, own) in enumerate(rows):
        attributes, decided = None, None
        if of_stage is not None or note or own - end + start > _APART:  # few stages
            if of_stage is not None:
                if deciding is None:
                    deciding = find_deciding(rows, collect_verdicts(attempts, verdict))
                decided = of_stage if index in deciding else None
            attributes = _describe_stage(note, own if own - end + start > _APART else 0, of_stage, decided)
        place, number = placed.marks.get(index, _UNMARKED)
        if number and (live := placed.live.get(number)) is not None:
            with _MAKES:
                live.span.set_attributes(_describe_stage(note, own, of_stage, decided))
            end_span(live.span, decided, live.ended)
            continue
        if notable and decided is None and not note and own <= NOTABLE:
            continue
        context, offset = placed.places[place] if place in placed.places else anchors.get(attempt, of_call)
        try:
            span = start_span(name, context, INTERNAL, attributes, None, start + offset)
            if decided is None:
                span.end(end + offset)
            else:
                end_span(span, decided, end + offset)
        except BaseException as exc:  # the spans of the other stages are made
            if not _MAKES.stops(exc):
                raise


def _describe_stage(note: str, own: int, verdict: str | None, decided: str | None) -> dict[str, str | float]:
    attributes: dict[str, str | float] = {semconv.REASON: note} if note else {}
    if own:
        attributes[semconv.STAGE_SECONDS] = own / 1e9
    if verdict is not None and decided is None:
        attributes[semconv.STAGE_VERDICT] = verdict
    return attributes


Verdicts: TypeAlias = Mapping[int, str | None]  # by attempt number; 0: the call


def collect_verdicts(attempts: Sequence[AttemptRow], verdict: str | None) -> Verdicts:
    """Return the verdicts of a call and of its attempts."""
    return {0: verdict, **{number: of_attempt for number, _, _, _, _, of_attempt, _ in attempts}}


def find_deciding(rows: Sequence[StageRow], verdicts: Verdicts) -> frozenset[int]:
    """Return the indices of the rows of the stages that decided a failure.

    In each attempt, and outside of all attempts, that is the outermost stage whose verdict equals the verdict of the
    attempt or the call: Classify, and not Execute, whose crash it read. No stage decides a cancellation. Rows stand in
    the order of their ends, so the outermost stage is the last.
    """
    deciding = {
        attempt: index
        for index, (_, _, _, verdict, attempt, _, _) in enumerate(rows)
        if verdict not in (None, CANCELLED) and verdict == verdicts.get(attempt)
    }
    return frozenset(deciding.values())
