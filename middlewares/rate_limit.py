"""RateLimit: lets so many calls through in so much time, and refuses the rest with the seconds until one fits."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, ClassVar, Literal, TypeVar, overload

import anyio
import attrs
from returns.result import Failure

from ..base import timing
from ..base.forking import register_after_fork
from ..base.options import check_number, is_count, is_function, is_number
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import Unavailable
from ..identity import join_digest
from ..stage_state.shared_values import AwayNotice, SharedValues, check_sharing, name_key
from ..stores import Store, StoreError

R = TypeVar("R", bound=ResolvedCall)
_GIVE_BACK = 1.0  # seconds
_SPARE = 60.0  # seconds


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
        store: Shares the limit with all processes that have one with the same options in this store. It is a
            middleware then, for ``before("retry", …)`` or ``wrap(…)``, and goes by the wall clocks of its hosts: one
            that is ahead by a second may take one second's calls too early, once. Default None: this object alone.
        when_away: While the store gives no answer, "refuse" refuses each call as Unavailable, ``store_away``, and
            "local" limits the calls of this process by themselves. The log says so once. Default "refuse".
        share_as: Keeps apart limits with equal options in one store. Default "".

    Attributes:
        shared: The slots in the store. None: without ``store``.
        interval: Seconds for one call at the even pace.
        slack: Seconds that a burst is ahead of the even pace.

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
    store: Store | None = attrs.field(default=None, kw_only=True)
    when_away: Literal["refuse", "local"] = attrs.field(default="refuse", kw_only=True)
    share_as: str = attrs.field(default="", kw_only=True)
    shared: SharedSlots | None = attrs.field(init=False, default=None, repr=False)
    interval: float = attrs.field(init=False, repr=False)
    slack: float = attrs.field(init=False, repr=False)
    _roundings: int = attrs.field(init=False, repr=False)  # of floats, on the way to a slot
    _by_default: bool = attrs.field(init=False, repr=False)  # whether it has the default clock
    _partitions: dict[Hashable, _Partition] = attrs.field(init=False, factory=dict[Hashable, _Partition], repr=False)
    _swept: float = attrs.field(init=False, default=-math.inf, repr=False)
    _lock: Lock = attrs.field(init=False, factory=Lock, repr=False)

    def __attrs_post_init__(self) -> None:
        burst = max(1, int(self.rate)) if self.burst is None else self.burst
        self.interval = self.per / self.rate
        self.slack = self.interval * (burst - 1)
        self._roundings = burst + 1
        self._by_default = self.clock is timing.monotonic
        check_sharing("RateLimit", self.store, self.when_away, self.share_as)
        if self.store is not None:
            self.shared = SharedSlots(self, self.store)
        register_after_fork(self._renew_lock)

    @property
    def resources(self) -> tuple[Store, ...]:
        """The store, which the pipeline opens and closes."""
        return () if self.store is None else (self.store,)

    @property
    def as_middleware(self) -> Callable[[Any, Handler[Any]], Coroutine[Any, Any, Outcome]] | None:
        """The middleware that this limit is with a store; None: without one it is a check."""
        return None if self.shared is None else QueueingRateLimit(self, 0.0).__call__

    @overload  # first: where a type is still to be found, mypy takes the first one that may fit
    def __call__(self, call: R, call_next: Handler[R]) -> Coroutine[Any, Any, Outcome]: ...
    @overload
    def __call__(self, call: R) -> R | Failure[Unavailable]: ...
    def __call__(
        self, call: R, call_next: Handler[R] | None = None
    ) -> R | Failure[Unavailable] | Coroutine[Any, Any, Outcome]:
        """The same call; or Unavailable, ``rate_limited``: made again after ``retry_after`` seconds it passes.

        With ``call_next``, as a middleware, the inside's outcome.
        """
        if call_next is not None:
            return QueueingRateLimit(self, 0.0)(call, call_next)
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
                earliest = now - self.slack  # a rest is worth one burst, however long it was
                partition.slot = (slot if slot > earliest else earliest) + self.interval  # noqa: FURB136  # max is slow
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
                With ``store``, 0 is allowed: each call that is too early is refused.

        Raises:
            SetupError: ``max_wait`` is out of its range.
        """
        if self.store is None or max_wait != 0:
            check_number("RateLimit", "max_wait", max_wait, above=0, unit="seconds")
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
            wait, following = self.find_slot(partition.slot, now)
            if wait <= max_wait:
                partition.slot = following
            return wait, following

    def find_slot(self, slot: float, now: float) -> tuple[float, float]:
        """The seconds until the next slot of a partition, and the time of the slot behind it."""
        slot = max(slot, now - self.slack)  # a rest is worth one burst, however long it was
        return self._seconds_until(slot, now), slot + self.interval

    def release(self, key: Hashable, following: float) -> None:
        """Give a reserved slot back, unless a later call has reserved the slot behind it."""
        with self._lock:
            partition = self._partitions.get(key)
            if partition is not None and partition.slot == following:
                partition.slot = following - self.interval

    def _renew_lock(self) -> None:
        self._lock = Lock()

    def _seconds_until(self, slot: float, now: float) -> float:
        """Return the seconds until a slot; 0 if it has come, or if the difference is only rounding of floats."""
        wait = slot - now
        return wait if wait > self._roundings * math.ulp(max(abs(now), self.slack)) else 0.0

    def _forget_rested(self, now: float) -> None:
        """Forget partitions that have their whole burst again; rarely enough that a call pays for a few of them."""
        if now - self._swept >= self.slack + self.interval:
            self._swept = now
            self._partitions = {key: each for key, each in self._partitions.items() if each.slot > now - self.slack}


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

    @property
    def resources(self) -> tuple[Store, ...]:
        """The store of the limit, which the pipeline opens and closes."""
        return self.limit.resources

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``rate_limited``, with the seconds until a call fits."""
        limit = self.limit
        key = limit.key_of(call)  # once: after a wait, or in a cancelled call, it must not raise or change its mind
        if key is not None and limit.shared is not None:
            refused = await self._wait_shared(limit.shared, call, key)
            if refused is not None:
                return refused
        elif key is not None and limit.reserve(key, 0.0)[0]:
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

    async def _wait_shared(self, fleet: SharedSlots, call: ResolvedCall, key: Hashable) -> Failure[Unavailable] | None:
        """Take a slot of the fleet, and wait for it; the refusal, if there is none in time."""
        name, max_wait = call.tool.name, min(self.max_wait, timing.time_left()) if self.max_wait else 0.0
        shared: SharedSlots | None = fleet
        try:
            wait, following = await fleet.reserve(key, max_wait)
        except StoreError:
            if self.limit.when_away == "refuse":
                return Failure(Unavailable(name, "store_away"))
            wait, following = self.limit.reserve(key, max_wait)
            shared = None
        if wait > max_wait:
            return Failure(Unavailable(name, "rate_limited", wait))
        slept = not wait
        try:
            if wait:
                await self.limit.sleep(wait)
                slept = True
        finally:
            if not slept and shared is not None:  # cancelled
                await shared.release(key, following)
            elif not slept:
                self.limit.release(key, following)
        return None


@attrs.frozen
class _Asked:
    """One caller of a round: how long it would wait, or the slot that it gives back."""

    max_wait: float = 0.0
    returns: float | None = None


@attrs.define(eq=False)
class SharedSlots:
    """The slots of a limit in a store: for each key the time of the next one, by the wall clock."""

    limit: RateLimit
    store: Store
    _notice: AwayNotice = attrs.field(init=False)
    _values: SharedValues[_Asked, tuple[float, float]] = attrs.field(init=False)
    _prefix: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        limit = self.limit
        refuses = limit.when_away == "refuse"
        effect = "calls are refused" if refuses else "each process limits its own calls"
        self._notice = AwayNotice("RateLimit", effect)
        self._values = SharedValues(self.store, self._decide, only_grows=True)
        options = join_digest(limit.share_as, repr(float(limit.rate)), repr(float(limit.per)), repr(limit.burst))
        self._prefix = f"rate_limit/{options[:12]}/"

    async def reserve(self, key: Hashable, max_wait: float) -> tuple[float, float]:
        """As `RateLimit.reserve`, for the fleet.

        Raises:
            StoreError: The store gave no answer.
        """
        with self._notice:
            return await self._values.ask(self._prefix + name_key("RateLimit", key), _Asked(max_wait))

    async def release(self, key: Hashable, following: float) -> None:
        """Give a slot back, unless a later call has the one behind it; for a second, also in a cancelled call."""
        with anyio.move_on_after(_GIVE_BACK, shield=True), suppress(StoreError):
            await self._values.ask(self._prefix + name_key("RateLimit", key), _Asked(returns=following))

    def _decide(self, value: bytes | None, asked: Sequence[_Asked]) -> tuple[bytes | None, float, list[Any]]:
        limit = self.limit
        now = timing.wall_time() if limit.clock is timing.monotonic else limit.clock()
        before = slot = -math.inf if value is None else float(value)
        answers: list[tuple[float, float]] = []
        for each in asked:
            if each.returns is not None:
                slot = slot - limit.interval if slot == each.returns else slot
                answers.append((0.0, 0.0))
                continue
            wait, following = limit.find_slot(slot, now)
            if wait <= each.max_wait:
                slot = following
            answers.append((wait, following))
        kept = slot - now + limit.slack + _SPARE  # seconds until the whole burst is there again, and clocks may differ
        return (None, 0.0, answers) if slot == before else (repr(slot).encode(), max(kept, _SPARE), answers)
