"""The method in one process: many rounds of slices for each row, and the median of the undisturbed ones.

A busy neighbour of the core (another hyper-thread, another virtual machine) does not slow all code alike: the
hand-written loop takes 1.8 times as long, the pipeline 1.4 times, so the ratio of the two falls from 5.8 to 4.5. So a
fixed piece of work, the probe, runs before and after each slice, and only rounds with fast probes count.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Mapping

import anyio
import attrs

from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.slices import Measurable, palindrome, probe

TOLERANCE = 1.2  # times the fast level; with a busy neighbour the probe takes 1.5 to 1.8 times as long
_PAUSE = 0.005  # seconds between two probes while waiting for an undisturbed core


@attrs.frozen
class Effort:
    """How long to measure.

    Args:
        rounds: undisturbed ones for each row, in each process; twice as many are made at most.
        slice: seconds of one slice.
        processes: fresh processes; the printed figure is the median of theirs.
        spare: further processes at most, in place of those whose core was disturbed.
        seconds: after that time no spare process is started.
        apart: whether each group has processes of its own, so that no group runs in what another left behind.
        patience: seconds that one process spends waiting for an undisturbed core, all rows together.
    """

    rounds: int
    slice: float
    processes: int
    spare: int
    seconds: float
    apart: bool
    patience: float


class Core:
    """How fast this core runs right now, by the probe.

    Args:
        fast: nanoseconds of the probe on an undisturbed core, as far as known; None: unknown.
        patience: seconds to spend waiting, in all.
    """

    def __init__(self, fast: float | None, patience: float) -> None:
        seen = sorted(probe() for _ in range(100))
        lowest = float(seen[len(seen) // 10])  # a decile: single probes may run in a boost of the clock
        self.fast = lowest if fast is None else min(fast, lowest)
        self._patience = patience

    def undisturbed(self, nanoseconds: float) -> bool:
        """Whether a probe of that length ran on an undisturbed core."""
        return nanoseconds <= self.fast * TOLERANCE

    async def wait(self) -> None:
        """Return as soon as the core is undisturbed, or when the patience is used up."""
        while self._patience > 0 and not self.undisturbed(probe()):
            await anyio.sleep(_PAUSE)
            self._patience -= _PAUSE


@attrs.frozen
class Value:
    """One row as one process measured it.

    Args:
        figure: the median of the rounds.
        probe: nanoseconds of the probe during those rounds; 0: the rounds are too long for it to say anything.
    """

    figure: float
    probe: float


async def measure(group: Group, scenarios: Mapping[str, Measurable], core: Core, effort: Effort) -> dict[str, Value]:
    """Measure the group's rows one after the other; return their values by the rows' names."""
    for scenario in scenarios.values():
        await scenario.prepare(effort.slice)
    gc.collect()
    gc.freeze()  # a collection within a slice looks at what that slice made, not at the whole process
    values: dict[str, Value] = {}
    for row in group.rows:
        used = {name: scenarios[name] for name in row.names}
        if group.rounds is None:
            values[row.what] = await _measure_undisturbed(row, used, effort.rounds, core)
        else:
            figures = [row.figure((await palindrome(used))[0]) for _ in range(min(group.rounds, effort.rounds))]
            values[row.what] = Value(statistics.median(figures), 0)
    gc.unfreeze()
    return values


async def _measure_undisturbed(row: Row, used: Mapping[str, Measurable], rounds: int, core: Core) -> Value:
    """Take the median of the undisturbed rounds; with too few of those, of the least disturbed third."""
    taken: list[tuple[float, float]] = []
    undisturbed = 0
    while undisturbed < rounds and len(taken) < 2 * rounds:
        await core.wait()
        costs, spent = await palindrome(used)
        taken.append((spent, row.figure(costs)))
        undisturbed += core.undisturbed(spent)
    counted = sorted(taken)[: max(undisturbed, (rounds + 2) // 3)]
    return Value(statistics.median(figure for _, figure in counted), statistics.median(spent for spent, _ in counted))
