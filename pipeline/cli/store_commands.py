"""The commands over a store: ``toolcall approvals``, ``toolcall ledger`` and ``toolcall audit``."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import anyio
from rich.table import Table
from rich.text import Text

from ..approvals import Approval, Approvals
from ..audit import AuditLog
from ..base.setup_error import SetupError
from ..middlewares import Ledger
from ..privacy import dump_neutral_json, neutralise
from ..stores import SQLite, StoreError
from .terminal_text import CommandError, make_console

T = TypeVar("T")
_NO_SUCH = "no such call is undecided: it was decided, or still runs"


def list_approvals(path: Path, *, everything: bool) -> int:
    """Print the calls that wait, or all that are kept. Returns the exit code.

    Raises:
        CommandError: The store cannot be read.
    """

    async def read(approvals: Approvals) -> list[Approval]:
        return await (approvals.list() if everything else approvals.pending())

    table = Table("id", "state", "tool", "arguments", "asked by", "since", box=None, pad_edge=False)
    for each in _ask_approvals(path, read):
        cells = (each.id, each.state, each.tool, _write_arguments(each), each.principal, _write_time(each.at))
        table.add_row(*(Text(neutralise(cell)) for cell in cells))
    if table.row_count:
        make_console().print(table)
    else:
        make_console().print("no call waits" if not everything else "there are no approvals")
    return 0


def show_approval(path: Path, id_: str) -> int:
    """Print one call, with the arguments as they will run. Returns the exit code.

    Raises:
        CommandError: The store cannot be read, or the id is unknown.
    """

    async def read(approvals: Approvals) -> Approval | None:
        return await approvals.get(id_)

    found = _ask_approvals(path, read)
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
    console = make_console()
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

    found = _ask_approvals(path, take)
    is_taken = found.state == ("approved" if approve else "rejected")
    by_whom = f" by {neutralise(found.by)}" if found.by else ""
    make_console().print(
        Text(f"{found.state}{by_whom}: {neutralise(found.tool)} {_write_arguments(found)}"), soft_wrap=True
    )
    return 0 if is_taken else 1


def list_undecided(path: Path) -> int:
    """Print the calls that may have taken effect. Returns the exit code: 1 if there are any.

    Raises:
        CommandError: The file is not a ledger, or cannot be read.
    """
    found = _ask_ledger(path, lambda ledger: ledger.undecided())
    console = make_console()
    if not found:
        console.print("no call is undecided")
        return 0
    table = Table("id", "tool", "since", "principal", "conversation", box=None, pad_edge=False)
    table.columns[0].overflow = "fold"
    for each in found:
        since = _write_time(each.at).removesuffix(" UTC")
        table.add_row(each.id, *map(neutralise, (each.tool, since, each.principal, each.conversation)))
    console.print(table)
    return 1


def show_delivery(path: Path, id_: str) -> int:
    """Print what is kept of one delivery, as JSON. Returns the exit code: 1 if nothing is.

    Raises:
        CommandError: As `list_undecided`.
    """
    found = _ask_ledger(path, lambda ledger: ledger.show(id_))
    text = neutralise(json.dumps(found, indent=2), keep_lines=True) if found else "nothing is kept of this call"
    make_console().print(text, soft_wrap=True)
    return 0 if found else 1


def resolve_call(path: Path, id_: str, *, landed: bool, value: str | None, by: str) -> int:
    """Say what became of a call. Returns the exit code: 1 if it is not undecided.

    Raises:
        CommandError: As `list_undecided`; or the value is not JSON.
    """
    try:
        result: object = None if value is None else json.loads(value)
    except ValueError as exc:
        raise CommandError(f"--value is not JSON: {exc}") from None
    done = _ask_ledger(path, lambda ledger: ledger.resolve(id_, landed=landed, value=result, by=by))
    make_console().print("decided" if done else _NO_SUCH)
    return 0 if done else 1


def print_audit(path: Path, secret_file: Path | None) -> int:
    """Print all rows, oldest first, one JSON object a line. Returns the exit code.

    Raises:
        CommandError: The store or the file of the secret cannot be read.
    """

    async def write(log: AuditLog) -> None:
        async for row in log.read():
            sys.stdout.write(dump_neutral_json(row) + "\n")

    _ask_audit(path, secret_file, write)
    return 0


def verify_audit(path: Path, secret_file: Path | None, expect: str) -> int:
    """Verify the rows, and print the faults.

    Returns:
        The exit code: 0; 1 if a row was changed, removed or inserted, or there is none.

    Raises:
        CommandError: As `print_audit`.
    """
    verdict = _ask_audit(path, secret_file, lambda log: log.verify(expect))
    for fault in verdict.faults:
        print(neutralise(fault))
    if verdict.faults:
        return 1
    print(f"{verdict.rows} rows, whole; head {verdict.head}" if verdict.rows else "there are no rows")
    return 0 if verdict.rows else 1


def _ask_approvals(path: Path, ask: Callable[[Approvals], Awaitable[T]]) -> T:
    async def run() -> T:
        async with Approvals(SQLite(path)) as approvals:
            return await ask(approvals)

    return _run(path, run)


def _ask_ledger(path: Path, ask: Callable[[Ledger], Awaitable[T]]) -> T:
    async def run() -> T:
        async with SQLite(path) as store:
            return await ask(Ledger(store))

    return _run(path, run)


def _ask_audit(path: Path, secret_file: Path | None, ask: Callable[[AuditLog], Awaitable[T]]) -> T:
    try:
        secret = b"" if secret_file is None else secret_file.read_bytes().strip()
    except OSError as exc:
        raise CommandError(f"{secret_file}: {exc.strerror}") from exc

    async def run() -> T:
        async with SQLite(path) as store:
            return await ask(AuditLog(store, secret))

    return _run(path, run)


def _run(path: Path, ask: Callable[[], Awaitable[T]]) -> T:
    if not path.is_file():
        raise CommandError(f"{path}: no such file")
    try:
        return anyio.run(ask)
    except (SetupError, StoreError) as exc:
        raise CommandError(f"{path}: {exc}") from exc


def _write_arguments(found: Approval) -> str:
    return dump_neutral_json(found.arguments)


def _write_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
