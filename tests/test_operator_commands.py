"""The commands of operators over stores and journals: one order, whole ids, JSON, and nothing is written by reading."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from toolcall_pipeline import Approvals, Call, Pipeline, ToolRegistry
from toolcall_pipeline.cli import store_commands
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.cli.named_store import make_store
from toolcall_pipeline.cli.terminal_text import CommandError
from toolcall_pipeline.middlewares import Approve, Audit, standard
from toolcall_pipeline.stores import Postgres, Redis, SQLite

LONG = "a very long principal " * 8


def run(*command: str) -> Result:
    return CliRunner().invoke(toolcall, command)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two approvals, two undecided calls of one conversation, and an audit; beside it a journal."""
    tools, lost = ToolRegistry(), ToolRegistry()

    @tools.tool
    async def pay(to: str) -> str:
        return to

    @lost.tool
    async def lose(n: int) -> None:
        raise ConnectionError(n)

    kept = SQLite(tmp_path / "calls.db")

    async def ask(pipeline: Pipeline, name: str, *arguments: dict[str, Any]) -> None:
        async with pipeline:
            for number, each in enumerate(arguments):
                await pipeline(Call(name, each, str(number), LONG, conversation="c"))

    async def prepare() -> None:
        asking = standard(tools, store=kept).before("ledger", Approve(kept, effects=["mutating"]))
        await ask(asking, "pay", {"to": "Älá"}, {"to": "Bo"})
        losing = standard(lost, store=kept, journal=tmp_path / "journal.db").before("resolve", Audit(kept))
        await ask(losing, "lose", {"n": 1}, {"n": 2})

    anyio.run(prepare)
    return tmp_path / "calls.db"


def ids_of(path: Path, group: str) -> list[str]:
    return [each["id"] for each in json.loads(run(group, str(path), "list", "--json").stdout)]


@pytest.mark.parametrize("group", ["approvals", "ledger"])
@pytest.mark.parametrize("columns", [None, 80])
def test_ids_are_whole(path: Path, group: str, columns: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe, and on a terminal of 80 columns, each id of a list is one word of a line."""

    def make_terminal() -> Console:
        return Console(force_terminal=True, width=80, no_color=True, markup=False)

    if columns is not None:
        monkeypatch.setattr(store_commands, "make_console", make_terminal)
    listed = run(group, str(path), "list").stdout
    found = ids_of(path, group)
    assert len(found) == 2
    assert set(found) <= {line.split()[0] for line in listed.splitlines() if line.strip()}


def shorten(id_: str, others: list[str]) -> str:
    """The shortest beginning that no other id has."""
    return next(id_[:n] for n in range(1, len(id_) + 1) if not any(each.startswith(id_[:n]) for each in others))


@pytest.mark.parametrize("group", ["approvals", "ledger"])
def test_a_beginning_that_no_other_id_has(path: Path, group: str) -> None:
    """A call is found by the beginning of its id, and several that begin so are refused with their ids."""
    one, other = ids_of(path, group)
    part = shorten(one, [other])
    shown = run(group, str(path), "show", part, "--json")
    assert (shown.exit_code, shown.stdout) == (0, run(group, str(path), "show", one, "--json").stdout)
    if one[0] == other[0]:
        refused = run(group, str(path), "show", one[0])
        assert (refused.exit_code, one in refused.stderr, other in refused.stderr) == (2, True, True)


def test_each_answer_as_json(path: Path) -> None:
    """With --json each command prints one JSON value, or one a line."""
    approval, undecided = ids_of(path, "approvals")[0], ids_of(path, "ledger")[0]
    commands: list[tuple[str, ...]] = [
        ("approvals", str(path), "show", approval),
        ("approvals", str(path), "approve", approval, "--by", "boss"),
        ("ledger", str(path), "show", undecided),
        ("ledger", str(path), "resolve", undecided, "landed"),
        ("audit", str(path), "list"),
        ("audit", str(path), "verify"),
        ("report", str(path.with_name("journal.db"))),
        ("explain", str(path.with_name("journal.db")), "0"),
    ]
    for command in commands:
        done = run(*command, "--json")
        assert done.exit_code == 0, (command, done.output)
        for line in done.stdout.splitlines() if command[0] == "audit" else [done.stdout]:
            json.loads(line)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("approvals list calls.db", "the store comes first: toolcall approvals calls.db list"),
        ("ledger resolve calls.db ID landed", "the store comes first: toolcall ledger calls.db resolve ID landed"),
        ("audit calls.db --verify", "the verb has no dashes: toolcall audit calls.db verify"),
        (
            "approvals calls.db nothing",
            "toolcall approvals STORE has list, show, approve, reject, grant, grants, revoke, and no 'nothing'",
        ),
        ("ledger mysql://here list", "mysql:// is no store"),
    ],
)
def test_the_order_of_the_words(command: str, told: str) -> None:
    """A command of the old order, and one that is none, ends with exit code 2 and the words to write."""
    done = CliRunner().invoke(toolcall, command.split(), prog_name="toolcall")
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("group", ["approvals", "ledger", "audit", "switch"])
def test_the_help_may_follow_the_store(group: str) -> None:
    """`--help` behind STORE is the help of the command, and reads no store."""
    shown = run(group, "missing.db", "--help")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, run(group, "--help").stdout, "")


def test_what_names_a_store() -> None:
    """A path is SQLite, and a URL is that of its server."""
    kinds = {
        "calls.db": SQLite,
        "redis://h/0": Redis,
        "rediss://h": Redis,
        "postgresql://h/d": Postgres,
        "postgres://h/d": Postgres,
    }
    assert {named: type(make_store(named)) for named in kinds} == kinds
    with pytest.raises(CommandError):
        make_store("redis://h:port")


READS = [
    "approvals FILE list",
    "approvals FILE approve a",
    "ledger FILE list",
    "ledger FILE resolve a landed",
    "audit FILE list",
    "audit FILE verify",
    "report FILE",
    "explain FILE a",
    "replay FILE json:dumps",
]


@pytest.mark.parametrize("command", READS)
@pytest.mark.parametrize("content", [None, b"", b"mine" * 100, b'{"mine": 1}\n'])
def test_nothing_is_written_where_nothing_is(tmp_path: Path, command: str, content: bytes | None) -> None:
    """A file that is missing, empty or another program's stays so."""
    file = tmp_path / "file.db"
    if content is not None:
        file.write_bytes(content)
    run(*command.replace("FILE", str(file)).split())
    assert [each.read_bytes() for each in tmp_path.iterdir()] == ([] if content is None else [content])


def test_a_terminal_of_ascii(path: Path) -> None:
    """Where the encoding of the output lacks a character, it is escaped."""
    for command in (("approvals", str(path), "list"), ("report", str(path.with_name("journal.db")))):
        done = subprocess.run(
            [sys.executable, "-m", "toolcall_pipeline", *command],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr


async def test_an_approval_by_a_part_of_its_id_is_decided_once(path: Path) -> None:
    """What the command decided is what an application reads."""
    id_ = (await anyio.to_thread.run_sync(ids_of, path, "approvals"))[0]
    await anyio.to_thread.run_sync(run, "approvals", str(path), "reject", id_, "--by", "boss")
    async with Approvals(SQLite(path)) as approvals:
        found = await approvals.get(id_)
    assert found is not None
    assert (found.state, found.by) == ("rejected", "boss")
