"""Pauses and resumes tools a thousand times while four processes call them, and asks how long calls went on.

Each body writes down when it began, by the clock that all processes of the machine share. A process is stopped with
SIGSTOP for longer than a look counts, again and again, and goes on in the middle of its calls.

``python -m benchmarks.scale.switches [STORE]``: the path of an SQLite file, ``redis://…`` or ``postgresql://…``; by
default a new SQLite file.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import anyio

from toolcall_pipeline import Switchboard, Tool, ToolRegistry
from toolcall_pipeline.cli.named_store import make_store
from toolcall_pipeline.middlewares import standard

_PROCESSES, _TOOLS, _ROUNDS = 4, 25, 20  # 1,000 changes: each round pauses and resumes each tool
_STOPPED = 1.5  # seconds


async def work(named: str, stop: Path) -> None:
    """Call all tools in turn until there is a file ``stop``, and print when their bodies began."""
    tools, began, called = ToolRegistry(), defaultdict[str, list[tuple[float, float]]](list), [0.0]
    for number in range(_TOOLS):
        tools.register(_make_tool(f"t{number}", began, called))
    async with standard(tools, store=make_store(named)) as pipeline:
        print("ready", flush=True)
        while not stop.exists():  # noqa: ASYNC240  # of a local file
            for tool in tools:
                called[0] = time.monotonic()
                await pipeline.call(tool.name, {})
            await anyio.sleep(0.002)
    print(json.dumps(began), flush=True)


def _make_tool(name: str, began: dict[str, list[tuple[float, float]]], called: list[float]) -> Tool[..., Any]:
    async def run() -> None:
        began[name].append((time.monotonic(), time.monotonic() - called[0]))

    return Tool.from_schema(name=name, parameters=None, handler=run, effect="read")


async def switch(
    named: str, workers: list[subprocess.Popen[str]], dice: Random
) -> dict[str, list[tuple[float, float]]]:
    """Pause and resume all tools; when each pause was written, and when the next resuming began."""
    paused = defaultdict[str, list[tuple[float, float]]](list)

    async def toggle(board: Switchboard, tool: str) -> None:
        for _ in range(_ROUNDS):
            await anyio.sleep(dice.uniform(0.2, 0.8))
            await board.pause(tool, by="bench", why="it is measured")
            written = time.monotonic()
            await anyio.sleep(dice.uniform(1.3, 2.5))
            paused[tool].append((written, time.monotonic()))
            await board.resume(tool, by="bench")

    async def stop_some() -> None:
        while True:
            worker = dice.choice(workers)
            await anyio.sleep(dice.uniform(0.2, 1.0))
            worker.send_signal(signal.SIGSTOP)
            await anyio.sleep(_STOPPED)
            worker.send_signal(signal.SIGCONT)

    async with Switchboard(make_store(named)) as board, anyio.create_task_group() as stopping:
        stopping.start_soon(stop_some)
        async with anyio.create_task_group() as tasks:
            for number in range(_TOOLS):
                tasks.start_soon(toggle, board, f"t{number}")
        stopping.cancel_scope.cancel()
    for worker in workers:
        worker.send_signal(signal.SIGCONT)
    return paused


def main(named: str, folder: Path) -> int:
    """Print the figures. Returns the exit code: 1 if a body began later than a second after a pause was written."""
    stop = folder / "stop"
    command = [sys.executable, "-m", "benchmarks.scale.switches", "--work", named, str(stop)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(_PROCESSES)]  # noqa: S603  # of this module
    try:
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        paused = anyio.run(switch, named, workers, Random(1))  # noqa: S311  # no secret
        stop.touch()
        began = [json.loads(worker.communicate()[0]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    late, torn = list[float](), 0  # seconds after a pause was written, of the last body of each process under it
    for tool, spans in paused.items():
        for times in (each.get(tool, []) for each in began):
            for written, resumed in spans:
                under = times[bisect_left(times, [written]) : bisect_right(times, [resumed])]
                torn += sum(took > 1 and at > written + 1 for at, took in under)
                late += [under[-1][0] - written] if under else []
    late.sort()
    bodies = sum(len(times) for each in began for times in each.values())
    print(f"{2 * sum(map(len, paused.values())):,} changes, {_PROCESSES} processes, {bodies:,} bodies")
    middle, high = late[len(late) // 2], late[-len(late) // 100]
    print(f"the last body under a pause: p50 {middle:.3f} s, p99 {high:.3f} s, most {late[-1]:.3f} s")
    over = sum(each > 1 for each in late)
    print(f"later than 1 s: {over}; of them {torn} of a process that was stopped between the question and the body")
    return int(over > torn)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        anyio.run(work, sys.argv[2], Path(sys.argv[3]))
    else:
        with tempfile.TemporaryDirectory() as made:
            sys.exit(main(sys.argv[1] if sys.argv[1:] else f"{made}/switches.db", Path(made)))
