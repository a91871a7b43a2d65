"""The commands over a store: ``toolcall approvals``, ``ledger``, ``audit`` and ``switch``.

Each public function does one command, and returns its exit code, which the command's help explains. It raises
CommandError for what ends a command with exit code 2: a store or a file that cannot be read, an id that is unknown or
that several have, a wrong option.
"""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import attrs
from rich.table import Table
from rich.text import Text

from ..approvals import Approval, Approvals, Grant
from ..audit import AuditLog
from ..messages.text import format_count
from ..middlewares import Ledger, Switchboard
from ..privacy import dump_neutral_json, neutralise
from ..stage_state.switches import Switch
from .named_store import ask_store
from .terminal_text import CommandError, make_console

T = TypeVar("T")
_NO_SUCH = "no such call is undecided: it was decided, or still runs"
_WIDEST = 10_000  # characters of a line in a pipe
_MOST_SHOWN = 5  # ids that an error names


def list_approvals(named: str, *, everything: bool, as_json: bool) -> int:
    """Print the calls that wait, or all that are kept."""

    async def read(approvals: Approvals) -> list[Approval]:
        return await (approvals.list() if everything else approvals.pending())

    found = _ask_approvals(named, read)
    if as_json:
        _print_json([attrs.asdict(each) for each in found])
    elif found:
        rows = ((each.id, each.state, each.tool, each.principal, each.at, _write_arguments(each)) for each in found)
        _print_table(("id", "state", "tool", "asked by", "since", "arguments"), rows)
    else:
        print("no call waits" if not everything else "there are no approvals")
    return 0


def show_approval(named: str, part: str, *, as_json: bool) -> int:
    """Print one call, with the arguments as they will run."""

    async def read(approvals: Approvals) -> Approval:
        return await approvals.get(await _find_approval(approvals, part)) or _refuse_id(part)

    found = _ask_approvals(named, read)
    if as_json:
        _print_json(attrs.asdict(found))
        return 0
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
        "by grant": found.grant,
        "message": found.message,
        "used": "it has its answer" if found.ended else "it began" if found.ran else "",
    }
    for name, value in rows.items():
        if value:
            print(f"{name:<13}{neutralise(value)}")
    print(dump_neutral_json(found.arguments, indent=2))
    return 0


def decide(named: str, part: str, *, approve: bool, by: str, arguments: str | None, message: str, as_json: bool) -> int:
    """Take a decision."""
    edited: Any = None if arguments is None else _read_json("--arguments", arguments)
    who = by or getpass.getuser()

    async def take(approvals: Approvals) -> Approval:
        id_ = await _find_approval(approvals, part)
        if approve:
            return await approvals.approve(id_, by=who, arguments=edited, message=message) or _refuse_id(part)
        return await approvals.reject(id_, by=who, message=message) or _refuse_id(part)

    found = _ask_approvals(named, take)
    if as_json:
        _print_json(attrs.asdict(found))
    else:
        by_whom = f" by {neutralise(found.by)}" if found.by else ""
        if found.state == "pending":
            by_whom = f", for {neutralise(who)} asked for it, and somebody else decides"
        print(f"{found.state}{by_whom}: {neutralise(found.tool)} {_write_arguments(found)}")
    return 0 if found.state == ("approved" if approve else "rejected") else 1


def give_grant(
    named: str,
    tool: str,
    principal: str | None,
    conversation: str | None,
    until: str | None,
    *,
    by: str,
    as_json: bool,
) -> int:
    """Let all calls run that a standing grant covers."""
    try:
        end = None if until is None else datetime.fromisoformat(until)
    except ValueError:
        raise CommandError(f"--until is no time such as 2026-12-31T18:00:00Z: {until!r}") from None
    if end is not None and end.tzinfo is None:
        end = end.replace(tzinfo=UTC)
    who = by or getpass.getuser()
    caller = {"principal": principal, "conversation": conversation}
    made = _ask_approvals(named, lambda approvals: approvals.grant(tool=tool, by=who, until=end, **caller))
    _print_grants([made], as_json=as_json, one=True)
    return 0


def list_grants(named: str, *, as_json: bool) -> int:
    """Print the grants that hold."""
    _print_grants(_ask_approvals(named, lambda approvals: approvals.grants()), as_json=as_json)
    return 0


def revoke_grant(named: str, part: str, *, as_json: bool) -> int:
    """End a grant."""

    async def revoke(approvals: Approvals) -> Grant:
        id_ = _find_one(part, [each.id for each in await approvals.grants()])
        return await approvals.revoke(id_) or _refuse_id(part, "grant")

    _print_grants([_ask_approvals(named, revoke)], as_json=as_json, one=True)
    return 0


def list_undecided(named: str, *, as_json: bool) -> int:
    """Print the calls that may have taken effect."""
    found = _ask_ledger(named, lambda ledger: ledger.undecided())
    if as_json:
        _print_json([attrs.asdict(each) for each in found])
    elif found:
        rows = ((each.id, each.tool, each.at, each.principal, each.conversation) for each in found)
        _print_table(("id", "tool", "since", "principal", "conversation"), rows)
    else:
        print("no call is undecided")
    return int(bool(found))


def show_delivery(named: str, part: str) -> int:
    """Print what is kept of one delivery, as JSON."""

    async def read(ledger: Ledger) -> dict[str, Any]:
        return await ledger.show(part) or await ledger.show(await _find_undecided(ledger, part))

    found = _ask_ledger(named, read)
    print(neutralise(json.dumps(found, indent=2), keep_lines=True) if found else "nothing is kept of this call")
    return 0 if found else 1


def resolve_call(named: str, part: str, *, landed: bool, value: str | None, by: str, as_json: bool) -> int:
    """Say what became of a call."""
    result: object = None if value is None else _read_json("--value", value)

    async def resolve(ledger: Ledger) -> tuple[str, bool]:
        id_ = await _find_undecided(ledger, part)
        return id_, await ledger.resolve(id_, landed=landed, value=result, by=by)

    id_, done = _ask_ledger(named, resolve)
    if as_json:
        _print_json({"id": id_, "decided": done})
    else:
        print("decided" if done else _NO_SUCH)
    return 0 if done else 1


def print_audit(named: str, secret_file: Path | None) -> int:
    """Print all rows, oldest first, one JSON object a line."""

    async def write(log: AuditLog) -> None:
        async for row in log.read():
            sys.stdout.write(dump_neutral_json(row) + "\n")

    _ask_audit(named, secret_file, write)
    return 0


def verify_audit(named: str, secret_file: Path | None, expect: str, *, as_json: bool) -> int:
    """Verify the rows, and print the faults."""
    verdict = _ask_audit(named, secret_file, lambda log: log.verify(expect))
    if as_json:
        _print_json(verdict._asdict())
    elif verdict.faults:
        print("\n".join(map(neutralise, verdict.faults)))
    else:
        print(f"{verdict.rows} rows, whole; head {verdict.head}" if verdict.rows else "there are no rows")
    return 0 if verdict.rows and not verdict.faults else 1


def switch_tool(
    named: str,
    verb: str,
    what: Mapping[str, Any],
    *,
    by: str,
    why: str,
    secret_file: Path | None,
    as_json: bool,
    retry_after: float | None = None,
) -> int:
    """Pause, resume, disable or enable, and print what stands then."""
    secret, who = _read_secret(secret_file), by or getpass.getuser()
    options = {**what, "by": who, "why": why, **({} if retry_after is None else {"retry_after": retry_after})}
    done = ask_store(named, lambda store: getattr(Switchboard(store, secret=secret), verb)(**options))
    if as_json:
        _print_json({"changed": done.changed, "standing": [attrs.asdict(each) for each in done.standing]})
    elif done.standing:
        _print_switches(done.standing)
    else:
        print("nothing closes it here any more" if done.changed else "nothing was to be taken back")
    closes = verb in ("pause", "disable")
    stands = any(each.state == ("paused" if verb == "resume" else "disabled") for each in done.standing)
    return 0 if closes or (done.changed and not stands) else 1


def list_switches(named: str, *, as_json: bool) -> int:
    """Print what is closed."""
    found = ask_store(named, lambda store: Switchboard(store).list())
    if as_json:
        _print_json([attrs.asdict(each) for each in found])
    elif found:
        _print_switches(found)
    else:
        print("nothing is closed")
    return 0


async def _find_approval(approvals: Approvals, part: str) -> str:
    if await approvals.get(part) is not None:
        return part
    return _find_one(part, [each.id for each in await approvals.list()]) or _refuse_id(part)


async def _find_undecided(ledger: Ledger, part: str) -> str:
    return _find_one(part, [each.id for each in await ledger.undecided()]) or part


def _find_one(part: str, ids: Sequence[str]) -> str:
    """The only id that begins so, be it behind the braces that calls of one conversation share; "": there is none.

    Raises:
        CommandError: There are several.
    """
    found = [id_ for id_ in ids if part and (id_.startswith(part) or id_.partition("}")[2].startswith(part))]
    if len(found) > 1 and part not in found:
        shown = ", ".join(found[:_MOST_SHOWN]) + (", …" if len(found) > _MOST_SHOWN else "")
        raise CommandError(f"{format_count(len(found), 'id')} begin with {part!r}: {shown}")
    return part if part in found else found[0] if found else ""


def _refuse_id(part: str, kind: str = "approval") -> NoReturn:
    raise CommandError(f"there is no {kind} {part!r}")


def _ask_approvals(named: str, ask: Callable[[Approvals], Awaitable[T]]) -> T:
    return ask_store(named, lambda store: ask(Approvals(store)))


def _ask_ledger(named: str, ask: Callable[[Ledger], Awaitable[T]]) -> T:
    return ask_store(named, lambda store: ask(Ledger(store)))


def _ask_audit(named: str, secret_file: Path | None, ask: Callable[[AuditLog], Awaitable[T]]) -> T:
    secret = _read_secret(secret_file)
    return ask_store(named, lambda store: ask(AuditLog(store, secret)))


def _read_secret(path: Path | None) -> bytes:
    try:
        return b"" if path is None else path.read_bytes().strip()
    except OSError as exc:
        raise CommandError(f"{path}: {exc.strerror}") from exc


def _read_json(option: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise CommandError(f"{option} is not JSON: {exc}") from exc


def _print_json(value: object) -> None:
    print(dump_neutral_json(value))


def _print_table(titles: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    """Print a table whose first column, the ids, is whole on a terminal of 80 columns; in a pipe each row is a line."""
    table = Table(*titles, box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        cells = [neutralise(_write_time(each) if isinstance(each, float) else str(each)) for each in row]
        table.columns[0].min_width = max(table.columns[0].min_width or 0, len(cells[0]))
        table.add_row(*map(Text, cells))
    console = make_console()
    if not console.is_terminal:
        console.width = _WIDEST
    console.print(table)


def _print_grants(grants: Sequence[Grant], *, as_json: bool, one: bool = False) -> None:
    if as_json:
        _print_json(attrs.asdict(grants[0]) if one else [attrs.asdict(each) for each in grants])
    elif grants:
        named = ("every caller" if each.principal is None else each.principal for each in grants)
        places = ("everywhere" if each.conversation is None else each.conversation for each in grants)
        ends = ("revoked" if each.until is None else each.until for each in grants)
        rows = [
            (each.id, each.tool, who, where, end, each.by, each.at)
            for each, who, where, end in zip(grants, named, places, ends, strict=True)
        ]
        _print_table(("id", "tool", "principal", "conversation", "until", "given by", "since"), rows)
    else:
        print("there are no grants")


def _print_switches(switches: Sequence[Switch]) -> None:
    rows = [
        (
            each.principal or each.tool or "everything",
            "principal" if each.principal else "tool" if each.tool else "",
            each.state,
            each.by,
            each.at,
            each.why,
        )
        for each in switches
    ]
    _print_table(("what", "", "state", "by", "since", "why"), rows)


def _write_arguments(found: Approval) -> str:
    return dump_neutral_json(found.arguments)


def _write_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
