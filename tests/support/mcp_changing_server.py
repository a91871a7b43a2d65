"""A server of MCP on the official SDK that changes: ``mcp_changing_server.py [PORT]``, over stdio without a port."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import anyio

server: Any = import_module("mcp.server.mcpserver")
app: Any = server.MCPServer("changing")
cancelled: list[str] = []


def pid() -> int:
    """The process id."""
    return os.getpid()


async def work(steps: int, ctx: Any) -> str:
    """Tell of each step."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


async def hang(ctx: Any) -> str:
    """Say that it began, and never end; note a cancellation."""
    try:  # the client may cancel before the report has been written
        await ctx.report_progress(0, 1, f"hanging in {os.getpid()}")
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        cancelled.append("hang")
        raise
    return ""


def list_cancelled() -> list[str]:
    """What was cancelled."""
    return cancelled


async def change(ctx: Any) -> str:
    """Change the words of ``pid``, add a tool, and say so."""
    app.remove_tool("pid")
    app.tool(name="pid", description="Another text.")(pid)
    app.tool(name="added")(lambda: "new")
    await ctx.notify_tools_changed()  # for clients that listen, from 2026 on
    with suppress(Exception):  # for those before
        await ctx.session.send_tool_list_changed()
    return "changed"


app.tool(annotations=import_module("mcp_types").ToolAnnotations(read_only_hint=True))(pid)
for function in (work, hang, list_cancelled, change):
    if "ctx" in function.__annotations__:  # which the package finds by its type
        function.__annotations__["ctx"] = server.Context
    app.tool()(function)

if __name__ == "__main__":
    if sys.argv[1:]:
        app.run("streamable-http", port=int(sys.argv[1]))
    else:
        app.run("stdio")
