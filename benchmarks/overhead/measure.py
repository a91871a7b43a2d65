"""The method in one process: many rounds of slices for each row, and the median of the undisturbed ones."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Mapping

import attrs

from benchmarks.overhead.rows import Group, Row
from toolcall_pipeline.testing.overhead.rounds import Core, take_rounds
from toolcall_pipeline.testing.overhead.slices import Measurable, palindrome


@attrs.frozen
class Effort:
    """The duration of a measurement.

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
    gc.collect()
    gc.freeze()  # else each slice of the warm-up walks the ten thousand tools of a registry
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
    """Take the median of the undisturbed rounds."""
    counted = await take_rounds(lambda: palindrome(used), rounds, core)
    return Value(
        statistics.median(row.figure(each.costs) for each in counted), statistics.median(each.probe for each in counted)
    )
