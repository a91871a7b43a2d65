"""``toolcall run``: one run at a time writes to a file of results, whatever its tools do with that file."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_desk import Desk, open_desk, until
from toolcall_pipeline.cli.run.exclusive import open_exclusively
from toolcall_pipeline.cli.terminal_text import CommandError

pytestmark = pytest.mark.long  # each test starts processes

MODULE = """
import os
from pathlib import Path

import anyio

from toolcall_pipeline import ToolRegistry

HERE = Path(__file__).parent
tools = ToolRegistry()

@tools.tool(effect="read")
def opens_and_closes() -> int:
    return len((HERE / "results.jsonl").read_text())

@tools.tool(effect="read")
async def forks() -> int:
    child = os.fork()
    if child == 0:
        while True:
            os.read(int((HERE / "pipe").read_text()), 1)
    return child

@tools.tool(effect="read")
def starts() -> int:
    import subprocess
    return subprocess.Popen(["sleep", "1000"]).pid

@tools.tool(effect="read")
async def for_ever() -> None:
    await anyio.sleep_forever()
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch, MODULE) as made:
        yield made


def test_a_tool_that_opens_and_closes_the_results(desk: Desk) -> None:
    """A tool that reads RESULTS does not open it to another run, which is told who writes to it."""
    desk.put({"name": "opens_and_closes"}, {"name": "for_ever"})
    with desk.start("--concurrency", "1") as process:
        desk.await_rows(1)
        result = desk.run("--resume")
        process.kill()
    assert (result.exit_code, len(desk.rows)) == (2, 1)
    assert f"another run is writing to it: process {process.pid} (" in result.stderr


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_through_another_name(desk: Desk, link: Callable[[Path, Path], None]) -> None:
    """The lock holds for each name of the file."""
    desk.put({"name": "opens_and_closes"}, {"name": "for_ever"})
    with desk.start() as process:
        desk.await_rows(1)
        link(desk.results, desk.path / "other.jsonl")
        result = desk.run("--resume", "-o", str(desk.path / "other.jsonl"))
        process.kill()
    assert (result.exit_code, "another run is writing to it" in result.stderr) == (2, True)


def test_under_the_old_name(desk: Desk) -> None:
    """After RESULTS was renamed no other run can begin under its name: they would share what is beside it."""
    desk.put({"name": "opens_and_closes"}, {"name": "for_ever"})
    with desk.start() as process:
        desk.await_rows(1)
        desk.results.rename(desk.path / "renamed.jsonl")
        result = desk.run()
        process.kill()
    assert (result.exit_code, "another run is writing to it" in result.stderr) == (2, True)


def test_a_child_that_outlives_the_run(desk: Desk) -> None:
    """A process that a tool forked keeps the lock after the run was killed, and --resume names it."""
    desk.put({"name": "forks"}, {"name": "for_ever"})
    reading, writing = os.pipe()
    (desk.path / "pipe").write_text(str(reading))
    with desk.start("--concurrency", "1", pass_fds=[reading]) as process:
        desk.await_rows(1)
        process.kill()
        process.wait()
    child = int(desk.by_line[1]["told"])
    desk.put({"name": "forks"})
    try:
        result = desk.run("--resume")
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(reading)
        os.close(writing)
    assert result.exit_code == 2
    assert f"the run that wrote to it has ended, but process {child} (" in result.stderr
    assert "which it started, still has it open: end it first" in result.stderr
    until(lambda: desk.run("--resume").exit_code == 0)


def test_a_command_that_outlives_the_run(desk: Desk) -> None:
    """A command that a tool started has no part in the lock."""
    desk.put({"name": "starts"}, {"name": "for_ever"})
    with desk.start("--concurrency", "1", stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        desk.await_rows(1)
        process.kill()
    started = int(desk.by_line[1]["told"])
    desk.put({"name": "starts"})
    result = desk.run("--resume")
    os.kill(started, signal.SIGKILL)
    assert result.exit_code == 0


def test_where_nobody_tells(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell who holds a lock, the error says who may."""
    fd = open_exclusively(desk.results, os.O_RDWR, "RESULTS")

    def find_nothing(_folder: Path, _pattern: str) -> Iterator[Path]:
        return iter(())

    monkeypatch.setattr(Path, "glob", find_nothing)
    with pytest.raises(CommandError, match="another run is writing to it, or a process that it started still has it"):
        open_exclusively(desk.results, os.O_RDWR, "RESULTS")
    os.close(fd)


def test_a_mode_that_was_chosen(desk: Desk) -> None:
    """A file that exists keeps its mode; a new one is for its owner only."""
    desk.put({"name": "opens_and_closes"})
    assert desk.run().exit_code == 0
    assert desk.results.stat().st_mode & 0o777 == 0o600
    desk.results.chmod(0o640)
    assert desk.run("--resume").exit_code == 0
    assert desk.results.stat().st_mode & 0o777 == 0o640
