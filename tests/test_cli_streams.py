"""``toolcall run``: CALLS and RESULTS as pipes, and what the user's code does to the standard streams."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_desk import Desk, as_line, open_desk
from support import PATIENT
from toolcall_pipeline.cli.run.run_command import run as run_calls

pytestmark = pytest.mark.long  # each test starts processes


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch) as made:
        yield made


def test_a_pipe_is_read_as_it_comes(desk: Desk) -> None:
    """Calls from standard input are run as they arrive."""
    process = desk.start(calls="-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    for number in (1, 2):
        process.stdin.write(as_line({"name": "echo", "arguments": {"n": number}}) + b"\n")
        process.stdin.flush()
        desk.await_rows(number)
    process.communicate(timeout=PATIENT)
    assert (process.returncode, sorted(desk.by_line)) == (0, [1, 2])


def test_waiting_for_a_pipe_can_be_interrupted(desk: Desk) -> None:
    """Ctrl-C ends a run that waits for the next line of a pipe."""
    process = desk.start(calls="-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b'{"name": "greet"}\n')
    process.stdin.flush()
    desk.await_rows(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENT) == 130
    process.communicate()


def test_results_into_a_pipe(desk: Desk) -> None:
    """RESULTS may be stdout: everything else is printed to stderr."""
    desk.put_many(3)
    command = [
        sys.executable,
        "-m",
        "toolcall_pipeline",
        "run",
        f"{desk.module}:tools",
        str(desk.calls),
        "-o",
        "/dev/stdout",
    ]
    done = subprocess.run(command, cwd=desk.path, capture_output=True, check=True, timeout=PATIENT)
    assert {1, 2, 3} == {json.loads(line)["line"] for line in done.stdout.splitlines()}


@pytest.mark.long
def test_memory_does_not_grow_with_the_file(desk: Desk) -> None:
    """Ten times the lines take no more memory."""

    def peak(lines: int) -> int:
        desk.put_many(lines, "echo")
        desk.results.unlink(missing_ok=True)
        tracemalloc.start()
        try:
            assert run_calls(f"{desk.module}:tools", str(desk.calls), desk.results) == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)  # imports and caches
    few, many = peak(500), peak(5_000)
    assert desk.results.read_bytes().count(b"\n") == 5_000
    assert many < 1.5 * few + 200_000  # bytes; one row of 200 bytes for each line would be 1 MB


@pytest.mark.parametrize("target", ["tools", "noisy"])
def test_what_tools_print_is_no_result(desk: Desk, target: str) -> None:
    """What a module, a factory or a tool prints goes to stderr."""
    with (desk.path / f"{desk.module}.py").open("a") as file:
        file.write("\nprint('NOISE at import')\n")
    desk.put({"name": "prints"}, {"name": "greet"})
    named = f"{desk.module}:{target}"
    command = [sys.executable, "-m", "toolcall_pipeline", "run", named, str(desk.calls), "-o", "/dev/stdout"]
    done = subprocess.run(command, cwd=desk.path, capture_output=True, check=True, timeout=PATIENT)
    assert {1, 2} == {json.loads(line)["line"] for line in done.stdout.splitlines()}
    assert done.stderr.count(b"NOISE") == (3 if target == "noisy" else 2)


def test_a_tool_does_not_read_the_calls(desk: Desk) -> None:
    """If the calls come from standard input, a tool that reads it finds it empty, and no call is lost."""
    process = desk.start("--concurrency", "1", calls="-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b'{"name": "reads_stdin"}\n')
    process.stdin.flush()
    desk.await_rows(1)  # the tool would wait for more, if this were its standard input
    process.communicate(b'{"name": "greet"}\n' * 3, timeout=PATIENT)
    assert (process.returncode, [row["ok"] for row in desk.rows]) == (0, [True] * 4)
    assert desk.by_line[1]["told"] == "(no output)"


@pytest.mark.parametrize("redirection", ["2>&{broken}", "2>/dev/full", "2>&-"])
def test_a_broken_stderr(desk: Desk, redirection: str) -> None:
    """If stderr is broken, full or closed, the run goes on, with the same exit code."""
    desk.put(*["nope", {"name": "prints"}] * 30)
    reader, broken = os.pipe()
    os.close(reader)
    command = shlex.join([sys.executable, "-m", "toolcall_pipeline", *desk.arguments("--concurrency", "1")])
    script = f"exec {command} {redirection.format(broken=broken)}"
    shell = ["bash", "-c", script]
    done = subprocess.run(shell, cwd=desk.path, stdout=subprocess.PIPE, check=False, timeout=PATIENT, pass_fds=[broken])
    os.close(broken)
    assert (done.returncode, done.stdout, sorted(desk.by_line)) == (1, b"", list(range(1, 61)))
    assert all(row["ok"] for number, row in desk.by_line.items() if number % 2 == 0)


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(("name", "code"), [("greet", 0), ("nope", 1)])
def test_a_call_without_a_standard_output(desk: Desk, options: list[str], name: str, code: int) -> None:
    """Where the shell closed stdout, the call is made, its exit code says how it ended, and nothing is printed."""
    command = [sys.executable, "-m", "toolcall_pipeline", "call", f"{desk.module}:tools", name, "--no-trace", *options]
    shell = ["bash", "-c", f"exec {shlex.join(command)} >&-"]
    done = subprocess.run(shell, cwd=desk.path, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENT)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@pytest.mark.parametrize(
    "command",
    ["call {}:tools greet", "call {}:tools greet --json", "tools {}:tools", "tools {}:tools --json", "lint {}:tools"],
)
def test_a_standard_output_that_is_full(desk: Desk, command: str) -> None:
    """A command whose output cannot be written ends with exit code 2 and one line that says why."""
    line = f"{shlex.quote(sys.executable)} -m toolcall_pipeline {command.format(desk.module)} >/dev/full"
    done = subprocess.run(["bash", "-c", line], cwd=desk.path, stderr=subprocess.PIPE, check=False, timeout=60)
    last = done.stderr.decode().splitlines()[-1]
    assert (done.returncode, last) == (2, "toolcall: standard output cannot be written: No space left on device")
    assert b"Traceback" not in done.stderr


def test_a_dash_is_standard_output(desk: Desk) -> None:
    """``-o -`` writes the results to stdout and nothing else, be it of a process that a tool starts."""
    with (desk.path / f"{desk.module}.py").open("a") as file:
        file.write("\n@tools.tool\ndef shouts() -> None:\n    import os\n    os.system('echo NOISE')\n")
    desk.put({"name": "prints"}, {"name": "shouts"}, {"name": "greet"})
    command = [sys.executable, "-m", "toolcall_pipeline", "run", f"{desk.module}:tools", str(desk.calls), "-o", "-"]
    done = subprocess.run(command, cwd=desk.path, capture_output=True, check=True, timeout=PATIENT)
    assert {1, 2, 3} == {json.loads(line)["line"] for line in done.stdout.splitlines()}
    assert done.stderr.count(b"NOISE") == 2
    assert b"3 results in standard output" in done.stderr
    assert not (desk.path / "-").exists()
    assert not list(desk.path.glob("*.begun"))


def test_results_are_appended_to_what_stdout_is(desk: Desk) -> None:
    """The shell has opened it: ``>>`` to a file that has lines already is no mistake."""
    desk.put({"name": "greet"})
    desk.results.write_text('{"earlier": true}\n')
    command = shlex.join(
        [sys.executable, "-m", "toolcall_pipeline", "run", f"{desk.module}:tools", str(desk.calls), "-o", "-"]
    )
    shell = ["bash", "-c", f"{command} >> {desk.results}"]
    subprocess.run(shell, cwd=desk.path, capture_output=True, check=True, timeout=PATIENT)
    assert len(desk.rows) == 2


@pytest.mark.parametrize(
    ("options", "redirection", "message"),
    [
        (["--resume"], "", "-o -: --resume needs a regular file"),
        ([], ">&-", "-o -: Bad file descriptor"),
        ([], ">/dev/full", "RESULTS cannot be written: No space left on device"),
    ],
)
def test_a_dash_that_leads_nowhere(desk: Desk, options: list[str], redirection: str, message: str) -> None:
    """The run stops with exit code 2, and says why."""
    desk.put({"name": "greet"})
    run = ["run", f"{desk.module}:tools", str(desk.calls), "-o", "-", *options]
    shell = ["bash", "-c", f"{shlex.join([sys.executable, '-m', 'toolcall_pipeline', *run])} {redirection}"]
    done = subprocess.run(shell, cwd=desk.path, capture_output=True, check=False, timeout=PATIENT)
    assert (done.returncode, message in done.stderr.decode()) == (2, True)
