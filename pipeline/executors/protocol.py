"""Executor: where a tool's body runs, and what it is handed there."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

import anyio

from ..call import ValidCall
from ..tools.context import ToolContext
from ..tools.definition import Tool


class Executor(Protocol):
    """What Execute hands a call to. Whoever inherits from it has to write ``name`` and ``run`` alone."""

    name: ClassVar[str]  # what the attempts of a report say of where they ran

    async def run(self, call: ValidCall) -> object:
        """What the tool returned, or a Failure of why it did not run or was lost on the way; raises what it raised.

        The call's marker, where it has one, is to be begun right before the body and ended when that came back.
        """
        ...

    def refuses(self, tool: Tool[..., Any]) -> str | None:
        """Why the tool cannot run here, for a SetupError; None where it can."""
        del tool
        return None

    async def aclose(self) -> None:
        """Let go of what it holds. What is still under way is lost, and told as lost."""
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def seconds_left() -> float | None:
    """Until the time of the task that asks is up; None where it has all the time there is."""
    left = anyio.current_effective_deadline() - anyio.current_time()
    return None if left == float("inf") else left


def context_of(call: ValidCall) -> ToolContext:
    """What a tool made with ``context=True`` is given."""
    left = seconds_left()
    deadline = None if left is None else time.monotonic() + left
    return ToolContext(call.id, call.attempt, call.idempotency_key, deadline, call.principal, call.deps, call.report)
