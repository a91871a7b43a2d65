"""``toolcall ledger``: the calls that may have taken effect, and the decision of a person about one of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import anyio
from rich.console import Console
from rich.table import Table

from .. import stores
from ..errors import SetupError
from ..middlewares import Ledger
from ..privacy import neutralise
from .terminal_text import CommandError

T = TypeVar("T")
_NO_SUCH = "no such call is undecided: it was decided, or still runs"


def list_undecided(path: Path) -> int:
    """Print the calls that may have taken effect. Returns the exit code: 1 if there are any.

    Raises:
        CommandError: The file is not a ledger, or cannot be read.
    """
    found = _run(path, lambda ledger: ledger.undecided())
    console = Console(highlight=False, markup=False, emoji=False)
    if not found:
        console.print("no call is undecided")
        return 0
    table = Table("id", "tool", "since", "principal", "conversation", box=None, pad_edge=False)
    table.columns[0].overflow = "fold"
    for each in found:
        since = datetime.fromtimestamp(each.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(each.id, *map(neutralise, (each.tool, since, each.principal, each.conversation)))
    console.print(table)
    return 1


def show(path: Path, id_: str) -> int:
    """Print what is kept of one delivery, as JSON. Returns the exit code: 1 if nothing is.

    Raises:
        CommandError: As `list_undecided`.
    """
    found = _run(path, lambda ledger: ledger.show(id_))
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(neutralise(json.dumps(found, indent=2), keep_lines=True) if found else "nothing is kept of this call")
    return 0 if found else 1


def resolve(path: Path, id_: str, *, landed: bool, value: str | None, by: str) -> int:
    """Say what became of a call. Returns the exit code: 1 if it is not undecided.

    Raises:
        CommandError: As `list_undecided`; or the value is not JSON.
    """
    try:
        result: object = None if value is None else json.loads(value)
    except ValueError as exc:
        raise CommandError(f"--value is not JSON: {exc}") from None
    done = _run(path, lambda ledger: ledger.resolve(id_, landed=landed, value=result, by=by))
    Console(highlight=False, markup=False, emoji=False).print("decided" if done else _NO_SUCH)
    return 0 if done else 1


def _run(path: Path, ask: Callable[[Ledger], Awaitable[T]]) -> T:
    async def main() -> T:
        async with stores.SQLite(path) as store:
            return await ask(Ledger(store))

    try:
        return anyio.run(main)
    except (SetupError, stores.StoreError) as exc:
        raise CommandError(f"{path}: {exc}") from None
