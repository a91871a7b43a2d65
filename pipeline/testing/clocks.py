"""FakeClock: time that passes only when a test says so, for all stages together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from math import inf
from types import TracebackType
from typing import Any, Self, cast

import anyio
import anyio.lowlevel

from ..base.timing import TimeSource, replace_time

_DEADLINE: ContextVar[float] = ContextVar("toolcall_fake_deadline", default=inf)  # of the task, on a fake clock
_ROUNDING = 1e-6  # seconds; adding floats loses less, for any clock that shows less than a century


class FakeClock:
    """A clock that stands still until it is moved.

    Inside of ``with clock:`` it is the clock of every stage that was given none: of Retry and RateLimit, of Cache,
    CircuitBreaker and LoopGuard, of Timeout and ``call(timeout=…)``, in all event loops and threads. Without that, pass
    it as ``clock=`` and its `sleep` as ``sleep=``. Calling it returns ``now``.

    Code that does not ask the pipeline for the time still has the machine's: ``anyio.sleep`` in a tool, the durations
    of spans. A tool under test says by ``await clock.sleep(30)`` how long it takes, or by ``clock.advance(30)`` if it
    is sync.

    Args:
        now: Seconds at first. Default 1000, so that code which takes 0 for "never" does not work by accident.
        running: Whether the machine's time is added, as in `no_waiting`. Default False.
    """

    def __init__(self, now: float = 1000.0, *, running: bool = False) -> None:
        self.slept: list[float] = []  # seconds, one entry for each call of `sleep`
        self.running = running
        self._moved = now - (time.monotonic() if running else 0.0)
        self._wall = time.time() - now
        self._limits: list[_Limit] = []  # that run
        self._before: list[TimeSource | None] = []  # what it has replaced

    @property
    def now(self) -> float:
        """The time, in seconds. A test may set it."""
        return self._moved + (time.monotonic() if self.running else 0.0)

    @now.setter
    def now(self, seconds: float) -> None:
        before = self.now
        self._moved = seconds - (time.monotonic() if self.running else 0.0)
        self._tell_limits(seconds - before)

    def __call__(self) -> float:
        """The time, in seconds."""
        return self.now

    def wall_time(self) -> float:
        """Seconds since the epoch: the date on which the clock was made, and what has passed since."""
        return self._wall + self.now

    def advance(self, seconds: float) -> None:
        """Move the time forward, from any thread; a negative number moves it back. Limits that are over cancel."""
        self._moved += seconds
        self._tell_limits(seconds)

    def _tell_limits(self, seconds: float) -> None:
        for limit in list(self._limits):
            limit.move(seconds)

    async def sleep(self, seconds: float) -> None:
        """Move the time forward at once, and note the seconds in ``slept``."""
        self.slept.append(seconds)
        self.advance(seconds)
        await anyio.lowlevel.checkpoint()  # where a limit that is over cancels this task

    def move_on_after(self, seconds: float) -> _Limit:
        """As ``anyio.move_on_after``, by this clock."""
        return _Limit(self, self._limits, seconds)

    def time_left(self) -> float:
        """Seconds until the deadline of the current task, by this clock or by the event loop's; ``inf`` without one."""
        return min(_DEADLINE.get() - self.now, anyio.current_effective_deadline() - anyio.current_time())

    def __enter__(self) -> Self:
        self._before.append(replace_time(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        replace_time(self._before.pop())


class _Limit:
    """A time limit around a block."""

    def __init__(self, clock: FakeClock, running: list[_Limit], seconds: float) -> None:
        self._clock, self._running = clock, running
        self._deadline = clock.now + seconds
        self._seconds = seconds
        self._scope: anyio.CancelScope
        self._thread: int
        self._call_soon: Callable[..., object]
        self._outer: Token[float]

    def __enter__(self) -> anyio.CancelScope:
        deadline = anyio.current_time() + self._seconds if self._clock.running else inf
        self._scope = anyio.CancelScope(deadline=deadline)
        self._thread, self._call_soon = threading.get_ident(), _find_call_soon()
        scope = self._scope.__enter__()
        self._outer = _DEADLINE.set(min(self._deadline, _DEADLINE.get()))
        self._running.append(self)
        self.move(0.0)
        return scope

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._running.remove(self)
        _DEADLINE.reset(self._outer)
        return self._scope.__exit__(kind, exc, trace)

    def move(self, seconds: float) -> None:
        if threading.get_ident() == self._thread:
            self._adjust(seconds)
        else:
            self._call_soon(self._adjust, seconds)

    def _adjust(self, seconds: float) -> None:
        if self._clock.now >= self._deadline - _ROUNDING:
            self._scope.cancel()
        else:
            self._scope.deadline -= seconds


def _find_call_soon() -> Callable[..., object]:
    """Return a function that runs a function in the event loop of this thread, from another thread."""
    token: Any = anyio.lowlevel.current_token()
    native: Any = getattr(token, "native_token", token)  # anyio before 4.11 has no class of its own for it
    name = "call_soon_threadsafe" if hasattr(native, "call_soon_threadsafe") else "run_sync_soon"
    return cast("Callable[..., object]", getattr(native, name))


@contextmanager
def no_waiting() -> Generator[FakeClock]:
    """Let every wait of a stage end at once inside the block: before a retry, and for a rate limit.

    The time goes on by itself, and jumps over each wait. Limits still hold: a tool that hangs is timed out.

    Yields:
        The clock, whose ``slept`` has the seconds of each wait.
    """
    with FakeClock(running=True) as clock:
        yield clock
