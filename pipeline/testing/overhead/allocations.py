"""What a call allocates: counted, not timed, so the figures are the same in each run."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import cycle
from statistics import median
from typing import Any

import attrs

from ...call import Call
from ...compose.pipeline import Pipeline
from .stand_ins import Bodies

_TIMES = 9
_MANY = 500


@attrs.frozen
class Allocations:
    """What one call allocates.

    Args:
        peak_bytes: The most memory that it holds at a time.
        blocks: The blocks of memory that it holds while its tool runs; 0 if no tool runs.
        left_blocks: The blocks that are left when it has ended. A cache or a log in memory leaves some.
    """

    peak_bytes: float
    blocks: float
    left_blocks: float

    def as_json(self) -> dict[str, Any]:
        """The figures as they are kept."""
        return {name: round(value, 2) for name, value in attrs.asdict(self).items()}

    def __sub__(self, other: Allocations) -> Allocations:
        return Allocations(
            self.peak_bytes - other.peak_bytes, self.blocks - other.blocks, self.left_blocks - other.left_blocks
        )


async def count_allocations(pipeline: Pipeline, calls: Sequence[Call], bodies: Bodies) -> Allocations:
    """Run the calls in turn, some hundred times, and count."""
    turn = cycle(calls)
    held: list[int] = []

    def look() -> None:
        held.append(sys.getallocatedblocks())

    for _ in range(_TIMES):
        await pipeline(next(turn))
    blocks: list[int] = []
    bodies.reply = look
    gc.collect()
    try:
        for _ in range(_TIMES):
            before = sys.getallocatedblocks()
            await pipeline(next(turn))
            blocks += [each - before for each in held[-1:]]
            held.clear()
    finally:
        bodies.reply = None
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(_MANY):
        await pipeline(next(turn))
    gc.collect()
    left = (sys.getallocatedblocks() - before) / _MANY
    return Allocations(await _find_peak(pipeline, turn), median(blocks) if blocks else 0.0, max(left, 0.0))


async def _find_peak(pipeline: Pipeline, turn: Iterator[Call]) -> float:
    peaks: list[int] = []
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        for _ in range(_TIMES):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            await pipeline(next(turn))
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        if not was_tracing:
            tracemalloc.stop()
    return median(peaks)
