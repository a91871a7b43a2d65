"""A small MCP server for tests, good or hostile: ``python fake_mcp_server.py MODE``. It needs nothing but Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "text": {"type": "string"}}}
TOOLS = [
    {"name": "echo", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "write", "inputSchema": SCHEMA},
]
MODE = sys.argv[1] if len(sys.argv) > 1 else "good"


def say(message: object) -> None:
    """Write one line."""
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def run(name: str, arguments: dict[str, Any]) -> str:
    """Run a tool. ``write`` appends its number to the file that the mode names."""
    if name == "write" and MODE.startswith("log:"):
        with Path(MODE[4:]).open("a") as file:
            file.write(f"{arguments['n']}\n")
    return json.dumps({"pid": os.getpid(), **arguments})


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "fake", "version": "1"}}
    if method == "tools/list":
        other = Path(f"{MODE[4:]}.tools")  # names of further tools
        more = other.read_text().split() if MODE.startswith("log:") and other.exists() else []
        return {"tools": [*TOOLS, *({"name": each, "inputSchema": SCHEMA} for each in more)]}
    if method == "tools/call":
        arguments = params.get("arguments", {})
        text, told = arguments.get("text"), run(params["name"], arguments)
        once = Path(text[5:]) if isinstance(text, str) and text.startswith("once:") else None
        if text == "die" or (once is not None and not once.exists()):
            if once is not None:
                once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"content": [{"type": "text", "text": told}]}
    return {}


def main() -> None:
    """Answer what comes, until stdin ends."""
    if MODE == "flood":  # of stderr
        threading.Thread(target=lambda: sys.stderr.write("x" * 5_000_000), daemon=True).start()
    if MODE == "stubborn":  # neither SIGTERM nor the end of stdin ends it
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "child":  # it leaves one behind that holds its stdout
        left = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        say({"jsonrpc": "2.0", "method": "child", "params": {"pid": left.pid}})
    say({"jsonrpc": "2.0", "method": "hello", "params": {"pid": os.getpid()}})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request and "method" in request:
            say({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)})
    while MODE == "stubborn":
        time.sleep(60)


if __name__ == "__main__":
    main()
