"""Starts a server of MCP, and kills it when the first call of a tool comes: ``mcp_stopper.py COMMAND ARGS…``.

The run after that goes on as the server itself, so a relay that starts it again gets an answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

MARK = Path(tempfile.gettempdir()) / f"toolcall-stopped-{os.getppid()}"  # by the proxy that starts this


def main() -> None:
    """Pass lines on until the first call."""
    if MARK.exists():
        MARK.unlink()
        os.execv(sys.argv[1], sys.argv[1:])
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE) as server:
        assert server.stdin is not None
        for line in sys.stdin.buffer:
            if b'"tools/call"' in line:
                MARK.touch()
                server.kill()
                return
            server.stdin.write(line)
            server.stdin.flush()


if __name__ == "__main__":
    main()
