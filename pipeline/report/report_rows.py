"""The rows of a report: a run of a stage, an attempt, a decision about a retry, a step of progress."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple, TypeAlias, cast

import attrs
from returns.result import Failure

from ..errors import Landed

CANCELLED = "cancelled"  # the verdict of a cancelled stage; it is no kind of error, for there is no Outcome

# A StageRecord and an Attempt before they are named: a call makes several, and a bare tuple takes an eighth of that.
StageRow: TypeAlias = tuple[str, int, int, str | None, int, str, int]
AttemptRow: TypeAlias = "tuple[int, str, int, int, float, str | None, Landed]"


class StageRecord(NamedTuple):
    """One run of one stage. Times are those of ``time.perf_counter_ns()``.

    A middleware works before it calls on, and again after the inside answered. ``start`` and ``end`` are those of the
    part after, or of the longest part if that is longer and took more than a millisecond; ``own`` is all of them.
    """

    name: str
    start: int  # ns
    end: int  # ns
    verdict: str | None  # the kind of error that the stage made or changed, or "cancelled"; None: it made none
    attempt: int  # the attempt that it belongs to; 0: outside of all attempts
    note: str  # words of the stage's own, such as the reason of a retry; mostly ""
    own: int  # ns; of a middleware, without the time in which what it surrounds ran

    @property
    def seconds(self) -> float:
        """How long the stage itself took: for a middleware, without what it surrounds."""
        return self.own / 1e9


class Attempt(NamedTuple):
    """One run of the tool, or of what stands in its place."""

    number: int  # from 1
    executor: str  # loop, thread, …
    start: int  # ns, perf_counter_ns
    end: int  # ns
    wait: float  # seconds between the attempt before and this one
    verdict: str | None  # the kind of error, or "cancelled"; None: a success
    landed: Landed  # whether the side effect happened

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return (self.end - self.start) / 1e9


@attrs.frozen
class Progress:
    """How far a tool has come, in its own words."""

    done: float  # in the tool's own unit
    total: float | None = None  # in the same unit; None: unknown
    message: str = ""
    at: int = attrs.field(default=0, repr=False, eq=False)  # ns, perf_counter_ns of the process that records the call

    def read(self) -> tuple[float | None, float | None, str]:
        """The three in types that JSON has, whatever the tool gave. None: no number, or not a finite one."""
        message: object = self.message
        return _read_number(self.done), _read_number(self.total), message if type(message) is str else _write(message)


class RetryDecision(NamedTuple):
    """What was decided after a failed attempt, and why."""

    attempt: int  # the one that failed
    wait: float | None  # seconds until the next one; None: there is none
    reason: str


Row: TypeAlias = StageRecord | Attempt | RetryDecision | Progress

_MOST_BITS = 64  # of an integer that stays one: no reader of JSON has larger ones


def _read_number(value: Any) -> float | None:
    try:
        number = value if type(value) is int and value.bit_length() <= _MOST_BITS else float(value)
    except Exception:  # noqa: BLE001  # a foreign __float__ may raise anything
        return None
    return number if isfinite(number) else None


def _write(value: object) -> str:
    try:
        return f"{value!s}"
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything
        return f"<{type(value).__name__}>"


def error_of(verdict: Any) -> Any:
    """The error of a failed outcome or check; None for anything else."""
    return cast("Failure[Any]", verdict).failure() if type(verdict) is Failure else None


def kind_of(verdict: object) -> str | None:
    """The kind of error of a failed outcome or check; None for anything else."""
    return str(getattr(error_of(verdict), "kind", "internal")) if type(verdict) is Failure else None
