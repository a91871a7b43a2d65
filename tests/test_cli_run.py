"""``toolcall run``: one result for each line of CALLS, whatever the lines contain, and what the options do."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_desk import Desk, open_desk
from support import PATIENT
from toolcall_pipeline import Call, ToolRegistry
from toolcall_pipeline.cli.run.result_rows import build_result
from toolcall_pipeline.middlewares import standard


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch) as made:
        yield made


def test_the_row_of_a_success(desk: Desk) -> None:
    """A result has the line's number, id and name, the resolved tool, and the text for the model."""
    desk.put({"id": "call_1", "name": "functions.echo", "arguments": {"n": 5}, "other": "keys are ignored"})
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    assert row.pop("ms") >= 0
    (attempt,) = row.pop("tries")
    assert attempt.pop("ms") >= 0
    assert int(row.pop("call"), 16) > 0
    assert attempt == {"kind": None, "executor": "loop", "landed": "yes", "wait": 0.0}
    assert row == {
        "line": 1,
        "id": "call_1",
        "name": "functions.echo",
        "tool": "echo",
        "ok": True,
        "kind": None,
        "told": "5",
        "value": 5,
        "problems": [],
        "attempts": 1,
        "repairs": [{"path": "name", "rule": "transport_noise", "before": "functions.echo", "after": "echo"}],
    }


def test_the_row_of_a_failure(desk: Desk) -> None:
    """A failed call has a result with the kind and text of the error; the exit code is still 0."""
    desk.put({"id": "call_1", "name": "ehco", "arguments": {}})
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    assert (row["ok"], row["kind"], row["tool"], row["attempts"]) == (False, "unknown_tool", None, 0)
    assert row["told"].startswith("Error: Tool 'ehco' not found.\nDid you mean: echo?")


def test_the_row_of_a_refusal(desk: Desk) -> None:
    """What is wrong with the arguments is a list, one entry for each problem."""
    desk.put({"name": "echo", "arguments": {"n": "five", "m": 1}})
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    assert (row["kind"], row["value"], row["tries"]) == ("validation", None, [])
    assert [(each["path"], each["rule"]) for each in row["problems"]] == [("n", "type"), ("m", "additionalProperties")]
    assert row["problems"][0]["expected"] == "an integer"


def test_the_row_of_a_call_that_was_repeated(desk: Desk) -> None:
    """Each attempt has its kind, its wait, and whether it took effect."""
    desk.put({"name": "flaky"})
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    assert (row["ok"], row["value"], row["attempts"]) == (True, 3, 3)
    assert [each["kind"] for each in row["tries"]] == ["transient", "transient", None]
    assert row["tries"][0]["wait"] == 0.0
    assert all(each["wait"] > 0 for each in row["tries"][1:])


VALUES: dict[str, tuple[object, object]] = {
    "nothing": (None, None),
    "a text": ("5", "5"),
    "no text": ("", ""),
    "an object": ({"a": [1, None]}, {"a": [1, None]}),
    "a float": (1.5, 1.5),
    "false": (False, False),
    "what JSON has not": ({1, 2}, None),
}


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES)
async def test_the_value_of_a_row(value: object, expected: object) -> None:
    """A value is in the row as JSON; text stays text, and what JSON has not is there as the model is told of it."""

    async def give() -> object:
        return value

    tools = ToolRegistry()
    tools.tool(effect="read")(give)
    row = build_result(await standard(tools).report(Call("give")))
    if isinstance(value, set):
        assert row["value"] in (row["told"], [1, 2])
    else:
        assert (row["value"], type(row["value"])) == (expected, type(expected))


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
    """Arguments are an object, JSON text or nothing; the pipeline judges anything else."""
    desk.put(f'{{"name": "{name}", "arguments": {arguments}}}')
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    assert (row["kind"], row["told"] if row["ok"] else "") == expected


@pytest.mark.parametrize("name", ["null", '""', "5", '["echo"]', '"half \\ud83d"', '"' + "x" * 10_000 + '"'])
def test_any_name_is_a_call(desk: Desk, name: str) -> None:
    """A name that is empty, odd or not a string is an unknown tool, and not a malformed line."""
    desk.put(f'{{"id": 1, "name": {name}}}')
    assert desk.run().exit_code == 0
    (row,) = desk.rows
    given = json.loads(name)
    assert (row["kind"], row["id"], row["name"]) == ("unknown_tool", 1, given if isinstance(given, str) else None)


def test_the_other_fields_of_a_call(desk: Desk) -> None:
    """A call gets the principal, conversation, finish_reason and timeout of its line, and its id as text."""
    desk.put(
        {"id": 7, "name": "who", "principal": "ada", "conversation": "t1"},
        {"name": "for_ever", "timeout": 0.01},
        {"name": "echo", "arguments": '{"n": ', "finish_reason": "length"},
    )
    assert desk.run().exit_code == 0
    rows = desk.by_line
    assert (rows[1]["told"], rows[1]["id"]) == ("ada 7 t1 None", 7)
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
    ('{"name": "pid", "arguments": {"a": 1, "a": 2}}', "an object has one name twice"),
    ('["echo"]', "not a JSON object"),
    ("5", "not a JSON object"),
    ("{}", '"name" is missing'),
    ('{"name": "echo", "id": ["a"]}', '"id" is neither a string nor a number'),
    ('{"name": "echo", "id": true}', '"id" is neither a string nor a number'),
    ('{"name": "echo", "id": 1e999}', '"id" is neither a string nor a number'),
    ('{"name": "echo", "principal": 5}', '"principal" is not a string'),
    ('{"name": "echo", "conversation": 5}', '"conversation" is not a string'),
    ('{"name": "echo", "finish_reason": 5}', '"finish_reason" is not a string'),
    ('{"name": "echo", "timeout": "5"}', '"timeout" is not a number'),
    ('{"name": "echo", "timeout": ' + "9" * 400 + "}", '"timeout" is too large'),
    ('{"name": "echo", "timeout": -' + "9" * 400 + "}", '"timeout" is too large'),
]


def test_malformed_lines(desk: Desk) -> None:
    """A malformed line is reported with its number, has a result, and stops no other line."""
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
    """The first twenty malformed lines are printed on stderr; all of them have a result."""
    desk.put(*["nope"] * 100)
    result = desk.run()
    assert result.stderr.count("not JSON") == 20
    assert "more malformed lines follow" in result.stderr
    assert len(desk.by_line) == 100


def test_blank_lines_and_line_ends(desk: Desk) -> None:
    """Blank lines are counted and ignored, as are carriage returns, a byte order mark and a missing last line end."""
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
    """A line may be much longer than what is read at once."""
    text = "ü" * 400_000
    desk.put({"name": "greet"}, {"name": "greet", "arguments": {"name": text}}, {"name": "greet"})
    assert desk.run().exit_code == 0
    assert [len(row["told"]) for _, row in sorted(desk.by_line.items())] == [10, 400_007, 10]


def test_one_at_a_time_is_in_order(desk: Desk) -> None:
    """With --concurrency 1 the results are in the order of the lines."""
    desk.put_many(30)
    assert desk.run("--concurrency", "1").exit_code == 0
    assert [row["line"] for row in desk.rows] == list(range(1, 31))
    assert sys.modules[desk.module].most == 1


def test_as_many_as_allowed_at_a_time(desk: Desk) -> None:
    """As many calls as --concurrency says run at the same time, never more."""
    desk.put_many(60)
    assert desk.run("--concurrency", "7").exit_code == 0
    assert (sys.modules[desk.module].most, len(desk.by_line)) == (7, 60)


@pytest.mark.parametrize(("options", "expected"), [((), (True, 3)), (("--attempts", "2"), (False, 2))])
def test_attempts(desk: Desk, options: tuple[str, ...], expected: tuple[bool, int]) -> None:
    """--attempts includes the first one; the result says how many there were."""
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


@pytest.mark.parametrize(
    "options", [("--concurrency", "0"), ("--attempts", "0"), ("--timeout", "0"), ("--timeout", "nan")]
)
def test_options_that_make_no_sense(desk: Desk, options: tuple[str, ...]) -> None:
    """A number that an option does not allow ends in exit code 2, before any call is run."""
    desk.put({"name": "greet"})
    assert desk.run(*options).exit_code == 2
    assert not desk.results.exists()


def test_calls_that_are_not_there(desk: Desk) -> None:
    """A file of calls that does not exist ends in exit code 2, and leaves no file of results."""
    assert desk.run().exit_code == 2
    assert not desk.results.exists()


@pytest.mark.parametrize("name", ["exits", "cancels", "interrupts", "closes", "interrupts_in_a_thread"])
def test_a_tool_that_would_end_the_run(desk: Desk, name: str) -> None:
    """A tool that exits, or raises CancelledError by itself, ends its own call and not the run."""
    desk.put({"name": "greet"}, {"name": name}, {"name": "greet"})
    assert desk.run("--concurrency", "1").exit_code == 0
    assert [(row["kind"], row["attempts"]) for row in desk.rows] == [(None, 1), ("internal", 1), (None, 1)]


@pytest.mark.long
def test_a_thread_that_never_ends(desk: Desk) -> None:
    """A thread that still runs after its time limit does not keep the command from exiting, with its exit code."""
    desk.put({"name": "sleeps"}, "nope")
    patience = "import toolcall_pipeline.cli.run.interruption as t; t._PATIENCE = 0.1"
    script = f"from toolcall_pipeline.cli import main; {patience}; main()"
    command = [sys.executable, "-c", script, *desk.arguments("--timeout", "0.5")]
    done = subprocess.run(command, cwd=desk.path, capture_output=True, check=False, timeout=PATIENT)
    assert (done.returncode, sorted(desk.by_line)) == (1, [1, 2])
    assert b"1 abandoned tools still run in threads" in done.stderr


def test_an_empty_registry(desk: Desk) -> None:
    """An empty registry is reported, because no call can succeed with it."""
    desk.put({"name": "greet"})
    result = desk.run(target="empty")
    assert (result.exit_code, f"{desk.module}:empty has no tools" in result.stderr) == (0, True)


def test_the_summary(desk: Desk) -> None:
    """At the end stderr has the number of results by kind, successes first, and the calls per second."""
    echo = {"name": "echo", "arguments": {"n": 1}}
    desk.put(echo, echo, {"name": "nope"}, {"name": "echo"}, {"name": "echo"}, {"name": "echo"}, "nope")
    result = desk.run()
    table = [line.split()[:2] for line in result.stderr.splitlines() if line.endswith("% ")]
    assert table == [["success", "2"], ["validation", "3"], ["malformed_line", "1"], ["unknown_tool", "1"]]
    assert "7 results in " in result.stderr
    assert "6 calls in " in result.stderr
    assert "calls/s" in result.stderr
    assert (result.stdout, "\x1b" in result.stderr) == ("", False)


@pytest.mark.long
def test_a_bar_on_a_terminal_only(desk: Desk) -> None:
    """A progress bar is drawn if stderr is a terminal, and not in a pipe."""
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
    process.communicate(timeout=PATIENT)
    os.close(master)
    assert process.returncode == 0
    assert b"calls " in drawn
    assert b"\x1b[?25l" in drawn
    assert drawn.count(b"\x1b[?25h") == drawn.count(b"\x1b[?25l")
