"""A proxy that is made of a server and a client of the official SDK, to compare with: ``mcp_sdk_proxy.py COMMAND…``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import anyio


async def main() -> None:
    """Pass lists and calls on."""
    client = import_module("mcp.client.client").Client
    parameters = import_module("mcp.client.stdio").StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    server_class = import_module("mcp.server.lowlevel.server").Server
    stdio_server = import_module("mcp.server.stdio").stdio_server
    async with client(parameters, mode="legacy") as upstream:

        async def list_tools(_context: Any, _params: Any) -> Any:
            return await upstream.list_tools()

        async def call_tool(_context: Any, params: Any) -> Any:
            return await upstream.call_tool(params.name, params.arguments)

        server = server_class("proxy", on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
