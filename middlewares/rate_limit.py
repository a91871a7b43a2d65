"""RateLimit: lets so many calls through in so much time, and refuses the rest with the seconds until one fits."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Hashable
from threading import Lock
from typing import ClassVar, TypeVar

import attrs
from returns.result import Failure

from .. import timing
from ..call import Outcome, ResolvedCall
from ..compose import Handler, Placement
from ..errors import Unavailable
from ..forking import register_after_fork
from ..options import check_number, is_count, is_function, is_number

R = TypeVar("R", bound=ResolvedCall)


@attrs.define(eq=False)
class _Partition:
    slot: float = -math.inf  # when the next call fits


@attrs.define(eq=False)
class RateLimit:
    """A check that passes at most ``burst`` calls at once and ``rate`` calls ``per`` seconds in the long run.

    The algorithm is GCRA, the generic cell rate algorithm (ITU-T I.371). For each partition it keeps one number: the
    time of the next slot, from which one more call fits. In any ``t`` seconds at most ``burst + t * rate / per`` calls
    pass; with a burst of 1 they are evenly spaced. A partition that has its whole burst again is forgotten.

    After Validate, a call that never runs takes nothing from the limit, and all attempts of a call count once. Inside
    of Retry each attempt counts, and a refused attempt ends the retrying. One instance is one limit: pipelines, event
    loops and threads may share it.

    Args:
        rate: Calls. Must be > 0 and finite; 0.5 with ``per=60`` is one call in two minutes.
        per: Seconds for ``rate`` calls. Must be > 0 and finite. Default 1.
        burst: Calls that may pass at once after a rest. Must be ≥ 1. Default None: ``rate`` rounded down, at least 1.
        key: Says which calls share a limit: those for which it returns the same value. A call for which it returns
            None is not limited. Default None: each tool and principal has a limit of its own.
        clock: Returns seconds; only differences count. Default ``time.monotonic``; tests pass their own.
        sleep: Awaited by `queueing`, with seconds. Default ``anyio.sleep``; tests pass their own.

    Raises:
        SetupError: An option is out of its range, or of another type.
    """

    placement: ClassVar[Placement] = Placement(
        announces_body=True,
        kind="rate_limit",
        reason="after validate: a call that never runs takes nothing from the limit",
    )

    rate: float = attrs.field(validator=is_number(above=0))
    per: float = attrs.field(default=1.0, validator=is_number(above=0, unit="seconds"))
    burst: int | None = attrs.field(default=None, validator=is_count(optional=True))
    key: Callable[[ResolvedCall], Hashable] | None = attrs.field(
        default=None, validator=is_function(optional=True), kw_only=True
    )
    clock: Callable[[], float] = attrs.field(
        default=timing.monotonic, validator=is_function(), kw_only=True, repr=False
    )
    sleep: Callable[[float], Awaitable[None]] = attrs.field(
        default=timing.sleep, validator=is_function(may_be_async=True), kw_only=True, repr=False
    )
    _interval: float = attrs.field(init=False, repr=False)  # seconds for one call at the even pace
    _slack: float = attrs.field(init=False, repr=False)  # seconds that a burst is ahead of the even pace
    _roundings: int = attrs.field(init=False, repr=False)  # of floats, on the way to a slot
    _by_default: bool = attrs.field(init=False, repr=False)  # whether it has the default clock
    _partitions: dict[Hashable, _Partition] = attrs.field(init=False, factory=dict[Hashable, _Partition], repr=False)
    _swept: float = attrs.field(init=False, default=-math.inf, repr=False)
    _lock: Lock = attrs.field(init=False, factory=Lock, repr=False)

    def __attrs_post_init__(self) -> None:
        burst = max(1, int(self.rate)) if self.burst is None else self.burst
        self._interval = self.per / self.rate
        self._slack = self._interval * (burst - 1)
        self._roundings = burst + 1
        self._by_default = self.clock is timing.monotonic
        register_after_fork(self._renew_lock)

    def __call__(self, call: R) -> R | Failure[Unavailable]:
        """The same call; or Unavailable, ``rate_limited``: made again after ``retry_after`` seconds it passes."""
        if self.key is None and not call.principal:
            key: Hashable = call.tool.name
        elif (key := self.key_of(call)) is None:
            return call
        now = timing.now() if self._by_default else self.clock()
        lock = self._lock
        lock.acquire()  # `with` takes twice as long
        try:
            partition = self._partitions[key]
            slot = partition.slot
            if slot <= now:
                earliest = now - self._slack  # a rest is worth one burst, however long it was
                partition.slot = (slot if slot > earliest else earliest) + self._interval  # noqa: FURB136  # max is slow
                return call
        except KeyError:
            pass  # the first call of a partition
        finally:
            lock.release()
        wait, _ = self.reserve(key, 0.0)
        return Failure(Unavailable(call.tool.name, "rate_limited", wait)) if wait else call

    def queueing(self, *, max_wait: float) -> QueueingRateLimit:
        """The same limit as a middleware, which holds a call back until it fits instead of refusing it.

        Args:
            max_wait: Seconds. Must be > 0 and finite. A call that would have to wait for longer is refused at once.

        Raises:
            SetupError: ``max_wait`` is out of its range.
        """
        return QueueingRateLimit(self, max_wait)

    def key_of(self, call: ResolvedCall) -> Hashable:
        """Equal for calls that share a limit; None for a call that is not limited."""
        if self.key is not None:
            return self.key(call)
        return (call.tool.name, call.principal) if call.principal else call.tool.name  # the hash of a str is cached

    def reserve(self, key: Hashable, max_wait: float) -> tuple[float, float]:
        """Take the next slot of a partition, unless it is more than ``max_wait`` seconds away.

        Returns:
            The seconds until the slot, and the time of the slot behind it, which identifies it for `release`.
        """
        with self._lock:
            now = self.clock()
            if key not in self._partitions:
                self._forget_rested(now)
            partition = self._partitions.setdefault(key, _Partition())
            slot = max(partition.slot, now - self._slack)
            wait = self._seconds_until(slot, now)
            following = slot + self._interval
            if wait <= max_wait:
                partition.slot = following
            return wait, following

    def release(self, key: Hashable, following: float) -> None:
        """Give a reserved slot back, unless a later call has reserved the slot behind it."""
        with self._lock:
            partition = self._partitions.get(key)
            if partition is not None and partition.slot == following:
                partition.slot = following - self._interval

    def _renew_lock(self) -> None:
        self._lock = Lock()

    def _seconds_until(self, slot: float, now: float) -> float:
        """Return the seconds until a slot; 0 if it has come, or if the difference is only rounding of floats."""
        wait = slot - now
        return wait if wait > self._roundings * math.ulp(max(abs(now), self._slack)) else 0.0

    def _forget_rested(self, now: float) -> None:
        """Forget partitions that have their whole burst again; rarely enough that a call pays for a few of them."""
        if now - self._swept >= self._slack + self._interval:
            self._swept = now
            self._partitions = {key: each for key, each in self._partitions.items() if each.slot > now - self._slack}


@attrs.frozen(eq=False)
class QueueingRateLimit:
    """A `RateLimit` that holds calls back. Made by `RateLimit.queueing`.

    Calls run first come, first served. A call that would have to wait past its own deadline is refused at once.
    A call that is cancelled while it waits gives its slot back, unless another call has been given the one behind it.
    """

    placement: ClassVar[Placement] = RateLimit.placement
    __name__ = "rate_limit"  # in a stack it has the name of the limit

    limit: RateLimit
    max_wait: float

    def __attrs_post_init__(self) -> None:
        check_number("RateLimit", "max_wait", self.max_wait, above=0, unit="seconds")

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``rate_limited``, with the seconds until a call fits."""
        limit = self.limit
        key = limit.key_of(call)  # once: after a wait, or in a cancelled call, it must not raise or change its mind
        if key is not None and limit.reserve(key, 0.0)[0]:
            max_wait = min(self.max_wait, timing.time_left())
            wait, following = limit.reserve(key, max_wait)
            if wait > max_wait:
                return Failure(Unavailable(call.tool.name, "rate_limited", wait))
            if wait:  # else the slot has come by now
                await self._wait(key, wait, following)
        return await call_next(call)

    async def _wait(self, key: Hashable, seconds: float, following: float) -> None:
        slept = False
        try:
            await self.limit.sleep(seconds)
            slept = True
        finally:
            if not slept:  # cancelled
                self.limit.release(key, following)
