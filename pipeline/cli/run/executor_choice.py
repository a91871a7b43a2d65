"""The executor of a run, from ``--executor`` and ``--workers``: threads, processes or a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import ceil
from typing import Any

from ...errors import SetupError
from ...executors import Executor, Thread
from ..command_error import CommandError

_MAX_ABANDONED = 40  # threads; the default of Execute


def default_concurrency(executor: str | None, workers: int | None) -> int:
    """Calls at the same time: one per process, because a call's time runs while it waits for a process; else 50."""
    return (workers or os.cpu_count() or 1) if executor == "process" else 50


def choose_executor(name: str | None, workers: int | None, concurrency: int) -> Executor:
    """The executor of that name; ``workers`` is its number of threads, processes or actors, None for its default.

    Raises:
        CommandError: Ray is not installed.
    """
    if name is None or name == "thread":  # a sync tool holds a thread: as many threads as calls
        return Thread(workers or concurrency, max(_MAX_ABANDONED, concurrency))
    if name == "process":
        from ...executors import Process

        return Process(workers)
    # Nobody else may reach a Ray that is started for this run: without this it would listen beyond the loopback.
    if not os.environ.get("RAY_ADDRESS"):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    from ...executors import Ray

    options: dict[str, Any] = {"workers": workers, "in_flight": ceil(concurrency / (workers or 1))}
    try:
        return Ray(init={"logging_level": "ERROR"}, **options)
    except SetupError as exc:
        raise CommandError(f"--executor {name}: {exc}") from None


@asynccontextmanager
async def open_executor(executor: Executor) -> AsyncGenerator[None]:
    """Start the executor, and close it at the end of the block.

    Raises:
        CommandError: it does not start.
    """
    try:
        await executor.__aenter__()
    except Exception as exc:  # an executor of any kind may raise anything, for example what its cluster raises
        text = " ".join(str(exc).split())
        raise CommandError(f"--executor {executor.name}: {type(exc).__name__}: {text}") from exc
    try:
        yield
    finally:
        await executor.aclose()
