"""Loop: runs tools in the caller's event loop."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any, ClassVar

import attrs

from ..engine.call import ValidCall
from .body import begin_body, context_args, end_body
from .protocol import Executor


@attrs.frozen
class Loop(Executor):
    """Runs the body in the caller's own task, so it sees the caller's context variables and is cancelled with it.

    A sync tool blocks the event loop while it runs: use this only for those that return at once.
    """

    name: ClassVar[str] = "loop"
    announces_body: ClassVar[bool] = True

    async def run(self, call: ValidCall) -> object:
        """Run the body. A coroutine is awaited, also if the function was not known to be async.

        Returns:
            The value that the tool returned.

        Raises:
            Exception: The tool raised it.
        """
        context = context_args(call)
        begin_body(call)
        try:
            value: Any = call.tool.fn(*context, **call.params)
            return await value if isawaitable(value) else value
        finally:
            end_body(call)
