"""Execute: runs the tool. What it returns or raises becomes an Outcome, not yet judged."""

from __future__ import annotations

import time
from inspect import isawaitable
from typing import Any, ClassVar, cast

import anyio
import attrs
from returns.result import Failure, Success

from pipeline import Crashed, ExecutionFailed, Outcome, Tool, ToolContext, Unavailable, ValidCall
from pipeline.definition import Detector
from pipeline.errors import KINDS
from pipeline.marker import Marker
from pipeline.public import approved
from pipeline.threads import NoThreadError, Threads


@attrs.frozen
class Execute:
    """Ends a stack. Async tools run in the loop, sync ones in a worker thread with the caller's context variables.

    A thread that is still at it when nobody waits any more cannot be stopped, only left behind. With as many left as
    may be, the tools that want one are refused, as ``Unavailable(tool, "busy")``, until one of them ends. Processes can
    be stopped: for a tool that hangs for good a thread is the wrong place.
    """

    why: ClassVar[str] = "the end: the tool itself"

    threads: int = attrs.field(default=40, kw_only=True)  # at a time, in each event loop
    may_leave: int = attrs.field(default=40, kw_only=True)  # in all
    _workers: Threads = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_workers", Threads(self.threads, self.may_leave))

    @property
    def left_behind(self) -> int:
        """How many threads run on though nobody waits for them."""
        return self._workers.left_behind

    async def __call__(self, call: ValidCall) -> Outcome:
        """Success with the value, or the failure that it is or tells of; Crashed, not yet read, with what it raised."""
        tool = call.tool
        try:
            if tool.direct and call.marker is None:
                value: object = await tool.fn(**call.params)
            else:
                value = await _otherwise(call, self._workers)
                if tool.detect is not None:  # then a tool is not direct
                    value = _detected(tool.detect, value)
        except Exception as exc:  # noqa: BLE001  # a tool may raise anything, and that is what this stage is for
            return Failure(Crashed(exc))
        kind = type(value)
        if kind is Success:
            return cast("Outcome", value)
        return _failure(value) if kind is Failure else Success(value)


async def _otherwise(call: ValidCall, workers: Threads) -> object:
    """With a context, with a marker, in a thread, or from a function that was not known to be async."""
    tool = call.tool
    args = (_context(call),) if tool.context else ()
    marker: Marker | None = call.marker
    if tool.run_in != "loop":
        try:
            (value,) = await workers.run(_in_thread, tool, args, call.params, marker)
        except NoThreadError:
            return Failure(Unavailable(tool.name, "busy"))
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
        return Failure(ExecutionFailed(approved(error)))
    if isinstance(error, Exception):
        return Failure(Crashed(error))
    return Failure(Crashed(TypeError(f"the tool returned a Failure of {type(error).__name__}, which is no ToolError")))


def _detected(detect: Detector, value: object) -> object:
    """The value, or a Failure of what the tool's detector found in it; in a Success it looks at what that holds."""
    kind: type[Any] = type(value)
    if kind is Failure:
        return value
    error: Any = detect(cast("Any", value).unwrap() if kind is Success else value)
    if error is None:
        return value
    if type(error) in KINDS:
        return Failure(error)
    raise TypeError(f"detect= gives a ToolError or None, and not {type(error).__name__}")


def _context(call: ValidCall) -> ToolContext:
    left = anyio.current_effective_deadline() - anyio.current_time()
    deadline = None if left == float("inf") else time.monotonic() + left
    return ToolContext(call.id, call.attempt, call.idempotency_key, deadline, call.principal, call.deps, call.report)
