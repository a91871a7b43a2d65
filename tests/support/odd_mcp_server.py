"""A server of MCP that answers with given bytes: ``odd_mcp_server.py [PORT]``, over stdio without a port.

The tool ``say`` answers with the bytes of its argument ``frame``, in hexadecimal; ``ID`` in them is the id of the call.
Over HTTP the argument ``status`` and ``kind`` are those of the response. It lists what stands in ``$ODD_TOOLS``.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SAY = {"name": "say", "inputSchema": {"type": "object"}}
TOOLS: list[Any] = [SAY, *json.loads(os.environ.get("ODD_TOOLS", "[]"))]


def answer(request: dict[str, Any]) -> bytes | None:
    """The bytes that answer a request; None: a notification, or a method that is not there."""
    method, params = request["method"], request.get("params", {})
    result: dict[str, Any] | None = None
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        if "frame" in (arguments := params.get("arguments", {})):
            return bytes.fromhex(arguments["frame"]).replace(b"ID", json.dumps(request["id"]).encode())
        result = {"content": [{"type": "text", "text": "well"}]}
    if result is None and "id" not in request:
        return None
    outcome = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers each POST."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # its name is given
        """Answer."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = answer(request)
        arguments = request.get("params", {}).get("arguments", {})
        self.send_response(202 if body is None else arguments.get("status", 200))
        self.send_header("content-type", arguments.get("kind", "application/json"))
        self.send_header("content-length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_GET(self) -> None:
        """There is no stream."""
        self.send_error(405)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name is given
        """Say nothing."""


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
    for line in sys.stdin:
        said = answer(json.loads(line))
        if said is not None:
            sys.stdout.buffer.write(said + b"\n")
            sys.stdout.buffer.flush()
