"""Runs an end of a stack, or an executor, as a body that the guards of the call know of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from returns.result import Failure

from ..errors import Crashed, SetupError
from .entry import enter
from .guard import NotBegunError, tool_of

if TYPE_CHECKING:
    from ..call import Call, Outcome
    from ..tools.definition import Tool

C = TypeVar("C", bound="Call")


async def run_inside(run: Callable[[C], Awaitable[Outcome]], call: C, *, marks: bool) -> Outcome:
    """Run an end of a stack, or an executor, and tell the guards of the call what it answers.

    Args:
        run: The end or executor.
        call: The call to give it.
        marks: Whether it calls `Guards.begin` right before the body. If not, it counts as the body.

    Returns:
        What it answers; what the guard answers that refused the body.
    """
    guards = call.guards
    try:
        if guards is None:
            return await run(call)
        if (tool := tool_of(call)) is not None and not guards.count(tool):
            return refuse_swap(call, tool)
        if guards.lock is None:
            if not marks:
                guards.begin(call)
            return await run(call)
        entry, call = enter(call, guards, marks=marks)
    except NotBegunError as exc:
        return exc.outcome
    outcome: Outcome | None = None
    try:
        return (outcome := await run(call))
    except NotBegunError as exc:
        return exc.outcome
    finally:
        entry.leave(outcome)


def refuse_swap(call: Call, tool: Tool[..., Any]) -> Outcome:
    """The answer to a stage that put another tool in place of a read: nobody counts how often its body begins."""
    return Failure(
        Crashed(SetupError(f"{call.name} is a read, and a stage handed on the {tool.effect} tool {tool.name}"))
    )
