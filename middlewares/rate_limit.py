"""RateLimit: lets so many calls through in so much time, and refuses the rest with the seconds until one fits."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, overload

import attrs
from returns.result import Failure

from ..base import timing
from ..base.options import check_number, is_count, is_function, is_number
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import Unavailable
from ..stage_state.keys import KEYS, find_partition, read_key
from ..stage_state.limit_states import FleetStates, LocalStates, ask_states, list_store, share
from ..stores import Store, StoreError

R = TypeVar("R", bound=ResolvedCall)


@attrs.define
class _Slots:
    following: float = -math.inf  # when the next call fits
    queued: float = -math.inf  # the same after the last call that had to wait for its slot
    rested: float = -math.inf  # when a call last found the whole burst


class _Slot(NamedTuple):
    wait: float  # seconds until it comes
    following: float  # the time of the one behind it
    at: float  # when it was taken, or refused


@attrs.frozen
class _Asked:
    max_wait: float = 0.0  # seconds
    returns: _Slot | None = None  # that comes back


_NOW = _Asked()  # of a caller that gives nothing back
_PASSES = _Slot(0.0, 0.0, 0.0)  # what it is answered


@attrs.frozen
class _Gcra:
    """The generic cell rate algorithm."""

    interval: float  # seconds for one call at the even pace
    slack: float  # seconds that a burst is ahead of it
    roundings: int  # of floats, on the way to a slot

    def begin(self, now: float) -> _Slots:  # noqa: ARG002
        """No call has come."""
        return _Slots()

    def decide(self, slots: _Slots, asks: _Asked, now: float) -> _Slot:
        """Take the next slot, unless it is too far away; or take one back."""
        slot, earliest = slots.following, now - self.slack
        if asks.returns is None:
            if slot < earliest:  # a rest is worth one burst, however long it was
                slot, slots.rested = earliest, now
            if slot <= now and asks is _NOW:  # mostly
                slots.following = slot + self.interval
                return _PASSES
        else:
            if _can_return(slots, asks.returns):
                slots.following -= self.interval
            return asks.returns
        wait, following = slot - now, slot + self.interval
        if wait < 0 or wait <= self.roundings * math.ulp(max(abs(now), self.slack)):  # only rounding of floats
            wait = 0.0
        if wait <= asks.max_wait:
            slots.following = following
            if wait:
                slots.queued = following
        return _Slot(wait, following, now)

    def keep(self, slots: _Slots, now: float) -> float:
        """Seconds until the whole burst is there again."""
        return max(0.0, slots.following - now) + self.slack


def _can_return(slots: _Slots, slot: _Slot) -> bool:
    """A slot is the last one; or no call behind it waited, and the burst has not been whole since."""
    return slots.following == slot.following or (slots.queued < slot.following and slots.rested <= slot.at)


def _undo(asked: _Asked, slot: _Slot) -> _Asked | None:
    return _Asked(returns=slot) if slot.wait <= asked.max_wait else None


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
            None is not limited. ``"principal"`` is short for that field of the call, and ``"conversation"`` for that of
            a principal. Default None: each tool and principal has a limit of its own.
        clock: Returns seconds; only differences count. Default ``time.monotonic``; tests pass their own.
        sleep: Awaited by `queueing`, with seconds. Default ``anyio.sleep``; tests pass their own.
        store: Shares the limit with all processes that have one with the same options in this store. It is a
            middleware then, for ``before("retry", …)`` or ``wrap(…)``, and goes by the wall clocks of its hosts: one
            that is ahead by a second may take one second's calls too early, once. Default None: this object alone.
        when_away: While the store gives no answer, "refuse" refuses each call as Unavailable, ``store_away``, and
            "local" limits the calls of this process by themselves. The log says so once. Default "refuse".
        share_as: Keeps apart limits with equal options in one store. Default "".

    Raises:
        SetupError: An option is out of its range, or of another type.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="rate_limit",
        reason="after validate: a call that never runs takes nothing from the limit",
        holds_back="a call that a limit refuses has not begun",
        decides=("rate_limited",),
    )

    rate: float = attrs.field(validator=is_number(above=0))
    per: float = attrs.field(default=1.0, validator=is_number(above=0, unit="seconds"))
    burst: int | None = attrs.field(default=None, validator=is_count(optional=True))
    key: Callable[[ResolvedCall], Hashable] | None = attrs.field(
        default=None, converter=read_key, validator=is_function(KEYS, optional=True), kw_only=True
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
    _local: LocalStates[_Slots, _Asked, _Slot] = attrs.field(init=False, repr=False)
    _fleet: FleetStates[_Slots, _Asked, _Slot] | None = attrs.field(init=False, repr=False)

    resources = property(list_store)

    def __attrs_post_init__(self) -> None:
        burst = max(1, int(self.rate)) if self.burst is None else self.burst
        interval = self.per / self.rate
        rule = _Gcra(interval, interval * (burst - 1), burst + 1)
        wall = timing.wall_time if self.clock is timing.monotonic else self.clock
        self._local = LocalStates(rule, self.clock)
        self._fleet = share(
            "RateLimit",
            self.store,
            self.when_away,
            self.share_as,
            rule,
            _Slots,
            clock=wall,
            only_grows=True,
            undo=_undo,
        )

    @property
    def as_middleware(self) -> Callable[[Any, Handler[Any]], Coroutine[Any, Any, Outcome]] | None:
        """The middleware that this limit is with a store; None: without one it is a check."""
        return None if self._fleet is None else QueueingRateLimit(self, 0.0).__call__

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
        key = call.tool.name if self.key is None and call.principal == "" else self.key_of(call)
        if key is None:
            return call
        wait = self._local.decide(key, _NOW).wait
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
        return find_partition(call, self.key)

    def passes_at_once(self, key: Hashable) -> bool:
        """Whether a call of this process passes now; it takes its slot then. With a store it has to ask."""
        return self._fleet is None and not self._local.decide(key, _NOW).wait

    async def reserve(self, key: Hashable, max_wait: float) -> tuple[float, Callable[[], Awaitable[object]]]:
        """Take the next slot, unless it is more than ``max_wait`` seconds away.

        Returns:
            The seconds until the slot, and how to give it back.

        Raises:
            StoreError: The store gave no answer, and ``when_away`` is "refuse".
        """
        states, slot = await ask_states(self._fleet, self._local, key, _Asked(max_wait))
        return slot.wait, partial(states.tell, key, _Asked(returns=slot))


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
        return list_store(self.limit)

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``rate_limited``, with the seconds until a call fits."""
        limit, name = self.limit, call.tool.name
        key = limit.key_of(call)  # once: after a wait, or in a cancelled call, it must not raise or change its mind
        if key is None or limit.passes_at_once(key):
            return await call_next(call)
        max_wait = min(self.max_wait, timing.time_left()) if self.max_wait else 0.0
        try:
            wait, give_back = await limit.reserve(key, max_wait)
        except StoreError:
            return Failure(Unavailable(name, "store_away"))
        if wait > max_wait:
            return Failure(Unavailable(name, "rate_limited", wait))
        if wait:
            try:
                await limit.sleep(wait)
            except BaseException:  # cancelled
                await give_back()
                raise
        return await call_next(call)
