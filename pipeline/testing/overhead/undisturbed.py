"""Rounds on an undisturbed core: those that count, and those that are made again.

A busy neighbour of the core (another hyper-thread, another virtual machine) does not slow all code alike: a
hand-written loop takes 1.8 times as long, a pipeline 1.4 times, so the ratio of the two falls from 5.8 to 4.5. So a
fixed piece of work, the probe, runs before and after each slice, and only rounds with fast probes count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import attrs

from .slices import probe

T = TypeVar("T")
TOLERANCE = 1.2  # times the fast level; with a busy neighbour the probe takes 1.5 to 1.8 times as long
_PAUSE = 0.005  # seconds between two probes while waiting for an undisturbed core


class Core:
    """How fast this core runs right now, by the probe.

    Args:
        fast: Nanoseconds of the probe on an undisturbed core, as far as known; None: unknown.
        patience: Seconds to spend waiting, in all.
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
class Round(Generic[T]):
    """One round.

    Args:
        costs: What it found.
        probe: The mean of its probes, in ns.
    """

    costs: T
    probe: float


async def take_rounds(run: Callable[[], Awaitable[tuple[T, float]]], rounds: int, core: Core) -> list[Round[T]]:
    """Run undisturbed rounds, and return them; with too few of those, the least disturbed third.

    Args:
        run: Runs one round, and returns what it found and the mean of its probes.
        rounds: How many undisturbed ones are wanted; twice as many are made at most.
        core: Knows which are.
    """
    taken: list[Round[T]] = []
    undisturbed = 0
    while undisturbed < rounds and len(taken) < 2 * rounds:
        await core.wait()
        taken.append(Round(*await run()))
        undisturbed += core.undisturbed(taken[-1].probe)
    return sorted(taken, key=lambda each: each.probe)[: max(undisturbed, (rounds + 2) // 3)]
