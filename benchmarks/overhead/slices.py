"""Slices of thread CPU time: a reference, a subject, the reference again, a few milliseconds each."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Mapping
from statistics import fmean
from time import thread_time_ns
from typing import Protocol, TypeAlias

import attrs

Batch: TypeAlias = Callable[[int], Awaitable[None]]  # does the measured thing this many times
_WARM_UP = 20  # one part in 20 of a slice runs before the clock starts: the caches are filled again


class Measurable(Protocol):
    """Something whose cost can be measured again and again."""

    async def prepare(self, seconds: float) -> None:
        """Warm up, and choose the size of a slice of that many seconds."""
        ...

    async def slice(self) -> float:
        """Measure once: the cost of one, mostly in microseconds of this thread's CPU."""
        ...


@attrs.define
class Scenario:
    """A batch of calls, measured by thread CPU time.

    Args:
        batch: runs the measured thing so many times.
        settle: runs after each slice, outside the measured time; it finishes what was left to other threads.
    """

    batch: Batch
    settle: Callable[[], object] | None = None
    times: int = attrs.field(default=1, init=False)  # in one slice
    done: int = attrs.field(default=0, init=False)  # in all

    async def prepare(self, seconds: float) -> None:
        """Double the number of times until they fill a quarter of a slice, then scale; the later, the warmer."""
        await self._timed(3)  # what is built at first use is not part of a call's cost
        while self.times * await self._timed(self.times) < seconds * 1e6 / 4:
            self.times *= 2
        for _ in range(3):
            self.times = max(1, int(seconds * 1e6 / await self._timed(self.times)))

    async def slice(self) -> float:
        """Microseconds for each call of one slice."""
        if self.times > 1:
            warm_up = -(-self.times // _WARM_UP)
            await self.batch(warm_up)
            self.done += warm_up
        return await self._timed(self.times)

    async def _timed(self, times: int) -> float:
        # Every slice starts with an empty young generation. The collector stays on: a scenario pays for the garbage
        # that it makes itself, and for no other's.
        gc.collect()
        began = thread_time_ns()
        await self.batch(times)
        spent = thread_time_ns() - began
        self.done += times
        if self.settle is not None:
            self.settle()
        return spent / times / 1e3


def probe() -> int:
    """Nanoseconds of CPU for a fixed piece of work, about 0.3 ms, which a busy neighbour slows as much as anything."""
    began = thread_time_ns()
    table = {"a": 1}
    total = 0
    for number in range(4000):
        total += table["a"]
        pair = (number, total)
        total -= pair[0] - pair[0]
    return thread_time_ns() - began


async def palindrome(scenarios: Mapping[str, Measurable]) -> tuple[dict[str, float], float]:
    """One round, ``a b c b a``: the cost of each, and the mean of the probes. Drift during a round cancels out."""
    names = list(scenarios)
    costs: list[float] = []
    probes = [probe()]
    for name in (*names, *names[-2::-1]):
        costs.append(await scenarios[name].slice())
        probes.append(probe())
    return {name: (costs[at] + costs[-1 - at]) / 2 for at, name in enumerate(names)}, fmean(probes)
