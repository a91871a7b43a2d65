"""The shop with its bodies in other processes, which are killed: tools that a worker can import."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import attrs

from ledger_kills import Answers, Tally, check_answers
from shop import list_deliveries
from toolcall_pipeline import Call, Failure, Pipeline, ToolContext, ToolRegistry, render
from toolcall_pipeline.executors import Executor
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.stores import Store

SECONDS = 0.015  # before an effect, and after it


def act(context: ToolContext, file: str, what: str) -> str:
    """Leave one line of effects: tool, call id, key and process."""
    time.sleep(random.random() * SECONDS)
    place = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(place, f"{context.tool} {context.call_id} {context.idempotency_key} {os.getpid()}\n".encode())
    os.close(place)
    time.sleep(random.random() * SECONDS)
    return f"{what} for {context.call_id}"


def pay(context: ToolContext, to: str, cents: int, file: str) -> str:
    """Pay."""
    return act(context, file, f"paid {to} {cents}")


def charge(context: ToolContext, to: str, cents: int, file: str) -> str:
    """Charge."""
    return act(context, file, f"charged {to} {cents}")


def put(context: ToolContext, name: str, value: int, file: str) -> str:
    """Put."""
    return act(context, file, f"put {name} {value}")


def make_far_shop(store: Store, executor: Executor | None) -> Pipeline:
    """A pipeline over a store, whose bodies run elsewhere. Its tools are its own, so two of them share no memory."""
    tools = ToolRegistry()
    tools.tool(context=True)(pay)
    tools.tool(effect="keyed", context=True)(charge)
    tools.tool(effect="idempotent", context=True)(put)
    return standard(tools, store=store, executor=executor)


def list_far_deliveries(count: int, file: Path) -> list[Call]:
    """The deliveries of the shop, with the file of effects."""
    made: list[Call] = []
    for call in list_deliveries(count):
        arguments: Any = call.arguments
        made.append(attrs.evolve(call, arguments={**arguments, "file": str(file)}))
    return made


async def kill_workers(
    make_store: Callable[[], Store], executor: Executor, folder: Path, *, kills: int, count: int = 400
) -> Tally:
    """Kill workers that have just had an effect while 8 calls run at once; then make all deliveries again, here.

    Args:
        make_store: Makes one store, as another process would open it.
        executor: Runs the bodies. It is open.
        folder: For the file of effects.
        kills: How many workers are killed.
        count: Deliveries.
    """
    file, dice, early = folder / "effects", random.Random(7), Answers(list)
    file.touch()
    calls, killed = list_far_deliveries(count, file), set[int]()
    while len(killed) < kills:
        dice.shuffle(calls)
        async with make_far_shop(make_store(), executor) as pipeline, anyio.create_task_group() as tasks:
            tasks.start_soon(_kill, file, killed, kills, dice)
            await work_all(pipeline, calls, early)
            tasks.cancel_scope.cancel()
    return await make_all_here(make_store(), folder, early, count)


async def make_all_here(store: Store, folder: Path, early: Answers, count: int) -> Tally:
    """Make all deliveries again, in this process and in another order, and check what all of it came to."""
    answers, calls = Answers(list), list_far_deliveries(count, folder / "effects")
    async with make_far_shop(store, None) as pipeline:
        await work_all(pipeline, calls[::-1], answers)
    tally = check_answers(folder, early, answers, count)
    assert not tally.forgotten
    return tally


async def work_all(pipeline: Pipeline, calls: list[Call], answers: Answers) -> None:
    """Make the deliveries, 8 at once."""
    waiting = iter(calls)

    async def one() -> None:
        for call in waiting:
            outcome = await pipeline(call)
            kind = outcome.failure().kind if type(outcome) is Failure else "success"
            answers[call.id].append((kind, str(render(outcome))))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(one)


def _read_lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


async def _kill(file: Path, killed: set[int], kills: int, dice: random.Random) -> None:
    """Kill the process of an effect that came just now, again and again. One that is dead has no further effect."""
    seen = len(_read_lines(file))
    while len(killed) < kills:
        await anyio.sleep(0.002)  # the effect of another process: only its file tells
        lines = _read_lines(file)
        if len(lines) < seen:
            continue
        pid = int(lines[-1].split()[3]) if lines else 0
        if pid and pid != os.getpid() and pid not in killed:
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
            seen = len(lines) + dice.randint(2, 12)
