"""Names that Pydantic AI refuses by itself, before any tool is asked: put right, or told in the pipeline's words."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from returns.result import Failure

from ..call import Call, ResolvedCall
from ..compose import Pipeline
from ..messages import render
from .extras import requires

with requires("pydantic-ai-slim"):
    from pydantic_ai.messages import ModelRequest, RetryPromptPart, ToolCallPart, ToolReturnPart


def put_names_right(response: Any, pipeline: Pipeline, known: Collection[str]) -> Any:
    """A reply of the model, with the names of the tools that its calls mean beyond doubt.

    Args:
        response: The reply.
        pipeline: For the tools that the model was offered.
        known: Names that stay: these tools', and those of the output tools.
    """
    return replace(response, parts=[_rename(part, pipeline, known) for part in response.parts])


def tell_unknown_names(context: Any, pipeline: Pipeline, known: Collection[str]) -> Any:
    """A request, with what the pipeline says of unknown names in place of what Pydantic AI says.

    Args:
        context: The request. Its history is not changed.
        pipeline: As with `put_names_right`.
        known: As with `put_names_right`.
    """
    *before, last = context.messages or [None]
    if not isinstance(last, ModelRequest):
        return context
    told = replace(last, parts=[_retell(part, pipeline, known) for part in last.parts])
    return replace(context, messages=[*before, told])


def _rename(part: Any, pipeline: Pipeline, known: Collection[str]) -> Any:
    if not isinstance(part, ToolCallPart) or part.tool_name in known:
        return part
    found = pipeline.resolve(Call(part.tool_name))
    return replace(part, tool_name=found.tool.name) if isinstance(found, ResolvedCall) else part


def _retell(part: Any, pipeline: Pipeline, known: Collection[str]) -> Any:
    if not isinstance(part, (ToolReturnPart, RetryPromptPart)) or not part.tool_name or part.tool_name in known:
        return part
    found = pipeline.resolve(Call(part.tool_name))
    return replace(part, content=render(found)) if type(found) is Failure else part
