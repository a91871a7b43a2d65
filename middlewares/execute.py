"""Execute: runs the tool. What it returns or raises becomes an Outcome, not yet judged."""

from __future__ import annotations

import time
from inspect import isawaitable
from typing import Any, cast

import anyio
import attrs
from anyio.to_thread import run_sync
from returns.result import Failure, Success

from pipeline import Crashed, ExecutionFailed, Outcome, Tool, ToolContext, ValidCall
from pipeline.errors import KINDS
from pipeline.marker import Marker


@attrs.frozen
class Execute:
    """Ends a stack. Async tools run in the loop, sync ones in a worker thread with the caller's context variables."""

    async def __call__(self, call: ValidCall) -> Outcome:
        """Success with the value; Crashed, to be classified, with what the tool raised."""
        tool = call.tool
        try:
            if tool.direct and call.marker is None:
                value: object = await tool.fn(**call.params)
            else:
                value = await _otherwise(call)
        except Exception as exc:  # noqa: BLE001  # a tool may raise anything, and that is what this stage is for
            return Failure(Crashed(exc))
        kind = type(value)
        if kind is Success:
            return cast("Outcome", value)
        return _failure(value) if kind is Failure else Success(value)


async def _otherwise(call: ValidCall) -> object:
    """With a context, with a marker, in a thread, or from a function that was not known to be async."""
    tool = call.tool
    args = (_context(call),) if tool.context else ()
    marker: Marker | None = call.marker
    if tool.run_in != "loop":
        (value,) = await run_sync(_in_thread, tool, args, call.params, marker, abandon_on_cancel=True)
        return await value if isawaitable(value) else value
    if marker is None:
        value = tool.fn(*args, **call.params)
        return await value if isawaitable(value) else value
    marker.begin(tool)
    try:
        value = tool.fn(*args, **call.params)
        return await value if isawaitable(value) else value
    finally:
        marker.end()


def _in_thread(
    tool: Tool[..., Any], args: tuple[Any, ...], params: dict[str, Any], marker: Marker | None
) -> tuple[Any]:
    """The body, and word of its beginning and end, which a caller that has gone away still counts on.

    Boxed, and what it raises as a value: trio takes no coroutine from a thread, asyncio no StopIteration, and in a
    coroutine that waits for it a GeneratorExit would mean that somebody closed that.
    """
    try:
        if marker is None:
            return (tool.fn(*args, **params),)
        marker.begin(tool)
        try:
            return (tool.fn(*args, **params),)
        finally:
            marker.end()
    except (Exception, GeneratorExit) as exc:  # noqa: BLE001  # see Execute
        return (Failure(Crashed(exc)),)


def _failure(value: Any) -> Outcome:
    """A tool's own Failure: of a ToolError as it is, of text as its author's word, of an exception as if raised."""
    error = value.failure()
    if type(error) in KINDS:
        return cast("Outcome", value)
    if isinstance(error, str):
        return Failure(ExecutionFailed(error))
    if isinstance(error, Exception):
        return Failure(Crashed(error))
    return Failure(Crashed(TypeError(f"the tool returned a Failure of {type(error).__name__}, which is no ToolError")))


def _context(call: ValidCall) -> ToolContext:
    left = anyio.current_effective_deadline() - anyio.current_time()
    deadline = None if left == float("inf") else time.monotonic() + left
    return ToolContext(call.id, call.attempt, call.idempotency_key, deadline, call.principal, call.deps, call.report)
