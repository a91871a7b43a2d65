"""Local: the event loop of the caller. A sync tool blocks it, so that is for those that take no time."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any, ClassVar

import attrs

from ..call import ValidCall
from ..time_limit import TimeLimit
from .protocol import Executor, context_of


@attrs.frozen
class Loop(Executor):
    """Runs tools right here: with the caller's context variables, and cancelled with the caller."""

    name: ClassVar[str] = "loop"

    async def run(self, call: ValidCall) -> object:
        """What the tool gave; a coroutine is awaited, also that of a function that was not known to be async."""
        tool = call.tool
        args = (context_of(call),) if tool.context else ()
        marker: TimeLimit | None = call.time_limit
        if marker is None:
            value: Any = tool.fn(*args, **call.params)
            return await value if isawaitable(value) else value
        marker.enter(tool)
        try:
            value = tool.fn(*args, **call.params)
            return await value if isawaitable(value) else value
        finally:
            marker.leave()
