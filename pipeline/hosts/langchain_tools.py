"""A registry and its pipeline as tools of LangChain."""

from __future__ import annotations

from typing import Any

from ..adapters.common import says_error
from ..call import Call, Outcome
from ..compose import Pipeline
from ..messages import File, Image, render
from ..tools import ToolView
from .exporting import list_media, list_offered
from .extras import requires

with requires("langchain"):
    from langchain_core.tools import BaseTool, ToolException


class _Exported(BaseTool):
    """Runs a call through the pipeline. A parameter may have any name, ``self`` and ``config`` included."""

    own: str
    pipeline: Any
    handle_tool_error: Any = True

    def _run(self, /, **arguments: object) -> Any:
        return _tell(self.pipeline.call_sync(self.own, arguments))

    async def _arun(self, /, **arguments: object) -> Any:
        return _tell(await self.pipeline(Call(self.own, arguments)))


def export_tools(registry: ToolView, pipeline: Pipeline) -> list[BaseTool]:
    """The tools that may be called now as tools of LangChain, sync and async. A failure is a message of status error.

    An image or a PDF file that a tool returns is a content block. LangChain hands the id of a call only to tools whose
    signature asks for it, so the pipeline does not see it.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
    """
    return [
        _Exported(
            name=each["name"],
            description=each.get("description", own),
            args_schema=each["parameters"],
            own=own,
            pipeline=pipeline,
        )
        for each, own in list_offered(registry)
    ]


def _tell(outcome: Outcome) -> Any:
    if says_error(outcome):
        raise ToolException(render(outcome))
    media = list_media(outcome)
    return render(outcome) if media is None else [_to_block(part) for part in media]


def _to_block(part: str | Image | File) -> dict[str, str]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = "image" if isinstance(part, Image) else "file"
    return {"type": kind, "base64": part.base64, "mime_type": part.media_type}
