"""``toolcall run``: a call that may have taken effect is marked before it begins, and is not run again by --resume."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale.kill_and_resume import kill_and_resume
from cli_desk import Desk, open_desk, until
from toolcall_pipeline.cli.run.calls_file import CallLine, parse_line
from toolcall_pipeline.cli.run.marks_file import MarksFile
from toolcall_pipeline.cli.run.results_file import ResultsFile
from toolcall_pipeline.cli.terminal_text import CommandError

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
def charge(context: ToolContext) -> None:
    act()

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
async def renames() -> None:
    os.rename(HERE / "results.jsonl", HERE / "renamed.jsonl")

@tools.tool(effect="read")
async def removes_marks() -> None:
    os.unlink(HERE / "results.jsonl.begun")

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
outermost = standard(tools).after("trace", does_it)

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


def kill_in_the_body(desk: Desk, *options: str, target: str = "tools") -> None:
    """Run CALLS until a body kills the run."""
    victim = "parent" if "process" in options else "self"
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
    pytest.param("charge", [], "tools", id="keyed"),
    pytest.param("second_attempt", [], "tools", id="second attempt"),
    pytest.param("pay", IN_PROCESSES, "tools", id="process"),
    pytest.param("post", IN_PROCESSES, "tools", id="async in a process"),
    pytest.param("anything", [], "own_end", id="an end of the user's own"),
    pytest.param("post", [], "own_middleware", id="a middleware that does the work"),
    pytest.param("post", [], "outermost", id="before the tool is found"),
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
    assert (count_effects(desk), desk.marks.exists()) == (1, False)


@pytest.mark.parametrize("target", ["tools", "own_middleware", "outermost"])
@pytest.mark.parametrize("name", ["look", "put"])
def test_a_call_that_is_safe_to_repeat(desk: Desk, name: str, target: str) -> None:
    """A read or idempotent call is not marked: after a kill in its body it is run again."""
    desk.put({"name": name})
    kill_in_the_body(desk, target=target)
    assert desk.run("--resume", target=target).exit_code == 0
    assert (desk.by_line[1]["ok"], count_effects(desk)) == (True, 2)


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


def test_without_results(desk: Desk) -> None:
    """Marks hold where RESULTS is lost: a run without --resume is refused, and a resumed one does not repeat."""
    desk.put({"name": "pay"})
    kill_in_the_body(desk)
    desk.results.unlink()
    result = desk.run()
    assert (result.exit_code, count_effects(desk)) == (2, 1)
    assert "names 1 call of an earlier run that may have taken effect: continue that run with --resume" in result.stderr
    assert desk.run("--resume").exit_code == 0
    assert (desk.by_line[1]["kind"], count_effects(desk)) == ("outcome_unknown", 1)


def test_renamed_after_a_kill(desk: Desk) -> None:
    """A file of results that was renamed without its marks is refused, and resumed when they are renamed as well."""
    desk.put({"name": "fails"}, {"name": "pay"})
    kill_in_the_body(desk, "--concurrency", "1")
    moved = desk.results.rename(desk.path / "moved.jsonl")
    result = desk.run("--resume", "-o", str(moved))
    assert (result.exit_code, "results.jsonl.begun has the marks of its calls" in result.stderr) == (2, True)
    moved_marks = desk.marks.rename(desk.path / "moved.jsonl.begun")
    assert desk.run("--resume", "-o", str(moved)).exit_code == 0
    assert [json.loads(line)["kind"] for line in moved.read_bytes().splitlines()] == ["execution", "outcome_unknown"]
    assert (count_effects(desk), moved_marks.exists()) == (1, False)


def test_through_a_link(desk: Desk) -> None:
    """A link to RESULTS finds the marks of the file that it leads to."""
    desk.put({"name": "pay"})
    kill_in_the_body(desk)
    (desk.path / "elsewhere").mkdir()
    link = desk.path / "elsewhere" / "link.jsonl"
    link.symlink_to(desk.results)
    assert desk.run("--resume", "-o", str(link)).exit_code == 0
    assert (desk.by_line[1]["kind"], count_effects(desk)) == ("outcome_unknown", 1)


def test_marks_are_gone_when_all_is_done(desk: Desk) -> None:
    """Both files are for their owner only; the marks are removed when each call has its result."""
    desk.put({"name": "waits"}, {"name": "pay"}, {"name": "fails"})
    with desk.start() as process:
        until(lambda: count_effects(desk) == 2)
        assert [file.stat().st_mode & 0o777 for file in (desk.results, desk.marks)] == [0o600, 0o600]
        marked = [json.loads(line) for line in desk.marks.read_bytes().splitlines()]
        (desk.path / "go").touch()
        process.communicate()
    assert any((each.get("line"), each.get("tool")) == (1, "waits") for each in marked)
    assert (process.returncode, desk.marks.exists(), len(desk.by_line)) == (0, False, 3)


def test_a_call_that_waits_for_a_thread(desk: Desk) -> None:
    """A call whose body has not begun is not marked, however far it has come."""
    desk.put({"name": "holds_a_thread"}, {"name": "holds_a_thread"}, {"name": "fails"}, {"name": "post"})
    with desk.start("--workers", "1", "--concurrency", "4") as process:
        desk.await_rows(1)  # of the async tool, so the other calls have come to the only thread
        until(lambda: count_effects(desk) == 2)
        process.kill()
    marks = [json.loads(line) for line in desk.marks.read_bytes().splitlines()]
    assert sorted(mark["tool"] for mark in marks if "tool" in mark) == ["holds_a_thread", "post"]


def test_interrupted_in_the_body(desk: Desk) -> None:
    """A call that Ctrl-C has cut off is as unknown as one that a kill has."""
    desk.put({"name": "for_ever"}, {"name": "pay"})
    with desk.start("--concurrency", "1") as process:
        until(lambda: count_effects(desk) == 1)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert (process.returncode, desk.marks.exists(), desk.rows) == (130, True, [])
    assert desk.run("--resume").exit_code == 0
    assert [desk.by_line[line]["kind"] for line in (1, 2)] == ["outcome_unknown", None]
    assert count_effects(desk) == 2


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("renames", "RESULTS was renamed, replaced or removed during the run"),
        ("removes_marks", "results.jsonl.begun was renamed, replaced or removed during the run"),
    ],
)
def test_renamed_during_the_run(desk: Desk, name: str, error: str) -> None:
    """Where its mark or its result could not be found again, no further call begins, and stderr says why."""
    desk.put({"name": name}, {"name": "pay"}, {"name": "pay"})
    result = desk.run("--concurrency", "1")
    assert (result.exit_code, error in result.stderr, count_effects(desk)) == (2, True, 0)
    rows = (desk.path / "renamed.jsonl" if name == "renames" else desk.results).read_bytes().splitlines()
    assert len(rows) == 1


def test_renamed_at_the_end(desk: Desk) -> None:
    """A run whose results are elsewhere than they were to be does not end as if all were well."""
    desk.put({"name": "renames"})
    result = desk.run()
    assert (result.exit_code, "RESULTS was renamed, replaced or removed" in result.stderr) == (2, True)


def test_running_calls_end_when_the_run_has_to_stop(desk: Desk) -> None:
    """A call that runs when the run has to stop still gets its result."""
    desk.put({"name": "waits"}, {"name": "removes_marks"}, {"name": "pay"})
    with desk.start("--concurrency", "2") as process:
        assert process.stderr is not None
        while b"stopping" not in (line := process.stderr.readline()):
            assert line, "the run has ended"
        (desk.path / "go").touch()
        process.communicate()
    assert (process.returncode, count_effects(desk)) == (2, 1)
    assert {line: row["ok"] for line, row in desk.by_line.items()} == {1: True, 2: True}


OWNER = '{"results": 1}\n'
LINE = parse_line(1, json.dumps({"id": "c1", "name": "pay"}).encode())
MARK = json.dumps({"line": 1, "call": LINE.digest, "tool": "pay"}) + "\n"
REFUSED = [
    pytest.param("mine", "mine\n", "line 1 is not a mark of toolcall run", id="something else"),
    pytest.param("text", OWNER + "[1]\n" + MARK, "line 2 is not a mark of toolcall run", id="no object"),
    pytest.param("keys", '{"line": 1}\n', "line 1 is not a mark", id="other keys"),
    pytest.param("type", MARK.replace("1,", '"1",'), "line 1 is not a mark", id="other types"),
    pytest.param(
        "call", MARK.replace(LINE.digest, "1"), "line 1 of CALLS is not the call that has its mark", id="call"
    ),
    pytest.param(
        "line", MARK.replace("1,", "7,"), "1 call that had begun has a line that CALLS no longer has", id="line"
    ),
]


@pytest.mark.parametrize(("_", "content", "error"), REFUSED)
def test_marks_that_do_not_belong(desk: Desk, _: str, content: str, error: str) -> None:
    """Marks of other calls, and a file that contains no marks, end the run and stay as they are."""
    desk.put({"id": "c1", "name": "pay"})
    desk.marks.write_text(content)
    result = desk.run("--resume")
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr
    assert desk.marks.read_text().startswith(content)


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_mark(desk: Desk, kept: int) -> None:
    """A mark that was written in part is cut off: the body of its call has not begun."""
    desk.put({"id": "c1", "name": "pay"})
    desk.marks.write_text(OWNER + MARK[:kept])
    assert desk.run("--resume").exit_code == 0
    assert (desk.by_line[1]["ok"], count_effects(desk)) == (True, 1)


def test_a_link_in_the_place_of_the_marks(desk: Desk) -> None:
    """Marks are never written through a link, which somebody else may have put there."""
    desk.put({"name": "pay"})
    (desk.path / "precious").write_text("")
    desk.marks.symlink_to(desk.path / "precious")
    assert (desk.run().exit_code, count_effects(desk)) == (2, 0)
    assert (desk.path / "precious").read_text() == ""


def test_no_room_for_a_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose mark cannot be written does not begin, nor does a later one: the file may end in half a mark."""
    write = os.write

    def fill(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return write(fd, data[:5])

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    results = ResultsFile.open(tmp_path / "results", resume=False)
    marks = MarksFile.open(results, resume=False)
    assert marks is not None
    monkeypatch.setattr(os, "write", fill)
    line = CallLine(1, "c1", "pay", None)
    for _ in range(2):
        with pytest.raises(CommandError, match=r"results\.begun cannot be written: No space left on device"):
            marks.write(line, "pay")
        monkeypatch.setattr(os, "write", write)
    marks.close()
    results.close()
    assert (tmp_path / "results.begun").read_bytes().count(b"\n") == 1


def test_no_marks_without_a_file(desk: Desk) -> None:
    """Results that go to a pipe or a device cannot be resumed, so there are no marks."""
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
