"""Bench: rounds that compare two costs, each with new objects, without the rounds that another process disturbed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from statistics import median
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar, cast

import anyio
import attrs
from returns.result import Failure, Success

from ...base.setup_error import SetupError
from ...engine.call import Call
from ...engine.report import kind_of
from .figures import Figure
from .slices import Batch, Scenario, Spent, probe, run_there_and_back

Run: TypeAlias = Callable[[Call], Awaitable[object]]
_OUTCOMES: Any = (Success, Failure)  # by this name a type checker does not narrow an outcome
_ROUNDS = 6  # with the same objects
_CALLS = 4  # in a slice: the first one after a pause is dearer
_LEAST = 3  # builds, however long they take
_FINE, _FINE_SHARE = 40.0, 0.04  # ns, and a share of the figure: noise that is small enough
T = TypeVar("T")
TOLERANCE = 1.2  # times the fast level; with a busy neighbour the probe takes 1.5 to 1.8 times as long
_PAUSE = 0.005  # seconds between two probes while waiting for an undisturbed core


class UnlikeError(Exception):
    """A call ended otherwise than it should: what is measured is something else."""

    def __init__(self, call: Call, outcome: object) -> None:
        super().__init__(call, outcome)
        self.call, self.outcome = call, outcome


@attrs.define
class Bench:
    """The method of a measurement.

    Args:
        core: Knows whether the core is disturbed.
        builds: How often the things are made anew, at least. Where objects lie in memory moves the cost of a call by 1
            to 2 %.
        most: How often they are made anew while the noise of the figure is above 40 ns and 4 %.
        seconds: After that time no figure gets another build, once it has three.
        slice: Seconds of CPU in one slice.
        at_once: How many calls run at the same time.
        settle: Runs after each slice, see `Scenario`.
    """

    core: Core
    builds: int
    most: int
    seconds: float
    slice: float
    at_once: int
    settle: Callable[[], object] | None = None

    async def difference(self, make: Callable[[], tuple[Batch, Batch]]) -> Figure:
        """By how much one batch costs more than another."""
        until = monotonic() + self.seconds
        found: list[Spent] = []
        times: tuple[int, int] | None = None  # in a slice; chosen once
        while len(found) < _LEAST or (self._wants_more(found) and monotonic() < until):
            whole, less = (Scenario(each, self.settle, self.at_once, _CALLS) for each in make())
            if times is None:
                for scenario in (less, whole):
                    await scenario.prepare(self.slice)
                times = whole.times, less.times
            whole.times, less.times = times
            found.append(await self._compare(whole, less))
        return Figure.of(found)

    def _wants_more(self, found: Sequence[Spent]) -> bool:
        if len(found) < self.builds:
            return True
        figure = Figure.of(found)
        return len(found) < self.most and figure.noise > max(_FINE, _FINE_SHARE * figure.ns)

    async def _compare(self, whole: Scenario, less: Scenario) -> Spent:
        for scenario in (less, whole):
            await scenario.spend()  # what is built at first use is not part of a call's cost

        async def run() -> tuple[Spent, float]:
            costs, probed = await run_there_and_back({"less": less.spend, "whole": whole.spend})
            there, back = costs["less"]
            return costs["whole"][0] - (there + back).times(0.5), probed

        rounds = [each.costs for each in await take_rounds(run, _ROUNDS, self.core)]
        return Spent(*(median(getattr(each, part) for each in rounds) for part in ("cpu", "waited", "elsewhere")))


def make_batch(run: Run, turn: Iterator[Call], at_once: int, kind: str | None = None) -> Batch:
    """Await the calls in turn, in so many tasks.

    Raises UnlikeError where an outcome is not of that kind of error; None: a success.
    """
    success, failure = _OUTCOMES
    expected = success if kind is None else failure

    async def work(times: int) -> None:
        for call in islice(turn, times):
            outcome: Any = await run(call)
            if type(outcome) is not expected or (kind is not None and outcome.failure().kind != kind):
                raise UnlikeError(call, outcome)

    if at_once == 1:
        return work

    async def work_at_once(times: int) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(at_once):
                tasks.start_soon(work, times // at_once + (number < times % at_once))

    return work_at_once


def find_unlike(exc: BaseException) -> UnlikeError | None:
    """The first one in what was raised: a group, where calls ran at the same time."""
    if not isinstance(exc, BaseExceptionGroup):
        return exc if isinstance(exc, UnlikeError) else None
    inner: Sequence[BaseException] = cast("Any", exc).exceptions
    return next(filter(None, map(find_unlike, inner)), None)


def explain_unlike(unlike: UnlikeError, decided_by: str) -> SetupError:
    """The set-up error of a call that did not end as it did at first, with the stage that decides so; "": not known."""
    kind, stage = kind_of(unlike.outcome) or "success", f"the stage {decided_by!r}" if decided_by else "a stage"
    return SetupError(
        f"the call of {str(unlike.call.name)!r} ends in {kind!r} when it is repeated: {stage} limits or counts calls. "
        "Give several different calls, or a pipeline in which that stage has no limit"
    )


class Core:
    """The present speed of this core, by the probe.

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
    """One round."""

    costs: T
    probe: float


async def take_rounds(run: Callable[[], Awaitable[tuple[T, float]]], rounds: int, core: Core) -> list[Round[T]]:
    """Run undisturbed rounds, and return them; with too few of those, the least disturbed third."""
    taken: list[Round[T]] = []
    undisturbed = 0
    while undisturbed < rounds and len(taken) < 2 * rounds:
        await core.wait()
        taken.append(Round(*await run()))
        undisturbed += core.undisturbed(taken[-1].probe)
    return sorted(taken, key=lambda each: each.probe)[: max(undisturbed, (rounds + 2) // 3)]
