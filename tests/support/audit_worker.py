"""A process that writes rows into an audit: ``python audit_worker.py FILE COUNT``."""

from __future__ import annotations

import sys

import anyio

from toolcall_pipeline.audit import AuditLog
from toolcall_pipeline.stores import SQLite


async def main(path: str, count: int) -> None:
    """Write all rows, eight at once."""
    async with SQLite(path, timeout=30) as store:
        log = AuditLog(store)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(log.append, {"event": "asked", "tool": f"t{number}"})


anyio.run(main, sys.argv[1], int(sys.argv[2]))
