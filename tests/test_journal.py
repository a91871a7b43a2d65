"""The journal: what it keeps of each call, under load, in bad files, and after a kill."""

from __future__ import annotations

import json
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from returns.result import Failure, Success

import journal_tools
from error_cases import EACH_KIND
from sqlite_meanwhile import make_meanwhile, write_meanwhile
from support import PATIENT, a_tool
from toolcall_pipeline import (
    Call,
    CallReport,
    Denied,
    ExecutionFailed,
    Journal,
    SetupError,
    ToolError,
    ToolRegistry,
    Unavailable,
    approved,
)
from toolcall_pipeline.engine.report.json_form import write_form
from toolcall_pipeline.journal import JournalError, JournalFile, add_lines, get_journal, read_forms, write_lines
from toolcall_pipeline.journal import database as journal_database
from toolcall_pipeline.journal import journal as journal_module
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.testing.clocks import no_waiting

Form = dict[str, Any]
Inside: Any = journal_module  # its private parts
Schema: Any = journal_database
HERE = Path(__file__).parent


def forms_of(path: Path) -> list[Form]:
    return list(read_forms(path)[0])


async def record(path: Path, **options: Any) -> list[Form]:
    """Some calls of each kind, and their rows."""
    async with standard(journal_tools.tools, journal=Journal(path, **options)) as pipeline:
        with no_waiting():
            journal_tools.ran.clear()
            calls: list[tuple[str, Any]] = [
                ("add", {"x": 1, "y": 2}),
                ("add", {"x": "1", "y": 2}),
                ("add", '{"x": 1, '),
                ("add", {"x": 1}),
                ("adds", {"x": 1}),
                ("find", {"name": "none"}),
                ("flaky", {"times": 1}),
                ("pay", {"amount": 5, "token": "hunter2"}),
            ]
            for number, (name, arguments) in enumerate(calls):
                await pipeline.call(name, arguments, id=f"call_{number}", principal="ann", conversation="talk")
    return forms_of(path)


async def test_what_is_kept(tmp_path: Path) -> None:
    """Each call with its name, its arguments, its outcome, its repairs and its attempts; a secret in none of them."""
    forms = await record(tmp_path / "calls.db")
    assert [(form["id"], form["tool"], form["kind"]) for form in forms] == [
        ("call_0", "add", None),
        ("call_1", "add", None),
        ("call_2", "add", "malformed_call"),
        ("call_3", "add", "validation"),
        ("call_4", None, "unknown_tool"),
        ("call_5", "find", "not_found"),
        ("call_6", "flaky", None),
        ("call_7", "pay", None),
    ]
    assert {(form["principal"], form["conversation"]) for form in forms} == {("ann", "talk")}
    assert (forms[0]["arguments"], forms[0]["value"], forms[2]["arguments"]) == ({"x": 1, "y": 2}, 3, '{"x": 1, ')
    assert forms[1]["repairs"] == [["x", "number_text", "1", 1]]
    assert [attempt[5] for attempt in forms[6]["attempts"]] == ["transient", None]
    assert forms[3]["decided_by"] == "validate"
    assert forms[3]["told"].startswith("Error: Missing required parameter: y")
    assert (forms[7]["masked"], forms[0]["masked"]) == (True, False)
    assert "hunter2" not in json.dumps(forms)
    assert b"hunter2" not in read_all(tmp_path)
    assert stat.S_IMODE((tmp_path / "calls.db").stat().st_mode) == 0o600


def read_all(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_without_content(tmp_path: Path) -> None:
    """Names, kinds, times and stages are there; what a model or a tool wrote is not."""
    forms = await record(tmp_path / "calls.db", content=False)
    text = json.dumps(forms)
    assert [form["kind"] for form in forms][2:6] == ["malformed_call", "validation", "unknown_tool", "not_found"]
    assert all("arguments" not in form and "told" not in form and "value" not in form for form in forms)
    for content in ("no such thing", "none", '"y"', "paid"):
        assert content not in text.replace('"none"', "" if content != "none" else '"none"')


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (Unavailable("read", "breaker_open", 5.0), {"tool": "read", "reason": "breaker_open"}),
        (Unavailable("read", "Ann has none left", message=approved("Ann")), None),
        (Denied("policy", approved("Ann may not")), {"by": "policy"}),
        (Denied("Ann Smith"), None),
        (ExecutionFailed(approved("no such thing")), None),
    ],
)
async def test_what_a_failure_says_without_content(error: ToolError, kept: dict[str, str] | None) -> None:
    """Why it is not available, and who refused, where that is a name; a text of a stage or a tool is not kept."""
    tools = ToolRegistry()

    async def fail() -> object:
        return Failure(error)

    tools.register(a_tool("read", fn=fail))
    form = write_form(await standard(tools, attempts=1).report(Call("read", {})), content=False)
    fields = form["error"].get("fields", {})
    assert {name: each for name, each in fields.items() if name in (kept or fields)} == (kept or {})
    assert not any(text in json.dumps(form) for text in ("Ann", "no such thing"))


@pytest.mark.parametrize("error", EACH_KIND, ids=lambda error: error.kind)
async def test_a_report_goes_to_json_and_back(error: ToolError) -> None:
    """With its kind, its fields for the model, its stages and its attempts; its cause as the name of its class."""
    tools = ToolRegistry()

    async def fail() -> object:
        return Failure(error)

    tools.register(a_tool("read", fn=fail))
    report = await standard(tools, attempts=1).report(Call("read", {}, id="a"))
    text = report.to_json()
    back = CallReport.from_json(text, tools["read"])
    assert back.error is not None
    assert report.error is not None
    assert back.error.kind == report.error.kind
    assert [row.name for row in back.stages] == [row.name for row in report.stages]
    assert [row.verdict for row in back.attempts] == [row.verdict for row in report.attempts]
    assert back.to_json() == text
    assert "hunter2" not in text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"form": 99}', '{"form": 1, "id": "a"}', "null"])
def test_what_is_no_report(text: str) -> None:
    """It is a ValueError."""
    with pytest.raises(ValueError, match=r"report|Expecting"):
        CallReport.from_json(text)


async def test_values_of_all_types(tmp_path: Path) -> None:
    """What has no form in JSON is described, and changes that come after the call are not in the row."""
    tools = ToolRegistry()
    values: list[Any] = [
        None,
        "",
        "\ud800",
        float("nan"),
        10**400,
        b"\x00\xff",
        {1: {2, 3}},
        [[["deep"]]],
        object(),
        {"a": [1]},
    ]
    given = iter(values)

    @tools.tool(effect="read")
    async def give() -> Any:
        return next(given)

    path = tmp_path / "calls.db"
    async with standard(tools, journal=path) as pipeline:
        for _ in values:
            outcome = await pipeline.call("give", {})
            if isinstance(outcome, Success) and isinstance(found := outcome.unwrap(), dict):
                found["a" if "a" in found else 1] = "changed"
    forms = forms_of(path)
    assert len(forms) == len(values)
    assert forms[-1]["value"] == {"a": [1]}
    assert "changed" not in json.dumps(forms)


async def test_a_journal_without_a_block(tmp_path: Path) -> None:
    """The first call opens it, and a flush writes what is queued."""
    path = tmp_path / "calls.db"
    pipeline = standard(journal_tools.tools, journal=path)
    for _ in range(3):
        await pipeline.call("add", {"x": 1, "y": 2})
    get_journal(path).close()
    assert len(forms_of(path)) == 3
    await pipeline.call("add", {"x": 1, "y": 2})
    get_journal(path).close()
    assert len(forms_of(path)) == 4


async def test_a_cancelled_call_is_kept(tmp_path: Path) -> None:
    """As cancelled, and not as a failure."""
    import anyio

    tools = ToolRegistry()

    @tools.tool
    async def hang() -> None:
        await anyio.sleep_forever()

    path = tmp_path / "calls.db"
    async with standard(tools, journal=path) as pipeline, anyio.create_task_group() as group:
        group.start_soon(pipeline.call, "hang")
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert [form["outcome"] for form in forms_of(path)] == ["cancelled"]


class Held:
    """A journal whose thread does not start, so that its queue fills."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(journal_module, "_MOST_QUEUED", 10)
        monkeypatch.setattr(journal_module, "_WAITING", 0.001)
        self.journal = Journal(path)
        self.start: Any = getattr(self.journal, "_start")  # noqa: B009  # private
        monkeypatch.setattr(self.journal, "_start", lambda: None)


async def test_a_full_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What does not fit is dropped and counted, told once, and the file says how many."""
    path = tmp_path / "calls.db"
    held = Held(path, monkeypatch)
    pipeline = standard(journal_tools.tools, journal=held.journal)
    with caplog.at_level(logging.WARNING):
        for _ in range(25):
            assert isinstance(await pipeline.call("add", {"x": 1, "y": 2}), Success)
    assert held.journal.dropped == 15
    assert len([line for line in caplog.records if "cannot follow" in line.message]) == 1
    held.start()
    held.journal.close()
    forms, dropped = read_forms(path)
    assert (len(list(forms)), dropped) == (10, 15)


def test_a_caller_gets_room_that_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full queue makes it wait, and nothing is dropped if the writer follows."""
    held = Held(tmp_path / "calls.db", monkeypatch)
    monkeypatch.setattr(journal_module, "_WAITING", 60.0)
    pipeline = standard(journal_tools.tools, journal=held.journal)
    for _ in range(10):
        pipeline.call_sync("add", {"x": 1, "y": 2})
    caller = threading.Thread(target=pipeline.call_sync, args=("add", {"x": 1, "y": 2}))
    caller.start()
    held.start()
    caller.join(PATIENT)
    assert not caller.is_alive()
    held.journal.close()
    assert held.journal.dropped == 0
    assert len(forms_of(tmp_path / "calls.db")) == 11


BAD: list[tuple[str, bytes | None, str]] = [
    (
        "text",
        b"this is no database, and long enough to be read as the header of one, if anything reads so far ...",
        "no journal",
    ),
    ("folder", None, "cannot be opened"),
]


@pytest.mark.parametrize(("name", "content", "told"), BAD, ids=lambda each: str(each)[:10])
async def test_files_that_are_no_journal(name: str, content: bytes | None, told: str, tmp_path: Path) -> None:
    """They are refused when the pipeline is opened, in one line with their path, and stay as they were."""
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(SetupError, match=told) as caught:
        async with standard(journal_tools.tools, journal=path):
            pass
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert content is None or path.read_bytes() == content


def test_a_database_of_something_else(tmp_path: Path) -> None:
    """It is neither read nor written."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE calls (a)")
    for open_it in (JournalFile.open, JournalFile.read):
        with pytest.raises(JournalError, match="something else"):
            open_it(path)


@pytest.mark.parametrize("before", range(1, 7))
def test_another_process_makes_the_file_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """A journal opens, before whichever of its statements another process makes the file."""
    JournalFile.open(tmp_path / "made.db").close()
    numbers = make_meanwhile(monkeypatch, tmp_path / "calls.db", tmp_path / "made.db", before)
    JournalFile.open(tmp_path / "calls.db").close()
    assert next(numbers) > before


def test_another_process_writes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal opens also if another process writes to a new file just when this one is to change it to WAL."""
    tries = write_meanwhile(monkeypatch, tmp_path / "calls.db", 3)
    JournalFile.open(tmp_path / "calls.db").close()
    assert next(tries) == 5


@pytest.mark.parametrize("before", [2, 3, 4])
def test_a_later_release_makes_the_file_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """The file keeps its version, and the journal says so."""
    JournalFile.open(tmp_path / "made.db").close()
    with closing(sqlite3.connect(tmp_path / "made.db")) as made:
        made.execute("PRAGMA user_version = 99")
    path = tmp_path / "calls.db"
    make_meanwhile(monkeypatch, path, tmp_path / "made.db", before)
    with pytest.raises(JournalError, match="version 99"):
        JournalFile.open(path)
    with closing(sqlite3.connect(path)) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (99,)


async def test_a_later_version(tmp_path: Path) -> None:
    """It says which version is there and which is read."""
    path = tmp_path / "calls.db"
    await record(path)
    with closing(sqlite3.connect(path)) as later, later:
        later.execute("PRAGMA user_version = 99")
    for open_it in (JournalFile.open, JournalFile.read):
        with pytest.raises(JournalError, match=r"version 99.*up to 2"):
            open_it(path)


async def test_an_earlier_version_is_brought_to_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To write, in the file; to read, in memory. Its calls stay."""
    path = tmp_path / "calls.db"
    monkeypatch.setattr(journal_database, "_MIGRATIONS", Schema._MIGRATIONS[:1])
    monkeypatch.setattr(journal_database, "VERSION", 1)
    before = await record(path)
    monkeypatch.undo()
    with JournalFile.read(path) as file:
        assert list(file) == before
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    JournalFile.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert forms_of(path) == before


async def test_a_truncated_file(tmp_path: Path) -> None:
    """Reading it ends with one line that says so."""
    path = tmp_path / "calls.db"
    await record(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(JournalError, match="damaged"):
        forms_of(path)


def test_a_file_that_is_held_is_not_read_past_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that ignored the lock would show the rows of the file without those beside it."""
    monkeypatch.setattr(journal_database, "_WAITING", 0.01)
    path = tmp_path / "calls.db"
    JournalFile.open(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalError, match="another process holds the file"):
            JournalFile.read(path)


async def test_a_locked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Calls go on, the lock is told, and nothing is lost once it is gone."""
    monkeypatch.setattr(journal_database, "_WAITING", 0.01)
    monkeypatch.setattr(journal_module, "_RETRY", 0.01)
    path = tmp_path / "calls.db"
    journal = Journal(path)
    pipeline = standard(journal_tools.tools, journal=journal)
    JournalFile.open(path).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert isinstance(await pipeline.call("add", {"x": 1, "y": 2}), Success)
        while not caplog.records:  # the thread says so after its first try
            threading.Event().wait(0.01)
    assert "locked" in caplog.text
    holder.execute("ROLLBACK")
    holder.close()
    journal.close()
    assert len(forms_of(path)) == 3
    assert journal.dropped == 0


async def test_a_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk costs the calls in the queue, which is said and counted; those in the file stay, and none is half."""
    monkeypatch.setattr(journal_module, "_RETRY", 0.01)
    path = tmp_path / "calls.db"
    journal = Journal(path)
    pipeline = standard(journal_tools.tools, journal=journal)
    await pipeline.call("add", {"x": 1, "y": 2})
    journal.close()
    open_file = JournalFile.open

    def open_full(where: Path) -> Any:
        file: Any = open_file(where)
        (pages,) = file._connection.execute("PRAGMA page_count").fetchone()
        file._connection.execute(f"PRAGMA max_page_count = {pages}")
        return file

    monkeypatch.setattr(JournalFile, "open", open_full)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            assert isinstance(await pipeline.call("find", {"name": "x" * 20_000}), Success)
        journal.close()
    assert "full" in caplog.text
    assert journal.dropped == 5
    assert [form["tool"] for form in forms_of(path)] == ["add"]


@pytest.mark.parametrize(
    ("option", "value"), [("days", 0), ("megabytes", -1), ("content", 5), ("path", ""), ("path", 5)]
)
def test_options_that_are_wrong(option: str, value: Any) -> None:
    """They are refused at once."""
    given: dict[str, Any] = {"path": "x.db", option: value}
    with pytest.raises(SetupError, match=option):
        Journal(**given)
    wrong: Any = 5
    with pytest.raises(SetupError, match="journal"):
        standard(journal_tools.tools, journal=wrong)


async def test_calls_that_are_too_old_or_too_many_go(tmp_path: Path) -> None:
    """The oldest first, until the file is small enough."""
    path = tmp_path / "calls.db"
    forms = await record(path)
    old = [{**forms[0], "id": "old", "at": 1}] * 3
    large = [{**forms[0], "id": f"large_{number}", "told": "x" * 10_000} for number in range(300)]
    with JournalFile.open(path) as file:
        file.write(old)
        file.write(large)
        file.trim(30, None, now=True)
        assert [form["id"] for form in file].count("old") == 0
        file.trim(None, 1, now=True)
        kept = [form["id"] for form in file]
    assert kept[-1] == "large_299"
    assert 50 < len(kept) < 110
    assert path.stat().st_size < 1_200_000


async def test_a_journal_is_bounded_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By default what is older than 30 days goes, and the log says so once; None keeps all."""
    path = tmp_path / "calls.db"
    forms = await record(path)
    old = time.time() - 31 * 86_400
    for journal, stays in ((Journal(path, days=None, megabytes=None), True), (Journal(path), False)):
        for _ in range(2):
            with JournalFile.open(path) as file:
                file.write([{**forms[0], "id": "old", "at": round(old * 1e9)}])
            async with journal:
                pass
            assert ("old" in {form["id"] for form in forms_of(path)}) is stays
        told = "the journal removes calls, older than 30 days and the oldest of more than 500 MB"
        assert caplog.text.count(told) == (0 if stays else 1)


async def test_lines_in_and_out(tmp_path: Path) -> None:
    """The lines of a journal make the same journal again; a line that is none makes nothing, and says where it is."""
    forms = await record(tmp_path / "calls.db")
    lines, copy = tmp_path / "calls.jsonl", tmp_path / "copy.db"
    with lines.open("w") as output:
        assert write_lines(tmp_path / "calls.db", output) == len(forms)
    assert forms_of(lines) == forms
    assert add_lines(copy, read_forms(lines)[0]) == len(forms)
    assert forms_of(copy) == forms
    lines.write_text(lines.read_text() + "{}\n")
    with pytest.raises(JournalError, match=r"calls.jsonl:9: this is no call"):
        add_lines(copy, read_forms(lines)[0])
    assert forms_of(copy) == forms


def test_threads_and_pipelines_share_a_file(tmp_path: Path) -> None:
    """Each call is there once."""
    path = tmp_path / "calls.db"
    pipelines = [standard(journal_tools.tools, journal=path) for _ in range(3)]

    def call(pipeline: Any, place: int) -> None:
        for number in range(50):
            pipeline.call_sync("add", {"x": 1, "y": 2}, id=f"{place}-{number}")

    threads = [threading.Thread(target=call, args=each) for each in zip(pipelines, range(3), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    get_journal(path).close()
    assert sorted(form["id"] for form in forms_of(path)) == sorted(f"{a}-{b}" for a in range(3) for b in range(50))


CALLS = """
import sys
from journal_tools import tools
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.testing.clocks import no_waiting
pipeline = standard(tools, journal=sys.argv[1])
for number in range(int(sys.argv[2])):
    pipeline.call_sync("add", {"x": number, "y": 2}, id=str(number))
    if number % 100 == 0:
        print(number, flush=True)
"""

OPEN_CALLS = """
import sys
import anyio
from journal_tools import tools
from toolcall_pipeline.middlewares import standard

async def main():
    async with standard(tools, journal=sys.argv[1]) as pipeline:
        for number in range(int(sys.argv[2])):
            await pipeline.call("add", {"x": number, "y": 2}, id=str(number))
            if number % 100 == 0:
                print(number, flush=True)
            await anyio.sleep(0.0005)  # an agent does not call in a loop without a pause

anyio.run(main)
"""


def start(path: Path, count: int, script: str = CALLS) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE / "support")])}
    command = [sys.executable, "-c", script, str(path), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.long
def test_a_process_that_ends_loses_nothing(tmp_path: Path) -> None:
    """Without a block and without a close."""
    path = tmp_path / "calls.db"
    with start(path, 1_234) as process:
        process.communicate(timeout=PATIENT)
    assert [form["id"] for form in forms_of(path)] == [str(number) for number in range(1_234)]


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 20, 5))
def test_20_kills(tmp_path: Path, first: int) -> None:
    """The file opens, no call is there twice, none is missing in between, and at most the last batch is lost."""
    for kill in range(first, first + 5):
        path = tmp_path / f"{kill}.db"
        with start(path, 1_000_000, OPEN_CALLS) as process:
            assert process.stdout is not None
            line = "0"
            for line in process.stdout:  # the last one is read below
                if int(line) >= 300 + 60 * kill:
                    break
            process.send_signal(signal.SIGKILL)
            said = int(line)
        ids = [int(form["id"]) for form in forms_of(path)]
        assert ids == list(range(len(ids)))
        assert len(ids) >= said - Inside._BATCH
