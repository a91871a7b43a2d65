"""A registry and its pipeline as a toolset of Pydantic AI."""

from __future__ import annotations

from typing import Any

from ..call import Call, is_failure
from ..compose import Pipeline
from ..messages import render
from ..tools import ToolRegistry
from .exporting import list_offered
from .extras import requires

with requires("pydantic-ai-slim"):
    from pydantic_ai import FunctionToolset, RunContext, Tool
    from pydantic_ai.exceptions import ToolFailed


def export_tools(registry: ToolRegistry, pipeline: Pipeline) -> FunctionToolset[Any]:
    """A toolset of the tools that may be called now: ``Agent(model, toolsets=[export_tools(tools, run)])``.

    The pipeline gets the id of each call, and the agent's ``deps``. A failure is a `ToolFailed`, which spends none of
    Pydantic AI's retries: the pipeline has tried again where that is safe.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
    """
    return FunctionToolset([_export(each, own, pipeline) for each, own in list_offered(registry)])


def _export(offered: dict[str, Any], own: str, pipeline: Pipeline) -> Tool[Any]:
    async def run(ctx: RunContext[Any], **arguments: object) -> object:
        outcome = await pipeline(Call(own, arguments, ctx.tool_call_id or "", deps=ctx.deps))
        if is_failure(outcome):
            raise ToolFailed(render(outcome))
        return outcome.unwrap()

    description = offered.get("description", "")
    return Tool.from_schema(run, offered["name"], description, json_schema=offered["parameters"], takes_ctx=True)
