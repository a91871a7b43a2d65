"""The time of a call on Ray, in parts: CPU of the event loop, of Ray's threads beside it, and of the actors."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import ClassVar, TypeAlias

import attrs

from toolcall_pipeline import ValidCall
from toolcall_pipeline.executors import Executor

Run: TypeAlias = Callable[[int], Awaitable[None]]  # makes that many calls
# CPU seconds of each actor since it began, by its process: when it was asked first, and last.
Spent: TypeAlias = Mapping[int, tuple[float, float]]


class AtOnce(Executor):
    """Answers with the argument ``n`` and runs nothing: what a call costs without Ray."""

    name: ClassVar[str] = "at_once"

    async def run(self, call: ValidCall) -> object:
        """The argument."""
        return call.params["n"]


@attrs.frozen
class Cost:
    """Microseconds of CPU for each call.

    Args:
        loop: Of the thread of the event loop that makes the calls.
        threads: Of all other threads of that process.
        actors: Of the processes that run the tools.
    """

    loop: float
    threads: float
    actors: float

    @property
    def whole(self) -> float:
        """Of all processes."""
        return self.loop + self.threads + self.actors


def tell_spent() -> list[float]:
    """In an actor: its process, and the CPU seconds that it has taken."""
    return [os.getpid(), time.process_time()]


def read_spent(told: Iterable[list[float]]) -> Spent:
    """Merge the results of several calls of `tell_spent`: the first and the last one of each actor."""
    spent: dict[int, tuple[float, float]] = {}
    for pid, seconds in sorted(told):
        spent[int(pid)] = spent.get(int(pid), (seconds,))[0], seconds
    return spent


async def measure_cost(run: Run, times: int, ask: Callable[[], Awaitable[Spent]] | None) -> Cost:
    """Make that many calls, and say what each of them cost.

    Args:
        run: Makes them.
        times: How many.
        ask: Asks all actors what they have spent. None: there are none.
    """
    before: Spent = {} if ask is None else await ask()
    loop, process = time.thread_time(), time.process_time()
    await run(times)
    loop, process = time.thread_time() - loop, time.process_time() - process
    after: Spent = {} if ask is None else await ask()
    actors = sum(first - before[pid][1] for pid, (first, _) in after.items() if pid in before)  # without the asking
    return Cost(*(1e6 * each / times for each in (loop, process - loop, actors)))


def print_costs(found: Mapping[str, Cost]) -> None:
    """Print a row for each way to make the calls, cheapest first as given."""
    print(
        f"\n{'µs of CPU for each call, in batches':<44}{'event loop':>12}{'its threads':>13}{'actors':>9}{'in all':>9}"
    )
    for title, cost in found.items():
        print(f"{title:<44}{cost.loop:>12.1f}{cost.threads:>13.1f}{cost.actors:>9.1f}{cost.whole:>9.1f}")
