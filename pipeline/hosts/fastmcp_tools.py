"""A registry and its pipeline as tools of a FastMCP server."""

from __future__ import annotations

from typing import Any

from ..call import Call, is_failure
from ..compose import Pipeline
from ..messages import render
from ..tools import ToolRegistry
from .exporting import list_offered
from .extras import requires

with requires("fastmcp"):
    from fastmcp.server.dependencies import get_context
    from fastmcp.tools.base import Tool, ToolResult


class _Exported(Tool):
    """Runs a call through the pipeline."""

    own: str
    pipeline: Any

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        outcome = await self.pipeline(Call(self.own, arguments, str(get_context().request_id)))
        if is_failure(outcome):
            kind = outcome.failure().kind
            return ToolResult(content=render(outcome), is_error=True, meta={"toolcall/kind": kind})
        return self.convert_result(outcome.unwrap())


def export_tools(registry: ToolRegistry, pipeline: Pipeline) -> list[Tool]:
    """The tools that may be called now, for ``server.add_tool`` one by one.

    The pipeline gets the id of each request. A failure is a result with ``isError``; its kind stands in ``_meta``.

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
