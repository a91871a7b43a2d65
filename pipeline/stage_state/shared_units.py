"""Units of a concurrency limit in a store: who holds how many, each for a time that is renewed while the call runs."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from math import inf
from secrets import token_hex
from typing import Any

import anyio
import attrs

from ..base import timing
from ..stores import Store, StoreError
from .concurrency_units import KnownLoop, find_loop
from .shared_values import AwayNotice, SharedValues

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05  # seconds between two looks for a free unit
_GIVE_BACK = 1.0  # seconds
_RENEWALS = 3  # in the time of a lease
_HANDED_ON = 0.5  # seconds for which a process may keep units for its own calls, while others wait


@attrs.frozen
class _Asked:
    holder: str
    weight: int  # 0: the units come back
    renews: bool = False


@attrs.define(eq=False)
class FleetHolder:
    """A call that holds units, for the calls that its tool makes: these run on its units if none are free."""

    key: str
    outer: FleetHolder | None
    ended: bool = False
    loan: anyio.Lock = attrs.field(init=False, factory=anyio.Lock)


FLEET_HOLDER: ContextVar[FleetHolder | None] = ContextVar("FLEET_HOLDER", default=None)


@attrs.define(eq=False)
class _Waiter:
    weight: int
    handed: str | None = None  # the name of units that a call of this process has handed on
    wakes: anyio.Event = attrs.field(init=False, factory=anyio.Event)


@attrs.define(eq=False)
class SharedUnits:
    """The units of one limit, by keys, for all processes that share the store.

    Args:
        store: The store.
        limit: Units that may be in use at once, for each key.
        lease: Seconds after which the units of a process that died are free again.
        prefix: The beginning of the keys in the store.
        notice: Logs that the store is away.
    """

    store: Store
    limit: int
    lease: float
    prefix: str
    notice: AwayNotice
    _waiting: dict[tuple[KnownLoop, str], list[_Waiter]] = attrs.field(
        init=False, factory=dict[tuple[KnownLoop, str], list[_Waiter]]
    )  # calls of this process, by event loop and key
    _since: dict[str, float] = attrs.field(init=False, factory=dict[str, float])  # when units were taken, by their name
    _values: SharedValues[_Asked, bool] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._values = SharedValues(self.store, self._decide)

    async def acquire(self, key: str, weight: int, max_wait: float | None, max_queue: int | None) -> str | None:
        """Take units, and wait for them.

        Returns:
            A name for `hold`; None: there were none in time, or too many calls wait already.

        Raises:
            StoreError: The store gave no answer.
        """
        asked = _Asked(token_hex(8), weight)
        place = find_loop(), key
        waiting = self._waiting.get(place, [])
        taken: str | None = None
        try:
            if not waiting and await self._ask(key, asked):
                taken = asked.holder
            elif max_queue is None or len(waiting) < max_queue:
                taken = await self._queue(place, asked, max_wait)
        except BaseException:  # the write may have been made
            await self._return(key, asked.holder)
            raise
        if taken is not None:
            self._since.setdefault(taken, anyio.current_time())
        return taken

    def find_lender(self, key: str) -> FleetHolder | None:
        """The nearest call around this one that still runs and holds units of this key."""
        holder = FLEET_HOLDER.get()
        while holder is not None and (holder.ended or holder.key != self.prefix + key):
            holder = holder.outer
        return holder

    async def hold(self, key: str, holder: str, weight: int, run: Callable[[], Awaitable[Any]]) -> Any:
        """Run something on units that were taken, renew them meanwhile, and give them back at the end."""
        failed: Exception | None = None
        answer: Any = None
        inner = FleetHolder(self.prefix + key, FLEET_HOLDER.get())
        FLEET_HOLDER.set(inner)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew, key, _Asked(holder, weight, renews=True))
                try:
                    answer = await run()
                except Exception as exc:  # noqa: BLE001  # raised again, without the group around it
                    failed = exc
                tasks.cancel_scope.cancel()
        finally:
            inner.ended = True
            FLEET_HOLDER.set(inner.outer)
            await self._release(key, holder, weight)
        if failed is not None:
            raise failed
        return answer

    async def _release(self, key: str, holder: str, weight: int) -> None:
        """Hand units on to a call of this process that waits, for a while; or give them back to the fleet."""
        waiting = self._waiting.get((find_loop(), key), [])
        if anyio.current_time() - self._since[holder] < _HANDED_ON:
            following = next((each for each in waiting if each.weight == weight and each.handed is None), None)
            if following is not None:
                following.handed = holder
                following.wakes.set()
                return
        await self._return(key, holder)

    async def _return(self, key: str, holder: str) -> None:
        """Give units back, in a cancelled call as well; if that fails they come back when the lease is over."""
        self._since.pop(holder, None)
        with anyio.move_on_after(_GIVE_BACK, shield=True), suppress(StoreError):
            await self._ask(key, _Asked(holder, 0))

    async def _queue(self, place: tuple[KnownLoop, str], asked: _Asked, max_wait: float | None) -> str | None:
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
                        found = await self._ask(place[1], asked)
                    pause = min(2 * pause, _LONGEST_PAUSE)
            if found and waiter.handed is not None:
                await self._return(place[1], asked.holder)
            taken = waiter.handed or (asked.holder if found else None)
        finally:
            self._leave(place, waiter)
            if taken is None and waiter.handed is not None:  # cancelled
                await self._return(place[1], waiter.handed)
        if taken is None:  # the time was up, perhaps in the middle of a write
            await self._return(place[1], asked.holder)
        return taken

    async def _renew(self, key: str, asked: _Asked) -> None:
        while True:
            await anyio.sleep(self.lease / _RENEWALS)
            with suppress(StoreError):
                await self._ask(key, asked)

    async def _ask(self, key: str, asked: _Asked) -> bool:
        with self.notice:
            return await self._values.ask(self.prefix + key, asked)

    def _leave(self, place: tuple[KnownLoop, str], waiter: _Waiter) -> None:
        waiting = self._waiting[place]
        waiting.remove(waiter)
        if not waiting:
            del self._waiting[place]

    def _decide(self, value: bytes | None, asked: Sequence[_Asked]) -> tuple[bytes | None, float, list[bool]]:
        now = timing.wall_time()
        before: dict[str, tuple[int, float]] = {} if value is None else json.loads(value)
        held = {holder: (weight, until) for holder, (weight, until) in before.items() if until > now}
        changed = False
        answers: list[bool] = []
        for each in asked:  # first what comes back
            if not each.weight:
                changed = held.pop(each.holder, None) is not None or changed
        free = self.limit - sum(weight for weight, _ in held.values())
        for each in asked:
            grants = bool(each.weight) and (each.renews or each.holder in held or each.weight <= free)
            if grants:
                free -= 0 if each.holder in held else each.weight
                held[each.holder] = each.weight, now + self.lease
                changed = True
            answers.append(grants or not each.weight)
        if not changed:
            return None, 0.0, answers
        return json.dumps(held).encode(), self.lease + 60, answers
