"""A registry and its pipeline as function tools of the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

from ..call import Call
from ..compose import Pipeline
from ..messages import File, Image, render
from ..tools import ToolView
from .exporting import list_media, list_offered
from .extras import requires

with requires("openai-agents"):
    from agents import FunctionTool, ToolOutputFileContent, ToolOutputImage, ToolOutputText


def export_tools(registry: ToolView, pipeline: Pipeline) -> list[FunctionTool]:
    """The tools that may be called now as function tools, not strict. A failure is the text that the model reads.

    An image or a PDF file that a tool returns is an output of that type. The pipeline gets the arguments as the model
    wrote them, the id of each call, and the run's context as ``deps``.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
    """
    return [_export(each, own, pipeline) for each, own in list_offered(registry)]


def _export(offered: dict[str, Any], own: str, pipeline: Pipeline) -> FunctionTool:
    async def run(context: Any, sent: str) -> Any:
        outcome = await pipeline(Call(own, sent, context.tool_call_id, deps=context.context))
        media = list_media(outcome)
        return render(outcome) if media is None else [_to_output(part) for part in media]

    return FunctionTool(
        name=offered["name"],
        description=offered.get("description", ""),
        params_json_schema=offered["parameters"],
        on_invoke_tool=run,
        strict_json_schema=False,
    )


def _to_output(part: str | Image | File) -> Any:
    if isinstance(part, str):
        return ToolOutputText(text=part)
    url = f"data:{part.media_type};base64,{part.base64}"
    if isinstance(part, Image):
        return ToolOutputImage(image_url=url)
    return ToolOutputFileContent(file_data=url, filename=part.name or "file.pdf")
