"""``toolcall run``: what began is kept beside RESULTS, so --resume repeats no effect and loses no answer."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale.kill_and_resume import kill_and_resume
from cli_desk import Desk, open_desk, until
from toolcall_pipeline.stores import SQLite, StoreError

pytestmark = pytest.mark.long  # each test starts processes

MODULE = """
import os
import signal
import time
from pathlib import Path

import anyio

from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import Stack, Success, ToolContext, ToolFailed, ToolRegistry
from toolcall_pipeline.builtin import Batch

HERE = Path(__file__).parent
tools = ToolRegistry()

def act():
    with (HERE / "effects").open("a") as file:
        file.write("x")
    if "VICTIM" in os.environ:
        os.kill(os.getpid() if os.environ["VICTIM"] == "self" else os.getppid(), signal.SIGKILL)

@tools.tool(effect="mutating", verify_with="look")
def pay() -> None:
    act()

@tools.tool(effect="mutating")
async def post() -> None:
    act()

@tools.tool
def undeclared() -> None:
    act()

@tools.tool(effect="keyed", context=True)
def charge(context: ToolContext) -> str:
    with (HERE / "keys").open("a") as file:
        file.write(context.idempotency_key + "\\n")
    act()
    return "charged"

@tools.tool(effect="idempotent")
def put() -> None:
    act()

@tools.tool(effect="read")
def look() -> None:
    act()

@tools.tool(effect="mutating", context=True)
def second_attempt(context: ToolContext) -> None:
    if context.attempt == 1:
        raise ToolFailed("Busy.", kind="transient", landed=False)
    act()

@tools.tool(effect="read")
def fails() -> None:
    raise ToolFailed("No.")

@tools.tool(effect="read")
async def removes_ledger() -> None:
    os.unlink(HERE / "results.jsonl.ledger")

@tools.tool(effect="read")
async def removes_ledger_later() -> None:
    while not (HERE / "effects").exists():
        await anyio.sleep(0.005)
    os.unlink(HERE / "results.jsonl.ledger")

@tools.tool(effect="mutating")
async def buy(n: int) -> str:
    (HERE / f"bought {n}").touch(exist_ok=False)
    act()
    return f"bought {n}"

@tools.tool(effect="mutating", verify=lambda call, key: Success("found it"))
async def verified() -> str:
    act()
    return "done"

if os.environ.get("VICTIM") == "row":
    from toolcall_pipeline.cli.run.run_results import RunResults
    RunResults.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    del os.environ["VICTIM"]

@tools.tool(effect="mutating")
async def waits() -> None:
    act()
    while not (HERE / "go").exists():
        await anyio.sleep(0.005)

@tools.tool(effect="mutating")
def holds_a_thread() -> None:
    act()
    time.sleep(3600)

@tools.tool(effect="mutating")
async def for_ever() -> None:
    act()
    await anyio.sleep_forever()

async def do_all(call):
    act()
    return Success("done")

own_end = Stack().end(do_all)

async def does_it(call, call_next):
    return await do_all(call)

own_middleware = standard(tools).before("execute", does_it)

def with_batch():
    batch = Batch()
    tools.register(batch.tool())
    pipeline = standard(tools)
    batch.attach(pipeline)
    return pipeline
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch, MODULE) as made:
        yield made


def kill_in_the_body(desk: Desk, *options: str, target: str = "tools", victim: str = "self") -> None:
    """Run CALLS until a body kills the run, or with "row" the writing of its first row."""
    victim = "parent" if "process" in options else victim
    with desk.start(*options, target=target, env={**os.environ, "VICTIM": victim}) as process:
        _, told = process.communicate()
    assert process.returncode == -signal.SIGKILL, told.decode()


def count_effects(desk: Desk) -> int:
    return len((desk.path / "effects").read_text()) if (desk.path / "effects").exists() else 0


IN_PROCESSES = ["--executor", "process", "--workers", "1"]
BATCH: dict[str, Any] = {"calls": [{"tool": "pay", "args": {}}]}
MARKED = [
    pytest.param("pay", [], "tools", id="thread"),
    pytest.param("post", [], "tools", id="loop"),
    pytest.param("undeclared", [], "tools", id="undeclared effect"),
    pytest.param("second_attempt", [], "tools", id="second attempt"),
    pytest.param("pay", IN_PROCESSES, "tools", id="process"),
    pytest.param("post", IN_PROCESSES, "tools", id="async in a process"),
    pytest.param("anything", [], "own_end", id="an end of the user's own"),
    pytest.param("post", [], "own_middleware", id="a middleware that does the work"),
    pytest.param("batch", [], "with_batch", id="in a batch"),
]


@pytest.mark.parametrize(("name", "options", "target"), MARKED)
def test_a_call_that_began_is_not_run_again(desk: Desk, name: str, options: list[str], target: str) -> None:
    """After a kill in its body a call gets a result that names it and says that it may have taken effect."""
    desk.put({"id": "c1", "name": name, "arguments": BATCH if name == "batch" else {}})
    kill_in_the_body(desk, *options, target=target)
    result = desk.run("--resume", *options, target=target)
    assert result.exit_code == 0, result.stderr
    assert "1 call had begun when an earlier run ended, and may have taken effect: not run again" in result.stderr
    (row,) = desk.rows
    assert (row["line"], row["id"], row["name"], row["ok"], row["kind"]) == (1, "c1", name, False, "outcome_unknown")
    assert "may have taken effect" in row["told"]
    assert ("look" in row["told"], row["tool"]) == (name == "pay", None if target == "own_end" else name)
    assert (count_effects(desk), desk.ledger.exists()) == (1, False)


@pytest.mark.parametrize("target", ["tools", "own_middleware"])
@pytest.mark.parametrize("name", ["look", "put"])
def test_a_call_that_is_safe_to_repeat(desk: Desk, name: str, target: str) -> None:
    """A read or idempotent call is not kept: after a kill in its body it is run again."""
    desk.put({"name": name})
    kill_in_the_body(desk, target=target)
    assert desk.run("--resume", target=target).exit_code == 0
    assert (desk.by_line[1]["ok"], count_effects(desk)) == (True, 2)


def test_a_keyed_call_keeps_its_key(desk: Desk) -> None:
    """A keyed call that began is run again with the key that its body had, so the service answers as it did."""
    desk.put({"name": "charge"})
    kill_in_the_body(desk)
    assert desk.run("--resume").exit_code == 0
    keys = (desk.path / "keys").read_text().split()
    assert (len(keys), len(set(keys)), desk.by_line[1]["value"]) == (2, 1, "charged")


def test_an_answer_without_a_row(desk: Desk) -> None:
    """A run that is killed between the end of a call and its row loses no answer, and repeats nothing."""
    desk.put({"id": "c1", "name": "buy", "arguments": {"n": 1}}, {"name": "pay"})
    kill_in_the_body(desk, "--concurrency", "1", victim="row")
    assert (count_effects(desk), desk.results.read_bytes()) == (1, b"")
    result = desk.run("--resume")
    assert (result.exit_code, "may have taken effect" in result.stderr) == (0, False), result.stderr
    row = desk.by_line[1]
    assert (row["ok"], row["value"], row["tool"], row["attempts"]) == (True, "bought 1", "buy", 1)
    assert (desk.by_line[2]["ok"], count_effects(desk)) == (True, 2)


def test_a_tool_that_can_be_asked(desk: Desk) -> None:
    """A call that began is no longer unknown where its tool finds out what became of it."""
    desk.put({"name": "verified"})
    kill_in_the_body(desk)
    assert desk.run("--resume").exit_code == 0
    assert (desk.by_line[1]["value"], count_effects(desk)) == ("found it", 1)


@pytest.mark.parametrize("victim", ["self", "row"])
def test_in_another_order(desk: Desk, victim: str) -> None:
    """A line that began, or ended without a row, is found again wherever it stands, beside equal ones as well."""
    lines: list[object] = [{"id": "c", "name": "buy", "arguments": {"n": n}} for n in (1, 2, 3)]
    desk.put(*lines, {"name": "pay"}, {"name": "pay"})
    kill_in_the_body(desk, "--concurrency", "1", victim=victim)
    desk.put({"name": "pay"}, *reversed(lines), {"name": "pay"})
    assert desk.run("--resume").exit_code == 0
    found = desk.by_line
    first = ("outcome_unknown", None) if victim == "self" else (None, "bought 1")
    assert [(found[number]["kind"], found[number]["value"]) for number in (2, 3, 4)] == [
        (None, "bought 3"),
        (None, "bought 2"),
        first,
    ]
    assert (found[1]["ok"], found[5]["ok"], count_effects(desk)) == (True, True, 5)


def test_a_line_that_began_and_was_changed(desk: Desk) -> None:
    """A line that began and that CALLS no longer has stops the run before any call."""
    desk.put({"name": "buy", "arguments": {"n": 1}}, {"name": "pay"})
    kill_in_the_body(desk, "--concurrency", "1")
    desk.put({"name": "buy", "arguments": {"n": 2}}, {"name": "pay"})
    result = desk.run("--resume")
    assert (result.exit_code, count_effects(desk)) == (2, 1)
    assert "1 call that had begun has a line that CALLS no longer has" in result.stderr


@pytest.mark.parametrize(("conversation", "effects"), [(None, 2), ("one", 1)])
def test_lines_of_one_conversation(desk: Desk, conversation: str | None, effects: int) -> None:
    """What one line of a conversation lost, an equal one does not repeat. Lines without one are on their own."""
    desk.put(*({"id": f"c{n}", "name": "pay", "conversation": conversation} for n in (1, 2)))
    kill_in_the_body(desk, "--concurrency", "1")
    assert desk.run("--resume").exit_code == 0
    kinds = [desk.by_line[number]["kind"] for number in (1, 2)]
    assert kinds == ["outcome_unknown", None if conversation is None else "outcome_unknown"]
    assert count_effects(desk) == effects


def test_rerun_unknown(desk: Desk) -> None:
    """--rerun-unknown runs again what had begun; once it has its result as unknown, nothing does."""
    desk.put({"name": "pay"}, {"name": "look"})
    kill_in_the_body(desk, "--concurrency", "1")
    assert desk.run("--resume", "--rerun-unknown").exit_code == 0
    assert [desk.by_line[line]["ok"] for line in (1, 2)] == [True, True]
    assert count_effects(desk) == 3
    desk.results.unlink()
    kill_in_the_body(desk, "--concurrency", "1")
    for options in ([], ["--rerun-unknown"]):
        assert desk.run("--resume", *options).exit_code == 0
        assert [desk.by_line[line]["kind"] for line in (1, 2)] == ["outcome_unknown", None]
    assert count_effects(desk) == 5
    result = desk.run("--rerun-unknown")
    assert (result.exit_code, "--rerun-unknown needs --resume" in result.stderr) == (2, True)


def test_for_somebody_else(desk: Desk) -> None:
    """A run that was killed goes on for whom it began: for another one its calls would be new."""
    desk.put({"name": "pay"})
    kill_in_the_body(desk, "--principal", "ann")
    for options in ([], ["--principal", "bob"], ["--principal", "ann", "--conversation", "c"]):
        result = desk.run("--resume", *options)
        assert (result.exit_code, "--principal 'ann'" in result.stderr) == (2, True), result.stderr
    assert desk.run("--resume", "--principal", "ann").exit_code == 0
    assert (desk.by_line[1]["kind"], count_effects(desk)) == ("outcome_unknown", 1)


def test_without_results(desk: Desk) -> None:
    """The ledger holds where RESULTS is lost: a run without --resume is refused, and a resumed one does not repeat."""
    desk.put({"name": "pay"})
    kill_in_the_body(desk)
    desk.results.unlink()
    result = desk.run()
    assert (result.exit_code, count_effects(desk)) == (2, 1)
    assert "is of an earlier run: continue that run with --resume, or remove the file" in result.stderr
    assert desk.run("--resume").exit_code == 0
    assert (desk.by_line[1]["kind"], count_effects(desk)) == ("outcome_unknown", 1)


def test_moved_after_a_kill(desk: Desk) -> None:
    """All that a run left may be moved, and goes on under its new name."""
    desk.put({"name": "fails"}, {"name": "pay"})
    kill_in_the_body(desk, "--concurrency", "1")
    for file in desk.path.glob("results.jsonl*"):
        file.rename(desk.path / file.name.replace("results", "moved"))
    moved = desk.path / "moved.jsonl"
    assert desk.run("--resume", "-o", str(moved)).exit_code == 0
    assert [json.loads(line)["kind"] for line in moved.read_bytes().splitlines()] == ["execution", "outcome_unknown"]
    assert (count_effects(desk), list(desk.path.glob("moved.jsonl*"))) == (1, [moved])


def test_through_a_link(desk: Desk) -> None:
    """A link to RESULTS finds the ledger of the file that it leads to."""
    desk.put({"name": "pay"})
    kill_in_the_body(desk)
    (desk.path / "elsewhere").mkdir()
    link = desk.path / "elsewhere" / "link.jsonl"
    link.symlink_to(desk.results)
    assert desk.run("--resume", "-o", str(link)).exit_code == 0
    assert (desk.by_line[1]["kind"], count_effects(desk)) == ("outcome_unknown", 1)


def test_the_ledger_is_gone_when_all_is_done(desk: Desk) -> None:
    """All files are for their owner only; the ledger is removed when each call has its result."""
    desk.put({"name": "waits"}, {"name": "pay"}, {"name": "fails"})
    with desk.start() as process:
        until(lambda: count_effects(desk) == 2)
        files = list(desk.path.glob("results.jsonl*"))
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        assert desk.ledger in files
        (desk.path / "go").touch()
        process.communicate()
    assert (process.returncode, list(desk.path.glob("results.jsonl*"))) == (0, [desk.results])
    assert len(desk.by_line) == 3


def test_interrupted_in_the_body(desk: Desk) -> None:
    """A call that Ctrl-C has cut off is as unknown as one that a kill has."""
    desk.put({"name": "for_ever"}, {"name": "pay"})
    with desk.start("--concurrency", "1") as process:
        until(lambda: count_effects(desk) == 1)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert (process.returncode, desk.ledger.exists(), desk.rows) == (130, True, [])
    assert desk.run("--resume").exit_code == 0
    assert [desk.by_line[line]["kind"] for line in (1, 2)] == ["outcome_unknown", None]
    assert count_effects(desk) == 2


def test_removed_during_the_run(desk: Desk) -> None:
    """Where it cannot be kept any more what began, no further call begins that needs it, and stderr says why."""
    desk.put({"name": "removes_ledger"}, {"name": "pay"}, {"name": "pay"})
    result = desk.run("--concurrency", "1")
    assert (result.exit_code, count_effects(desk)) == (2, 0)
    assert "the file was removed or replaced while it was open" in result.stderr
    assert len(desk.rows) == 1


def test_running_calls_end_when_the_run_has_to_stop(desk: Desk) -> None:
    """A call that runs when the run has to stop still gets its result."""
    desk.put({"name": "waits"}, {"name": "removes_ledger_later"}, {"name": "pay"})
    with desk.start("--concurrency", "2") as process:
        assert process.stderr is not None
        while b"stopping" not in (line := process.stderr.readline()):
            assert line, "the run has ended"
        (desk.path / "go").touch()
        process.communicate()
    assert (process.returncode, count_effects(desk)) == (2, 1)
    assert {line: row["ok"] for line, row in desk.by_line.items()} == {1: True, 2: True}


def test_no_ledger_where_it_should_be(desk: Desk) -> None:
    """A file that is no ledger, or a newer one, ends the run before any call, and stays as it is."""
    desk.put({"name": "pay"})
    desk.ledger.write_text("mine, and long enough for a header of a database")
    result = desk.run("--resume")
    assert (result.exit_code, "is not a SQLite database" in result.stderr) == (2, True), result.stderr
    assert desk.ledger.read_text().startswith("mine")
    desk.ledger.unlink()
    with closing(sqlite3.connect(desk.ledger)) as db:
        db.execute("pragma application_id = 1952673907")
        db.execute("pragma user_version = 99")
    result = desk.run("--resume")
    assert (result.exit_code, count_effects(desk)) == (2, 0), result.stderr


def test_a_link_in_the_place_of_the_ledger(desk: Desk) -> None:
    """The ledger is never written through a link, which another user may have put there."""
    desk.put({"name": "pay"})
    (desk.path / "precious").write_text("")
    desk.ledger.symlink_to(desk.path / "precious")
    assert (desk.run().exit_code, count_effects(desk)) == (2, 0)
    assert (desk.path / "precious").read_text() == ""


@pytest.mark.parametrize("lines", [1, 3])
def test_no_room_in_the_ledger(desk: Desk, monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
    """A call that cannot be kept does not begin, nor a later one; it gets no result, and --resume runs it."""
    desk.put(*({"name": "pay"} for _ in range(lines)))

    def fail(*_: object) -> StoreError:
        return StoreError("database or disk is full")

    with monkeypatch.context() as patch:
        write = SQLite._transact  # pyright: ignore[reportPrivateUsage]

        def fill(store: SQLite, db: Any, writes: Any) -> StoreError | None:
            is_call = any(key.startswith((b"d/", b"run")) for job in writes for key, _ in job.changes)
            return fail() if is_call else write(store, db, writes)

        patch.setattr(SQLite, "_transact", fill)
        result = desk.run("--concurrency", "1")
    assert (result.exit_code, "database or disk is full" in result.stderr) == (2, True), result.stderr
    assert (count_effects(desk), desk.results.read_bytes()) == (0, b"")
    assert desk.run("--resume").exit_code == 0
    assert (len(desk.by_line), count_effects(desk)) == (lines, lines)


def test_no_ledger_without_a_file(desk: Desk) -> None:
    """Results that go to a pipe or a device cannot be resumed, so there is no ledger."""
    desk.put({"name": "pay"})
    assert desk.run("-o", "/dev/null").exit_code == 0
    assert not list(Path("/dev").glob("null.*"))


KILLS: list[Any] = [
    pytest.param(["--concurrency", "8"], id="threads"),
    pytest.param(["--executor", "process", "--workers", "2", "--concurrency", "6"], id="processes"),
]


@pytest.mark.long
@pytest.mark.parametrize("options", KILLS)
def test_killed_twenty_times(tmp_path: Path, options: list[str]) -> None:
    """Whenever a run is killed, no effect happens twice, each line gets one result, and the unknown ones are named."""
    tally = kill_and_resume(tmp_path, options, kills=20, lines=1500)
    assert (tally.twice, tally.wrong) == (0, ()), tally
    assert (tally.results, tally.lines_with_a_result) == (1500, 1500)
    assert 0 < tally.unknown < 1500 / 2
    until(lambda: not any(map(is_running, tally.workers)))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
