"""FastMCP: ``server.add_middleware(ToolcallMiddleware())``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..call import Call, ValidCall, is_failure
from ..messages import render
from ..tools import Effect
from .extras import requires
from .fastmcp_tools import export_tools
from .host import Host, HostTool

with requires("fastmcp"):
    from fastmcp.exceptions import ToolError
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools.base import ToolResult

__all__ = ["ToolcallMiddleware", "export_tools"]

_WRAPPED = "Error calling tool"  # how FastMCP begins the text of an exception that is no ToolError


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
        offered = {tool.name: _describe(tool) for tool in tools}

        async def body(valid: ValidCall) -> object:
            message = sent.model_copy(update={"name": valid.tool.name, "arguments": dict(valid.params)})
            try:
                return await call_next(context.copy(message=message))
            except ToolError as exc:
                if exc.__cause__ is not None and str(exc).startswith(_WRAPPED):  # what the tool raised
                    raise exc.__cause__ from None
                return self.host.refuse_foreign(exc, exc)

        call = Call(sent.name, sent.arguments, str(context.fastmcp_context.request_id))
        outcome = await self.host.run(self.host.offer(offered), call, body)
        if is_failure(outcome):
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
