"""RateLimit: so many calls in so much time; one too many is refused, and told when it would fit."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import ClassVar, TypeVar

import anyio
import attrs
from returns.result import Failure

from pipeline import Handler, Outcome, Placement, ResolvedCall, SetupError, Unavailable

R = TypeVar("R", bound=ResolvedCall)


@attrs.define(eq=False)
class RateLimit:
    """At most ``burst`` calls at once and ``rate`` of them ``per`` so many seconds in the long run, for each partition.

    The generic cell rate algorithm (ATM Forum, Traffic Management 4.0, 4.4; ITU-T I.371): all that is kept of a
    partition is the time from which its next call fits. In any ``t`` seconds at most ``burst + t * rate / per`` calls
    pass; with a ``burst`` of 1 they are spaced evenly.

    A partition is a tool and a principal, or what ``key`` makes of the call; a call of which it makes None is not
    limited. Right after Validate a call that never runs costs nothing of the limit, and all attempts together one
    call; inside of Retry each attempt costs one, and a refused one ends the retrying.

    One instance is one limit, also where several pipelines, event loops or threads share it: of each partition one
    thread decides at a time. A partition that is as good as new again is forgotten.
    """

    placement: ClassVar[Placement] = Placement(
        marks=True,
        kind="rate_limit",
        reason="after validate: what never runs costs nothing of the limit",
    )

    rate: float  # calls
    per: float = 1.0  # seconds
    burst: int | None = None  # calls at once; None: as many as ``rate`` has whole ones, at least 1
    key: Callable[[ResolvedCall], Hashable] | None = attrs.field(default=None, kw_only=True)
    clock: Callable[[], float] = attrs.field(default=time.monotonic, kw_only=True, repr=False)  # seconds
    sleep: Callable[[float], Awaitable[None]] = attrs.field(default=anyio.sleep, kw_only=True, repr=False)
    _interval: float = attrs.field(init=False, repr=False)  # seconds for one call
    _slack: float = attrs.field(init=False, repr=False)  # seconds that a burst may run ahead of the even pace
    _roundings: int = attrs.field(init=False, repr=False)  # of floats, in a burst and in telling the seconds
    # When the next call fits. Who decides has it out: pop and append of a list cost half of what a lock does.
    _cells: dict[Hashable, list[float]] = attrs.field(init=False, factory=dict[Hashable, list[float]], repr=False)
    _swept: float = attrs.field(init=False, default=-math.inf, repr=False)

    def __attrs_post_init__(self) -> None:
        if not (0 < self.rate < math.inf and 0 < self.per < math.inf):
            raise SetupError(f"{self}: a rate is more than zero calls in more than zero seconds, and not without end")
        burst = max(1, int(self.rate)) if self.burst is None else self.burst
        if not 1 <= burst < math.inf:
            raise SetupError(f"{self}: a burst is at least one call")
        self._interval = self.per / self.rate
        self._slack = self._interval * (burst - 1)
        self._roundings = burst + 1

    def __call__(self, call: R) -> R | Failure[Unavailable]:
        """The same call, or Unavailable with the seconds until one fits: made then, with none before it, it passes."""
        if self.key is None:
            key: Hashable = (call.tool.name, call.principal) if call.principal else call.tool.name  # text hashes once
        elif (key := self.key(call)) is None:
            return call
        try:
            cell = self._cells[key]
            fits = cell.pop()
        except LookupError:
            cell, fits = self._held(key)
        try:
            now = self.clock()
            new = now - self._slack
            if fits < new:
                fits = new + self._interval
            elif fits > now and (wait := self._until(fits, now)):
                return Failure(Unavailable(call.tool.name, "rate_limited", wait))
            else:
                fits += self._interval
        finally:
            cell.append(fits)
        return call

    def waiting(self, seconds: float) -> _Waiting:
        """The same limit as a middleware, which holds a call back for at most so many seconds before it refuses it."""
        if not 0 < seconds < math.inf:
            raise SetupError(f"a call is held back for more than zero seconds, and not forever: not {seconds!r}")
        return _Waiting(self, seconds)

    def reserve(self, call: ResolvedCall, longest: float) -> tuple[float, float | None]:
        """The seconds until a call fits, and its place; None where that is longer than told, and then it has none.

        A place is the time from which the one behind it fits.
        """
        cell, fits = self._held(self._partition(call))
        try:
            now = self.clock()
            place = max(fits, now - self._slack)
            wait = self._until(place, now) if place > now else 0.0
            if wait > longest:
                return wait, None
            fits = place + self._interval
            return wait, fits
        finally:
            cell.append(fits)

    def give_back(self, call: ResolvedCall, place: float) -> None:
        """Free a place, if nobody stands behind it: those have been told their time."""
        cell, fits = self._held(self._partition(call))
        cell.append(fits - self._interval if fits == place else fits)

    def _partition(self, call: ResolvedCall) -> Hashable:
        if self.key is not None:
            return self.key(call)
        return (call.tool.name, call.principal) if call.principal else call.tool.name

    def _until(self, fits: float, now: float) -> float:
        """The seconds from now; zero for no more than what floats lose on the way."""
        wait = fits - now
        return wait if wait > self._roundings * math.ulp(max(abs(now), self._slack)) else 0.0

    def _held(self, key: Hashable) -> tuple[list[float], float]:
        """A partition's cell, and what was in it: nobody else decides until it is put back."""
        while True:
            if (cell := self._cells.get(key)) is None:
                self._sweep()
                cell = self._cells.setdefault(key, [-math.inf])
            try:
                return cell, cell.pop()
            except IndexError:
                time.sleep(0)  # another thread has it, for a microsecond

    def _sweep(self) -> None:
        """Forget who may have a whole burst again. Seldom enough that a call pays for a few others only."""
        now = self.clock()
        if now - self._swept < self._slack + self._interval:
            return
        self._swept = now
        for key, cell in list(self._cells.items()):
            try:
                fits = cell.pop()
            except IndexError:  # at work
                continue
            if fits > now - self._slack:
                cell.append(fits)
            else:
                del self._cells[key]  # and who has found the cell meanwhile finds it empty, and looks again


@attrs.frozen(eq=False)
class _Waiting:
    """The limit as a middleware. Calls go in the order in which they came, and none is held past its deadline.

    One that is cancelled while it is held gives its place back, if nobody stands behind it.
    """

    placement: ClassVar[Placement] = RateLimit.placement
    __name__ = "rate_limit"  # in a stack it is called as the limit is
    limit: RateLimit
    seconds: float

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable with the seconds until a call fits."""
        if type(self.limit(call)) is Failure:
            left = anyio.current_effective_deadline() - anyio.current_time()
            wait, place = self.limit.reserve(call, min(self.seconds, left))
            if place is None:
                return Failure(Unavailable(call.tool.name, "rate_limited", wait))
            kept = False
            try:
                await self.limit.sleep(wait)
                kept = True
            finally:
                if not kept:
                    self.limit.give_back(call, place)
        return await call_next(call)
