"""FastMCP: a server without a client, and its own middlewares for failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.exceptions import FastMCPError, NotFoundError
from fastmcp.server.middleware.error_handling import ErrorHandlingMiddleware, RetryMiddleware

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import ATTEMPTS, FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

PACKAGES = ("fastmcp", "mcp")
VARIANTS = {
    "": "Client(server).call_tool, in memory",
    "server": "FastMCP.call_tool alone, its errors as the text that its protocol layer would send",
    "middleware": "the first with ErrorHandlingMiddleware and RetryMiddleware",
}


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As gofastmcp.com/servers/middleware says."""
    retry = RetryMiddleware(max_retries=ATTEMPTS - 1, base_delay=0)
    server = FastMCP("tools", middleware=[ErrorHandlingMiddleware(), retry] if variant == "middleware" else [])
    for function in FUNCTIONS:
        server.tool(function)
    async with Client(server) as client:

        async def ask(name: str, arguments: dict[str, object]) -> str:
            try:
                if variant == "server":
                    answer: Any = await server.call_tool(name, arguments)
                else:
                    answer = await client.call_tool(name, arguments, raise_on_error=False)
            except (FastMCPError, NotFoundError) as exc:
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
