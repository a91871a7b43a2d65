"""Slices of CPU time, about two milliseconds each: a reference, a subject, the reference again."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Mapping
from statistics import fmean
from time import process_time_ns, thread_time_ns
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
        """Measure once; return the cost of one, mostly in microseconds of this thread's CPU."""
        ...


@attrs.define
class Scenario:
    """A batch of calls, measured by the CPU time of this thread, or of all threads of the process.

    Args:
        batch: runs the measured thing so many times.
        settle: runs after each slice; it finishes what was left to other threads.
        whole: measure all threads, and `settle` as well; default: this thread, without `settle`.
    """

    batch: Batch
    settle: Callable[[], object] | None = None
    whole: bool = False
    times: int = attrs.field(default=1, init=False)  # in one slice
    done: int = attrs.field(default=0, init=False)  # in all

    async def prepare(self, seconds: float) -> None:
        """Double the number of times until they fill a quarter of a slice, then scale it, each time warmer."""
        await self._timed(3)  # what is built at first use is not part of a call's cost
        while self.times * await self._timed(self.times) < seconds * 1e6 / 4:
            self.times *= 2
        least = await self._timed(self.times)
        for _ in range(3):  # the least: a busy moment must not leave a slice too short to be warm
            least = min(least, await self._timed(self.times))
            self.times = max(1, int(seconds * 1e6 / least))

    async def slice(self) -> float:
        """Return microseconds for each time in one slice."""
        if self.times > 1:
            warm_up = -(-self.times // _WARM_UP)
            await self.batch(warm_up)
            self.done += warm_up
        return await self._timed(self.times)

    async def _timed(self, times: int) -> float:
        # Every slice starts without garbage, and the collector stays on: a scenario pays for the garbage that it makes
        # itself, and for nobody else's.
        gc.collect()
        clock = process_time_ns if self.whole else thread_time_ns
        began = clock()
        await self.batch(times)
        if self.whole and self.settle is not None:
            self.settle()
        spent = clock() - began
        self.done += times
        if not self.whole and self.settle is not None:
            self.settle()
        return spent / times / 1e3


def probe() -> int:
    """Return the nanoseconds of CPU that a fixed piece of work takes: about 0.3 ms, or 0.5 with a busy neighbour."""
    began = thread_time_ns()
    table = {"a": 1}
    total = 0
    for number in range(4000):
        total += table["a"]
        pair = (number, total)
        total -= pair[0] - pair[0]
    return thread_time_ns() - began


async def palindrome(scenarios: Mapping[str, Measurable]) -> tuple[dict[str, float], float]:
    """Run one round, ``a b c b a``, so that drift cancels out; return the cost of each, and the mean of the probes."""
    names = list(scenarios)
    costs: list[float] = []
    probes = [probe()]
    for name in (*names, *names[-2::-1]):
        costs.append(await scenarios[name].slice())
        probes.append(probe())
    return {name: (costs[at] + costs[-1 - at]) / 2 for at, name in enumerate(names)}, fmean(probes)
