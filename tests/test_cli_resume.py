"""``toolcall run``: however a run ends, its results stay, and --resume completes them."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import DataObject, data, lists, permutations, sampled_from

from cli_desk import MODULE, Desk, open_desk, until
from support import PATIENT
from toolcall_pipeline.cli.run.calls_file import CallLine, compute_digest
from toolcall_pipeline.cli.run.result_rows import build_row_without_report
from toolcall_pipeline.cli.run.run_results import open_results
from toolcall_pipeline.cli.terminal_text import CommandError

pytestmark = pytest.mark.long  # each test starts processes


NOTE = """
@tools.tool(effect="mutating")
async def note(n: int) -> int:
    from pathlib import Path
    with Path(__file__).with_name("effects").open("a") as file:
        file.write(f"{n}\\n")
    return n
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch, MODULE + NOTE) as made:
        yield made


def test_results_are_never_overwritten(desk: Desk) -> None:
    """Without --resume a file that is not empty is refused and stays as it is."""
    desk.put({"name": "greet"})
    desk.results.write_text("mine")
    result = desk.run()
    assert (result.exit_code, desk.results.read_text()) == (2, "mine")
    assert "is not empty: write to a new file, or continue this one with --resume" in result.stderr


def test_resume_from_nothing(desk: Desk) -> None:
    """--resume without a file of results, or with an empty one, runs all calls."""
    desk.put_many(3)
    for _ in range(2):
        assert desk.run("--resume").exit_code == 0
        assert sorted(desk.by_line) == [1, 2, 3]


@pytest.mark.parametrize("kept", [0, 1, 9, 40, -2])
def test_a_torn_last_row_is_cut_off(desk: Desk, kept: int) -> None:
    """A last result that was written in part is cut off, and its call is run again."""
    desk.put_many(6, "echo")
    assert desk.run("--concurrency", "1").exit_code == 0
    whole = desk.results.read_bytes().splitlines(keepends=True)
    desk.results.write_bytes(b"".join(whole[:3]) + whole[3][:kept])
    result = desk.run("--resume")
    assert (result.exit_code, sorted(desk.by_line)) == (0, [1, 2, 3, 4, 5, 6])
    assert "6 results" in result.stderr
    assert "3 calls" in result.stderr
    assert "3 lines had a result before" in result.stderr
    assert all(row["ok"] for row in desk.rows)


def test_a_whole_last_row_without_its_line_end(desk: Desk) -> None:
    """A last result that lacks only its line end is kept, and its call is not run again."""
    desk.put_many(3, "echo")
    assert desk.run("--concurrency", "1").exit_code == 0
    whole = desk.results.read_bytes().splitlines(keepends=True)
    desk.results.write_bytes((whole[0] + whole[1]).rstrip(b"\n"))
    result = desk.run("--resume")
    assert (result.exit_code, sorted(desk.by_line)) == (0, [1, 2, 3])
    assert "1 call in" in result.stderr


def test_holes_are_filled(desk: Desk) -> None:
    """Only the lines without a result are run, wherever they are."""
    desk.put_many(50, "echo")
    assert desk.run().exit_code == 0
    whole = desk.results.read_bytes().splitlines(keepends=True)
    desk.results.write_bytes(b"".join(row for place, row in enumerate(whole) if place % 3))
    result = desk.run("--resume")
    assert (result.exit_code, len(desk.by_line)) == (0, 50)
    assert "17 calls" in result.stderr


def test_malformed_lines_are_done_too(desk: Desk) -> None:
    """A malformed line gets no second result in a resumed run, which still ends in exit code 1."""
    desk.put("nope", {"name": "greet"}, {"name": "half \ud83d", "id": "\ud83d"})
    for _ in range(2):
        assert desk.run("--resume").exit_code == 1
        assert sorted(desk.by_line) == [1, 2, 3]


def test_a_malformed_line_that_was_repaired(desk: Desk) -> None:
    """A repaired line is another line: it is run, and has the only result of its number."""
    desk.put("nope", {"name": "greet"}, "nope")
    assert desk.run().exit_code == 1
    desk.put({"name": "greet"}, {"name": "greet"}, "nope")
    assert desk.run("--resume").exit_code == 1
    assert {number: row["kind"] for number, row in desk.by_line.items()} == {1: None, 2: None, 3: "malformed_line"}


@pytest.mark.parametrize(
    "content",
    [
        "mine",
        "mine\n",
        "5\n",
        "{}\n",
        '{"line": 0, "call": "1", "kind": null}\n',
        '{"line": "1", "call": "1", "kind": null}\n',
        '{"line": 1, "call": "1", "kind": 5}\n',
        '{"line": 1, "call": "other", "kind": null}\n',
        '{"line": 1, "call": "", "kind": null}\n',
        '{"line": 1, "call": "1", "kind": null}\n' * 2,
        '{"line": 1, "call": "1", "kind": null}\n{"line": 2, \n{"line": 3}\n',
    ],
)
def test_what_is_no_file_of_results(desk: Desk, content: str) -> None:
    """--resume refuses a file that contains anything but results, and leaves it as it is."""
    desk.put_many(3)
    desk.results.write_text(content)
    result = desk.run("--resume")
    assert (result.exit_code, desk.results.read_text()) == (2, content)
    assert "not a result" in result.stderr or "not a file of results" in result.stderr
    assert list(desk.path.glob("results.jsonl*")) == [desk.results]


@pytest.mark.parametrize("gone", [3, 1])
@pytest.mark.parametrize("new", [[], [b"{}\n"]])
def test_calls_that_changed(desk: Desk, new: list[bytes], gone: int) -> None:
    """A result whose line was changed or removed stops the run before any call: it names the line."""
    desk.put_many(20, "echo")
    assert desk.run().exit_code == 0
    lines = desk.calls.read_bytes().splitlines(keepends=True)
    desk.calls.write_bytes(b"".join([*new, *lines[gone:]]))
    result = desk.run("--resume")
    assert (result.exit_code, len(desk.rows)) == (2, 20)
    assert "CALLS no longer has, changed or removed since: line" in result.stderr
    assert "1" in result.stderr.rpartition("line")[2]


def make_line(n: int | None) -> object:
    return "nope" if n is None else {"id": "c", "name": "note", "arguments": {"n": n}}


@pytest.mark.parametrize("whole", [True, False])
@given(data())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_calls_in_another_order(desk: Desk, whole: bool, choice: DataObject) -> None:
    """Lines in any order, also equal and malformed ones: each runs once, and each row has the number of its line."""
    desk.results.unlink(missing_ok=True)
    desk.effects.unlink(missing_ok=True)
    numbers: list[int | None] = [1, 2, 3, 3, 3, None, None]
    desk.put(*map(make_line, numbers))
    assert desk.run("--concurrency", "1").exit_code == 1
    rows = desk.results.read_text().splitlines(keepends=True)
    kept = rows if whole else choice.draw(lists(sampled_from(rows), unique=True))
    ended = [json.loads(row) for row in kept]
    desk.effects.write_text("".join(f"{row['value']}\n" for row in ended if row["ok"]))
    desk.results.write_text("".join(kept))
    moved = choice.draw(permutations(numbers))
    desk.put(*map(make_line, moved), make_line(4))
    result = desk.run("--resume")
    assert result.exit_code == 1, result.stderr
    assert sorted(desk.effects.read_text().split()) == ["1", "2", "3", "3", "3", "4"]
    found = desk.by_line
    assert sorted(found) == list(range(1, 9))
    for place, n in enumerate(moved, 1):
        assert (found[place]["value"], found[place]["kind"]) == (n, None if n else "malformed_line")
    assert sorted(each.name for each in desk.path.glob("results*")) == ["results.jsonl"]


def test_calls_that_became_fewer(desk: Desk) -> None:
    """Results of lines that are no longer in CALLS end the run with exit code 2."""
    desk.put_many(20, "echo")
    assert desk.run().exit_code == 0
    desk.put_many(15, "echo")
    result = desk.run("--resume")
    assert (result.exit_code, "5 results have lines that CALLS no longer has" in result.stderr) == (2, True)


def test_more_calls(desk: Desk) -> None:
    """Lines that were appended are run."""
    desk.put_many(15, "echo")
    assert desk.run().exit_code == 0
    desk.put_many(20, "echo")
    assert desk.run("--resume").exit_code == 0
    assert len(desk.by_line) == 20


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ended_half_way_and_resumed(desk: Desk, number: signal.Signals, code: int) -> None:
    """However a run ends, its results stay, and --resume gives every other line exactly one result."""
    lines: list[object] = [{"id": f"c{n}", "name": "slow", "arguments": {"n": n}} for n in range(1, 601)]
    for n in range(300, 304):  # as many as run at once: the run gets no further before the signal
        lines[n - 1] = {"id": f"c{n}", "name": "waits"}
    desk.put(*lines)
    process = desk.start("--concurrency", "4")
    desk.await_rows(200)
    process.send_signal(number)
    (desk.path / "go").touch()
    _, told = process.communicate(timeout=PATIENT)
    assert process.returncode == code
    written = desk.results.read_bytes()
    assert 200 <= written.count(b"\n") < 600
    assert (b"run the same command with --resume to continue" in told) == (code > 0)
    result = desk.run("--resume")
    assert result.exit_code == 0
    assert desk.results.read_bytes().startswith(written[: written.rindex(b"\n") + 1])
    assert sorted(desk.by_line) == list(range(1, 601))
    assert all(row["ok"] and row["id"] == f"c{row['line']}" for row in desk.rows)


@pytest.mark.long
def test_killed_again_and_again(desk: Desk) -> None:
    """A run that is killed several times still ends with exactly one result per line."""
    desk.put_many(800)
    for rows in (100, 300, 500):
        process = desk.start("--resume", "--concurrency", "8")
        desk.await_rows(rows)
        process.kill()
        process.communicate(timeout=PATIENT)
    assert desk.run("--resume").exit_code == 0
    assert sorted(desk.by_line) == list(range(1, 801))


def test_an_interruption_waits_for_what_is_under_way(desk: Desk) -> None:
    """After Ctrl-C each call that began gets its result, because it may have taken effect."""
    desk.put_many(600)
    process = desk.start("--concurrency", "1")
    desk.await_rows(20)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENT)
    assert [row["line"] for row in desk.rows] == list(range(1, len(desk.rows) + 1))
    assert desk.results.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("hanging", ["for_ever", "sleeps", "blocks"])
def test_a_second_interruption_does_not_wait(desk: Desk, hanging: str) -> None:
    """A second Ctrl-C ends the command at once, even if a tool blocks the event loop or a thread."""
    desk.put({"name": "greet"}, {"name": hanging})
    process = desk.start("--concurrency", "1")
    desk.await_rows(1)
    process.send_signal(signal.SIGINT)

    def ended() -> bool:
        process.send_signal(signal.SIGINT)  # of an ended process nothing is asked
        return process.poll() is not None

    until(ended)
    process.communicate(timeout=PATIENT)
    assert (process.returncode, sorted(desk.by_line)) == (130, [1])


def test_two_runs_of_one_file(desk: Desk) -> None:
    """While one run writes its results, no other run may resume them."""
    desk.put({"name": "greet"}, {"name": "for_ever"})
    process = desk.start()
    desk.await_rows(1)
    result = desk.run("--resume")
    assert (result.exit_code, "another run is writing to it" in result.stderr) == (2, True)
    process.kill()
    process.communicate(timeout=PATIENT)


def test_the_order_of_the_rows(desk: Desk) -> None:
    """At the end the results are in the order of their lines, whatever that of the ends was."""
    desk.put_many(60)
    assert desk.run("--concurrency", "7").exit_code == 0
    assert [row["line"] for row in desk.rows] == list(range(1, 61))


def test_a_killed_run_without_follow(desk: Desk) -> None:
    """Without --follow RESULTS is empty until the end, and what ended before a kill is not run again."""
    desk.put(*(make_line(n) for n in range(1, 100)), {"name": "waits"})
    process = desk.start("--concurrency", "1", follow=False)
    until((desk.path / "waiting").exists)  # so the line before it has ended, and is kept
    process.kill()
    process.communicate(timeout=PATIENT)
    assert desk.results.read_bytes() == b""
    (desk.path / "go").touch()
    assert desk.run("--resume").exit_code == 0
    assert [row["value"] for row in desk.rows] == [*range(1, 100), None]
    assert desk.effects.read_text().count("\n") == 99
    assert list(desk.path.glob("results.jsonl*")) == [desk.results]


def test_no_room_for_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that cannot be written ends the run with the reason, and is kept."""

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "results"
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(CommandError, match="RESULTS cannot be written: No space left on device"):
            write_a_row(path)
    with open_results(path, resume=True, follow=False):
        pass
    assert json.loads(path.read_bytes())["told"] == "told"


def test_a_row_that_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result is written completely even if the system writes only a part at a time."""
    write = os.write

    def a_part(fd: int, data: bytes) -> int:
        return write(fd, data[:7])

    monkeypatch.setattr(os, "write", a_part)
    write_a_row(tmp_path / "results")
    assert json.loads((tmp_path / "results").read_bytes())["told"] == "told"


def write_a_row(path: Path) -> None:
    digest = compute_digest(b"{}")
    row = build_row_without_report(CallLine(1, "a", "b", None, digest=digest), "internal", "told")
    with open_results(path, resume=False, follow=True) as results:
        place, _ = results.see(1, digest)
        results.write(place, row)
