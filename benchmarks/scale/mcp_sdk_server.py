"""A low-level server of the official SDK, to compare with: ``mcp_sdk_server.py [--http 0]``."""

from __future__ import annotations

import json
import socket
import sys
from importlib import import_module
from typing import Any

import anyio

types: Any = import_module("mcp_types")
NUMBERS = {"x": {"type": "integer"}, "y": {"type": "integer"}}
INPUT = {"type": "object", "properties": NUMBERS, "required": ["x", "y"], "additionalProperties": False}
OUTPUT = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
ADD = types.Tool(name="add", description="Add two numbers.", input_schema=INPUT, output_schema=OUTPUT)


async def list_tools(_context: Any, _params: Any) -> Any:
    """One tool."""
    return types.ListToolsResult(tools=[ADD])


async def call_tool(_context: Any, params: Any) -> Any:
    """Run it."""
    value = {"total": params.arguments["x"] + params.arguments["y"]}
    text = types.TextContent(type="text", text=json.dumps(value))
    return types.CallToolResult(content=[text], structured_content=value)


async def main() -> None:
    """Serve over stdio, or over HTTP at any port."""
    server_class = import_module("mcp.server.lowlevel.server").Server
    server = server_class("sum", on_list_tools=list_tools, on_call_tool=call_tool)
    if sys.argv[1:]:
        uvicorn: Any = import_module("uvicorn")
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
        await uvicorn.Server(config).serve(sockets=[listening])
        return
    async with import_module("mcp.server.stdio").stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
