"""Where the tools of ``toolcall run`` run: in threads, in processes, on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import ceil
from typing import Any

from ...errors import SetupError
from ...executors import Executor, Thread
from ..loading import Refused

_LEFT = 40  # threads that may be left behind, as Execute has it


def calls_at_a_time(executor: str | None, workers: int | None) -> int:
    """Unless told otherwise. As many as processes, since the time of a call runs while it waits for one."""
    return (workers or os.cpu_count() or 1) if executor == "process" else 50


def executor_of(name: str | None, workers: int | None, concurrency: int) -> Executor:
    """The one of that name, with so many threads, processes or actors. Raises Refused where it cannot be had."""
    if name is None or name == "thread":  # sync tools are calls under way too: as many threads as calls
        return Thread(workers or concurrency, max(_LEFT, concurrency))
    if name == "process":
        from ...executors import Process

        return Process(workers)
    # A Ray that is started for this run alone is nobody else's to reach: without this it leaves the loopback interface.
    if not os.environ.get("RAY_ADDRESS"):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    from ...executors import Ray

    options: dict[str, Any] = {"workers": workers, "in_flight": ceil(concurrency / (workers or 1))}
    try:
        return Ray(init={"logging_level": "ERROR"}, **options)
    except SetupError as exc:
        raise Refused(f"--executor {name}: {exc}") from None


@asynccontextmanager
async def opened(executor: Executor) -> AsyncGenerator[None]:
    """Within it there is what it takes. Raises Refused where there is not."""
    try:
        await executor.__aenter__()
    except Exception as exc:
        raise Refused(f"--executor {executor.name}: {type(exc).__name__}: {' '.join(str(exc).split())}") from exc
    try:
        yield
    finally:
        await executor.aclose()
