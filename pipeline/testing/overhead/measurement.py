"""Measurement: one pipeline, with the bodies of its tools replaced, and the figures that are taken of it."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from itertools import cycle, islice
from typing import Any, Literal, Self

import attrs

from ...engine.call import Call
from ...engine.compose.pipeline import Pipeline
from ...engine.report import kind_of
from ...telemetry.queues import flush_queues
from ..clocks import no_waiting
from .ablation import Pair, Samples, count_allocations, leave_out, make_lean, pass_on, pass_through
from .alone import make_alone, record_runs
from .costs import Overhead, StageCost
from .figures import Figure
from .rounds import Bench, Core, UnlikeError, explain_unlike, find_unlike, make_batch
from .sample_calls import (
    Bodies,
    all_in_loop,
    choose_call,
    find_failing_calls,
    find_tool,
    list_tools,
    read_values,
    replace_bodies,
    run_well,
)
from .slices import Batch

ASKED: object = object()  # the tools that read are asked for their result
_SLICE = 0.0005  # seconds of CPU
_IN_FLIGHT = 100  # calls at a time, for the calls a second that a loop carries
_COPIES = 8  # of a middleware that does nothing, so that the cost of one stands out
_COSTLY = 2_000  # ns; a stage that costs more than the rest of a pipeline hides what the others cost
_LONG_WAIT = 20_000  # ns; as above
_DEAR = 3  # a place is dear where a middleware that does nothing costs as many times more
_AT_ONCE = 8  # calls that show whether a wait holds up the others
_PATIENCE = 1.0  # seconds that all figures together wait for an undisturbed core
_MOST = 4  # times the builds, where there is much noise
_FEW = 3  # builds of a figure that decides something, and is not shown


def _say_nothing(_: str) -> None:
    """Say nothing: a program that measures looks at the figures alone."""


@attrs.frozen
class Options:
    """Options of a measurement; `measure` documents each field."""

    builds: int = 15
    seconds: float = 10.0
    concurrency: int = 1
    backend: Literal["asyncio", "trio"] = "asyncio"
    stages: frozenset[str] | None = None
    run_tools: bool = False
    result: object = ASKED


@attrs.define(eq=False)
class Measurement:
    """Takes figures of one pipeline.

    Stages are measured in the plain chain, without the observer, and beside pass-throughs in place of the stages
    that cost more than all else: their noise would hide the others. The cost of an observer is measured with all
    that it makes of the other stages.
    """

    pipeline: Pipeline
    options: Options
    samples: Samples
    bodies: Bodies
    bench: Bench
    tools: Sequence[Any]
    costly: frozenset[str] = frozenset()

    @classmethod
    @asynccontextmanager
    async def begin(cls, pipeline: Pipeline, given: Sequence[Call] | None, options: Options) -> AsyncGenerator[Self]:
        """Choose a call if none is given, run those that only read, and replace the bodies of all tools.

        Raises:
            SetupError: A call fails, or ends otherwise when it is repeated.
        """
        values: dict[str, object] = {}
        calls = [pipeline.ask(call) for call in given or [await choose_call(pipeline)]]
        pipeline = pipeline.unbound  # it is built anew for each figure
        if given is not None and options.result is ASKED and not options.run_tools:
            values = await read_values(pipeline, calls)
        tools = list_tools(pipeline, calls)
        if options.result is not ASKED:
            values = {tool.name: options.result for tool in tools}
        bodies = Bodies(values)
        bench = Bench(
            core=Core(None, _PATIENCE),
            builds=options.builds,
            most=_MOST * options.builds,
            seconds=options.seconds,
            slice=_SLICE,
            at_once=options.concurrency,
            settle=flush_queues,
        )
        with nullcontext() if options.run_tools else replace_bodies(tools, bodies):
            for call in calls:
                await run_well(pipeline, call)
            made = cls(pipeline, options, Samples.of(pipeline, calls), bodies, bench, tools)
            gc.collect()
            gc.freeze()  # a collection within a slice looks at what that slice made, not at the whole process
            try:
                await made.find_costly()
                yield made
            except (UnlikeError, BaseExceptionGroup) as exc:
                if (unlike := find_unlike(exc)) is None:
                    raise
                report = await pipeline.report(unlike.call)  # which is decided as it was just now
                raise explain_unlike(unlike, report.decided_by) from None
            finally:
                gc.unfreeze()

    @property
    def unwatched(self) -> Pipeline:
        """The pipeline without its observer."""
        first = self.pipeline.entries[0]
        return self.pipeline.without(first.name) if first.role == "observe" else self.pipeline

    async def find_costly(self) -> None:
        """Find the stages that cost more than all else, each beside pass-throughs only."""
        bench = attrs.evolve(self.bench, builds=_FEW, most=_FEW)
        costly: list[str] = []
        for name in self.unwatched.stages[:-1]:
            others = [each for each in self.unwatched.stages if each != name]
            lean = await make_lean(self.unwatched, others, self.samples, self.bodies)
            pair = await leave_out(lean, name, self.samples, self.bodies)
            if pair is not None:
                figure = await self._compare(bench, pair)
                if figure.ns > _COSTLY or figure.waited_ns > _LONG_WAIT:
                    costly.append(name)
        self.costly = frozenset(costly)

    async def measure_stage(self, name: str) -> StageCost:
        """Return the cost of one stage."""
        stage = next(each for each in self.pipeline.entries if each.name == name)
        pipeline = self.pipeline if stage.role == "observe" else self.unwatched
        in_loop = all_in_loop(self.tools) if stage.role != "end" and not self.options.run_tools else nullcontext()
        with in_loop:
            # Asked of the whole pipeline: the stage that needs this one may be a costly one, which a lean one lacks.
            full = await leave_out(pipeline, name, self.samples, self.bodies)
            if full is None:
                return StageCost(name, stage.role, None)
            lean = await make_lean(pipeline, self.costly - {name}, self.samples, self.bodies)
            pair = await leave_out(lean, name, self.samples, self.bodies) or full
            figure = await self._compare(self.bench, pair)
            blocks = False
            if figure.waited_ns:
                at_once = await self._compare(attrs.evolve(self.bench, builds=_FEW, most=_FEW, at_once=_AT_ONCE), pair)
                blocks = at_once.waited_ns > figure.waited_ns * _AT_ONCE / 2
            less = await count_allocations(pair.less, self.samples.calls, self.bodies)
            allocations = await count_allocations(pair.whole, self.samples.calls, self.bodies) - less
        return StageCost(name, stage.role, figure, pair.how, allocations, blocks)

    async def measure_place(self, cost: StageCost, no_op: Figure) -> StageCost:
        """Return the cost with what of it is that of its place: a middleware that does nothing has it there too."""
        figure = cost.figure
        if cost.role != "wrap" or cost.how != "left out" or figure is None or figure.ns < _DEAR * no_op.ns:
            return cost
        lean = await make_lean(self.unwatched, self.costly - {cost.name}, self.samples, self.bodies)
        nothing = pass_through(lean, [cost.name], self.samples)
        pair = await leave_out(nothing, cost.name, self.samples, self.bodies)
        if pair is None or pair.how != "left out":
            return cost
        with nullcontext() if self.options.run_tools else all_in_loop(self.tools):
            there = await self._compare(self.bench, pair)
        place = there.ns - no_op.ns
        return (
            attrs.evolve(cost, place_ns=place) if place > (_DEAR - 1) * no_op.ns + there.noise + no_op.noise else cost
        )

    async def measure_alone(self, name: str) -> Figure:
        """Return the cost of one stage by itself: around an inside that answers what its inside has answered to it."""
        runs = await record_runs(self.unwatched, name, self.samples)
        return await self.bench.difference(lambda: make_alone(runs))

    async def measure_no_op(self) -> Figure:
        """Return the cost of one more middleware that does nothing, right outside the end."""
        lean = await make_lean(self.unwatched, self.costly, self.samples, self.bodies)
        more, end = lean, lean.stages[-1]
        for number in range(_COPIES):
            more = more.before(end, pass_on, name=f"{pass_on.__name__}_{number}")
        with nullcontext() if self.options.run_tools else all_in_loop(self.tools):
            return (await self._compare(self.bench, Pair(more, lean, "left out"))).over(_COPIES)

    async def measure_all(self, *, failures: bool, say: Callable[[str], None] = _say_nothing) -> Overhead:
        """All figures; ``say`` is called with what is measured next."""
        wanted = self.options.stages
        names = [name for name in self.pipeline.stages if wanted is None or name in wanted]
        say("a middleware that does nothing")
        no_op = await self.measure_no_op()
        stages: list[StageCost] = []
        for number, name in enumerate(names, 1):
            say(f"stage {name} ({number} of {len(names)})")
            stages.append(await self.measure_place(await self.measure_stage(name), no_op))
        say("the whole call, and how many calls a loop carries")
        whole = await self.bench.difference(lambda: (self._batch(self.pipeline), self._bare()))
        allocations = await count_allocations(self.pipeline, self.samples.calls, self.bodies)
        calls_per_second = await self.measure_throughput()
        if failures:
            say("calls that fail")
        return Overhead(
            stages=tuple(stages),
            whole=whole,
            no_op=no_op,
            allocations=allocations,
            calls_per_second=calls_per_second,
            failures=await self.measure_failures() if failures else {},
            in_flight=_IN_FLIGHT,
            backend=self.options.backend,
            concurrency=self.options.concurrency,
            calls=tuple(find_tool(self.pipeline, call).name for call in self.samples.calls),
            probe_ns=self.bench.core.fast,
        )

    async def measure_throughput(self) -> float:
        """Number of calls a second that one event loop carries."""
        bench = attrs.evolve(self.bench, builds=_FEW, most=_FEW, at_once=_IN_FLIGHT)
        figure = await bench.difference(lambda: (self._batch(self.pipeline, _IN_FLIGHT), _do_nothing))
        return 1e9 / (figure.ns + figure.waited_ns / _IN_FLIGHT)

    async def measure_failures(self) -> dict[str, Figure]:
        """Return the cost of a failing call, by the kind of its error.

        Pass-throughs replace the costliest middlewares, for the kinds that end as before without them. A check or the
        end is never replaced: it makes the failure. A retry has no wait before it. A kind is left out if no call of the
        pipeline ends in it, or not each time.
        """
        if self.options.run_tools:
            return {}
        found: dict[str, Figure] = {}
        bench = attrs.evolve(self.bench, builds=_FEW, most=_FEW)
        wraps = [each.name for each in self.pipeline.entries if each.role == "wrap" and each.name in self.costly]
        lean = await make_lean(self.pipeline, wraps, self.samples, self.bodies)
        with no_waiting() as clock:
            for failing in await find_failing_calls(self.pipeline, self.samples.calls[0], self.bodies):
                self.bodies.reply = failing.reply
                pipeline = lean if kind_of(await lean(failing.calls[0])) == failing.kind else self.pipeline
                run = partial(make_batch, turn=cycle(failing.calls), at_once=self.bench.at_once, kind=failing.kind)
                try:
                    found[failing.kind] = await bench.difference(partial(_beside_nothing, run, pipeline))
                except (UnlikeError, BaseExceptionGroup):
                    continue
                finally:
                    self.bodies.reply = None
                    clock.slept.clear()
        return found

    async def _compare(self, bench: Bench, pair: Pair) -> Figure:
        def make() -> tuple[Batch, Batch]:
            return self._batch(pair.whole, bench.at_once), self._batch(pair.less, bench.at_once)

        return await bench.difference(make)

    def _batch(self, pipeline: Pipeline, at_once: int | None = None) -> Batch:
        """Calls through the same stages, compiled anew."""
        return make_batch(Pipeline(pipeline.entries), cycle(self.samples.calls), at_once or self.options.concurrency)

    def _bare(self) -> Batch:
        """The tools alone."""
        bodies = [
            (find_tool(self.pipeline, call), self.samples.params.get(id(call.arguments), {}))
            for call in self.samples.calls
        ]
        turn = cycle((tool.fn, params) for tool, params in bodies if not (tool.context and self.options.run_tools))

        async def run(times: int) -> None:
            for body, params in islice(turn, times):
                value: Any = body(**params)
                if hasattr(value, "__await__"):
                    await value

        return run


def _beside_nothing(run: Callable[[Pipeline], Batch], pipeline: Pipeline) -> tuple[Batch, Batch]:
    return run(Pipeline(pipeline.entries)), _do_nothing


async def _do_nothing(times: int) -> None:
    """The reference of a figure from which nothing is subtracted."""
    for _ in range(times):
        pass
