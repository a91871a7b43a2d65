"""Capacity: how many calls a pool has at a time."""

from __future__ import annotations

from collections import OrderedDict

from ...event_loops import EventLoop, Signal


class Capacity:
    """Free places of one event loop. Who finds none waits in a queue, first come, first served.

    anyio's CapacityLimiter remembers who has a place, which in a batch of tiny calls takes a tenth of all time.

    Args:
        loop: The event loop.
        free: The places.
    """

    def __init__(self, loop: EventLoop, free: int) -> None:
        self.free = free  # 0 while a call waits. A call that finds it above 0 may take one by counting it down
        self._loop = loop
        self._waiting: OrderedDict[Signal, None] = OrderedDict()

    async def wait(self) -> None:
        """Wait for a place, and take it. Cancelled, it takes none."""
        signal = self._loop.make_signal()
        self._waiting[signal] = None
        try:
            await signal
        except BaseException:
            if signal in self._waiting:
                del self._waiting[signal]
            else:  # cancelled after it was given one
                self.give_back()
            raise

    def give_back(self) -> None:
        """Free a place, or give it to the first in the queue."""
        if self._waiting:
            signal, _ = self._waiting.popitem(last=False)
            self._loop.set(signal)
        else:
            self.free += 1
