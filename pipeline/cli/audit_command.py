"""``toolcall audit``: prints the rows of an audit as JSON lines, or verifies them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from ..audit import AuditLog, Verdict
from ..errors import SetupError
from ..privacy import dump_neutral_json, neutralise
from ..stores import SQLite, StoreError
from .terminal_text import CommandError


def print_rows(path: Path, secret_file: Path | None) -> int:
    """Print all rows, oldest first, one JSON object a line. Returns the exit code.

    Raises:
        CommandError: The store or the file of the secret cannot be read.
    """

    async def run(log: AuditLog) -> None:
        async for row in log.read():
            sys.stdout.write(dump_neutral_json(row) + "\n")

    _run(path, secret_file, run)
    return 0


def verify(path: Path, secret_file: Path | None, expect: str) -> int:
    """Verify the rows, and print the faults.

    Returns:
        The exit code: 0; 1 if a row was changed, removed or inserted, or there is none.

    Raises:
        CommandError: As `print_rows`.
    """
    found: list[Verdict] = []

    async def run(log: AuditLog) -> None:
        found.append(await log.verify(expect))

    _run(path, secret_file, run)
    verdict = found[0]
    for fault in verdict.faults:
        print(neutralise(fault))
    if verdict.faults:
        return 1
    print(f"{verdict.rows} rows, whole; head {verdict.head}" if verdict.rows else "there are no rows")
    return 0 if verdict.rows else 1


def _run(path: Path, secret_file: Path | None, action: Callable[[AuditLog], Awaitable[None]]) -> None:
    if not path.is_file():
        raise CommandError(f"{path}: no such file")
    try:
        secret = b"" if secret_file is None else secret_file.read_bytes().strip()
    except OSError as exc:
        raise CommandError(f"{secret_file}: {exc.strerror}") from exc

    async def run() -> None:
        async with SQLite(path) as store:
            await action(AuditLog(store, secret))

    try:
        anyio.run(run)
    except (SetupError, StoreError) as exc:
        raise CommandError(str(exc)) from exc
