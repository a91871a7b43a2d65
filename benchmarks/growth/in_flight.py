"""The cost and the memory of a call, while more and more calls are under way."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from time import process_time_ns, thread_time_ns
from typing import Any, TypeAlias

import anyio
import attrs
from anyio import to_thread
from anyio.lowlevel import checkpoint

from benchmarks.growth.charts import Chart, Subject
from benchmarks.overhead.subjects import ARGUMENTS
from toolcall_pipeline import Call, Pipeline, ToolRegistry, gather
from toolcall_pipeline.middlewares import Concurrency, standard
from toolcall_pipeline.testing.overhead.slices import Measurable

SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
_FEW = 100  # calls
_RUNNING = 10  # calls that Concurrency lets run
_THREADS = 40  # the default of the Thread executor, and of anyio
Start: TypeAlias = Callable[[], Awaitable[object]]
_Tool: TypeAlias = Callable[[int, int], Awaitable[int]]


class Gate:
    """A tool whose calls wait until all of them are there."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.begin()

    def begin(self) -> None:
        """Close the gate, and count the following calls from 0."""
        self.waiting, self.opened = 0, anyio.Event()

    async def wait(self, a: int, b: int) -> int:
        """Add two integers as soon as the gate is opened."""
        self.waiting += 1
        await self.opened.wait()
        return a + b


@attrs.frozen
class _AtOnce:
    """So many calls at once, from the first to start to the last to end.

    Args:
        size: The calls.
        arrive: How many of them reach the gate; the others wait in front of it.
        start: Makes one call.
        memory: Whether to count bytes while all of them wait; otherwise CPU time.
    """

    size: int
    arrive: int
    gate: Gate
    start: Start
    memory: bool

    async def prepare(self, seconds: float) -> None:  # noqa: ARG002  # all calls at once, however long that takes
        """Make a few: what is made at first use is not part of what a call costs."""
        few = min(self.size, _FEW)
        await attrs.evolve(self, size=few, arrive=min(self.arrive, few), memory=False).slice()

    async def slice(self) -> float:
        """Microseconds of CPU, or bytes, for each call."""
        gc.collect()
        self.gate.begin()
        total = await (self._count_bytes() if self.memory else self._time())
        return total / self.size

    async def _time(self) -> float:
        began = thread_time_ns()
        async with anyio.create_task_group() as group:
            await self._fill(group)
            self.gate.opened.set()
        return (thread_time_ns() - began) / 1e3

    async def _count_bytes(self) -> int:
        size = 0
        async with anyio.create_task_group() as group:
            tracemalloc.start()
            await self._fill(group)
            size, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.gate.opened.set()
        return size

    async def _fill(self, group: anyio.abc.TaskGroup) -> None:
        start: Any = self.start
        for _ in range(self.size):
            group.start_soon(start)
        while self.gate.waiting < self.arrive:
            await checkpoint()
        await checkpoint()


def _around(tool: _Tool, **options: Any) -> Pipeline:
    tools = ToolRegistry()
    tools.tool(effect="read", name="wait")(tool)
    return standard(tools, **options)


def _plain(size: int, *, memory: bool) -> Measurable:
    gate = Gate(size)
    return _AtOnce(size, size, gate, lambda: gate.wait(2, 3), memory)


def _timed(size: int, *, memory: bool) -> Measurable:
    gate = Gate(size)

    async def start() -> int:
        with anyio.fail_after(60):
            return await gate.wait(2, 3)

    return _AtOnce(size, size, gate, start, memory)


def _limited(size: int, *, memory: bool) -> Measurable:
    gate, limiter = Gate(size), anyio.CapacityLimiter(_RUNNING)

    async def start() -> int:
        async with limiter:
            return await gate.wait(2, 3)

    return _AtOnce(size, min(size, _RUNNING), gate, start, memory)


def _calls(size: int, *, memory: bool) -> Measurable:
    gate = Gate(size)
    pipeline = _around(gate.wait)
    return _AtOnce(size, size, gate, lambda: pipeline.call("wait", ARGUMENTS), memory)


def _calls_timed(size: int, *, memory: bool) -> Measurable:
    gate = Gate(size)
    pipeline = _around(gate.wait, timeout=60)
    return _AtOnce(size, size, gate, lambda: pipeline.call("wait", ARGUMENTS), memory)


def _calls_limited(size: int, *, memory: bool) -> Measurable:
    gate = Gate(size)
    pipeline = _around(gate.wait).before("retry", Concurrency(_RUNNING))
    return _AtOnce(size, min(size, _RUNNING), gate, lambda: pipeline.call("wait", ARGUMENTS), memory)


def _at_once(make: Callable[..., Measurable], *, memory: bool = False) -> Callable[[int], Measurable]:
    return partial(make, memory=memory)


IN_FLIGHT = Chart(
    "in_flight",
    "Calls in flight at the same time",
    "calls in flight",
    "µs of CPU for each call, its task included",
    SIZES,
    (
        Subject("calls", _at_once(_calls)),
        Subject("calls with a time limit", _at_once(_calls_timed)),
        Subject(f"calls behind Concurrency({_RUNNING})", _at_once(_calls_limited)),
        Subject("tasks with the plain tool", _at_once(_plain), reference=True),
        Subject("such tasks with a time limit", _at_once(_timed), reference=True),
        Subject(f"such tasks behind a limiter of {_RUNNING}", _at_once(_limited), reference=True),
    ),
)
IN_FLIGHT_MEMORY = attrs.evolve(
    IN_FLIGHT,
    key="in_flight_memory",
    title="Memory of calls in flight",
    y="bytes for each call, its task included",
    sizes=SIZES[:-1],
    exact=True,
    subjects=(
        Subject("calls", _at_once(_calls, memory=True)),
        Subject("calls with a time limit", _at_once(_calls_timed, memory=True)),
        Subject(f"calls behind Concurrency({_RUNNING})", _at_once(_calls_limited, memory=True)),
        Subject("tasks with the plain tool", _at_once(_plain, memory=True), reference=True),
        Subject("such tasks with a time limit", _at_once(_timed, memory=True), reference=True),
        Subject(f"such tasks behind a limiter of {_RUNNING}", _at_once(_limited, memory=True), reference=True),
    ),
)


@attrs.frozen
class _InThreads:
    """So many calls of a sync tool at once, as the CPU time of all threads for each of them."""

    size: int
    run: Callable[[int], Coroutine[Any, Any, object]]

    async def prepare(self, seconds: float) -> None:  # noqa: ARG002  # as above
        """Start the threads."""
        await self.run(_THREADS)

    async def slice(self) -> float:
        """Microseconds of CPU for each call."""
        gc.collect()
        began = process_time_ns()
        await self.run(self.size)
        return (process_time_ns() - began) / 1e3 / self.size


def _add(a: int, b: int) -> int:
    return a + b


def _sync_calls(size: int) -> Measurable:
    tools = ToolRegistry()
    tools.tool(effect="read", name="add")(_add)
    pipeline = standard(tools)

    async def run(count: int) -> None:
        await gather(pipeline, [Call("add", ARGUMENTS)] * count, count)

    return _InThreads(size, run)


def _sync_functions(size: int) -> Measurable:
    async def run(count: int) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(count):
                group.start_soon(to_thread.run_sync, _add, 2, 3)

    return _InThreads(size, run)


SYNC_TOOLS = Chart(
    "sync_tools",
    f"Sync tools at once, in {_THREADS} threads",
    "calls at once",
    "µs of CPU for each call, all threads together",
    (1, 10, 100, 1_000, 10_000),
    (
        Subject("calls", _sync_calls),
        Subject("anyio.to_thread.run_sync of the plain function", _sync_functions, reference=True),
    ),
)
