"""Slices of about two milliseconds that repeat one operation: its CPU time, and how long it waits."""

from __future__ import annotations

import gc
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from statistics import fmean
from time import perf_counter_ns, process_time_ns, thread_time_ns
from typing import Protocol, TypeAlias, TypeVar

import attrs

T = TypeVar("T")
Batch: TypeAlias = Callable[[int], Awaitable[None]]  # does the measured thing this many times
_WARM_UP = 20  # one part in 20 of a slice runs before the clock starts: the caches are filled again
_LONGEST = 20  # times the CPU time of a slice: how long one may wait
_QUEUED = "/proc/thread-self/schedstat"  # Linux, sched-stats.rst: CPU time, time in the run queue, and time slices


class Measurable(Protocol):
    """Something whose cost can be measured again and again."""

    async def prepare(self, seconds: float) -> None:
        """Warm up, and choose the size of a slice of that many seconds."""
        ...

    async def slice(self) -> float:
        """Measure once; return the cost of one, mostly in microseconds of this thread's CPU."""
        ...


@attrs.frozen
class Spent:
    """The time that one of something took, in ns."""

    cpu: float  # in the thread of the event loop
    waited: float = 0  # while that thread neither ran nor was ready to run
    elsewhere: float = 0  # of the CPU in all other threads of the process

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.cpu + other.cpu, self.waited + other.waited, self.elsewhere + other.elsewhere)

    def __sub__(self, other: Spent) -> Spent:
        return self + other.times(-1)

    def times(self, factor: float) -> Spent:
        """So many of them, or a part of one."""
        return Spent(self.cpu * factor, self.waited * factor, self.elsewhere * factor)


@attrs.define
class Scenario:
    """A batch of calls, measured by thread CPU time."""

    batch: Batch  # runs the measured thing so many times
    settle: Callable[[], object] | None = None  # after each slice; it finishes what was left to other threads
    at_once: int = 1  # so that a wait counts for each of them
    least: int = 1  # in a slice, unless they wait for long
    whole: bool = False  # count the CPU time of all threads, and `settle` as well
    times: int = attrs.field(default=1, init=False)  # in one slice
    done: int = attrs.field(default=0, init=False)  # in all

    async def prepare(self, seconds: float) -> None:
        """Double the number of times until they fill a quarter of a slice, then scale it, each time warmer."""
        slice_ns, longest = seconds * 1e9, seconds * 1e9 * _LONGEST
        self.times = 2 * self.at_once - 1  # 1, or enough for all to be busy
        await self._timed(3)  # what is built at first use is not part of a call's cost
        spent = await self._timed(self.times)
        while self.times * spent.cpu < slice_ns / 4 and 2 * self.times * spent.waited < longest * self.at_once:
            self.times *= 2
            spent = await self._timed(self.times)
        cpu, waited = spent.cpu, spent.waited
        for _ in range(3):  # the least: a busy moment or a pause must not leave a slice too short to be warm
            spent = await self._timed(self.times)
            cpu, waited = min(cpu, spent.cpu), min(waited, spent.waited)
            by_wait = longest * self.at_once / max(waited, 1)
            self.times = max(2 * self.at_once - 1, int(min(max(slice_ns / max(cpu, 1), self.least), by_wait)))

    async def slice(self) -> float:
        """Return microseconds of CPU for each time in one slice."""
        return (await self.spend()).cpu / 1e3

    async def spend(self) -> Spent:
        """Return what each time took in one slice."""
        return await self._timed(self.times, -(-self.times // _WARM_UP) if self.times > 1 else 0)

    async def _timed(self, times: int, warm_up: int = 0) -> Spent:
        # Every slice starts without garbage, and the collector stays on: a scenario pays for the garbage that it makes
        # itself alone.
        gc.collect()
        if warm_up:  # after the collection, which empties the caches of the processor
            await self.batch(warm_up)
            self.done += warm_up
        whole_process, queued, began = process_time_ns(), read_queued(), perf_counter_ns()
        cpu = first = thread_time_ns()
        await self.batch(times)
        cpu = thread_time_ns() - cpu
        waited = perf_counter_ns() - began - cpu - (read_queued() - queued)
        self.done += times
        if self.settle is not None:
            self.settle()
        all_threads = process_time_ns() - whole_process
        if self.whole:
            return Spent(all_threads).times(1 / times)
        elsewhere = all_threads - (thread_time_ns() - first)
        # Little's law: of n that run at once, each waits n times as long as the thread waits for each of them.
        return Spent(cpu, max(waited, 0) * self.at_once, max(elsewhere, 0)).times(1 / times)


def read_queued() -> int:
    """Nanoseconds that this thread was ready to run while others ran; always 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        file = os.open(_QUEUED, os.O_RDONLY)
        try:
            return int(os.read(file, 100).split()[1])
        finally:
            os.close(file)
    return 0


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
    costs, probed = await run_there_and_back({name: each.slice for name, each in scenarios.items()})
    return {name: (there + back) / 2 for name, (there, back) in costs.items()}, probed


async def run_there_and_back(
    slices: Mapping[str, Callable[[], Awaitable[T]]],
) -> tuple[dict[str, tuple[T, T]], float]:
    """Run the slices as ``a b c b a``; return both results of each, the middle one's twice, and the mean probe."""
    names = list(slices)
    results: list[T] = []
    probes = [probe()]
    for name in (*names, *names[-2::-1]):
        results.append(await slices[name]())
        probes.append(probe())
    return {name: (results[at], results[-1 - at]) for at, name in enumerate(names)}, fmean(probes)
