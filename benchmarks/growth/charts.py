"""Charts: what is measured at which sizes, and the curves that come out."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from math import log
from time import perf_counter

import attrs

from toolcall_pipeline.testing.overhead.rounds import Core, take_rounds
from toolcall_pipeline.testing.overhead.slices import Measurable, palindrome


@attrs.frozen
class Subject:
    """One curve of a chart.

    Args:
        name: As the legend has it.
        make: Builds what is measured at a size.
        reference: Whether it is not ours: a hand-written loop, a parser alone. It stands in brackets.
        most: The largest size that it is measured at. Default None: all of them.
    """

    name: str
    make: Callable[[int], Measurable]
    reference: bool = attrs.field(default=False, kw_only=True)
    most: int | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Chart:
    """Curves over the same sizes.

    Args:
        key: Short: for the command line.
        title: Printed above it.
        x: The unit of the sizes.
        y: The meaning and the unit of the figures.
        sizes: In ascending order.
        subjects: Its curves.
        exact: Whether a figure is counted and not timed, so that one round says all. Default False.
    """

    key: str
    title: str
    x: str
    y: str
    sizes: Sequence[int]
    subjects: Sequence[Subject]
    exact: bool = False


@attrs.frozen
class Curve:
    """A curve as it was measured: the figure of each size."""

    name: str
    reference: bool
    points: Mapping[int, float]

    @property
    def exponent(self) -> float | None:
        """The exponent of n in its growth over the last two sizes: 0 is flat, 1 linear; None: it has one size."""
        last_two = list(self.points.items())[-2:]
        if len(last_two) == 1:
            return None
        (x1, y1), (x2, y2) = last_two
        return log(y2 / y1) / log(x2 / x1) if min(y1, y2) > 0 else 0.0


@attrs.frozen
class Effort:
    """The duration of a measurement.

    Args:
        rounds: For each size, at most; the figure is their median.
        slice: Seconds of one slice.
        seconds: Of one size of a chart; slow subjects get fewer rounds, one at least.
        sizes: How many sizes of each chart, the smallest ones. None: all.
        patience: Seconds spent waiting for an undisturbed core, in each chart.
    """

    rounds: int
    slice: float
    seconds: float
    sizes: int | None
    patience: float


async def measure_chart(chart: Chart, effort: Effort) -> list[Curve]:
    """Measure all curves, at one size after the other: what is compared runs within milliseconds."""
    found: dict[str, dict[int, float]] = {subject.name: {} for subject in chart.subjects}
    core = Core(None, effort.patience)
    for size in chart.sizes[: effort.sizes]:
        subjects = [each for each in chart.subjects if each.most is None or size <= each.most]
        figures = await _measure_size({each.name: each.make(size) for each in subjects}, chart, effort, core)
        for name, figure in figures.items():
            found[name][size] = figure
    return [Curve(each.name, each.reference, found[each.name]) for each in chart.subjects]


async def _measure_size(
    subjects: Mapping[str, Measurable], chart: Chart, effort: Effort, core: Core
) -> Mapping[str, float]:
    gc.collect()
    gc.freeze()  # a collection within a slice looks at what that slice made, and not at 100,000 tools
    try:
        for subject in subjects.values():
            await subject.prepare(effort.slice)
        if chart.exact:
            return {name: await subject.slice() for name, subject in subjects.items()}
        return await _take_medians(subjects, effort, core)
    finally:
        gc.unfreeze()


async def _take_medians(subjects: Mapping[str, Measurable], effort: Effort, core: Core) -> Mapping[str, float]:
    began = perf_counter()
    first = {name: await subject.slice() for name, subject in subjects.items()}
    rounds = min(effort.rounds, int(effort.seconds / (perf_counter() - began) / 2))
    if not rounds:
        return first
    taken = [each.costs for each in await take_rounds(lambda: palindrome(subjects), rounds, core)]
    return {name: statistics.median(costs[name] for costs in taken) for name in subjects}
