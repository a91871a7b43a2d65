"""The work of a worker process on a job: run the tool, in the trace of its call, and make a reply of the result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from inspect import isawaitable
from typing import Any, TypeAlias, cast

from returns.result import Failure

from ..telemetry import continued
from ..tools.context import ToolContext
from ..tools.returned import is_container, open_containers, open_containers_sync
from .function_address import Function
from .remote_call import ContextFields, Job, Reply, read_pickled_state
from .remote_errors import RemoteError
from .remote_progress import KeptSteps, Step, ToldSteps

# Makes the receiver of a job's progress, for the token of a listener.
OpenSteps: TypeAlias = Callable[[str], ToldSteps]


def run_job(
    function: Function, job: Job, await_result: Callable[[Awaitable[Any]], Any], open_steps: OpenSteps
) -> Reply:
    """Run a sync tool in a context of its own. Never raises: a tool that exits ends its call, not the worker.

    A value that a tool leaves in a context variable is therefore not there for the next call of this thread.
    """
    return copy_context().run(_run, function, job, await_result, open_steps)


def _run(function: Function, job: Job, await_result: Callable[[Awaitable[Any]], Any], open_steps: OpenSteps) -> Reply:
    _, params, fields, headers = job
    steps = _open_steps(fields, open_steps)
    try:
        with _continue_trace(headers):
            value = function(*_make_context(fields, steps), **params)
            value = await_result(value) if isawaitable(value) else value
            if is_container(value):  # here, for what has to be awaited does not pickle
                value = open_containers_sync(value, await_result)
            return _reply(value, steps)
    except BaseException as exc:  # noqa: BLE001  # the border to the user's tool
        return "raised", exc, _close(steps)


async def run_async_job(function: Function, job: Job, open_steps: OpenSteps) -> Reply:
    """Run an async tool. Raises nothing but the cancellation of the current task."""
    _, params, fields, headers = job
    steps = None if fields is None else _open_steps(fields, open_steps)
    try:
        if headers is None and fields is None:  # the short way, which most calls of a batch take
            value = await function(**params)
            return _reply(await open_containers(value) if is_container(value) else value, None)
        with _continue_trace(headers):
            value = await function(*_make_context(fields, steps), **params)
            if is_container(value):
                value = await open_containers(value)
        return _reply(value, steps)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            _close(steps)
            raise
        # The tool awaited something that was cancelled elsewhere. This task was not cancelled, so only its call fails.
        return "raised", RemoteError("CancelledError"), _close(steps)
    except BaseException as exc:  # noqa: BLE001  # as in run_job
        return "raised", exc, _close(steps)


async def await_value(value: Awaitable[Any]) -> Any:
    """Await anything, as the coroutine that `asyncio.run` requires."""
    return await value


def _open_steps(fields: ContextFields | None, open_steps: OpenSteps) -> ToldSteps | None:
    token = None if fields is None else fields[-1]
    return None if token is None else open_steps(token) if token else KeptSteps()


def _reply(value: object, steps: ToldSteps | None) -> Reply:
    """A Failure of an exception is as if it were raised: it is made to pickle, and keeps its stack."""
    if type(value) is Failure and isinstance(exc := cast("Any", value).failure(), BaseException):
        return "raised", exc, _close(steps)
    return "returned", cast("object", value), _close(steps)


def _close(steps: ToldSteps | None) -> list[Step]:
    return [] if steps is None else steps.close()


def _make_context(fields: ContextFields | None, steps: ToldSteps | None) -> tuple[ToolContext] | tuple[()]:
    if fields is None:
        return ()
    call_id, attempt, key, left, principal, deps, conversation, tool, state, _ = fields
    deadline = None if left is None else time.monotonic() + left
    read = read_pickled_state(state)
    return (ToolContext(call_id, attempt, key, deadline, principal, deps, steps, None, tool, read, conversation),)


def _continue_trace(headers: dict[str, str] | None) -> AbstractContextManager[object]:
    return nullcontext() if headers is None else continued(headers)
