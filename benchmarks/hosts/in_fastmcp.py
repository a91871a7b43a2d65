"""A FastMCP server and its client."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from fastmcp import Client, FastMCP

from benchmarks.hosts.mistakes import Mistake, Tools
from toolcall_pipeline.hosts.fastmcp import ToolcallMiddleware

VERSION = f"fastmcp {version('fastmcp')}"
UNSEEN: frozenset[str] = frozenset()


async def ask(mistake: Mistake, tools: Tools, *, behind: bool, times: int = 1, **options: Any) -> str:
    """Make one call as a client, or the same one several times."""
    server = FastMCP("tools")
    for function in (tools.add, tools.count, tools.crash, tools.flaky):
        server.tool(function)
    if behind:
        server.add_middleware(ToolcallMiddleware(effects={"flaky": "read"}, **options))
    told = ""
    async with Client(server) as client:
        for _ in range(times):
            answer = await client.call_tool(mistake.name, json.loads(mistake.arguments), raise_on_error=False)
            told = str(getattr(answer.content[0], "text", ""))
    return told
