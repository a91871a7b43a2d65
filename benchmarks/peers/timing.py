"""The cost of a call as a ratio to the loop by hand, from slices that stand within milliseconds of each other."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from statistics import median
from time import process_time_ns
from typing import NamedTuple

_LEAST = 16  # calls of a slice
Run = Callable[[], Awaitable[object]]


class Effort(NamedTuple):
    """The duration of a measurement.

    Args:
        rounds: of loop, subject, loop; the median counts.
        slice: seconds of CPU time of each.
        batches: rounds of many calls at once.
    """

    rounds: int
    slice: float
    batches: int


async def compare(run: Run, loop: Run, effort: Effort, settle: Callable[[], object], *, batch: bool) -> float:
    """The time of one call as a multiple of the loop.

    All threads count, for some frameworks leave work to another.

    Args:
        run: Makes one call, or one batch.
        loop: The same by hand.
        effort: How long to measure.
        settle: Ends what was left to another thread, such as an export; it counts as well.
        batch: Whether both make many calls: each slice is then one of them.
    """
    ratios: list[float] = []
    gc.collect()
    gc.freeze()  # else each collection looks at all that the framework has imported
    rounds, times = effort.batches, (1, 1)
    if not batch:
        rounds, times = effort.rounds, (await _fit(loop, effort.slice), await _fit(run, effort.slice))
    for _ in range(rounds):
        before = await _spend(loop, times[0])
        spent = await _spend(run, times[1], settle)
        after = await _spend(loop, times[0])
        ratios.append(spent / ((before + after) / 2))
    gc.unfreeze()
    return median(ratios)


async def _fit(run: Run, seconds: float) -> int:
    """Number of calls that fill a slice."""
    times = _LEAST
    while (spent := await _spend(run, times)) * times < seconds * 1e9 / 4:
        times *= 2
    return max(_LEAST, int(seconds * 1e9 / spent))


async def _spend(run: Run, times: int, settle: Callable[[], object] | None = None) -> float:
    """Return the nanoseconds of CPU per call. Exceptions are caught, as a caller would have to."""
    gc.collect()
    await _repeat(run, times // _LEAST)  # a collection empties the caches of the processor
    began = process_time_ns()
    await _repeat(run, times)
    await asyncio.sleep(0)  # some leave work to the next turn of the loop
    if settle is not None:
        settle()
    return (process_time_ns() - began) / times


async def _repeat(run: Run, times: int) -> None:
    for _ in range(times):
        try:  # noqa: SIM105  # suppress() would add a cost of its own
            await run()
        except Exception:  # noqa: BLE001, S110  # that it raises is part of what it costs
            pass
