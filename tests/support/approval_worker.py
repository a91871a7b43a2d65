"""A process that decides on all calls that wait, and runs them: ``python approval_worker.py FOLDER MODE NUMBER``.

MODE ``race``: it approves or rejects each, in a fixed order, and resumes it. ``once``: it approves each that waits, in
an order of its own, notes the decision once it is made, says so, and resumes it. ``children``: each line on stdin, a
number, is a child that does ``once`` until it is killed, and waits for that where it has done all.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread

from support import PATIENT
from toolcall_pipeline import Approvals, Failure, Pipeline, ToolRegistry
from toolcall_pipeline.middlewares import Approve, standard
from toolcall_pipeline.stores import SQLite


def note(file: Path, line: str) -> None:
    """Append a line, in one write."""
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode() + b"\n")
    os.close(handle)


def say(word: str) -> None:
    """Tell the parent."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


@asynccontextmanager
async def open_desk(folder: Path) -> AsyncGenerator[tuple[Pipeline, Approvals]]:
    """A pipeline whose calls all wait, and where they are decided."""
    tools, store = ToolRegistry(), SQLite(folder / "calls.db", timeout=30)

    @tools.tool
    async def pay(number: int) -> str:
        note(folder / "effects", str(number))
        await anyio.sleep(0.001)
        return "paid"

    async with standard(tools, store=store).before("ledger", Approve(store, tools=["pay"])) as pipeline:
        yield pipeline, Approvals(store)


async def main(folder: Path, mode: str, number: int) -> None:
    """Decide and resume."""
    async with open_desk(folder) as (pipeline, approvals):
        known = await approvals.list()
        say(f"ready {os.getpid()}")
        if mode == "race":
            await anyio.to_thread.run_sync(sys.stdin.readline)
        if mode == "once":
            random.Random(number).shuffle(known)
        dice = random.Random(number)
        for each in known:
            if mode == "race" and dice.random() < 0.5:
                await approvals.reject(each.id, by=f"boss {number}")
            elif mode == "race" or each.state == "pending":
                await approvals.approve(each.id, by=f"boss {number}")
                note(folder / "decided", f"{each.id} {number}")
                say("decided")
            outcome = await pipeline.resume(each.id)
            kind = outcome.failure().kind if isinstance(outcome, Failure) else "success"
            note(folder / f"answers{number}", f"{each.id} {kind}")


async def warm_up(folder: Path) -> None:
    """One call that waits, is approved and runs."""
    async with open_desk(folder) as (pipeline, approvals):
        await pipeline.call("pay", {"number": 1}, id="1")
        (waiting,) = await approvals.pending()
        await approvals.approve(waiting.id, by="boss")
        await pipeline.resume(waiting.id)


def make_children(folder: Path) -> None:
    """Fork one for each line: a process that has nothing to import is killed sooner in its work."""
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            signal.alarm(PATIENT)  # where nobody kills it
            anyio.run(main, folder, "once", int(line))
            say("idle")
            signal.pause()
        os.waitpid(pid, 0)
        say("ended")


if __name__ == "__main__":
    if sys.argv[2] == "children":
        with TemporaryDirectory() as folder:  # so that no child has anything to import
            anyio.run(warm_up, Path(folder))
        say(f"ready {os.getpid()}")
        make_children(Path(sys.argv[1]))
    else:
        anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
