"""A registry and its pipeline as tools of LangChain."""

from __future__ import annotations

from typing import Any

from ..call import Call, is_failure
from ..compose import Pipeline
from ..messages import render
from ..tools import ToolRegistry
from .exporting import list_offered
from .extras import requires

with requires("langchain"):
    from langchain_core.tools import BaseTool, StructuredTool, ToolException


def export_tools(registry: ToolRegistry, pipeline: Pipeline) -> list[BaseTool]:
    """The tools that may be called now as tools of LangChain, sync and async. A failure is a message of status error.

    LangChain hands the id of a call only to tools whose signature asks for it, so the pipeline does not see it.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
    """
    return [_export(each, own, pipeline) for each, own in list_offered(registry)]


def _export(offered: dict[str, Any], own: str, pipeline: Pipeline) -> BaseTool:
    async def run(**arguments: object) -> str:
        return _tell(await pipeline(Call(own, arguments)))

    def run_sync(**arguments: object) -> str:
        return _tell(pipeline.call_sync(own, arguments))

    return StructuredTool(
        name=offered["name"],
        description=offered.get("description", own),
        args_schema=offered["parameters"],
        func=run_sync,
        coroutine=run,
        handle_tool_error=True,
    )


def _tell(outcome: Any) -> str:
    if is_failure(outcome):
        raise ToolException(render(outcome))
    return render(outcome)
