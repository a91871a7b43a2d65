"""``toolcall run --executor``: the same results wherever the tools run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import anyio
import pytest

from cli_desk import until
from support import PATIENT, Child
from toolcall_pipeline.cli.run.line_runner import choose_executor, open_executor
from toolcall_pipeline.cli.terminal_text import CommandError
from toolcall_pipeline.executors import Executor, Process, Thread

pytestmark = pytest.mark.long  # each test starts processes

MODULE = """
import os
import time
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolRegistry

tools = ToolRegistry()

@tools.tool(effect="read")
def who() -> int:
    return os.getpid()

@tools.tool(effect="read")
async def echo(n: int) -> int:
    return n

@tools.tool(effect="read")
def sleeps() -> None:
    time.sleep(3600)

def hidden():
    own = ToolRegistry()

    @own.tool
    def inner() -> int:
        return 1

    return own

pipeline = standard(tools)
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere_tools.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


def command(desk: Path, *options: str, target: str = "tools") -> list[str]:
    files = [str(desk / "calls.jsonl"), "-o", str(desk / "results.jsonl")]
    return [sys.executable, "-m", "toolcall_pipeline", "run", f"elsewhere_tools:{target}", *files, *options]


def put(desk: Path, *calls: dict[str, Any]) -> None:
    (desk / "calls.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls))


def run(desk: Path, *options: str, target: str = "tools") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(desk, *options, target=target),
        cwd=desk,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENT,
    )


def rows(desk: Path) -> dict[int, dict[str, Any]]:
    found = [json.loads(line) for line in (desk / "results.jsonl").read_text().splitlines()]
    by_line = {row["line"]: row for row in found}
    assert len(by_line) == len(found)
    return by_line


@pytest.mark.parametrize(
    "options", [(), ("--executor", "thread"), ("--executor", "process", "--workers", "2")], ids=str
)
def test_the_same_results_wherever_they_run(desk: Path, options: tuple[str, ...]) -> None:
    """Every executor gives each line one result, of the same kind."""
    put(desk, *({"id": n, "name": ("who", "echo", "ekko")[n % 3], "arguments": {"n": n}} for n in range(1, 61)))
    done = run(desk, *options)
    assert done.returncode == 0, done.stderr
    found = rows(desk)
    assert sorted(found) == list(range(1, 61))
    assert {row["kind"] for n, row in found.items() if n % 3 == 2} == {"unknown_tool"}
    assert all(found[n]["told"] == str(n) for n in found if n % 3 == 1)
    undeclared = {row["kind"] for n, row in found.items() if n % 3 == 0}
    assert undeclared == {"validation"}


def test_other_processes_are_other_processes(desk: Path) -> None:
    """With --executor process no tool runs in the command's own process, and --workers limits the others."""
    put(desk, *({"name": "who"} for _ in range(40)))
    with Child(command(desk, "--executor", "process", "--workers", "2"), cwd=desk) as process:
        process.wait(PATIENT)
    pids = {row["told"] for row in rows(desk).values()}
    assert 1 <= len(pids) <= 2
    assert not pids & {str(process.pid), str(os.getpid())}


def test_a_process_is_ended_when_its_time_is_up(desk: Path) -> None:
    """--timeout kills the tool's process, and does not include the time that a call waits for a process."""
    echo = {"name": "echo", "arguments": {"n": 1}}
    options = ["--executor", "process", "--workers", "1", "--attempts", "1"]
    put(desk, echo)
    began = time.monotonic()
    run(desk, *options)
    limit = max(3.0, 4 * (time.monotonic() - began))  # in which a process starts: it takes longer on a busy machine
    (desk / "results.jsonl").unlink()
    put(desk, {"name": "sleeps"}, echo)
    done = run(desk, *options, "--timeout", str(limit))
    assert done.returncode == 0, done.stderr
    assert [row["kind"] for _, row in sorted(rows(desk).items())] == ["timeout", None]
    assert "left" not in done.stderr


@pytest.mark.long
def test_killed_and_resumed(desk: Path) -> None:
    """A run in processes that is killed can be resumed, and each line gets one result."""
    put(desk, *({"id": n, "name": "who"} for n in range(400)))
    with Child(command(desk, "--executor", "process", "--concurrency", "4"), cwd=desk) as process:
        results = desk / "results.jsonl"
        until(lambda: results.exists() and results.read_bytes().count(b"\n") >= 50)
        process.kill()
    assert run(desk, "--executor", "process", "--resume").returncode == 0
    found = rows(desk)
    assert sorted(found) == list(range(1, 401))
    assert all(row["ok"] and row["id"] == n - 1 for n, row in found.items())


REFUSED = [
    pytest.param("hidden", ["--executor", "process"], "inner (elsewhere_tools.hidden.<locals>.inner", id="closure"),
    pytest.param("pipeline", ["--executor", "thread"], "remove --executor", id="a pipeline"),
    pytest.param("pipeline", ["--workers", "2"], "remove --workers", id="workers of a pipeline"),
    pytest.param("tools", ["--executor", "cloud"], "'cloud' is not one of", id="no such place"),
    pytest.param("tools", ["--workers", "0"], "0 is not in the range", id="no workers"),
]


@pytest.mark.parametrize(("target", "options", "error"), REFUSED)
def test_what_cannot_run_there_is_refused(desk: Path, target: str, options: list[str], error: str) -> None:
    """A tool or option that the executor cannot run is refused with exit code 2, before any call is run."""
    put(desk, {"name": "echo", "arguments": {"n": 1}})
    done = run(desk, *options, target=target)
    assert done.returncode == 2
    assert error in done.stderr
    assert not (desk / "results.jsonl").exists()


def test_which_executor_a_name_means() -> None:
    """The default is threads; if Ray is not installed, the error says how to install it."""
    assert isinstance(choose_executor(None, None, 50), Thread)
    assert isinstance(choose_executor("process", 2, 50), Process)
    if importlib.util.find_spec("ray") is None:
        with pytest.raises(CommandError, match=r"--executor ray: Ray is not installed: pip install"):
            choose_executor("ray", None, 50)


async def test_an_executor_that_does_not_open() -> None:
    """An executor is closed at the end, and one that does not start is reported in one line."""

    class Odd(Executor):
        name = "odd"
        closed = 0

        async def run(self, call: object) -> object:
            return None

        async def __aenter__(self) -> Self:
            if self.closed:
                raise ConnectionError("nobody\nthere")
            return self

        async def aclose(self) -> None:
            await anyio.lowlevel.checkpoint()
            self.closed += 1

    odd = Odd()
    async with open_executor(odd):
        assert odd.closed == 0
    assert odd.closed == 1
    with pytest.raises(CommandError, match=r"^--executor odd: ConnectionError: nobody there$"):
        async with open_executor(odd):
            pass
