"""FastMCP: ``server.add_middleware(ToolcallMiddleware())``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..call import Call, ValidCall, is_failure
from ..messages import render
from ..tools import Effect
from .extras import requires
from .fastmcp_errors import FOREIGN, read_error
from .fastmcp_tools import export_tools, find_request_id
from .host import Host, HostTool

with requires("fastmcp"):
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools.base import ToolResult
    from fastmcp.utilities.versions import VersionSpec

__all__ = ["ToolcallMiddleware", "export_tools"]


class ToolcallMiddleware(Middleware):
    """Puts the pipeline around every tool call of a FastMCP server.

    Args:
        effects: The effects of tools by name; else their annotations ``readOnlyHint`` and ``idempotentHint``, which
            the author of this very server wrote; else ``mutating``.
        options: Those of `Host`, such as ``timeout=60``.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, **options: Any) -> None:
        self.host = Host(effects, **options)

    async def on_call_tool(self, context: Any, call_next: Any) -> ToolResult:
        """Run one call."""
        server, sent = context.fastmcp_context.fastmcp, context.message
        tools = await server.list_tools(run_middleware=False)
        if all(tool.name != sent.name for tool in tools):  # names are suggested: only those that this client is shown
            tools = await server.list_tools()
        offered = {tool.name: tool for tool in tools}
        version = _read_version(sent.meta)
        if version is not None and (asked := await server.get_tool(sent.name, version)) is not None:
            offered[sent.name] = asked
        pipeline = self.host.offer({name: _describe(tool) for name, tool in offered.items()})
        call = Call(sent.name, sent.arguments, find_request_id(context.fastmcp_context))
        found: Any = pipeline.resolve(call)
        if not is_failure(found) and found.tool.name != sent.name:  # what decides by name has let another one pass
            again: ToolResult = await server.call_tool(found.tool.name, sent.arguments, version=version)
            return again

        told: list[ToolResult] = []

        async def body(valid: ValidCall) -> object:
            message = sent.model_copy(update={"arguments": dict(valid.params)})
            try:
                answer = await call_next(context.copy(message=message))
            except FOREIGN as exc:
                return read_error(self.host, valid, exc)
            if getattr(answer, "is_error", False):  # the tool's own result, which the client gets as it is
                told.append(answer)
                return self.host.refuse_foreign("\n".join(getattr(block, "text", "") for block in answer.content))
            return answer

        outcome = await self.host.run(pipeline, call, body)
        if is_failure(outcome):
            if told:
                return told[-1]
            kind = outcome.failure().kind
            return ToolResult(content=render(outcome), is_error=True, meta={"toolcall/kind": kind})
        answered: Any = outcome.unwrap()
        result: ToolResult = answered
        return result


def _describe(tool: Any) -> HostTool:
    return HostTool(tool.description or "", tool.parameters, _read_hints(tool.annotations))


def _read_hints(hints: Any) -> str | None:
    if hints is None:
        return None
    return "read" if hints.read_only_hint else "idempotent" if hints.idempotent_hint else None


def _read_version(meta: Any) -> Any:
    """The version of the tool that the client asks for; None: any."""
    asked = ((meta or {}).get("fastmcp") or {}).get("version")
    return VersionSpec(**asked) if isinstance(asked, dict) else VersionSpec(eq=asked) if asked else None
