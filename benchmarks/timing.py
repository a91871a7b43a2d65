"""Rounds of thread CPU time, in which each scenario has its turn: what slows the machine slows all of them."""

from __future__ import annotations

import gc
import random
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import thread_time_ns
from typing import TypeAlias

import attrs

Batch: TypeAlias = Callable[[int], Awaitable[None]]  # does what is measured, so many times
Times: TypeAlias = dict[str, float]  # one round: scenario -> mostly microseconds of this thread's CPU for each time


@attrs.frozen
class Effort:
    """How long to measure."""

    rounds: int
    part: float  # seconds for one scenario in one round
    processes: int  # fresh ones, for what can be measured but once in each


@attrs.define
class Scenario:
    """Something that is done very often, and how often it was."""

    batch: Batch
    settle: Callable[[], object] | None = None  # outside of the time taken: what was left for other threads
    done: int = 0

    async def timed(self, times: int) -> float:
        """Microseconds for each of so many times."""
        gc.collect()  # all start alike; the collector stays on, for whoever leaves it work shall pay for it
        began = thread_time_ns()
        await self.batch(times)
        spent = thread_time_ns() - began
        self.done += times
        if self.settle is not None:
            self.settle()
        return spent / times / 1e3

    async def times_in(self, seconds: float) -> int:
        """How many times fill so many seconds; finding that out is the warming up."""
        await self.timed(3)  # what is made at first use is not what a call costs
        times = 1
        while (spent := times * await self.timed(times)) < seconds * 1e6 / 4:
            times *= 2
        return max(1, int(seconds * 1e6 * times / spent))


async def rounds(scenarios: Mapping[str, Scenario], effort: Effort) -> list[Times]:
    """All scenarios in each round, each time in another order."""
    gc.collect()
    gc.freeze()  # a collection within a part looks at what that part has made, not at the whole process
    sizes = {name: await scenario.times_in(effort.part) for name, scenario in scenarios.items()}
    taken: list[Times] = []
    for number in range(effort.rounds):
        order = random.Random(number).sample(list(scenarios), len(scenarios))  # noqa: S311  # the same in each run
        taken.append({name: await scenarios[name].timed(sizes[name]) for name in order})
    gc.unfreeze()
    return taken


@attrs.frozen
class Row:
    """A figure that is computed from each round by itself, and what it should be at most."""

    what: str
    unit: str
    of: Callable[[Times], float] = attrs.field(repr=False)
    must: float | None = None
    aim: float | None = None


@attrs.frozen
class Group:
    """Rows that come from the same rounds."""

    title: str
    measure: Callable[[Effort], list[Times]] = attrs.field(repr=False)
    rows: tuple[Row, ...]


@attrs.frozen
class Result:
    """A row as it was measured."""

    row: Row
    values: Sequence[float]  # one for each round

    @property
    def median(self) -> float:
        """What is reported."""
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """How far that can be trusted."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        first, _, third = statistics.quantiles(self.values, n=4, method="inclusive")
        return first, third

    @property
    def verdict(self) -> str:
        """``ok`` or ``over``; empty where there is no budget."""
        return "" if self.row.must is None else "ok" if self.median <= self.row.must else "over"

    def exceeds(self, noise: float) -> bool:
        """Whether it is over by more than the noise, a share of the budget."""
        return self.row.must is not None and self.median > self.row.must * (1 + noise)


def just(scenario: str, scale: float = 1.0) -> Callable[[Times], float]:
    """The figure itself."""
    return lambda times: times[scenario] / scale


def over(scenario: str, unit: str, units: int = 1) -> Callable[[Times], float]:
    """The one in units of the other, or of so many of them."""
    return lambda times: times[scenario] / times[unit] / units


def beyond(scenario: str, without: str, unit: str, added: int = 1) -> Callable[[Times], float]:
    """What each of those added costs, in units of something else."""
    return lambda times: (times[scenario] - times[without]) / added / times[unit]
