"""The units of a concurrency limit, with their holders and waiters, for each event loop."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextvars import ContextVar
from threading import get_ident

import anyio
import attrs
from anyio.lowlevel import RunVar

from ..base import timing

_MANY = 1024  # partitions; with fewer of them, idle ones are left where they are


@attrs.define(eq=False)
class _Waiter:
    weight: int
    granted: bool = False
    wakes: anyio.Event = attrs.field(init=False, factory=anyio.Event)


@attrs.define(eq=False)
class Partition:
    """Calls that share their units, and those that wait for some: first come, first served."""

    free: int  # units
    # An ordered dict, because a waiter may leave from anywhere. None until a call waits: most partitions stay small.
    queue: OrderedDict[_Waiter, None] | None = attrs.field(init=False, default=None)

    @property
    def waiting(self) -> int:
        """The number of waiting calls."""
        return len(self.queue or ())

    def grant(self) -> None:
        """Give free units to the first in the queue. They count as taken from now on, so that no call overtakes."""
        while self.queue and (waiter := next(iter(self.queue))).weight <= self.free:
            del self.queue[waiter]
            self.free -= waiter.weight
            waiter.granted = True
            waiter.wakes.set()

    async def wait(self, weight: int, seconds: float | None) -> bool:
        """Wait for units, and return whether the call got them in time. If not, they go to the next in the queue."""
        waiter = _Waiter(weight)
        queue = self.queue = OrderedDict() if self.queue is None else self.queue
        queue[waiter] = None
        taken = False
        try:
            if seconds is None:
                await waiter.wakes.wait()
            else:
                with timing.move_on_after(seconds):
                    await waiter.wakes.wait()
            taken = waiter.granted  # not whether the time is up: both can happen before this task runs again
        finally:
            if not taken:
                if waiter.granted:  # cancelled after the grant
                    self.free += weight
                else:
                    del queue[waiter]
                self.grant()
        return taken


@attrs.define(eq=False)
class Partitions:
    """The partitions of one event loop. Idle ones are removed when their number has doubled since the last removal.

    So the cost of a new partition does not depend on their number, and the partitions of a busy hour do not stay.
    """

    by_key: dict[Hashable, Partition] = attrs.field(init=False, factory=dict[Hashable, Partition])
    _sweep_at: int = attrs.field(init=False, default=_MANY)

    def add(self, key: Hashable, limit: int) -> Partition:
        """Create a partition with `limit` free units."""
        by_key = self.by_key
        if len(by_key) >= self._sweep_at:
            for idle in [key for key, each in by_key.items() if each.free == limit]:
                del by_key[idle]
            self._sweep_at = max(_MANY, 2 * len(by_key))
        partition = by_key[key] = Partition(limit)
        return partition


@attrs.define(eq=False)
class Holder:
    """A call that took the last units of a partition, for the calls that its tool makes.

    They would wait for units that come back only when this call ends, so it lends its own, to one of them at a time.
    A call that took its units before this one may wait, since this call goes on.
    """

    partition: Partition
    outer: Holder | None  # around this one
    ended: bool = False  # a task that the tool left running may have copied the context
    loan: anyio.Lock = attrs.field(init=False, factory=anyio.Lock)


@attrs.define(eq=False)
class KnownLoop:
    """An event loop. No loop may wake a task of another one, so each has units of its own."""

    thread: int = attrs.field(factory=get_ident)  # shows whether the context was copied to another thread


_LOOPS: RunVar[KnownLoop] = RunVar("toolcall_concurrency")
HOLDER: ContextVar[Holder | None] = ContextVar("HOLDER", default=None)  # of the call that the tool is in
# A run variable takes a hundred times as long.
CURRENT_LOOP: ContextVar[KnownLoop | None] = ContextVar("CURRENT_LOOP", default=None)


def find_loop() -> KnownLoop:
    """The event loop that runs, remembered for the next call of this task."""
    loop = _LOOPS.get(None)
    if loop is None:
        _LOOPS.set(loop := KnownLoop())
    CURRENT_LOOP.set(loop)
    return loop


def find_holder(holder: Holder | None, partition: Partition | None = None) -> Holder | None:
    """The nearest call around this one that still runs and, if a partition is given, holds units of it."""
    while holder is not None and (holder.ended or (partition is not None and holder.partition is not partition)):
        holder = holder.outer
    return holder
