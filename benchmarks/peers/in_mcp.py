"""The MCP SDK: its client and its server, in one process without a transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

PACKAGES = ("mcp",)
VARIANTS = {
    "": "Client(MCPServer(…)).call_tool, in memory",
    "server": "MCPServer.call_tool alone, its ToolError as the text that its protocol layer would send",
}


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As the guide of the SDK says for tests and for servers in the same process."""
    server = MCPServer("tools")
    for function in FUNCTIONS:
        server.add_tool(function)
    async with Client(server) as client:
        call_tool: Any = server.call_tool if variant else client.call_tool

        async def ask(name: str, arguments: dict[str, object]) -> str:
            try:
                answer = await call_tool(name, arguments)
            except ToolError as exc:
                return str(exc)
            return "".join(part.text for part in answer.content if part.type == "text")

        def prepare(sent: Sequence[Sent]) -> Send:
            calls = [(each.name, each.mapping) for each in sent]

            async def send() -> list[str]:
                if len(calls) == 1:
                    return [await ask(*calls[0])]
                return await asyncio.gather(*[ask(*each) for each in calls])

            return send

        yield prepare
