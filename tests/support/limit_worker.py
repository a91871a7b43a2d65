"""One of several processes that share a limit: ``python limit_worker.py KIND ADDRESS LIMIT CALLERS SECONDS``.

It prints "ready", and begins at the time that it then reads. At the end it prints how many calls it made, and the times
of begins and, for units, of ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import anyio

from store_worker import MAKE
from support import a_call
from toolcall_pipeline import Outcome, Success
from toolcall_pipeline.middlewares import Concurrency, RateLimit
from toolcall_pipeline.stores import Store

LIMITS: dict[str, Callable[[Store], Any]] = {
    "open": lambda store: RateLimit(1e6, burst=1_000_000, store=store),
    "rate": lambda store: RateLimit(200, burst=40, store=store),
    "units": lambda store: Concurrency(5, store=store),
}


async def main() -> None:
    """Call without a pause until the time is over."""
    kind, address, name, callers, seconds = sys.argv[1:]
    times: list[tuple[float, int]] = []
    asked = 0
    call = a_call()

    async def inside(_: object) -> Outcome:
        times.append((time.time(), 1))
        if name == "units":
            await anyio.sleep(0.1)
            times.append((time.time(), -1))
        return Success("done")

    async with MAKE[kind](address) as store:
        limit = LIMITS[name](store)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        begin = float(sys.stdin.readline())

        async def repeat() -> None:
            nonlocal asked
            while time.time() < begin + float(seconds):
                asked += 1
                outcome = await limit(call, inside)
                if not isinstance(outcome, Success):
                    await anyio.sleep(min(outcome.failure().retry_after or 0.001, 0.02))

        await anyio.sleep(max(0.0, begin - time.time()))
        async with anyio.create_task_group() as tasks:
            for _ in range(int(callers)):
                tasks.start_soon(repeat)
    sys.stdout.write(f"{asked}\n" + "\n".join(f"{at} {change}" for at, change in times))


if __name__ == "__main__":
    anyio.run(main)
