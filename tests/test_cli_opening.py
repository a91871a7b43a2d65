"""Commands open what a pipeline holds, close it, and say what does not open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_desk import Desk, open_desk
from toolcall_pipeline.cli.commands import toolcall

STAGES = """
class Pool:
    is_open = False

    async def __aenter__(self):
        self.is_open = True

    async def __aexit__(self, *_):
        self.is_open = False
        print("closed")

    async def __call__(self, call, call_next):
        assert self.is_open
        return await call_next(call)

class Shut(Pool):
    async def __aenter__(self):
        raise OSError("no route to the database")

class Stuck(Pool):
    async def __aexit__(self, *_):
        raise OSError("a file is in use")

holds, shut, stuck = (standard(tools).before("retry", each) for each in (Pool(), Shut(), Stuck()))
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch) as made:
        with (made.path / f"{made.module}.py").open("a") as file:
            file.write(STAGES)
        made.put({"name": "echo", "arguments": {"n": 5}})
        yield made


def invoke(desk: Desk, command: str, target: str) -> Result:
    call = ["call", f"{desk.module}:{target}", "echo", '{"n": 5}', "--no-trace"]
    return CliRunner().invoke(toolcall, call if command == "call" else desk.arguments(target=target))


def results(desk: Desk, command: str, result: Result) -> list[str]:
    return [str(row["told"]) for row in desk.rows] if command == "run" else result.stdout.splitlines()


@pytest.mark.parametrize("command", ["call", "run"])
def test_a_pipeline_that_holds_something(desk: Desk, command: str) -> None:
    """It is open during the calls, and closed after them."""
    result = invoke(desk, command, "holds")
    assert (result.exit_code, results(desk, command, result)) == (0, ["5"]), result.stderr
    assert "closed" in result.stderr


@pytest.mark.parametrize("command", ["call", "run"])
def test_what_does_not_open(desk: Desk, command: str) -> None:
    """No call is made, and one line says why."""
    result = invoke(desk, command, "shut")
    assert (result.exit_code, results(desk, command, result)) == (2, [])
    (line,) = result.stderr.splitlines()
    assert f"{desk.module}:shut does not open: OSError: no route to the database" in line


@pytest.mark.parametrize("command", ["call", "run"])
def test_what_does_not_close(desk: Desk, command: str, caplog: pytest.LogCaptureFixture) -> None:
    """The calls have been made: their results are shown, and the log says the rest."""
    result = invoke(desk, command, "stuck")
    assert (result.exit_code, results(desk, command, result)) == (0, ["5"]), result.stderr
    assert f"{desk.module}:stuck does not close" in caplog.text
    assert "a file is in use" in caplog.text
