"""A server of MCP over HTTP, on the official SDK: ``mcp_http_server.py PORT [TRANSPORT]``."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

app: Any = import_module("mcp.server.mcpserver").MCPServer("web")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def pid() -> int:
    """The process id."""
    return os.getpid()


app.tool()(add)
app.tool()(pid)

if __name__ == "__main__":
    app.run(sys.argv[2] if len(sys.argv) > 2 else "streamable-http", port=int(sys.argv[1]))
