"""Units of a concurrency limit in a store: who holds how many, each for a time that is renewed while the call runs."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from math import inf
from secrets import token_hex
from typing import Any, Literal

import anyio
import attrs

from ..base import timing
from ..stores import Store, StoreError
from .concurrency_units import KnownLoop, find_loop
from .limit_states import FleetStates, share

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05  # seconds between two looks for a free unit
_RENEWALS = 3  # in the time of a lease
_HANDED_ON = 0.5  # seconds for which a process may keep units for its own calls, while others wait


@attrs.frozen
class _Asked:
    holder: str
    weight: int  # 0: the units come back
    renews: bool = False


@attrs.define
class _Held:
    by_name: dict[str, tuple[int, float]] = attrs.field(factory=dict[str, tuple[int, float]])  # units, and until when


@attrs.frozen
class _Lending:
    """Units for whom there are some, each for the time of a lease. Its answer: whether they were granted."""

    limit: int
    lease: float = attrs.field(repr=False)  # seconds

    def begin(self, now: float) -> _Held:  # noqa: ARG002
        """All units are free."""
        return _Held()

    def decide(self, held: _Held, asks: _Asked, now: float) -> bool:
        """Take units, renew their lease, or give them back."""
        held.by_name = {name: (units, until) for name, (units, until) in held.by_name.items() if until > now}
        if not asks.weight:
            held.by_name.pop(asks.holder, None)
            return True
        free = self.limit - sum(units for units, _ in held.by_name.values())
        grants = asks.renews or asks.holder in held.by_name or asks.weight <= free
        if grants:
            held.by_name[asks.holder] = asks.weight, now + self.lease
        return grants

    def keep(self, held: _Held, now: float) -> float:  # noqa: ARG002
        """Seconds until the last lease ends."""
        return self.lease


def _undo(asked: _Asked, granted: bool) -> _Asked | None:  # noqa: FBT001  # an answer
    return _Asked(asked.holder, 0) if granted and not asked.renews else None


@attrs.define(eq=False)
class _Waiter:
    weight: int
    handed: str | None = None  # the name of units that a call of this process has handed on
    wakes: anyio.Event = attrs.field(init=False, factory=anyio.Event)


@attrs.define(eq=False)
class SharedUnits:
    """The units of one limit, by keys, for all processes that share the store."""

    lease: float  # seconds after which the units of a process that died are free again
    states: FleetStates[_Held, _Asked, bool]
    # Calls of this process, by event loop and key.
    _waiting: dict[tuple[KnownLoop, Hashable], list[_Waiter]] = attrs.field(init=False, factory=dict[Any, Any])
    _since: dict[str, float] = attrs.field(init=False, factory=dict[str, float])  # when units were taken, by their name

    def name(self, key: Hashable) -> str:
        """The key of a partition in the store."""
        return self.states.name(key)

    async def acquire(self, key: Hashable, weight: int, max_wait: float | None, max_queue: int | None) -> str | None:
        """Take units, and wait for them.

        Returns:
            A name for `hold`; None: there were none in time, or too many calls wait already.
        """
        asked = _Asked(token_hex(8), weight)
        place = find_loop(), key
        waiting = self._waiting.get(place, [])
        taken: str | None = None
        try:
            if not waiting and await self.states.ask(key, asked):
                taken = asked.holder
            elif max_queue is None or len(waiting) < max_queue:
                taken = await self._queue(place, asked, max_wait)
        except StoreError as exc:
            if exc.maybe_written:
                await self._return(key, asked.holder)
            raise
        if taken is not None:
            self._since.setdefault(taken, anyio.current_time())
        return taken

    async def hold(self, key: Hashable, holder: str, weight: int, run: Callable[[], Awaitable[Any]]) -> Any:
        """Run something on units that were taken, renew them meanwhile, and give them back at the end."""
        failed: Exception | None = None
        answer: Any = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew, key, _Asked(holder, weight, renews=True))
                try:
                    answer = await run()
                except Exception as exc:  # noqa: BLE001  # raised again, without the group around it
                    failed = exc
                tasks.cancel_scope.cancel()
        finally:
            await self._release(key, holder, weight)
        if failed is not None:
            raise failed
        return answer

    async def _release(self, key: Hashable, holder: str, weight: int) -> None:
        """Hand units on to a call of this process that waits, for a while; or give them back to the fleet."""
        waiting = self._waiting.get((find_loop(), key), [])
        if anyio.current_time() - self._since[holder] < _HANDED_ON:
            following = next((each for each in waiting if each.weight == weight and each.handed is None), None)
            if following is not None:
                following.handed = holder
                following.wakes.set()
                return
        await self._return(key, holder)

    async def _return(self, key: Hashable, *holders: str) -> None:
        """Give units back, in a cancelled call as well; if that fails they come back when the lease is over."""
        for holder in holders:
            self._since.pop(holder, None)
        await self.states.tell(key, *(_Asked(holder, 0) for holder in holders))

    async def _queue(self, place: tuple[KnownLoop, Hashable], asked: _Asked, max_wait: float | None) -> str | None:
        """Wait until units are handed on, or found in the store; the name of the units, or None."""
        waiter = _Waiter(asked.weight)
        self._waiting.setdefault(place, []).append(waiter)
        found = False
        taken: str | None = None
        try:
            with timing.move_on_after(inf if max_wait is None else max_wait):
                pause = _FIRST_PAUSE
                while waiter.handed is None and not found:
                    with anyio.move_on_after(pause * (0.5 + random.random())):  # noqa: S311  # no secret
                        await waiter.wakes.wait()
                    if waiter.handed is None:
                        found = await self.states.ask(place[1], asked)
                    pause = min(2 * pause, _LONGEST_PAUSE)
            taken = waiter.handed or (asked.holder if found else None)
        finally:
            self._leave(place, waiter)
            got = {name for name in (waiter.handed, asked.holder if found else None) if name is not None}
            if surplus := got - {taken}:  # both at once, or cancelled
                try:
                    await self._return(place[1], *surplus)
                except BaseException:
                    await self._return(place[1], *got - surplus)
                    raise
        return taken

    async def _renew(self, key: Hashable, asked: _Asked) -> None:
        while True:
            await anyio.sleep(self.lease / _RENEWALS)
            with suppress(StoreError):
                await self.states.ask(key, asked)

    def _leave(self, place: tuple[KnownLoop, Hashable], waiter: _Waiter) -> None:
        waiting = self._waiting[place]
        waiting.remove(waiter)
        if not waiting:
            del self._waiting[place]


def share_units(
    store: Store | None, when_away: Literal["refuse", "local"], share_as: str, limit: int, lease: float
) -> SharedUnits | None:
    """The units of a limit in its store; None: it has none."""
    rule = _Lending(limit, lease)
    states = share("Concurrency", store, when_away, share_as, rule, _Held, clock=timing.wall_time, undo=_undo)
    return None if states is None else SharedUnits(lease, states)
