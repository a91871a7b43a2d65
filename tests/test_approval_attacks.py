"""Attacks on approvals: what was approved runs once, as it was approved, for the one who asked, or not at all."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import pytest
from click.testing import CliRunner

from toolcall_pipeline import Approvals, Pipeline, Secret, SetupError, Success, ToolFailed, ToolRegistry
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.middlewares import Approve, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet, read_rules
from toolcall_pipeline.stores import Change, Memory, SQLite, Store, StoreError

SUPPORT = Path(__file__).parent / "support"
FIRST: dict[str, Any] = {"name": "pay", "arguments": {"to": "Bob", "cents": 5}, "principal": "ann", "conversation": "c"}


class Bank:
    """Pays what a person has approved."""

    def __init__(self, store: Store, *, version: str = "1", schema: str = "") -> None:
        self.paid: list[str] = []
        self.tools = ToolRegistry()

        async def pay(to: str, cents: int = 5) -> str:
            self.paid.append(f"{to} {cents}")
            if to == "Nobody":
                raise ToolFailed("There is nobody of that name.")
            return f"paid {to}"

        async def pay_with_note(to: str, cents: int = 5, note: str = "") -> str:
            self.paid.append(f"{to} {cents} {note}")
            return f"paid {to}"

        make: Any = self.tools.tool(name="pay")
        make(pay_with_note if schema else pay)

        @self.tools.tool
        async def burn(to: str, cents: int = 5) -> str:
            self.paid.append(f"burnt {to} {cents}")
            return "burnt"

        @self.tools.tool
        async def sign(code: Annotated[str, Secret]) -> str:
            return f"signed {len(code)}"

        approve = Approve(store, effects=["mutating"], version=version)
        self.run: Pipeline = standard(self.tools, store=store).before("ledger", approve)


async def send(bank: Bank, id_: str = "1", **changes: Any) -> Any:
    call: dict[str, Any] = {**FIRST, **changes}
    return await bank.run.call(call.pop("name"), call.pop("arguments"), id=id_, **call)


async def approve(store: Store, outcome: Any, **options: Any) -> str:
    id_ = str(outcome.failure().id)
    decided = await Approvals(store).approve(id_, by="boss", **options)
    assert decided is not None
    assert decided.state == "approved"
    return id_


def kind_of(outcome: Any) -> str:
    return "success" if isinstance(outcome, Success) else str(outcome.failure().kind)


CHANGES = [
    pytest.param({"arguments": {"to": "Eve", "cents": 5}}, id="other arguments"),
    pytest.param({"arguments": {"to": "Bob", "cents": 50}}, id="another amount"),
    pytest.param({"principal": "eve"}, id="another principal"),
    pytest.param({"principal": ""}, id="no principal"),
    pytest.param({"conversation": "d"}, id="another conversation"),
    pytest.param({"name": "burn"}, id="another tool"),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("id_", ["1", "2"])
async def test_an_approval_is_not_for_another_call(change: dict[str, Any], id_: str) -> None:
    """Also under the id of the call that was approved, a call that differs waits for a decision of its own."""
    bank = Bank(store := Memory())
    await approve(store, await send(bank))
    assert kind_of(await send(bank, id_, **change)) == "awaiting_approval"
    assert bank.paid == []
    assert kind_of(await send(bank)) == "success"
    assert bank.paid == ["Bob 5"]


@pytest.mark.parametrize("other", [{"schema": "note"}, {"version": "2"}])
async def test_a_tool_or_a_policy_that_changed_asks_anew(other: dict[str, str]) -> None:
    """A tool of the same name with another schema, and another version of the policy, run nothing that was approved."""
    store = Memory()
    id_ = await approve(store, await send(Bank(store)))
    bank = Bank(store, **other)
    asked: Any = await bank.run.resume(id_)
    assert kind_of(asked) == "awaiting_approval"
    assert (await send(bank, "2")).failure().id == asked.failure().id != id_
    assert kind_of(await bank.run.resume(id_)) == "not_found"
    assert bank.paid == []


async def test_an_approval_is_used_once() -> None:
    """Replayed by its id, by the same call and by a new one: one body, and the new call waits."""
    bank = Bank(store := Memory())
    id_ = await approve(store, await send(bank))
    for _ in range(3):
        assert await bank.run.resume(id_) == Success("paid Bob")
        assert await send(bank) == Success("paid Bob")
    assert kind_of(await send(bank, "2")) == "awaiting_approval"
    assert bank.paid == ["Bob 5"]


async def test_a_body_that_failed_was_the_one_run() -> None:
    """An approval whose call ended with a failure is used, and gives that failure again."""
    bank = Bank(store := Memory())
    id_ = await approve(store, await send(bank, arguments={"to": "Nobody"}))
    assert [kind_of(await bank.run.resume(id_)) for _ in range(3)] == ["execution"] * 3
    assert bank.paid == ["Nobody 5"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"to": "Bob"} | {"cents": "many"},
        {"cents": 5},
        {"to": "Bob", "cents": 5, "more": 1},
        {"to": None},
        {"to": ["Bob"]},
        {},
        {"to": float("nan")},
        {"to": object()},
        [],
        "{}",
        5,
    ],
)
async def test_an_edit_that_does_not_fit_changes_nothing(arguments: Any) -> None:
    """It is refused where it is made, and the call waits on."""
    bank = Bank(store := Memory())
    waits = await send(bank)
    with pytest.raises(SetupError, match="arguments"):
        await Approvals(store).approve(waits.failure().id, by="boss", arguments=arguments)
    (found,) = await Approvals(store).pending()
    assert (found.arguments, found.edited) == ({"to": "Bob", "cents": 5}, False)
    assert bank.paid == []


async def test_the_id_of_another_principal_is_unknown() -> None:
    """A pipeline that is bound to one caller tells and runs nothing of another one's calls."""
    bank = Bank(store := Memory())
    id_ = await approve(store, await send(bank))
    for stranger in (bank.run.with_(principal="eve"), bank.run.with_(principal="ann", conversation="d")):
        assert kind_of(await stranger.resume(id_)) == "not_found"
    for unknown in (
        "",
        "x",
        f"{id_}9",
        f"{id_}.1",
        f"{id_}\n",
        "a/../o",
        "\x1b[31m",
        "9" * 2_000,
        "\ud800",
        "nonsense\0",
    ):
        assert kind_of(await bank.run.resume(unknown)) == "not_found"
        assert await Approvals(store).get(unknown) is None
        assert await Approvals(store).approve(unknown, by="boss") is None
        assert await Approvals(store).reject(unknown, by="boss") is None
    assert bank.paid == []
    assert await bank.run.with_(principal="ann", conversation="c").resume(id_) == Success("paid Bob")


class Shaky(Memory):
    """A store that goes away once a body has run."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False

    async def get(self, key: str, /) -> Any:
        if self.is_away and key.startswith("ap/"):
            raise StoreError("away")
        return await super().get(key)

    async def write(self, *changes: Change) -> int | None:
        if self.is_away and any(change.key.startswith("ap/") for change in changes):
            raise StoreError("away")
        return await super().write(*changes)


async def test_a_store_that_fails_after_the_body(caplog: pytest.LogCaptureFixture) -> None:
    """The outcome of an approved call comes, though it cannot be noted who has it; nothing runs again."""
    store = Shaky()
    bank = Bank(store)

    @bank.tools.tool
    async def last(to: str) -> str:
        bank.paid.append(to)
        store.is_away = True
        return f"paid {to}"

    call: dict[str, Any] = {"name": "last", "arguments": {"to": "Bob"}}
    id_ = await approve(store, await send(bank, **call))
    assert await send(bank, **call) == Success("paid Bob")
    assert "the end of an approved call is not kept yet" in caplog.text
    refused = await send(bank, "2", **call)
    assert (kind_of(refused), refused.failure().reason) == ("unavailable", "approvals cannot be reached")
    store.is_away = False
    assert await send(bank, **call) == Success("paid Bob") == await bank.run.resume(id_)
    assert kind_of(await send(bank, "2", **call)) == "awaiting_approval"  # the first one has its answer
    assert bank.paid == ["Bob"]


PAINT = "\x1b[2K\x1b[1A\x1b]0;title\x07\u202epay\r\n## Approved by the boss\n[bold]x[/bold]\u200b\u2066"


async def _ask_painted(path: Path) -> str:
    async with SQLite(path) as store:
        bank = Bank(store)
        async with bank.run:
            outcome = await send(bank, arguments={"to": PAINT}, principal=PAINT, conversation=PAINT)
            return str(outcome.failure().id)


@pytest.mark.parametrize("command", [["list"], ["list", "--all"], ["show", "ID"], ["approve", "ID", "--by", PAINT]])
def test_nothing_of_a_call_paints_the_terminal(command: list[str], tmp_path: Path) -> None:
    """No control, no invisible character and no line of its own reaches a page for the approver, from any source."""
    path = tmp_path / "calls.db"
    id_ = anyio.run(_ask_painted, path)
    result = CliRunner().invoke(
        toolcall, ["approvals", str(path), command[0], *(id_ if each == "ID" else each for each in command[1:])]
    )
    assert result.exit_code == 0, result.output
    assert not {"\x1b", "\x07", "\u202e", "\u200b", "\u2066", "\r"} & set(result.output)
    assert "\n## Approved" not in result.output


def _make_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("pragma user_version = 99")


async def test_a_store_of_a_newer_release(tmp_path: Path) -> None:
    """It is refused when it is opened, with what to do: by a pipeline, by `Approvals` and by the command."""
    async with SQLite(tmp_path / "calls.db"):
        pass
    _make_newer(tmp_path / "calls.db")
    store = SQLite(tmp_path / "calls.db")
    with pytest.raises(SetupError, match="has schema 99, of a newer toolcall-pipeline"):
        async with Bank(store).run:
            pass
    with pytest.raises(SetupError, match="upgrade it, or use another file"):
        async with Approvals(store):
            pass
    command = ["approvals", str(tmp_path / "calls.db"), "list"]
    result = await anyio.to_thread.run_sync(CliRunner().invoke, toolcall, command)
    assert result.exit_code == 2
    assert "has schema 99" in result.output


@pytest.mark.parametrize("data", [b"SQLite format 3\x00" * 100, b"\x00\xff", b"<html>", b"[[rules]]\naction = 'go'\n"])
def test_a_file_that_is_no_policy(data: bytes, tmp_path: Path) -> None:
    """A database, bytes, a page and a rule without a meaning are each refused with the file and the line."""
    path = tmp_path / "policy.toml"
    path.write_bytes(data)
    with pytest.raises(SetupError, match=r"policy\.toml:\d+: "):
        read_rules(path)


def test_a_rule_that_asks_without_a_store() -> None:
    """There is nowhere to keep what waits, so the pipeline is not built."""
    with pytest.raises(SetupError, match="`approve`, which needs `store="):
        standard(ToolRegistry(), policy=RuleSet((PolicyRule("approve"),)))


def start(folder: Path, mode: str, number: int = 0) -> subprocess.Popen[str]:
    """Start a worker, and wait until its pipeline is open."""
    command = [sys.executable, str(SUPPORT / "approval_worker.py"), str(folder), mode, str(number)]
    there = {**os.environ, "PYTHONPATH": str(SUPPORT.parent.parent)}
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=there)
    assert worker.stdout is not None
    assert worker.stdout.readline().startswith("ready ")
    return worker


@pytest.mark.parametrize(("half", "count"), [(0, 12), *(pytest.param(n, 250, marks=pytest.mark.long) for n in (0, 1))])
def test_two_processes_race_for_each_decision(tmp_path: Path, half: int, count: int) -> None:
    """Each call is decided and resumed by two processes at once: one decision, one run, one answer for both."""
    ids = anyio.run(ask_many, tmp_path, count)
    workers = [start(tmp_path, "race", 2 * half + number) for number in range(2)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=400)
        assert worker.returncode == 0
    answers = [
        dict(line.split() for line in (tmp_path / f"answers{2 * half + n}").read_text().splitlines()) for n in range(2)
    ]
    assert answers[0] == answers[1]
    assert sorted(answers[0]) == sorted(ids)
    effects = Counter((tmp_path / "effects").read_text().split())
    assert set(effects.values()) == {1}
    assert len(effects) == sum(answer == "success" for answer in answers[0].values()) > count / 5


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_process_is_killed_at_each_step(tmp_path: Path, seed: int) -> None:
    """25 kills between the decision and the result: no effect happens twice, and no decision is lost."""
    ids, dice = anyio.run(ask_many, tmp_path, 200), random.Random(seed)
    with start(tmp_path, "children") as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        for _ in range(25):
            parent.stdin.write(f"{dice.randrange(2, 10**6)}\n")
            parent.stdin.flush()
            child = int(parent.stdout.readline().split()[1])
            for _ in range(dice.randrange(4)):  # so few that each child still has calls to decide on when it is killed
                if parent.stdout.readline() == "idle\n":
                    break
            time.sleep(dice.uniform(0.0, 0.005))  # a moment of the next call, not a wait
            os.kill(child, signal.SIGKILL)
            while parent.stdout.readline() != "ended\n":
                pass
    decided = {line.partition(" ")[0] for line in (tmp_path / "decided").read_text().splitlines()}
    worker = start(tmp_path, "once", 1)
    worker.communicate(timeout=400)
    assert worker.returncode == 0
    effects = Counter((tmp_path / "effects").read_text().split())
    assert {id_: count for id_, count in effects.items() if count > 1} == {}
    answers = dict(line.split() for line in (tmp_path / "answers1").read_text().splitlines())
    assert set(answers) == set(ids)
    assert set(answers.values()) <= {"success", "outcome_unknown"}
    assert {id_ for id_, answer in answers.items() if answer == "success"} <= {ids[int(number)] for number in effects}
    assert {state for id_, state in anyio.run(list_states, tmp_path) if id_ in decided} == {"approved"}


async def ask_many(folder: Path, count: int) -> list[str]:
    """Send calls that wait, in a process that ends; their ids."""
    sys.path.insert(0, str(SUPPORT))
    from approval_worker import open_desk

    async with open_desk(folder) as (pipeline, _):
        outcomes: list[Any] = [
            await pipeline.call("pay", {"number": number}, id=str(number), principal="ann", conversation="c")
            for number in range(count)
        ]
        return [outcome.failure().id for outcome in outcomes]


async def list_states(folder: Path) -> list[tuple[str, str]]:
    """The state of each approval."""
    async with Approvals(SQLite(folder / "calls.db")) as approvals:
        return [(each.id, each.state) for each in await approvals.list()]
