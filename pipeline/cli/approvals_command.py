"""``toolcall approvals``: lists the calls that wait for a person, and takes the decisions."""

from __future__ import annotations

import getpass
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..approvals import Approval, Approvals
from ..errors import SetupError
from ..privacy import dump_neutral_json, neutralise
from ..stores import SQLite, StoreError
from .terminal_text import CommandError

T = TypeVar("T")


def list_approvals(path: Path, *, everything: bool) -> int:
    """Print the calls that wait, or all that are kept. Returns the exit code.

    Raises:
        CommandError: The store cannot be read.
    """

    async def read(approvals: Approvals) -> list[Approval]:
        return await (approvals.list() if everything else approvals.pending())

    table = Table("id", "state", "tool", "arguments", "asked by", "since", box=None, pad_edge=False)
    for each in _run(path, read):
        cells = (each.id, each.state, each.tool, _write_arguments(each), each.principal, _write_time(each.at))
        table.add_row(*(Text(neutralise(cell)) for cell in cells))
    if table.row_count:
        _console().print(table)
    else:
        _console().print("no call waits" if not everything else "there are no approvals")
    return 0


def show_approval(path: Path, id_: str) -> int:
    """Print one call, with the arguments as they will run. Returns the exit code.

    Raises:
        CommandError: The store cannot be read, or the id is unknown.
    """

    async def read(approvals: Approvals) -> Approval | None:
        return await approvals.get(id_)

    found = _run(path, read)
    if found is None:
        raise CommandError(f"there is no approval {id_!r}")
    rows = {
        "id": found.id,
        "state": found.state,
        "tool": found.tool,
        "asked by": found.principal,
        "conversation": found.conversation,
        "reason": found.reason,
        "policy": found.policy,
        "since": _write_time(found.at),
        "expires": _write_time(found.expires_at),
        "decided by": found.by,
        "message": found.message,
    }
    console = _console()
    for name, value in rows.items():
        if value:
            console.print(Text(f"{name:<13}{neutralise(value)}"), soft_wrap=True)
    console.print(Text(dump_neutral_json(found.arguments, indent=2)), soft_wrap=True)
    return 0


def decide(path: Path, id_: str, *, approve: bool, by: str, arguments: str | None, message: str) -> int:
    """Take a decision.

    Returns:
        The exit code: 0; 1 if the call was decided or had expired before.

    Raises:
        CommandError: The store cannot be read, the id is unknown, or the arguments do not fit the tool.
    """
    try:
        edited = None if arguments is None else json.loads(arguments)
    except ValueError as exc:
        raise CommandError(f"--arguments is not JSON: {exc}") from exc
    who = by or getpass.getuser()

    async def take(approvals: Approvals) -> Approval:
        if approve:
            return await approvals.approve(id_, by=who, arguments=edited, message=message)
        return await approvals.reject(id_, by=who, message=message)

    found = _run(path, take)
    is_taken = found.state == ("approved" if approve else "rejected")
    by_whom = f" by {neutralise(found.by)}" if found.by else ""
    _console().print(
        Text(f"{found.state}{by_whom}: {neutralise(found.tool)} {_write_arguments(found)}"), soft_wrap=True
    )
    return 0 if is_taken else 1


def _run(path: Path, action: Callable[[Approvals], Awaitable[T]]) -> T:
    if not path.is_file():
        raise CommandError(f"{path}: no such file")

    async def run() -> T:
        async with Approvals(SQLite(path)) as approvals:
            return await action(approvals)

    try:
        return anyio.run(run)
    except (SetupError, StoreError) as exc:
        raise CommandError(str(exc)) from exc


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _write_arguments(found: Approval) -> str:
    return dump_neutral_json(found.arguments)


def _write_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
