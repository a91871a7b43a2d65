"""The clock that stages read and wait for: the machine's, or the one that a test has put in its place.

A stage has these functions as the defaults of its ``clock=`` and ``sleep=``, so that one `testing.FakeClock`
moves all stages together. `move_on_after` and `time_left` do the same for deadlines.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from math import isinf
from typing import Protocol

import anyio


class TimeSource(Protocol):
    """A replacement of the machine's time."""

    def __call__(self) -> float:
        """As `monotonic`."""
        ...

    def wall_time(self) -> float:
        """As `wall_time` below."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """As `sleep` below."""
        ...

    def move_on_after(self, seconds: float) -> AbstractContextManager[object, bool]:
        """As ``anyio.move_on_after``."""
        ...

    def time_left(self) -> float:
        """As `time_left` below."""
        ...


_replaced: TimeSource | None = None
# Two variables, because a call with a limit should pay no more for them than for the functions of the machine.
now: Callable[[], float] = time.monotonic  # as `monotonic`, in a third of the time; not for a default, which is kept
move_on_after: Callable[[float], AbstractContextManager[object, bool]] = anyio.move_on_after


def monotonic() -> float:
    """Seconds; only differences count. ``time.monotonic()``, unless it is replaced."""
    return time.monotonic() if _replaced is None else _replaced()


def wall_time() -> float:
    """Seconds since the epoch. ``time.time()``, unless it is replaced."""
    return time.time() if _replaced is None else _replaced.wall_time()


async def sleep(seconds: float) -> None:
    """Wait. ``anyio.sleep``, unless it is replaced."""
    await (anyio.sleep(seconds) if _replaced is None else _replaced.sleep(seconds))


def time_left() -> float:
    """Seconds until the deadline of the current task: ``inf`` without one, ``-inf`` if it is cancelled."""
    if _replaced is not None:
        return _replaced.time_left()
    deadline = anyio.current_effective_deadline()
    return deadline if isinf(deadline) else deadline - anyio.current_time()  # mostly without asking for the time


def replace_time(source: TimeSource | None) -> TimeSource | None:
    """Put a source in the place of the machine's time, in all threads; None: the machine's own. Returns the one before.

    A limit that has begun keeps its source.
    """
    global move_on_after, now, _replaced  # noqa: PLW0603
    before, _replaced = _replaced, source
    now = time.monotonic if source is None else source
    move_on_after = anyio.move_on_after if source is None else source.move_on_after
    return before
