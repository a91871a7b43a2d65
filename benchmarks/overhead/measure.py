"""The method: rounds of slices that ran on an undisturbed core, and their median.

A core that is shared with a neighbour (another hyper-thread, another virtual machine) does not slow all code alike:
a tight loop takes 1.8 times as long, a longer path 1.4 times. A ratio then depends on the neighbour. So a fixed piece
of work, the probe, runs before and after each slice, and only rounds with fast probes count.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Mapping

import anyio
import attrs

from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.slices import Measurable, palindrome, probe

TOLERANCE = 1.15  # above this multiple of the fast level the core was disturbed; a busy neighbour gives 1.5 to 1.8
_PAUSE = 0.005  # seconds between two probes while waiting for an undisturbed core


@attrs.frozen
class Effort:
    """How long to measure.

    Args:
        rounds: undisturbed rounds for each row, in each process.
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
    """One row as one process measured it."""

    figure: float
    probe: float  # nanoseconds: how fast the core ran meanwhile


async def measure(group: Group, scenarios: Mapping[str, Measurable], core: Core, effort: Effort) -> dict[str, Value]:
    """Measure the group's rows one after the other; return their values by the rows' names."""
    for scenario in scenarios.values():
        await scenario.prepare(effort.slice)
    gc.collect()
    gc.freeze()  # a collection within a slice looks at what that slice made, not at the whole process
    rounds = min(effort.rounds, group.rounds or effort.rounds)
    most = rounds if group.rounds else 2 * rounds
    return {row.what: await _measured(row, scenarios, rounds, most, core) for row in group.rows}


async def _measured(row: Row, scenarios: Mapping[str, Measurable], rounds: int, most: int, core: Core) -> Value:
    """The median of the undisturbed rounds; with too few of those, of the least disturbed third."""
    taken: list[tuple[float, float]] = []
    undisturbed = 0
    while undisturbed < rounds and len(taken) < most:
        await core.wait()
        costs, speed = await palindrome({name: scenarios[name] for name in row.names})
        taken.append((speed, row.figure(costs)))
        undisturbed += core.undisturbed(speed)
    counted = sorted(taken)[: max(undisturbed, (rounds + 2) // 3)]
    return Value(statistics.median(figure for _, figure in counted), statistics.median(speed for speed, _ in counted))
