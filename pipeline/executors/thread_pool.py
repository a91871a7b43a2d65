"""Threads: worker threads for sync tools, so many at a time; and those that were left behind, counted and bounded.

A thread cannot be stopped. Whoever waited for it goes, and what becomes of its place differs: asyncio gives it to the
next one (50 abandoned calls under a limiter of 4 left 49 threads), trio keeps it until the thread ends. Here, on both,
the place is given on and the thread is counted until it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from threading import Lock
from typing import Any, Literal, TypeVar

from anyio import CapacityLimiter, WouldBlock
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from ..errors import SetupError
from ..time_limit import TooLateError

T = TypeVar("T")


class NoThreadError(Exception):
    """As many threads as may be were left behind, and run on: there shall not be one more."""


class _Work:
    """One body. ``called_off``: nobody waits for it any more, and it had not begun."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: Literal["queued", "called_off", "running", "left", "ended"] = "queued"


class Threads:
    """At most ``at_once`` bodies that somebody waits for, in each event loop, and ``max_abandoned`` that nobody does.

    In one event loop there are never more threads than both together: of those at work when the bound is reached, all
    may hang.
    """

    def __init__(self, at_once: int, max_abandoned: int) -> None:
        given: tuple[Any, ...] = (at_once, max_abandoned)
        if not all(isinstance(each, int) and each > 0 for each in given):
            raise SetupError(
                f"at least one thread, and one that may be left behind, not {at_once!r} and {max_abandoned!r}"
            )
        self.abandoned = 0
        self._at_once, self._may_leave = at_once, max_abandoned
        self._lock = Lock()
        # Of an event loop each. The second is for a function that wants one: it counts nothing.
        self._limiters: RunVar[tuple[CapacityLimiter, CapacityLimiter]] = RunVar("toolcall_threads")

    async def run(self, body: Callable[..., T], *args: Any) -> T:
        """What the body gives, which must not raise: in a thread, with the caller's context variables.

        Cancelled, it is left behind; before it began, it never will. Raises NoThreadError where too many were left.
        """
        limiter, unlimited = self._here()
        work = _Work()
        try:
            limiter.acquire_on_behalf_of_nowait(work)  # a fifth of the time
        except WouldBlock:
            await limiter.acquire_on_behalf_of(work)
        try:
            if self.abandoned >= self._may_leave:  # whoever was left gave up his place: nobody waits long for this
                raise NoThreadError
            return await run_sync(self._in_thread, work, body, args, abandon_on_cancel=True, limiter=unlimited)
        finally:
            with self._lock:
                if work.state == "running":
                    work.state = "left"
                    self.abandoned += 1
                elif work.state == "queued":
                    work.state = "called_off"
            limiter.release_on_behalf_of(work)

    def _in_thread(self, work: _Work, body: Callable[..., T], args: tuple[Any, ...]) -> T:
        with self._lock:
            if work.state == "called_off":
                raise TooLateError  # to nobody
            work.state = "running"
        try:
            return body(*args)
        finally:
            self._end(work)

    def _end(self, work: _Work) -> None:
        with self._lock:
            self.abandoned -= work.state == "left"
            work.state = "ended"

    def _here(self) -> tuple[CapacityLimiter, CapacityLimiter]:
        limiters = self._limiters.get(None)
        if limiters is None:
            limiters = CapacityLimiter(self._at_once), CapacityLimiter(inf)
            self._limiters.set(limiters)
        return limiters
