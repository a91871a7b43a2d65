"""Thread: worker threads for sync tools, with the caller's context variables."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any, ClassVar

from returns.result import Failure

from ..call import ValidCall
from ..errors import Crashed, Unavailable
from ..time_limit import TimeLimit
from ..tools.definition import Tool
from .loop import Loop
from .protocol import Executor, context_of
from .thread_pool import NoThreadError, Threads

_LOOP = Loop()


class Thread(Executor):
    """``threads`` at a time in each event loop; async tools run in the loop, which is where they belong.

    A thread that is still at it when nobody waits any more cannot be stopped, only left behind. With ``max_abandoned`` of
    them left, in all, the tools that want one are refused, as ``Unavailable(tool, "busy")``, until one of them ends.
    Raises SetupError for fewer than one of either.
    """

    name: ClassVar[str] = "thread"

    def __init__(self, threads: int = 40, max_abandoned: int = 40) -> None:
        self._workers = Threads(threads, max_abandoned)

    @property
    def abandoned(self) -> int:
        """How many threads run on though nobody waits for them."""
        return self._workers.abandoned

    async def run(self, call: ValidCall) -> object:
        """What the tool gave, or that there is no thread for it."""
        tool = call.tool
        if tool.run_in == "loop":
            return await _LOOP.run(call)
        args = (context_of(call),) if tool.context else ()
        try:
            (value,) = await self._workers.run(_in_thread, tool, args, call.params, call.time_limit)
        except NoThreadError:
            return Failure(Unavailable(tool.name, "busy"))
        return await value if isawaitable(value) else value


def _in_thread(
    tool: Tool[..., Any], args: tuple[Any, ...], params: dict[str, Any], marker: TimeLimit | None
) -> tuple[Any]:
    """The body, and word of its beginning and end, which a caller that has gone away still counts on.

    Boxed, and what it raises as a value: trio takes no coroutine from a thread, asyncio no StopIteration, and in a
    coroutine that waits for it a GeneratorExit would mean that somebody closed that.
    """
    try:
        if marker is None:
            return (tool.fn(*args, **params),)
        marker.enter(tool)
        try:
            return (tool.fn(*args, **params),)
        finally:
            marker.leave()
    except (Exception, GeneratorExit) as exc:  # noqa: BLE001  # see Execute
        return (Failure(Crashed(exc)),)
