"""Calls in ADK: as the model meant them beyond doubt, who runs them, and how."""

from __future__ import annotations

import inspect
from typing import Any

from ..adapters.common import list_items
from ..call import Call
from ..compose import Pipeline
from .checked_arguments import foresee


def put_calls_right(reply: Any, pipeline: Pipeline) -> None:
    """Change the names and arguments of the calls of a reply to those that the pipeline will run.

    Other plugins and callbacks decide by them. What the pipeline refuses stays as the model wrote it.

    Args:
        reply: ADK's ``LlmResponse``. A part of one that is still to come stays as it is.
        pipeline: For the tools that the model was offered.
    """
    if reply.partial or reply.content is None:
        return
    for asked in (part.function_call for part in reply.content.parts or () if part.function_call is not None):
        valid = foresee(pipeline, Call(asked.name, asked.args, asked.id or ""))
        if valid is not None and (valid.tool.name != asked.name or valid.repairs):
            asked.name, asked.args = valid.tool.name, dict(valid.params)


async def is_left_to_adk(tool: Any, args: dict[str, Any], context: Any) -> bool:
    """Whether ADK has to run a call itself: it waits for a confirmation, or somebody else answers it later."""
    later = tool.is_long_running or getattr(tool, "_defers_response", False)  # somebody else answers it
    confirmed = getattr(context.tool_confirmation, "confirmed", False)
    return later or (not confirmed and await tool.check_require_confirmation(args, context) is True)


async def run_tool(tool: Any, args: dict[str, Any], context: Any) -> Any:
    """Run a tool as ADK does: the agent's own ``before_tool_callback`` is asked first, and may answer."""
    own: Any = getattr(context.get_invocation_context().agent, "before_tool_callback", None) or []
    for callback in list_items(own):
        answer: Any = callback(tool, args, context)
        answer = await answer if inspect.isawaitable(answer) else answer
        if answer is not None:
            return answer
    return await tool.run_async(args=args, tool_context=context)
