"""What a worker process does with a job: run the tool, in the trace of its call, and make a reply of what happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from inspect import isawaitable
from typing import Any

from ..call import Call
from ..report import CallReport, Progress
from ..telemetry import continued
from ..tools.context import ToolContext
from .function_address import Function
from .remote_call import ContextFields, Job, Reply, read_pickled_state
from .remote_errors import RemoteError


def run_job(function: Function, job: Job, await_result: Callable[[Awaitable[Any]], Any]) -> Reply:
    """Run a sync tool in a context of its own. Never raises: a tool that exits ends its call, not the worker.

    What a tool leaves in a context variable is therefore not there for the next call of this thread.

    Args:
        function: The tool's function.
        job: The rest of the job.
        await_result: Awaits a coroutine, for a function that returns one though it was not known to be async.
    """
    return copy_context().run(_run, function, job, await_result)


def _run(function: Function, job: Job, await_result: Callable[[Awaitable[Any]], Any]) -> Reply:
    _, params, fields, headers = job
    progress: list[Progress] = []
    try:
        with _continue_trace(headers):
            value = function(*_make_context(fields, progress), **params)
            return "returned", await_result(value) if isawaitable(value) else value, progress
    except BaseException as exc:  # noqa: BLE001  # the border to the user's tool
        return "raised", exc, progress


async def run_async_job(function: Function, job: Job) -> Reply:
    """Run an async tool. Raises nothing but the cancellation of the current task."""
    _, params, fields, headers = job
    progress: list[Progress] = []
    try:
        if headers is None and fields is None:  # the short way, which most calls of a batch take
            return "returned", await function(**params), progress
        with _continue_trace(headers):
            return "returned", await function(*_make_context(fields, progress), **params), progress
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # The tool awaited something that was cancelled elsewhere. This task was not cancelled, so only its call fails.
        return "raised", RemoteError("CancelledError"), progress
    except BaseException as exc:  # noqa: BLE001  # as in run_job
        return "raised", exc, progress


async def await_value(value: Awaitable[Any]) -> Any:
    """Await anything, as the coroutine that `asyncio.run` requires."""
    return await value


def _make_context(fields: ContextFields | None, progress: list[Progress]) -> tuple[ToolContext] | tuple[()]:
    if fields is None:
        return ()
    call_id, attempt, key, left, principal, deps, tool, state = fields
    deadline = None if left is None else time.monotonic() + left
    report = CallReport(Call(""), progress=progress)  # takes the progress only, which goes back with the reply
    return (
        ToolContext(
            call_id, attempt, key, deadline, principal, deps, report, tool=tool, state=read_pickled_state(state)
        ),
    )


def _continue_trace(headers: dict[str, str] | None) -> AbstractContextManager[object]:
    return nullcontext() if headers is None else continued(headers)
