"""``toolcall run``: one result for each line of a file of calls, whatever the lines hold and however the run ends."""

from __future__ import annotations

import errno
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from click.testing import CliRunner, Result

from pipeline.cli.command_error import CommandError
from pipeline.cli.commands import toolcall
from pipeline.cli.run.calls_file import CallLine
from pipeline.cli.run.result_rows import build_row_without_report
from pipeline.cli.run.results_file import ResultsFile
from pipeline.cli.run.run_command import run as run_calls

MODULE = """
import asyncio
import sys
import time
import anyio
from middlewares import standard
from pipeline import Start, ToolContext, ToolFailed, ToolRegistry

tools = ToolRegistry()
running = most = 0
tries = []

@tools.tool(effect="read")
async def echo(n: int) -> int:
    return n

@tools.tool(effect="read")
async def greet(name: str = "you") -> str:
    return f"Grüße, {name}"

@tools.tool(effect="read")
async def slow(n: int) -> int:
    global running, most
    running += 1
    most = max(most, running)
    await anyio.sleep(0.005)
    running -= 1
    return n

@tools.tool(effect="read", context=True)
async def who(context: ToolContext) -> str:
    return f"{context.principal} {context.call_id}"

@tools.tool(effect="read")
async def flaky() -> int:
    tries.append(1)
    if len(tries) < 3:
        raise ConnectionError
    return len(tries)

@tools.tool(effect="read")
async def for_ever() -> None:
    await anyio.sleep_forever()

@tools.tool
async def exits() -> None:
    sys.exit(7)

@tools.tool
async def cancels() -> None:
    raise asyncio.CancelledError

@tools.tool
def sleeps() -> None:
    time.sleep(3600)

@tools.tool
async def blocks() -> None:
    time.sleep(3600)

pipeline = standard(tools)
class Deep:
    tools = tools
def make(): return tools
async def later(): return tools
def wants(n): return tools
def none(): return None
def breaks(): return 1 / 0

@tools.tool
async def interrupts() -> None:
    raise KeyboardInterrupt

@tools.tool
async def closes() -> None:
    raise GeneratorExit

@tools.tool
def interrupts_in_a_thread() -> None:
    raise KeyboardInterrupt

@tools.tool
def prints() -> None:
    print("NOISE")

@tools.tool
def reads_stdin() -> str:
    import pathlib, subprocess
    pathlib.Path("reading").touch()
    return subprocess.run(["cat"], capture_output=True, check=True).stdout.decode()

empty = ToolRegistry()
def noisy():
    print("NOISE from a factory")
    return tools
""".replace("Start, ", "")
NUMBERS = count()


@attrs.define
class Desk:
    """A directory with a module of tools, and the command run in it."""

    path: Path
    module: str

    @property
    def calls(self) -> Path:
        return self.path / "calls.jsonl"

    @property
    def results(self) -> Path:
        return self.path / "results.jsonl"

    def put(self, *lines: object) -> None:
        """The lines of CALLS: bytes and text as they are, all else as JSON."""
        self.calls.write_bytes(b"".join(as_line(line) + b"\n" for line in lines))

    def put_many(self, number: int, name: str = "slow") -> None:
        self.put(*({"id": f"c{n}", "name": name, "arguments": {"n": n}} for n in range(1, number + 1)))

    def arguments(self, *options: str, target: str = "tools", calls: str | None = None) -> list[str]:
        named = target if ":" in target else f"{self.module}:{target}"
        return ["run", named, calls or str(self.calls), "-o", str(self.results), *options]

    def run(self, *options: str, target: str = "tools") -> Result:
        return CliRunner().invoke(toolcall, self.arguments(*options, target=target))

    def start(self, *options: str, calls: str | None = None, **more: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pipeline", *self.arguments(*options, calls=calls)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return cast("subprocess.Popen[bytes]", subprocess.Popen(command, cwd=self.path, **pipes))

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.results.read_bytes().splitlines()]

    @property
    def by_line(self) -> dict[int, dict[str, Any]]:
        """The rows by line; that no line has two is part of it."""
        assert len({row["line"] for row in self.rows}) == len(self.rows)
        return {row["line"]: row for row in self.rows}

    def await_rows(self, number: int) -> None:
        until(lambda: self.results.exists() and self.results.read_bytes().count(b"\n") >= number)


def as_line(line: object) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode()


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, f"desk_{next(NUMBERS)}")
    (tmp_path / f"{made.module}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield made
    sys.modules.pop(made.module, None)


# what a line says, and what its row says


def test_the_row_of_a_success(desk: Desk) -> None:
    """A row has the line's number, id and name, the tool that it meant, and what the model is told."""
    desk.put({"id": "call_1", "name": "functions.echo", "arguments": {"n": 5}, "other": "keys are ignored"})
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    assert row.pop("ms") >= 0
    assert row == {
        "line": 1,
        "id": "call_1",
        "name": "functions.echo",
        "tool": "echo",
        "ok": True,
        "kind": None,
        "told": "5",
        "attempts": 1,
        "repairs": [{"path": "name", "rule": "transport_noise", "before": "functions.echo", "after": "echo"}],
    }


def test_the_row_of_a_failure(desk: Desk) -> None:
    """A failed call is a result like another: kind and text of the error, and no change of the exit code."""
    desk.put({"id": "call_1", "name": "ehco", "arguments": {}})
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    assert (row["ok"], row["kind"], row["tool"], row["attempts"]) == (False, "unknown_tool", None, 0)
    assert row["told"].startswith("Error: Tool 'ehco' not found.\nDid you mean: echo?")


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("echo", '{"n": 5}', (None, "5")),
        ("echo", '"{\\"n\\": 5}"', (None, "5")),
        ("greet", "null", (None, "Grüße, you")),
        ("greet", '""', (None, "Grüße, you")),
        ("greet", '{"name": "Ünal \\u2028 \\ud83d\\ude00"}', (None, "Grüße, Ünal \u2028 \U0001f600")),
        ("echo", '"{\\"n\\": 5"', ("malformed_call", "")),
        ("echo", "[5]", ("malformed_call", "")),
        ("echo", "5", ("malformed_call", "")),
        ("echo", '{"n": "5"}', (None, "5")),
        ("echo", '{"n": "five"}', ("validation", "")),
        ("greet", '{"name": "half \\ud83d"}', (None, "Grüße, half ?")),
        ("echo", '{"n": 1e999}', ("validation", "")),
    ],
)
def test_forms_of_arguments(desk: Desk, name: str, arguments: str, expected: tuple[str | None, str]) -> None:
    """Arguments are an object, JSON text or nothing; what else a model wrote is the pipeline's to judge."""
    desk.put(f'{{"name": "{name}", "arguments": {arguments}}}')
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    assert (row["kind"], row["told"] if row["ok"] else "") == expected


@pytest.mark.parametrize("name", ["null", '""', "5", '["echo"]', '"half \\ud83d"', '"' + "x" * 10_000 + '"'])
def test_any_name_is_a_call(desk: Desk, name: str) -> None:
    """A name that is empty, odd or no text is a model's mistake and no malformed line."""
    desk.put(f'{{"id": 1, "name": {name}}}')
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    given = json.loads(name)
    assert (row["kind"], row["id"], row["name"]) == ("unknown_tool", 1, given if isinstance(given, str) else None)


def test_the_other_fields_of_a_call(desk: Desk) -> None:
    """Principal, finish_reason and timeout of a line are those of its call; so is the id, as text."""
    desk.put(
        {"id": 7, "name": "who", "principal": "ada"},
        {"name": "for_ever", "timeout": 0.01},
        {"name": "echo", "arguments": '{"n": ', "finish_reason": "length"},
    )
    assert desk.run().exit_code == 0
    rows = desk.by_line
    assert (rows[1]["told"], rows[1]["id"]) == ("ada 7", 7)
    assert (rows[2]["kind"], rows[2]["id"]) == ("timeout", None)
    assert "cut off" in rows[3]["told"]


MALFORMED = [
    ("nope", "not JSON: Expecting value, in column 1"),
    ('{"name": "echo"', "not JSON: Expecting ',' delimiter, in column 16"),
    (b'{"name": "echo", "id": "\xff"}', "not UTF-8: byte 0xff in column 25"),
    ('{"name": "echo"} {}', "not JSON: Extra data, in column 18"),
    ('{"name": "echo", "arguments": {"n": NaN}}', "not JSON: NaN is not a JSON value"),
    ('{"name": "echo", "arguments": {"n": ' + "9" * 5000 + "}}", "not JSON: Exceeds the limit (4300 digits)"),
    ("[" * 100_000, "nested too deeply"),
    ('["echo"]', "not a JSON object"),
    ("5", "not a JSON object"),
    ("{}", '"name" is missing'),
    ('{"name": "echo", "id": ["a"]}', '"id" is neither a string nor a number'),
    ('{"name": "echo", "id": true}', '"id" is neither a string nor a number'),
    ('{"name": "echo", "id": 1e999}', '"id" is neither a string nor a number'),
    ('{"name": "echo", "principal": 5}', '"principal" is not a string'),
    ('{"name": "echo", "finish_reason": 5}', '"finish_reason" is not a string'),
    ('{"name": "echo", "timeout": "5"}', '"timeout" is not a number'),
]


def test_malformed_lines(desk: Desk) -> None:
    """A malformed line is told with its number, has a row of its own, and stops none of the others."""
    good = {"name": "echo", "arguments": {"n": 1}}
    desk.put(*(line for text, _ in MALFORMED for line in (text, good)))
    result = desk.run()
    assert result.exit_code == 1
    rows = desk.by_line
    for number, (_, told) in enumerate(MALFORMED):
        assert rows[2 * number + 1]["told"].startswith(told)
        assert (rows[2 * number + 1]["kind"], rows[2 * number + 1]["ok"]) == ("malformed_line", False)
        assert rows[2 * number + 2]["told"] == "1"
        assert f"line {2 * number + 1}: {told}" in result.stderr
    assert f"{len(MALFORMED)} malformed lines" in result.stderr


def test_many_malformed_lines(desk: Desk) -> None:
    """After twenty of them stderr says that there are more, and the rows have them all."""
    desk.put(*["nope"] * 100)
    result = desk.run()
    assert result.stderr.count("not JSON") == 20
    assert "more malformed lines follow" in result.stderr
    assert len(desk.by_line) == 100


def test_blank_lines_and_line_ends(desk: Desk) -> None:
    """Blank lines count and are ignored; carriage returns, a byte order mark and a missing last end do no harm."""
    desk.calls.write_bytes(b'\xef\xbb\xbf{"name": "greet"}\r\n\n  \r\n{"name": "greet"}\n\n{"name": "greet"}')
    assert desk.run().exit_code == 0
    assert {number: row["ok"] for number, row in desk.by_line.items()} == {1: True, 4: True, 6: True}


def test_no_lines(desk: Desk) -> None:
    """An empty file of calls gives an empty file of results."""
    desk.put()
    result = desk.run()
    assert (result.exit_code, desk.rows) == (0, [])
    assert "0 results" in result.stderr


def test_a_very_long_line(desk: Desk) -> None:
    """A line may be longer than what is read at once, by much."""
    text = "ü" * 1_000_000
    desk.put({"name": "greet"}, {"name": "greet", "arguments": {"name": text}}, {"name": "greet"})
    assert desk.run().exit_code == 0
    assert [len(row["told"]) for _, row in sorted(desk.by_line.items())] == [10, 1_000_007, 10]


# what the options do


def test_one_at_a_time_is_in_order(desk: Desk) -> None:
    """With --concurrency 1 the rows stand in the order of the lines."""
    desk.put_many(30)
    assert desk.run("--concurrency", "1").exit_code == 0
    assert [row["line"] for row in desk.rows] == list(range(1, 31))
    assert sys.modules[desk.module].most == 1


def test_as_many_as_allowed_at_a_time(desk: Desk) -> None:
    """Never more calls than --concurrency are under way, and never fewer while there are lines."""
    desk.put_many(60)
    assert desk.run("--concurrency", "7").exit_code == 0
    assert (sys.modules[desk.module].most, len(desk.by_line)) == (7, 60)


@pytest.mark.parametrize(("options", "expected"), [((), (True, 3)), (("--attempts", "2"), (False, 2))])
def test_attempts(desk: Desk, options: tuple[str, ...], expected: tuple[bool, int]) -> None:
    """--attempts counts the first one; the row says how many there were."""
    desk.put({"name": "flaky"})
    assert desk.run(*options).exit_code == 0
    assert (desk.rows[0]["ok"], desk.rows[0]["attempts"]) == expected


def test_timeout(desk: Desk) -> None:
    """--timeout limits each attempt."""
    desk.put({"name": "for_ever"})
    assert desk.run("--timeout", "0.01", "--attempts", "1").exit_code == 0
    assert (desk.rows[0]["kind"], desk.rows[0]["told"]) == (
        "timeout",
        "Error: The tool did not finish within 0.01 seconds.",
    )


@pytest.mark.parametrize("target", ["tools", "pipeline", "make", "Deep.tools"])
def test_what_may_be_named(desk: Desk, target: str) -> None:
    """REGISTRY is a registry, a pipeline, or a function that makes one; it may stand inside of something."""
    desk.put({"name": "greet"})
    assert desk.run(target=target).exit_code == 0
    assert desk.rows[0]["ok"]


BROKEN = [
    ("tools", "write MODULE:REGISTRY"),
    (":tools", "write MODULE:REGISTRY"),
    ("desk.py:tools", "write MODULE as in an import statement: tools, not ./tools.py"),
    ("./desk:tools", "write MODULE as in an import statement: tools, not ./tools.py"),
    ("no_such_module:tools", "no module named no_such_module (searched "),
    ("no_such.module:tools", "no module named no_such (searched "),
    ("json.no_such:tools", "no module named json.no_such (searched "),
    ("{module}.sub:tools", "{module} is not a package (searched "),
    ("{module}:nothing", "{module} has no nothing; it has tools, pipeline"),
    ("{module}:tools.nothing", "{module} has no tools.nothing"),
    ("{module}:NUMBER", "{module} has no NUMBER"),
    (
        "{module}:tries",
        "is of type list: expected a ToolRegistry, a Pipeline, or a function without required parameters that returns",
    ),
    ("{module}:echo", "is a single Tool: expected"),
    ("{module}:later", "is an async function: expected"),
    ("{module}:wants", "has required parameters: expected"),
    ("{module}:none", "{module}:none() returns None: expected"),
    ("{module}:breaks", "ZeroDivisionError: division by zero ({module}.py:68)"),
    ("broken_raises:tools", "KeyError: 'SECRET' (broken_raises.py:3)"),
    ("broken_inside:tools", "KeyError: 'SECRET' (broken_raises.py:3, from broken_inside.py:1)"),
    ("broken_syntax:tools", "SyntaxError: invalid syntax (broken_syntax.py:2)"),
    ("broken_import:tools", "ModuleNotFoundError: No module named 'no_such_dependency' (broken_import.py:2)"),
    ("broken_exits:tools", "SystemExit: 3 (broken_exits.py:2)"),
    ("broken_lines:tools", "ValueError: one two (broken_lines.py:1)"),
    ("broken_twice:tools", "SetupError: two tools are called 'a'"),
    ("broken_schema:tools", "cannot"),
]
BROKEN_MODULES = {
    "broken_raises": "import os\n\nos.environ['SECRET']\n",
    "broken_inside": "import broken_raises\n",
    "broken_syntax": "x = 1\ny = = 2\n",
    "broken_import": "import json\nimport no_such_dependency\n",
    "broken_exits": "import sys\nsys.exit(3)\n",
    "broken_lines": "raise ValueError('one\\n  two')\n",
    "broken_twice": "from pipeline import ToolRegistry\ntools = ToolRegistry()\n"
    "tools.tool(name='a')(print)\ntools.tool(name='a')(print)\n",
    "broken_schema": "from pipeline import ToolRegistry\ntools = ToolRegistry()\nclass Own: pass\n"
    "@tools.tool\ndef cannot(x: Own) -> None: ...\n",
}


@pytest.mark.parametrize(("target", "told"), BROKEN)
@pytest.mark.parametrize("command", ["run", "tools"])
def test_a_broken_module(desk: Desk, command: str, target: str, told: str) -> None:
    """What is wrong with MODULE:REGISTRY is told in one line, with the place where it broke; the exit code is 2."""
    for name, text in BROKEN_MODULES.items():
        (desk.path / f"{name}.py").write_text(text)
    desk.put({"name": "greet"})
    target, told = target.format(module=desk.module), told.format(module=desk.module)
    rest = [str(desk.calls), "-o", str(desk.results)] if command == "run" else []
    result = CliRunner().invoke(toolcall, [command, target, *rest])
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert result.stderr.startswith(f"Error: {target}")
    assert told in result.stderr
    assert not desk.results.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--timeout", "5"), "is a Pipeline with stages of its own: remove --timeout"),
        (("--timeout", "5", "--attempts", "2"), "remove --timeout and --attempts"),
    ],
)
def test_a_pipeline_has_its_own_limits(desk: Desk, options: tuple[str, ...], told: str) -> None:
    """Limits given for a pipeline, which would not hold, are refused."""
    desk.put({"name": "greet"})
    result = desk.run(*options, target="pipeline")
    assert (result.exit_code, told in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "options", [("--concurrency", "0"), ("--attempts", "0"), ("--timeout", "0"), ("--timeout", "nan")]
)
def test_options_that_make_no_sense(desk: Desk, options: tuple[str, ...]) -> None:
    """A number that an option cannot have ends in exit code 2, before anything runs."""
    desk.put({"name": "greet"})
    assert desk.run(*options).exit_code == 2
    assert not desk.results.exists()


def test_calls_that_are_not_there(desk: Desk) -> None:
    """A file of calls that does not exist ends in exit code 2, and leaves no file of results."""
    assert desk.run().exit_code == 2
    assert not desk.results.exists()


# tools that are no good company


@pytest.mark.parametrize("name", ["exits", "cancels", "interrupts", "closes", "interrupts_in_a_thread"])
def test_a_tool_that_would_end_the_run(desk: Desk, name: str) -> None:
    """A tool that exits, or raises a cancellation that nobody asked for, ends its own call and not the run."""
    desk.put({"name": "greet"}, {"name": name}, {"name": "greet"})
    assert desk.run("--concurrency", "1").exit_code == 0
    assert [(row["kind"], row["attempts"]) for row in desk.rows] == [(None, 1), ("internal", 1), (None, 1)]


def test_a_thread_that_never_ends(desk: Desk) -> None:
    """A thread that a time limit gave up on does not keep the command from ending, with its exit code."""
    desk.put({"name": "sleeps"}, "nope")
    script = "from pipeline.cli import main; import pipeline.cli.run.abandoned_threads as t; t._PATIENCE = 0.1; main()"
    command = [sys.executable, "-c", script, *desk.arguments("--timeout", "0.05")]
    done = subprocess.run(command, cwd=desk.path, capture_output=True, check=False, timeout=60)
    assert (done.returncode, sorted(desk.by_line)) == (1, [1, 2])
    assert b"1 abandoned tools still run in threads" in done.stderr


# interrupted and resumed


def test_results_are_never_overwritten(desk: Desk) -> None:
    """Without --resume a file that holds something is refused and stays as it is."""
    desk.put({"name": "greet"})
    desk.results.write_text("mine")
    result = desk.run()
    assert (result.exit_code, desk.results.read_text()) == (2, "mine")
    assert "is not empty: write to a new file, or continue this one with --resume" in result.stderr


def test_resume_from_nothing(desk: Desk) -> None:
    """--resume without results, or with an empty file, begins at the beginning: the same command always works."""
    desk.put_many(3)
    for _ in range(2):
        assert desk.run("--resume").exit_code == 0
        assert sorted(desk.by_line) == [1, 2, 3]


@pytest.mark.parametrize("kept", [0, 1, 9, 40, -2])
def test_a_torn_last_row_is_cut_off(desk: Desk, kept: int) -> None:
    """A last row of which only a part was written is cut away, and its line is run again."""
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
    """A last row that lacks nothing but its line's end is kept: its call is not run twice."""
    desk.put_many(3, "echo")
    assert desk.run("--concurrency", "1").exit_code == 0
    whole = desk.results.read_bytes().splitlines(keepends=True)
    desk.results.write_bytes((whole[0] + whole[1]).rstrip(b"\n"))
    result = desk.run("--resume")
    assert (result.exit_code, sorted(desk.by_line)) == (0, [1, 2, 3])
    assert "1 call in" in result.stderr


def test_holes_are_filled(desk: Desk) -> None:
    """Whichever lines lack a result get one, and no other is run."""
    desk.put_many(50, "echo")
    assert desk.run().exit_code == 0
    whole = desk.results.read_bytes().splitlines(keepends=True)
    desk.results.write_bytes(b"".join(row for place, row in enumerate(whole) if place % 3))
    result = desk.run("--resume")
    assert (result.exit_code, len(desk.by_line)) == (0, 50)
    assert "17 calls" in result.stderr


def test_malformed_lines_are_done_too(desk: Desk) -> None:
    """A malformed line has its result: a resumed run does not give it another, and still ends in 1."""
    desk.put("nope", {"name": "greet"}, {"name": "half \ud83d", "id": "\ud83d"})
    for _ in range(2):
        assert desk.run("--resume").exit_code == 1
        assert sorted(desk.by_line) == [1, 2, 3]


def test_a_malformed_line_that_was_mended(desk: Desk) -> None:
    """A line that is a call by now keeps its row, and stderr says how many do and how to run them."""
    desk.put("nope", {"name": "greet"}, "nope")
    assert desk.run().exit_code == 1
    desk.put({"name": "greet"}, {"name": "greet"}, "nope", {"name": "greet"})
    result = desk.run("--resume")
    assert (result.exit_code, sorted(desk.by_line)) == (1, [1, 2, 3, 4])
    assert desk.by_line[1]["kind"] == "malformed_line"
    assert "1 line was malformed in an earlier run and is a call now: the old result stays" in result.stderr
    assert "append it to CALLS" in result.stderr


@pytest.mark.parametrize(
    "content",
    [
        "mine",
        "mine\n",
        "5\n",
        "{}\n",
        '{"line": 0, "id": null, "name": null, "kind": null}\n',
        '{"line": "1", "id": null, "name": null, "kind": null}\n',
        '{"line": 1, "id": null, "name": null, "kind": 5}\n',
        '{"line": 1, "id": "c1", "name": "slow", "kind": null}\n' * 2,
        '{"line": 1, "id": "c1", "name": "slow", "kind": null}\n{"line": 2, \n{"line": 3}\n',
    ],
)
def test_what_is_no_file_of_results(desk: Desk, content: str) -> None:
    """--resume refuses a file that holds anything but results of this command, and leaves it as it is."""
    desk.put_many(3)
    desk.results.write_text(content)
    result = desk.run("--resume")
    assert (result.exit_code, desk.results.read_text()) == (2, content)
    assert "not a result" in result.stderr


def test_calls_that_changed(desk: Desk) -> None:
    """A line whose id or name is not that of its result stops the run: the results are of other calls."""
    desk.put_many(20, "echo")
    assert desk.run().exit_code == 0
    lines = desk.calls.read_bytes().splitlines(keepends=True)
    desk.calls.write_bytes(b"".join(lines[3:]))
    result = desk.run("--resume")
    assert (result.exit_code, len(desk.rows)) == (2, 20)
    assert "line 1 of CALLS has another id or name than its result: RESULTS belongs to another file" in result.stderr


def test_calls_that_became_fewer(desk: Desk) -> None:
    """Results of lines that are no longer there are told of, with exit code 2."""
    desk.put_many(20, "echo")
    assert desk.run().exit_code == 0
    desk.put_many(15, "echo")
    result = desk.run("--resume")
    assert (result.exit_code, "5 results have lines that CALLS no longer has" in result.stderr) == (2, True)


def test_more_calls(desk: Desk) -> None:
    """Lines that were added at the end are run."""
    desk.put_many(15, "echo")
    assert desk.run().exit_code == 0
    desk.put_many(20, "echo")
    assert desk.run("--resume").exit_code == 0
    assert len(desk.by_line) == 20


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ended_half_way_and_resumed(desk: Desk, number: signal.Signals, code: int) -> None:
    """However it ends, what was written stays, and --resume gives every other line its result, exactly one."""
    desk.put_many(600)
    process = desk.start("--concurrency", "4")
    desk.await_rows(200)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == code
    written = desk.results.read_bytes()
    assert 200 <= written.count(b"\n") < 600
    assert (b"run the same command with --resume to continue" in told) == (code > 0)
    result = desk.run("--resume")
    assert result.exit_code == 0
    assert desk.results.read_bytes().startswith(written[: written.rindex(b"\n") + 1])
    assert sorted(desk.by_line) == list(range(1, 601))
    assert all(row["ok"] and row["id"] == f"c{row['line']}" for row in desk.rows)


def test_killed_again_and_again(desk: Desk) -> None:
    """A run that is killed several times ends with exactly one result per line as well."""
    desk.put_many(800)
    for rows in (100, 300, 500):
        process = desk.start("--resume", "--concurrency", "8")
        desk.await_rows(rows)
        process.kill()
        process.communicate(timeout=60)
    assert desk.run("--resume").exit_code == 0
    assert sorted(desk.by_line) == list(range(1, 801))


def test_an_interruption_waits_for_what_is_under_way(desk: Desk) -> None:
    """Each call that began has its row after Ctrl-C: it may have taken effect, so it is not thrown away."""
    desk.put_many(600)
    process = desk.start("--concurrency", "1")
    desk.await_rows(20)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert [row["line"] for row in desk.rows] == list(range(1, len(desk.rows) + 1))
    assert desk.results.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("hanging", ["for_ever", "sleeps", "blocks"])
def test_a_second_interruption_does_not_wait(desk: Desk, hanging: str) -> None:
    """A second Ctrl-C ends the command at once, also where a tool holds the whole loop or a thread."""
    desk.put({"name": "greet"}, {"name": hanging})
    process = desk.start("--concurrency", "1")
    desk.await_rows(1)
    process.send_signal(signal.SIGINT)

    def ended() -> bool:
        process.send_signal(signal.SIGINT)  # of an ended process nothing is asked
        return process.poll() is not None

    until(ended)
    process.communicate(timeout=60)
    assert (process.returncode, sorted(desk.by_line)) == (130, [1])


def test_two_runs_of_one_file(desk: Desk) -> None:
    """While one run writes its results no other may resume them."""
    desk.put({"name": "greet"}, {"name": "for_ever"})
    process = desk.start()
    desk.await_rows(1)
    result = desk.run("--resume")
    assert (result.exit_code, "another run is writing to it" in result.stderr) == (2, True)
    process.kill()
    process.communicate(timeout=60)


def test_no_room_for_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that cannot be written ends the run with the reason, instead of being lost in silence."""

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    results = ResultsFile.open(tmp_path / "results", resume=False)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(CommandError, match="RESULTS cannot be written: No space left on device"):
        results.write(build_row_without_report(CallLine(1, "a", "b", None), "internal", "told"))
    results.close()


def test_a_row_that_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes a part only is followed by another one."""
    write = os.write

    def a_part(fd: int, data: bytes) -> int:
        return write(fd, data[:7])

    results = ResultsFile.open(tmp_path / "results", resume=False)
    monkeypatch.setattr(os, "write", a_part)
    results.write(build_row_without_report(CallLine(1, "a", "b", None), "internal", "told"))
    results.close()
    assert json.loads((tmp_path / "results").read_bytes())["told"] == "told"


# streams


def test_a_pipe_is_read_as_it_comes(desk: Desk) -> None:
    """Calls from standard input are run while more of them are still to come."""
    process = desk.start(calls="-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    for number in (1, 2):
        process.stdin.write(as_line({"name": "echo", "arguments": {"n": number}}) + b"\n")
        process.stdin.flush()
        desk.await_rows(number)
    process.communicate(timeout=60)
    assert (process.returncode, sorted(desk.by_line)) == (0, [1, 2])


def test_waiting_for_a_pipe_can_be_interrupted(desk: Desk) -> None:
    """Ctrl-C ends a run that waits for its next line."""
    process = desk.start(calls="-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b'{"name": "greet"}\n')
    process.stdin.flush()
    desk.await_rows(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.communicate()


def test_results_into_a_pipe(desk: Desk) -> None:
    """RESULTS may be a pipe: everything else that is said goes to stderr."""
    desk.put_many(3)
    command = [sys.executable, "-m", "pipeline", "run", f"{desk.module}:tools", str(desk.calls), "-o", "/dev/stdout"]
    done = subprocess.run(command, cwd=desk.path, capture_output=True, check=True, timeout=60)
    assert {1, 2, 3} == {json.loads(line)["line"] for line in done.stdout.splitlines()}


def test_memory_does_not_grow_with_the_file(desk: Desk) -> None:
    """Ten times the lines take no more memory: neither the file nor its results are ever held."""

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
    few, many = peak(5_000), peak(50_000)
    assert desk.results.read_bytes().count(b"\n") == 50_000
    assert many < 1.5 * few + 200_000  # bytes; one row of 200 bytes for each line would be 9 MB


@pytest.mark.parametrize("target", ["tools", "noisy"])
def test_what_tools_print_is_no_result(desk: Desk, target: str) -> None:
    """What a module, a factory or a tool prints goes to stderr, so that RESULTS may be stdout."""
    with (desk.path / f"{desk.module}.py").open("a") as file:
        file.write("\nprint('NOISE at import')\n")
    desk.put({"name": "prints"}, {"name": "greet"})
    named = f"{desk.module}:{target}"
    command = [sys.executable, "-m", "pipeline", "run", named, str(desk.calls), "-o", "/dev/stdout"]
    done = subprocess.run(command, cwd=desk.path, capture_output=True, check=True, timeout=60)
    assert {1, 2} == {json.loads(line)["line"] for line in done.stdout.splitlines()}
    assert done.stderr.count(b"NOISE") == (3 if target == "noisy" else 2)


def test_a_tool_does_not_read_the_calls(desk: Desk) -> None:
    """With calls from standard input a tool that reads it finds it empty, and no call is lost."""
    process = desk.start("--concurrency", "1", calls="-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b'{"name": "reads_stdin"}\n')
    process.stdin.flush()
    until((desk.path / "reading").exists)
    time.sleep(0.1)  # for the tool to read, once it has begun
    process.communicate(b'{"name": "greet"}\n' * 3, timeout=60)
    assert (process.returncode, [row["ok"] for row in desk.rows]) == (0, [True] * 4)


@pytest.mark.parametrize("ending", ["2>&1 | true", "2>/dev/full", "2>&-"])
def test_a_broken_stderr(desk: Desk, ending: str) -> None:
    """Where stderr is broken, full or closed the run goes on as if it were not, with the same exit code."""
    desk.put(*["nope", {"name": "prints"}] * 30)
    command = shlex.join([sys.executable, "-m", "pipeline", *desk.arguments("--concurrency", "1")])
    script = f"set -o pipefail; (sleep 0.3; exec {command}) {ending}"
    done = subprocess.run(["bash", "-c", script], cwd=desk.path, stdout=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stdout, sorted(desk.by_line)) == (1, b"", list(range(1, 61)))
    assert all(row["ok"] for number, row in desk.by_line.items() if number % 2 == 0)


def test_a_dash_is_no_output(desk: Desk) -> None:
    """``-o -`` is refused, instead of making a file of that name."""
    desk.put({"name": "greet"})
    result = CliRunner().invoke(toolcall, ["run", f"{desk.module}:tools", str(desk.calls), "-o", "-"])
    assert (result.exit_code, "-o -: use -o /dev/stdout" in result.stderr) == (2, True)
    assert not Path("-").exists()


# what is said


def test_an_empty_registry(desk: Desk) -> None:
    """That a registry has no tools is said, since no call can succeed with it."""
    desk.put({"name": "greet"})
    result = desk.run(target="empty")
    assert (result.exit_code, f"{desk.module}:empty has no tools" in result.stderr) == (0, True)


def test_the_summary(desk: Desk) -> None:
    """At the end stderr counts all results by kind, successes first, with the calls per second; stdout stays empty."""
    echo = {"name": "echo", "arguments": {"n": 1}}
    desk.put(echo, echo, {"name": "nope"}, {"name": "echo"}, {"name": "echo"}, {"name": "echo"}, "nope")
    result = desk.run()
    table = [line.split()[:2] for line in result.stderr.splitlines() if line.endswith("% ")]
    assert table == [["success", "2"], ["validation", "3"], ["malformed_line", "1"], ["unknown_tool", "1"]]
    assert "7 results in " in result.stderr
    assert "6 calls in " in result.stderr
    assert "calls/s" in result.stderr
    assert (result.stdout, "\x1b" in result.stderr) == ("", False)


def test_a_bar_on_a_terminal_only(desk: Desk) -> None:
    """Progress is drawn where stderr is a terminal, and in a pipe there is none."""
    desk.put_many(60)
    master, slave = pty.openpty()
    process = desk.start("--concurrency", "1", stderr=slave, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"})
    os.close(slave)
    drawn = b""
    try:
        while part := os.read(master, 4096):
            drawn += part
    except OSError:  # how a terminal says on Linux that the other side is gone
        pass
    process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 0
    assert b"calls " in drawn
    assert b"\x1b[?25l" in drawn
    assert drawn.count(b"\x1b[?25h") == drawn.count(b"\x1b[?25l")
