"""A process that makes all deliveries of the shop, 8 at once: ``python ledger_worker.py SPEC FOLDER SEED COUNT MODE``.

It writes each answer as one line of ``answers`` in the folder. MODE is ``race`` (each delivery at the moment that a
line on stdin gives), ``verified``, ``bare`` (without a ledger), or ``plain``.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
from pathlib import Path

import anyio
import anyio.to_thread

from shop import list_deliveries, make_shop, open_store
from toolcall_pipeline import Failure, Outcome, Pipeline, render


def write_answer(file: int, call_id: str, outcome: Outcome) -> None:
    """Append one answer: call id, kind and text."""
    kind = outcome.failure().kind if type(outcome) is Failure else "success"
    os.write(file, json.dumps([call_id, kind, render(outcome)]).encode() + b"\n")


def say(word: str) -> None:
    """Tell the parent."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def work_all(pipeline: Pipeline, file: int, count: int, seed: int) -> None:
    """Make the deliveries in an order of its own."""
    calls = list_deliveries(count)
    random.Random(seed).shuffle(calls)
    waiting = iter(calls)

    async def one() -> None:
        for call in waiting:
            write_answer(file, call.id, await pipeline(call))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(one)


async def race(pipeline: Pipeline, file: int, count: int) -> None:
    """Make each delivery when the parent says so."""
    for call in list_deliveries(count):
        await anyio.to_thread.run_sync(sys.stdin.readline)
        write_answer(file, call.id, await pipeline(call))
        say("done")


async def main(spec: str, folder: Path, seed: int, count: int, mode: str) -> None:
    """Open the shop and work."""
    file = os.open(folder / f"answers{'' if mode != 'race' else seed}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    store = None if mode == "bare" else open_store(spec)
    seconds = 0.002 if mode == "race" else 0.03
    async with make_shop(store, folder / "effects", seconds, verified=mode == "verified") as pipeline:
        say("ready")
        await anyio.to_thread.run_sync(sys.stdin.readline)  # all begin at once
        if mode == "race":
            await race(pipeline, file, count)
        else:
            await work_all(pipeline, file, count, seed)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    anyio.run(main, sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
