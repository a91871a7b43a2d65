"""Audit: what was asked, decided, run and answered, in rows that show each change."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from click.testing import CliRunner

from support import PATIENT
from toolcall_pipeline import Approvals, Pipeline, Secret, SetupError, Success, ToolRegistry
from toolcall_pipeline.audit import AuditLog, Row
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.middlewares import Approve, Audit, DryRun, Policy, Quota, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Change, Memory, SQLite, Store, StoreError
from toolcall_pipeline.testing import check_stage

SUPPORT = Path(__file__).parent / "support"


class Office:
    """Tools with an audit around them, and what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.tools = ToolRegistry()

        @self.tools.tool
        async def pay(to: str, cents: int = 5) -> str:
            self.done.append(f"{to} {cents}")
            return f"paid {to}"

        @self.tools.tool
        async def enter(code: Annotated[str, Secret]) -> str:
            return f"the code is {code}"

        @self.tools.tool(effect="read")
        async def look(at: str) -> str:
            return at

    def open(self, store: Store, *stages: Any, **options: Any) -> Pipeline:
        pipeline = standard(self.tools, store=store)
        for stage in reversed(stages):
            pipeline = pipeline.after("validate", stage)
        made: Pipeline = pipeline.after("validate", Audit(store, **options))
        return made


@pytest.fixture
def office() -> Office:
    return Office()


async def read(store: Store, secret: bytes = b"") -> list[Row]:
    return [row async for row in AuditLog(store, secret).read()]


def say(row: Row) -> list[tuple[str, str]]:
    return [(each["by"], each["action"]) for each in row["decisions"]]


async def test_a_call_that_changes_something_has_two_rows(office: Office) -> None:
    """One before it begins, and one with the decisions, the bodies and the answer; a read has the second one alone."""
    pipeline = office.open(store := Memory())
    await pipeline.call("pay", {"to": "Ann"}, id="1", principal="boss", conversation="c")
    await pipeline.call("look", {"at": "x"}, principal="boss")
    asked, ended, looked = await read(store)
    assert (asked["event"], asked["tool"], asked["principal"], asked["call"]) == ("asked", "pay", "boss", "1")
    assert (ended["id"], ended["event"], ended["bodies"], ended["outcome"]) == (asked["id"], "ended", 1, "success")
    assert (looked["event"], looked["tool"], looked["outcome"]) == ("ended", "look", "success")
    assert "text" not in ended
    assert "sent" not in asked
    assert (await AuditLog(store).verify()).faults == ()


async def test_each_decision_is_named(office: Office) -> None:
    """The rule with the version of the policy, the person, and the limit; a person's edit is the one that ran."""
    rules = RuleSet((PolicyRule("deny", "look"), PolicyRule("approve", principal="ann")), version="v7")
    store = Memory()
    pipeline = office.open(store, Policy(rules), Approve(store, rules), Quota(2, per="tool"))
    await pipeline.call("look", {"at": "x"}, principal="bob")
    waits: Any = await pipeline.call("pay", {"to": "Ann"}, id="1", principal="ann")
    await Approvals(store).approve(waits.failure().id, by="boss", arguments={"to": "Eve"})
    await pipeline.call("pay", {"to": "Ann"}, id="2", principal="ann")
    for _ in range(3):
        await pipeline.call("pay", {"to": "Bob"}, principal="bob")
    rows = [row for row in await read(store) if row["event"] != "asked"]
    assert [say(row) for row in rows] == [
        [("rule", "deny")],
        [("rule", "approve"), ("person", "pending")],
        [("person", "approved")],  # the decision itself
        [("rule", "approve"), ("person", "approved")],  # of what the person changed, through all stages
        [("rule", "approve"), ("person", "approved")],  # of the call that came again
        [("rule", "allow")],
        [("rule", "allow")],
        [("rule", "allow"), ("limit", "deny")],
    ]
    assert {each["version"] for row in rows for each in row["decisions"] if each["by"] != "limit"} == {"v7"}
    assert [row.get("bodies") for row in rows] == [0, 0, None, 1, 1, 1, 1, 0]
    assert rows[3]["decisions"][1] == rows[2]["decisions"][0]
    assert rows[3]["decisions"][1]["name"] == "boss"
    assert rows[4]["ran"] == rows[3]["arguments"] != rows[4]["arguments"]
    assert "ran" not in rows[3]
    assert office.done == ["Eve 5", "Bob 5", "Bob 5"]


async def test_no_secret_is_in_a_row(office: Office) -> None:
    """With `content` the rows have arguments and answers, without what the tool declares as secret."""
    pipeline = office.open(store := Memory(), content=True)
    assert await pipeline.call("enter", {"code": "hunter22"}) == Success("the code is hunter22")
    await pipeline.call("pay", {"to": "Ann"})
    rows = await read(store)
    assert rows[1]["sent"] == {"code": "[redacted]"}
    assert rows[1]["text"] == "the code is [redacted]"
    assert rows[3]["sent"] == {"to": "Ann", "cents": 5}
    assert rows[3]["text"] == "paid Ann"
    assert "hunter22" not in json.dumps(rows)
    pipeline = office.open(store := Memory())
    await pipeline.call("enter", {"code": "hunter22"})
    await pipeline.call("enter", {"code": "hunter33"})
    first, _, second, _ = await read(store)
    assert first["arguments"] == second["arguments"]  # also no digest of a secret


async def test_a_call_before_validation_is_written_down_too(office: Office) -> None:
    """Outside of resolve it has a row for each call, also one of an unknown tool or with wrong arguments."""
    store = Memory()
    pipeline = standard(office.tools, store=store).before("resolve", Audit(store))
    await pipeline.call("nothing", {})
    await pipeline.call("pay", {})
    await pipeline.call("pay", {"to": "Ann"})
    rows = [row for row in await read(store) if row["event"] == "ended"]
    assert [(row["tool"], row["outcome"], row["bodies"]) for row in rows] == [
        ("nothing", "unknown_tool", 0),
        ("pay", "validation", 0),
        ("pay", "success", 1),
    ]


async def test_a_cancelled_call_has_its_last_row(office: Office) -> None:
    """Written also in a task that is cancelled, with the outcome `cancelled`."""
    begun = anyio.Event()

    @office.tools.tool
    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    pipeline = office.open(store := Memory())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipeline.call, "hang")
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert [(row["event"], row.get("outcome")) for row in await read(store)] == [
        ("asked", None),
        ("ended", "cancelled"),
    ]


class Shaky(Memory):
    """A store that can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False

    async def write(self, *changes: Change) -> int | None:
        if self.is_away:
            raise StoreError("away")
        return await super().write(*changes)


@pytest.mark.parametrize("when_away", ["refuse", "pass"])
async def test_a_store_that_is_away(office: Office, when_away: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A change is refused or passes, as the option says; reads go on; the log says it, and the rows come later."""
    store = Shaky()
    pipeline = standard(office.tools).after("validate", Audit(store, when_away=when_away))
    await pipeline.call("look", {"at": "a"})
    store.is_away = True
    outcome: Any = await pipeline.call("pay", {"to": "Ann"})
    assert await pipeline.call("look", {"at": "b"}) == Success("b")
    if when_away == "refuse":
        assert (outcome.failure().kind, outcome.failure().reason) == ("unavailable", "the audit cannot be reached")
    assert office.done == ([] if when_away == "refuse" else ["Ann 5"])
    assert "the store gives no answer, so rows wait" in caplog.text
    store.is_away = False
    await pipeline.call("look", {"at": "c"})
    rows = await read(store)
    late = [False, True, False] if when_away == "refuse" else [False, True, True, True, False]
    assert [row.get("late", False) for row in rows] == late
    assert (await AuditLog(store).verify()).faults == ()


async def test_leaving_while_the_store_is_away_counts_what_is_lost(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    """Leaving raises nothing, and the log says how many rows are not in the audit."""
    store = Shaky()
    async with standard(office.tools).after("validate", Audit(store)) as pipeline:
        store.is_away = True
        for _ in range(3):
            assert await pipeline.call("look", {"at": "a"}) == Success("a")
    assert "3 rows are not in the audit" in caplog.text


@pytest.mark.parametrize("secret", [b"", b"key"])
async def test_a_store_of_which_all_was_removed_is_no_good_chain(office: Office, secret: bytes) -> None:
    """Without rows and head it does not verify, nor does the process that saw them begin another chain."""
    store = Memory()
    async with standard(office.tools).after("validate", Audit(store, secret=secret)) as pipeline:
        assert not (await AuditLog(store, secret).verify()).faults  # opened, and without a row
        assert await pipeline.call("pay", {"to": "Ann"}) == Success("paid Ann")
        for key in [key async for key, _ in store.scan()]:
            await store.write(Change(key, None))
        assert (await AuditLog(store, secret).verify()).faults
        outcome: Any = await pipeline.call("pay", {"to": "Bob"})
        assert outcome.failure().kind == "unavailable"
    assert (await AuditLog(store, secret).verify()).faults


async def test_a_row_that_json_cannot_hold_is_kept_in_part() -> None:
    """An integer of 5,000 digits is left out by name, and the row is there."""
    log = AuditLog(store := Memory())
    await log.append({"tool": "pay", "sent": {"cents": 10**5000}})
    (row,) = await read(store)
    assert (row["tool"], row["left_out"]) == ("pay", ["sent"])


async def test_writers_at_once_keep_one_chain() -> None:
    """A hundred rows at once follow on one another."""
    log = AuditLog(store := Memory())
    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(log.append, {"n": number})
    assert sorted(row["n"] for row in await read(store)) == list(range(100))
    assert (await log.verify())[::2] == (100, ())


def test_processes_keep_one_chain(tmp_path: Path) -> None:
    """Three processes write into one file at once, and no row is lost."""
    path = str(tmp_path / "audit.db")
    root = SUPPORT.parent.parent
    there = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, str(SUPPORT / "audit_worker.py"), path, "40"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": there}
    workers = [subprocess.Popen(command, **pipes) for _ in range(3)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.communicate("go\n", timeout=PATIENT)
    assert [worker.returncode for worker in workers] == [0, 0, 0]

    async def check() -> None:
        async with SQLite(path) as store:
            assert (await AuditLog(store).verify())[::2] == (120, ())

    anyio.run(check)


Tamper = Callable[[sqlite3.Connection], object]


def row_key(number: int) -> bytes:
    return b"audit/%015d" % number


def change(number: int, old: str, new: str) -> Tamper:
    return lambda db: db.execute(
        "update entries set value = cast(replace(value, ?, ?) as blob) where key = ?", (old, new, row_key(number))
    )


def put(number: int, value: object) -> Tamper:
    return lambda db: db.execute("update entries set value = ? where key = ?", (value, row_key(number)))


def remove(*numbers: int) -> Tamper:
    return lambda db: db.executemany("delete from entries where key = ?", [(row_key(number),) for number in numbers])


def copy(source: int, to: int) -> Tamper:
    return lambda db: db.execute(
        "insert or replace into entries select ?, version, until, value from entries where key = ?",
        (row_key(to), row_key(source)),
    )


def swap(db: sqlite3.Connection) -> None:
    copy(2, 99)(db)
    copy(3, 2)(db)
    copy(99, 3)(db)
    remove(99)(db)


def drop_head(db: sqlite3.Connection) -> None:
    db.execute("delete from entries where key = ?", (b"audit-head",))


TAMPERED = [
    pytest.param(change(2, '"n":1', '"n":7'), "row 2: changed", id="changed"),
    pytest.param(change(5, '"n":4', '"n":7'), "row 5: changed, the head", id="the last one changed"),
    pytest.param(change(1, '"n":0', '"n":7'), "row 1: changed", id="the first one changed"),
    pytest.param(change(3, "{", "["), "row 3: it is not a row", id="no JSON"),
    pytest.param(
        put(3, 5),
        "row 3: it is not a row",
        id="a number",
    ),
    pytest.param(
        put(3, b"\xff"),
        "row 3: it is not a row",
        id="no text",
    ),
    pytest.param(remove(3), "row 3: removed", id="removed"),
    pytest.param(remove(1), "row 1: removed", id="the first one removed"),
    pytest.param(remove(5), "row 5: removed", id="the last one removed"),
    pytest.param(remove(4, 5), "rows 4 to 5: removed", id="the last ones removed"),
    pytest.param(remove(1, 2, 3, 4, 5), "rows 1 to 5: removed", id="all removed"),
    pytest.param(copy(2, 6), "row 6: it was inserted", id="inserted at the end"),
    pytest.param(copy(2, 4), "row 4: it is not a row", id="one in the place of another"),
    pytest.param(swap, "row 2: it is not a row", id="swapped"),
    pytest.param(drop_head, "the head is missing", id="no head"),
]


def write_five(path: Path, secret: bytes = b"") -> list[str]:
    async def run() -> list[str]:
        async with SQLite(path) as store:
            log = AuditLog(store, secret)
            return [await log.append({"n": number}) for number in range(5)]

    return anyio.run(run)


def tamper(path: Path, how: Tamper) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        how(db)


def run(*command: str) -> tuple[int, str]:
    result = CliRunner().invoke(toolcall, command)
    return result.exit_code, result.output


@pytest.mark.parametrize(("how", "fault"), TAMPERED)
def test_what_was_done_to_the_rows_is_found(how: Tamper, fault: str, tmp_path: Path) -> None:
    """A row that was changed, removed, inserted or moved, also the first and the last ones, and a missing head."""
    path = tmp_path / "audit.db"
    write_five(path)
    assert run("audit", str(path), "verify")[0] == 0
    tamper(path, how)
    code, text = run("audit", str(path), "verify")
    assert code == 1
    assert fault in text


async def test_nothing_is_appended_to_a_chain_without_its_head() -> None:
    """A new chain would hide that there was another one."""
    log = AuditLog(store := Memory())
    await log.append({})
    await store.write(Change("audit-head", None))
    with pytest.raises(StoreError, match="do not follow on its head"):
        await AuditLog(store).append({})


def test_who_writes_another_chain_needs_the_secret(tmp_path: Path) -> None:
    """With a secret a chain that was written anew, or cut with a head made for it, does not verify."""
    path, secret = tmp_path / "audit.db", tmp_path / "secret"
    write_five(path, b"key")
    secret.write_text("key\n")
    whole = run("audit", str(path), "verify", "--secret-file", str(secret))
    assert whole[0] == 0
    assert "5 rows, whole; head 5:" in whole[1]
    assert "were written with a secret" in run("audit", str(path), "verify")[1]
    with closing(sqlite3.connect(path)) as db, db:  # rows 1 to 3 are true, and row 4 holds the digest of row 3
        digest = json.loads(db.execute("select value from entries where key = ?", (row_key(4),)).fetchone()[0])[
            "before"
        ]
        remove(4, 5)(db)
        head = json.dumps([3, digest, "0" * 40, True]).encode()
        db.execute("update entries set value = ? where key = ?", (head, b"audit-head"))
    code, text = run("audit", str(path), "verify", "--secret-file", str(secret))
    assert (code, text) == (1, "the head was not written by a holder of the secret\n")


def test_a_digest_noted_elsewhere_proves_the_rows_up_to_it(tmp_path: Path) -> None:
    """An old copy of the whole store is a true chain; the digest of a later row shows that it is old."""
    path = tmp_path / "audit.db"
    places = write_five(path)
    old = path.read_bytes()
    assert run("audit", str(path), "verify", "--expect", places[2])[0] == 0
    later = write_five(path)[-1]
    assert run("audit", str(path), "verify", "--expect", later)[0] == 0
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    path.write_bytes(old)
    code, text = run("audit", str(path), "verify", "--expect", later)
    assert code == 1
    assert "row 10: the chain does not hold the expected digest" in text


def test_the_rows_are_json_lines(tmp_path: Path) -> None:
    """One object a line, oldest first, with its digest; no character paints the terminal."""
    path = tmp_path / "audit.db"
    write_five(path)

    async def add() -> None:
        async with SQLite(path) as store:
            await AuditLog(store).append({"tool": "\x1b[31mred\u202e"})

    anyio.run(add)
    code, text = run("audit", str(path), "list")
    rows = [json.loads(line) for line in text.splitlines()]
    assert code == 0
    assert [row["number"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["before"] for row in rows[1:]] == [row["digest"] for row in rows[:-1]]
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("none.db", "list"), "no such file"),
        (("audit.db", "verify", "--secret-file", "none"), "No such file"),
        (("text", "list"), "not a SQLite"),
    ],
)
def test_bad_input_is_one_clear_line(
    command: tuple[str, ...], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2, and the line says what is wrong."""
    monkeypatch.chdir(tmp_path)
    write_five(tmp_path / "audit.db")
    (tmp_path / "text").write_text("some text that is no database, and long enough\n" * 10)
    code, text = run("audit", *command)
    assert code == 2
    assert expected in text


def test_it_stands_around_all_that_decides(office: Office) -> None:
    """Inside of a stage that decides it would miss the decision."""
    check_stage(Audit(Memory()))
    for stage in (Policy(RuleSet()), Quota(1), DryRun()):
        with pytest.raises(SetupError, match="must stand inside of audit"):
            standard(office.tools).after("validate", Audit(Memory())).after("validate", stage)
