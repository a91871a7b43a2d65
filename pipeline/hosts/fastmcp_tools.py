"""A registry and its pipeline as tools of a FastMCP server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..call import Call, is_failure
from ..compose import Pipeline
from ..mcp.result_blocks import make_result
from ..messages.result_parts import find_parts
from ..messages.values import to_data
from ..tools import ToolView
from .exporting import list_offered
from .extras import requires

with requires("fastmcp"):
    from fastmcp.server.dependencies import get_context
    from fastmcp.tools.base import Tool, ToolResult
    from mcp.types import CallToolResult


def find_request_id(context: Any) -> str:
    """The id of the request that FastMCP answers; "" where its server is called without a client."""
    return "" if context is None or context.request_context is None else str(context.request_id)


class _Exported(Tool):
    """Runs a call through the pipeline."""

    own: str
    pipeline: Any

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        try:
            context = get_context()
        except RuntimeError:  # it was not called through a server
            context = None
        outcome = await self.pipeline(Call(self.own, arguments, find_request_id(context)))
        value = None if is_failure(outcome) else outcome.unwrap()
        if type(value).__module__.startswith("fastmcp"):
            return self.convert_result(value)
        made = make_result(outcome)
        read = CallToolResult.model_validate(made)
        structured = made.get("structuredContent")
        if isinstance(value, Mapping) and find_parts(value, with_bytes=True) is None:
            structured = to_data(value)[0]
        meta = made.get("_meta")
        return ToolResult(content=read.content, structured_content=structured, is_error=read.is_error, meta=meta)


def export_tools(registry: ToolView, pipeline: Pipeline) -> list[Tool]:
    """The tools that may be called now, for ``server.add_tool`` one by one.

    The pipeline gets the id of each request. Parts that a tool returns are content blocks. A failure is a result with
    ``isError``; its kind stands in ``_meta``.

    Args:
        registry: The tools. Their effects are told as ``readOnlyHint`` and ``idempotentHint``.
        pipeline: Runs their calls.
    """
    return [
        _Exported(
            name=each["name"],
            description=each.get("description"),
            parameters=each["parameters"],
            annotations=_hint(registry[own].effect),
            own=own,
            pipeline=pipeline,
        )
        for each, own in list_offered(registry)
    ]


def _hint(effect: str) -> Any:
    return {"readOnlyHint": effect == "read", "idempotentHint": effect in ("read", "idempotent")}
