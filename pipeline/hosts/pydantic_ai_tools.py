"""A registry and its pipeline as a toolset of Pydantic AI."""

from __future__ import annotations

from typing import Any

from ..adapters.common import says_error
from ..call import Call, Outcome
from ..compose import Pipeline
from ..messages import render
from ..messages.result_parts import find_parts
from ..messages.values import to_data
from ..tools import ToolView
from .exporting import list_media, list_offered
from .extras import requires

with requires("pydantic-ai-slim"):
    from pydantic_ai import BinaryContent, FunctionToolset, RunContext, Tool
    from pydantic_ai.exceptions import ToolFailed


def export_tools(registry: ToolView, pipeline: Pipeline) -> FunctionToolset[Any]:
    """A toolset of the tools that may be called now: ``Agent(model, toolsets=[export_tools(tools, run)])``.

    The pipeline gets the id of each call, and the agent's ``deps``. A failure is a `ToolFailed`, which spends none of
    Pydantic AI's retries: the pipeline has tried again where that is safe. An image or a PDF file is a `BinaryContent`.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
    """
    return FunctionToolset([_export(each, own, pipeline) for each, own in list_offered(registry)])


def _export(offered: dict[str, Any], own: str, pipeline: Pipeline) -> Tool[Any]:
    async def run(ctx: RunContext[Any], /, **arguments: object) -> object:
        outcome = await pipeline(Call(own, arguments, ctx.tool_call_id or "", deps=ctx.deps))
        if says_error(outcome):
            raise ToolFailed(render(outcome))
        return _to_return(outcome)

    description = offered.get("description", "")
    return Tool.from_schema(run, offered["name"], description, json_schema=offered["parameters"], takes_ctx=True)


def _to_return(outcome: Outcome) -> object:
    """What Pydantic AI can write into the history: a value that it cannot would end the run."""
    value = outcome.unwrap()
    if type(value).__module__.startswith("pydantic_ai"):
        return value
    media = list_media(outcome)
    if media is None:
        return to_data(value)[0] if find_parts(value, with_bytes=True) is None else render(outcome)
    return [
        part if isinstance(part, str) else BinaryContent(data=part.data, media_type=part.media_type) for part in media
    ]
