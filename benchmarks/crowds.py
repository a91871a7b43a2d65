"""A thousand calls at once: their time, and the memory of those that wait."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from benchmarks.subjects import ARGUMENTS, Function, around
from benchmarks.timing import Batch, Effort, Times
from pipeline import Call, gather

CROWD = 1000
LIMIT = 50


async def yields(a: int, b: int) -> int:
    """Add two integers, after everyone else had a turn."""
    await checkpoint()
    return a + b


def gathered(function: Function) -> Batch:
    """All through a pipeline."""
    pipeline = around(function)
    crowd = [Call(function.__name__, ARGUMENTS) for _ in range(CROWD)]

    async def batch(times: int) -> None:
        for _ in range(times):
            await gather(pipeline, crowd, LIMIT)

    return batch


def a_task_each(function: Function) -> Batch:
    """What is written without a pipeline: a task for each, and a limiter that all of them ask."""

    async def one(done: list[object], place: int, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            done[place] = await function(**ARGUMENTS)

    async def batch(times: int) -> None:
        for _ in range(times):
            done: list[object] = [None] * CROWD
            limiter = anyio.CapacityLimiter(LIMIT)
            async with anyio.create_task_group() as group:
                for place in range(CROWD):
                    group.start_soon(one, done, place, limiter)

    return batch


def few_workers(function: Function) -> Batch:
    """The shape that gather itself has: so many tasks as may run at once."""

    async def work(done: list[object], places: Sequence[int]) -> None:
        for place in places:
            done[place] = await function(**ARGUMENTS)

    async def batch(times: int) -> None:
        for _ in range(times):
            done: list[object] = [None] * CROWD
            async with anyio.create_task_group() as group:
                for first in range(LIMIT):
                    group.start_soon(work, done, range(first, CROWD, LIMIT))

    return batch


def in_flight(effort: Effort) -> list[Times]:
    """Bytes of a call whose tool waits, task included, and of a plain coroutine of the same tool in its task."""
    return [anyio.run(_both) for _ in range(min(effort.rounds, 5))]


async def _both() -> Times:
    gate = anyio.Event()
    waiting = 0

    async def wait(a: int, b: int) -> int:
        nonlocal waiting
        waiting += 1
        await gate.wait()
        return a + b

    async def held(function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> float:
        nonlocal gate, waiting
        gate, waiting = anyio.Event(), 0
        size = 0
        async with anyio.create_task_group() as group:
            gc.collect()  # empties the free lists too
            tracemalloc.start()
            for _ in range(CROWD):
                group.start_soon(function, *arguments)
            while waiting < CROWD:
                await checkpoint()
            size, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            gate.set()
        return size / CROWD

    pipeline = around(wait)
    await held(pipeline.call, "wait", ARGUMENTS)  # what is made at first use is not what a call holds
    return {"plain": await held(wait, 2, 3), "call": await held(pipeline.call, "wait", ARGUMENTS)}
