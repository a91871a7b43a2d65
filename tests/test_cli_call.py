"""``toolcall call``: one call from the shell, its text on stdout, its stages on stderr, and the exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_desk import Desk, open_desk, until
from support import PATIENT, Child
from toolcall_pipeline.cli.commands import toolcall


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch) as made:
        yield made


def call(desk: Desk, *arguments: str, target: str = "tools", text: str | None = None) -> Result:
    return CliRunner().invoke(toolcall, ["call", f"{desk.module}:{target}", *arguments], input=text)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["echo", '{"n": 5}'], "5\n"),
        (["functions.echo", '{"n": "5"}'], "5\n"),
        (["greet"], "Grüße, you\n"),
        (["greet", '{"name": "ä"}'], "Grüße, ä\n"),
    ],
)
@pytest.mark.parametrize("target", ["tools", "pipeline", "make"])
def test_the_value_is_printed(desk: Desk, target: str, arguments: list[str], told: str) -> None:
    """The arguments are what a model would send; of a registry, a pipeline, or what makes one."""
    result = call(desk, *arguments, target=target)
    assert (result.exit_code, result.stdout) == (0, told)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ehco"], "Error: Tool 'ehco' not found.\nDid you mean: echo?"),
        (["echo", '{"n": "five"}'], "Error: Invalid parameter value for n: must be an integer, not a string\n"),
        (["echo", '{"n": '], "Error: The arguments are not a JSON object: they end "),
        (["exits"], "An unexpected error occurred while executing this tool\n"),
        (["for_ever", "--timeout", "0.01"], "Error: The tool did not finish within"),
    ],
)
def test_a_failure_is_printed_too(desk: Desk, arguments: list[str], told: str) -> None:
    """What the model is told is on stdout, and the exit code is 1."""
    result = call(desk, *arguments)
    assert (result.exit_code, result.stdout.startswith(told)) == (1, True), result.stdout


def test_the_stages_are_on_stderr(desk: Desk) -> None:
    """Each stage and attempt has a line with its time, and why it ended as it did; ``--no-trace`` leaves them out."""
    lines = [line.split() for line in call(desk, "functions.flaky").stderr.splitlines()]
    names = [" ".join(word for word in line[: line.index("ms") - 1] if word.isalnum()) for line in lines]
    attempts = [name for number in (1, 2, 3) for name in (f"attempt {number}", "execute", "classify", "retry")]
    assert names == ["flaky", "resolve", "available", "validate", *attempts[:-1]]
    assert lines[4][-2:] == ["transient", "loop"]
    assert "repaired name: transport_noise" in " ".join(lines[0])
    assert call(desk, "echo", '{"n": 5}', "--no-trace").stderr == ""


def test_a_result_as_json(desk: Desk) -> None:
    """``--json`` prints what a line of RESULTS has, without the line and the id."""
    result = call(desk, "echo", '{"n": "5"}', "--json", "--no-trace")
    row = json.loads(result.stdout)
    assert (result.exit_code, row["name"], row["value"], row["attempts"]) == (0, "echo", 5, 1)
    assert [each["rule"] for each in row["repairs"]] == ["number_text"]
    failed = call(desk, "echo", "--json", "--no-trace")
    assert (failed.exit_code, json.loads(failed.stdout)["problems"][0]["path"]) == (1, "n")


def test_arguments_from_standard_input(desk: Desk) -> None:
    """A dash in their place reads them."""
    assert call(desk, "echo", "-", text='{"n": 5}').stdout == "5\n"


@pytest.mark.parametrize("target", ["missing", "breaks"])
def test_a_target_that_cannot_be_loaded(desk: Desk, target: str) -> None:
    """Nothing is run, the exit code is 2, and stderr says why in one line."""
    result = call(desk, "echo", target=target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_what_a_tool_prints_is_no_value(desk: Desk) -> None:
    """It goes to stderr."""
    result = call(desk, "prints", "--no-trace")
    assert (result.stdout, result.stderr) == ("(no output)\n", "NOISE\n")


def test_tools_that_make_synchronous_calls(desk: Desk) -> None:
    """The idle threads of such calls do not hold the command up."""
    outer = "def outer() -> object:\n    return pipeline.call_sync('inner').unwrap()\n"
    inner = "def inner() -> int:\n    return 7\n"
    with (desk.path / f"{desk.module}.py").open("a") as file:
        file.writelines(f"\n@tools.tool(effect='read')\n{each}" for each in (outer, inner))
    result = call(desk, "outer", "--no-trace")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "7\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
@pytest.mark.long
def test_an_interrupt(desk: Desk) -> None:
    """Ctrl-C ends the call with exit code 130 and without a traceback."""
    body = "    open('begun', 'w').close()\n    await anyio.sleep_forever()\n"
    with (desk.path / f"{desk.module}.py").open("a") as file:
        file.write(f"\n@tools.tool\nasync def begins() -> None:\n{body}")
    command = [sys.executable, "-m", "toolcall_pipeline", "call", f"{desk.module}:tools", "begins"]
    with Child(command, cwd=desk.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until((desk.path / "begun").exists)
        process.send_signal(signal.SIGINT)
        told, said = process.communicate(timeout=PATIENT)
    assert (process.returncode, told, b"Traceback" in said) == (130, b"", False)
