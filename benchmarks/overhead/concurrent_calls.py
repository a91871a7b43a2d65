"""A thousand calls at once: their CPU time, and the memory of those in flight."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import attrs
from anyio.lowlevel import checkpoint

from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.subjects import ARGUMENTS, Function, add, around
from toolcall_pipeline import Call, gather
from toolcall_pipeline.testing.overhead.slices import Measurable, Scenario

CALLS = 1000
LIMIT = 50  # at a time


async def _yields(a: int, b: int) -> int:
    """Add two integers, after every other task had a turn."""
    await checkpoint()
    return a + b


def _gathered(function: Function) -> Scenario:
    """Run all calls through a pipeline."""
    pipeline = around(function)
    sent = [Call(function.__name__, ARGUMENTS) for _ in range(CALLS)]

    async def batch(times: int) -> None:
        for _ in range(times):
            await gather(pipeline, sent, LIMIT)

    return Scenario(batch)


def _a_task_each(function: Function) -> Scenario:
    """Run a task for each call, and a limiter that all of them ask: what people write without a pipeline."""

    async def one(results: list[object], at: int, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            results[at] = await function(**ARGUMENTS)

    async def batch(times: int) -> None:
        for _ in range(times):
            results: list[object] = [None] * CALLS
            limiter = anyio.CapacityLimiter(LIMIT)
            async with anyio.create_task_group() as group:
                for at in range(CALLS):
                    group.start_soon(one, results, at, limiter)

    return Scenario(batch)


def _few_workers(function: Function) -> Scenario:
    """Run plain functions in the shape of ``gather`` itself: as many tasks as may run at once."""

    async def work(results: list[object], places: Sequence[int]) -> None:
        for at in places:
            results[at] = await function(**ARGUMENTS)

    async def batch(times: int) -> None:
        for _ in range(times):
            results: list[object] = [None] * CALLS
            async with anyio.create_task_group() as group:
                for first in range(LIMIT):
                    group.start_soon(work, results, range(first, CALLS, LIMIT))

    return Scenario(batch)


@contextmanager
def _at_once() -> Generator[Mapping[str, Measurable]]:
    yield {
        "tasks": _a_task_each(add),
        "gather": _gathered(add),
        "workers": _few_workers(add),
        "tasks, yielding": _a_task_each(_yields),
        "gather, yielding": _gathered(_yields),
    }


AT_ONCE = Group(
    "gather",
    f"{CALLS:,} calls at once, {LIMIT} at a time",
    (
        Row("gather", "x tasks", "gather", "tasks", budget=1),
        Row("gather, of plain functions in its own shape", "x workers", "gather", "workers", budget=5),
        Row("gather of tools that yield once", "x tasks", "gather, yielding", "tasks, yielding", budget=2),
    ),
    _at_once,
    rounds=9,
)


class _Gate:
    """A tool whose calls wait until the gate is opened."""

    def __init__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let the following calls wait, and count them from 0."""
        self.waiting, self.opened = 0, anyio.Event()

    async def wait(self, a: int, b: int) -> int:
        """Add two integers as soon as the gate is opened."""
        self.waiting += 1
        await self.opened.wait()
        return a + b


@attrs.frozen
class _InFlight:
    """Bytes of memory for each of many calls that wait in their tool, task included."""

    gate: _Gate
    start: Callable[[], Coroutine[Any, Any, object]]

    async def prepare(self, seconds: float) -> None:  # noqa: ARG002  # all calls at once, however long that takes
        """Measure once: what is made at first use is not part of what a call holds."""
        await self.slice()

    async def slice(self) -> float:
        """Start all calls, wait until each of them is in its tool, and count."""
        self.gate.close()
        size = 0
        async with anyio.create_task_group() as group:
            gc.collect()  # empties the free lists too
            tracemalloc.start()
            for _ in range(CALLS):
                group.start_soon(self.start)
            while self.gate.waiting < CALLS:
                await checkpoint()
            size, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.gate.opened.set()
        return size / CALLS


@contextmanager
def _in_flight() -> Generator[Mapping[str, Measurable]]:
    gate = _Gate()
    pipeline = around(gate.wait)
    yield {
        "plain": _InFlight(gate, lambda: gate.wait(2, 3)),
        "call": _InFlight(gate, lambda: pipeline.call("wait", ARGUMENTS)),
    }


MEMORY = Group(
    "memory",
    "memory of an unwatched call in flight",
    (Row("a call, beyond its task with the plain tool", "bytes", "call", less="plain", budget=2000),),
    _in_flight,
    rounds=1,
)
