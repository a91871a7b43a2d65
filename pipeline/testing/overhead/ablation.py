"""The pipeline without one of its stages, or with a pass-through in its place; and the memory that a call takes."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import cycle
from statistics import median
from typing import Any, Literal, TypeAlias

import attrs
from returns.result import Success

from ...base.setup_error import SetupError
from ...engine.call import Call, Outcome, ResolvedCall, ValidCall
from ...engine.compose import Placement
from ...engine.compose.pipeline import Pipeline
from ...engine.compose.stage import Handler, Stage
from ...engine.report import kind_of
from .sample_calls import Bodies

How: TypeAlias = Literal["left out", "pass-through"]
_TIMES = 9
_MANY = 500


@attrs.frozen
class Pair:
    """Two pipelines that differ in one stage; ``how``: whether nothing or a pass-through stands in its place."""

    whole: Pipeline
    less: Pipeline
    how: How


@attrs.frozen
class Samples:
    """The calls that are measured, and what the checks of the pipeline make of them."""

    calls: Sequence[Call]
    tools: dict[str, Any]  # by the name in the call
    params: dict[int, dict[str, Any]]  # by the id of the call's arguments

    @classmethod
    def of(cls, pipeline: Pipeline, calls: Sequence[Call]) -> Samples:
        """Ask the checks of the pipeline, without running a tool."""
        tools: dict[str, Any] = {}
        params: dict[int, dict[str, Any]] = {}
        checks = [stage for stage in pipeline.entries if stage.role == "check" and stage.phases()[1] is ValidCall]
        for call in calls:
            resolved = pipeline.resolve(call)
            if isinstance(resolved, ResolvedCall):
                tools[call.name] = resolved.tool
                valid: Any = checks[0].run(resolved) if checks else None
                if isinstance(valid, ValidCall):
                    params[id(call.arguments)] = valid.params
        return cls(calls, tools, params)


async def run_once(pipeline: Pipeline, calls: Iterable[Call], bodies: Bodies) -> list[tuple[str | None, int]]:
    """Run each call; return the kind of each error, or None, and how many bodies the call began."""
    ends: list[tuple[str | None, int]] = []
    for call in calls:
        begun = bodies.begun
        outcome = await pipeline(call)
        ends.append((kind_of(outcome), bodies.begun - begun))
    return ends


async def leave_out(pipeline: Pipeline, name: str, samples: Samples, bodies: Bodies) -> Pair | None:
    """The pipeline with and without that stage; None if its calls end otherwise without it, in every way.

    They may reach the tool more often without it: to spare that is what a cache is for.
    """
    wanted = [kind for kind, _ in await run_once(pipeline, samples.calls, bodies)]
    ways: tuple[How, ...] = ("left out", "pass-through")
    for how in ways:
        try:
            less = pipeline.without(name) if how == "left out" else pass_through(pipeline, [name], samples)
        except SetupError:
            continue
        if [kind for kind, _ in await run_once(less, samples.calls, bodies)] == wanted:
            return Pair(pipeline, less, how)
    return None


async def make_lean(pipeline: Pipeline, names: Collection[str], samples: Samples, bodies: Bodies) -> Pipeline:
    """The pipeline with pass-throughs in the place of those stages, as far as its calls end as before."""
    wanted = await run_once(pipeline, samples.calls, bodies)
    for name in names:
        try:
            leaner = pass_through(pipeline, [name], samples)
        except SetupError:
            continue
        if await run_once(leaner, samples.calls, bodies) == wanted:
            pipeline = leaner
    return pipeline


def pass_through(pipeline: Pipeline, names: Collection[str], samples: Samples) -> Pipeline:
    """The pipeline with stages that do the least that their place demands, in the place of those."""
    return Pipeline(
        tuple(_make_pass_through(stage, samples) if stage.name in names else stage for stage in pipeline.entries)
    )


async def pass_on(call: Call, call_next: Handler[Call]) -> Outcome:
    """Do nothing, as a middleware: the unit of `assert_overhead`."""
    return await call_next(call)


@attrs.frozen
class _PassOn:
    """A middleware that does nothing, with the placement of another one."""

    placement: Placement

    async def __call__(self, call: Call, call_next: Handler[Call]) -> Outcome:
        return await call_next(call)


@attrs.frozen
class _RunBody:
    """An end that runs the body in the event loop, and nothing else."""

    placement: Placement

    async def __call__(self, call: ValidCall) -> Outcome:
        value: Any = call.tool.fn(**call.params)
        return Success(await value if hasattr(value, "__await__") else value)


def _make_pass_through(stage: Stage, samples: Samples) -> Stage:
    tools, params = samples.tools, samples.params

    def resolve(call: Call) -> ResolvedCall:
        return call.resolved(tools[call.name])

    def validate(call: ResolvedCall) -> ValidCall:
        return call.validated(params[id(call.arguments)])

    def resolve_and_validate(call: Call) -> ValidCall:
        return call.resolved(tools[call.name]).validated(params[id(call.arguments)])

    def let_pass(call: Call) -> Call:
        return call

    check: Any = let_pass
    if stage.role == "check":
        takes, gives = stage.phases()
        if gives is not takes:
            check = resolve if gives is ResolvedCall else resolve_and_validate if stage.finds else validate
        check.placement, check.registry = stage.placement, getattr(stage.obj, "registry", None)
        return Stage.of(check, "check", stage.name)
    if stage.role == "wrap":
        return Stage.of(_PassOn(stage.placement), "wrap", stage.name)
    if stage.role == "end":
        return Stage.of(_RunBody(stage.placement), "end", stage.name)
    raise SetupError(f"{stage.name} is an observer, and can be left out")


@attrs.frozen
class Allocations:
    """The memory that one call allocates."""

    peak_bytes: float  # the most that it holds at a time
    blocks: float  # held while its tool runs; 0 if no tool runs
    left_blocks: float  # left when it has ended, as of a cache or a log in memory

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
