"""The rows of a report: stage runs, attempts, retry decisions and progress; and the verdicts in them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple, TypeAlias, cast

import attrs
from returns.result import Failure

from ...base.foreign_values import or_default, safe_str
from ..errors import Landed

CANCELLED = "cancelled"  # the verdict of a cancelled stage, which has neither an outcome nor a kind of error

# StageRecord and Attempt as plain tuples: a call makes several, and a tuple takes an eighth of the time.
StageRow: TypeAlias = tuple[str, int, int, str | None, int, str, int]
AttemptRow: TypeAlias = "tuple[int, str, int, int, float, str | None, Landed]"
NO_EXECUTOR = ""  # of a run that a stage or a guard refused before the body: it has a span, and is no `Attempt`


class StageRecord(NamedTuple):
    """One run of one stage. Times are in nanoseconds of ``time.perf_counter_ns()``.

    A middleware works before it calls ``call_next``, and again after that returned. ``start`` and ``end`` frame the
    part after, or the longest part if that is longer and took more than a millisecond; ``own`` is the sum of all parts.

    Attributes:
        name: Name of the stage.
        start: Start (ns).
        end: End (ns).
        verdict: The kind of error that the stage made or changed, or "cancelled"; None if it made none.
        attempt: The attempt that the run belongs to; 0 outside of all attempts.
        note: A note of the stage, such as the reason of a retry; mostly "".
        own: Duration (ns), without the time that a middleware spent waiting for the inner stages.
    """

    name: str
    start: int
    end: int
    verdict: str | None
    attempt: int
    note: str
    own: int

    @property
    def seconds(self) -> float:
        """Duration of the stage itself: for a middleware, without the inner stages."""
        return self.own / 1e9


class Attempt(NamedTuple):
    """One run of the tool, or of a stage that answers in its place.

    A run that a stage or a guard refused before the body began, such as an open breaker, is none.

    Attributes:
        number: From 1.
        executor: loop, thread, …
        start: Start (ns, ``perf_counter_ns``).
        end: End (ns).
        wait: Seconds between the previous attempt and this one.
        verdict: The kind of error, or "cancelled"; None for a success.
        landed: Whether the side effect happened.
    """

    number: int
    executor: str
    start: int
    end: int
    wait: float
    verdict: str | None
    landed: Landed

    @property
    def seconds(self) -> float:
        """Duration of the attempt."""
        return (self.end - self.start) / 1e9


@attrs.frozen
class Progress:
    """The progress of a tool, as it reported it.

    Attributes:
        done: In the tool's own unit.
        total: In the same unit; None if unknown.
        message: Any text. Default "".
        at: When it was reported (ns, ``perf_counter_ns`` of the process that records the call).
    """

    done: float
    total: float | None = None
    message: str = attrs.field(default="", repr=False)  # it may hold a secret
    at: int = attrs.field(default=0, repr=False, eq=False)

    def read(self) -> tuple[float | None, float | None, str]:
        """Return done, total and message as JSON types, whatever the tool gave; a number that is not finite is None."""
        message: object = self.message
        return _read_number(self.done), _read_number(self.total), safe_str(message)


class RetryDecision(NamedTuple):
    """The decision after a failed attempt, and its reason.

    Attributes:
        attempt: Number of the failed attempt.
        wait: Seconds until the next attempt; None if there will be none.
        reason: Why.
    """

    attempt: int
    wait: float | None
    reason: str


Row: TypeAlias = StageRecord | Attempt | RetryDecision | Progress

_MOST_BITS = 64  # a larger integer becomes a float, because readers of JSON do not take it


@or_default(None)
def _read_number(value: Any) -> float | None:
    number = value if type(value) is int and value.bit_length() <= _MOST_BITS else float(value)
    return number if isfinite(number) else None


def error_of(verdict: Any) -> Any:
    """Return the error of a failed outcome or check; None for anything else."""
    return cast("Failure[Any]", verdict).failure() if type(verdict) is Failure else None


def kind_of(verdict: object) -> str | None:
    """Return the kind of error of a failed outcome or check; None for anything else."""
    return str(getattr(error_of(verdict), "kind", "internal")) if type(verdict) is Failure else None


def find_decider(rows: Sequence[StageRow], kind: str | None) -> str:
    """The name of the stage that decided a failure of that kind; "" if none did."""
    row = find_decision(rows, kind)
    return "" if row is None else row[0]


def find_decision(rows: Sequence[StageRow], kind: str | None) -> StageRow | None:
    """The row of the stage that decided a failure of that kind; None if none did.

    That is the outermost stage that made an error of this kind: Classify, and not Execute, whose crash it read. Of a
    kind that no stage made, as of an unknown outcome, it is the outermost stage that made an error. Rows stand in the
    order of their ends.
    """
    if kind is None:
        return None
    own = next((row for row in reversed(rows) if row[3] == kind), None)
    return own or next((row for row in reversed(rows) if row[3] not in (None, CANCELLED)), None)
