"""``--deps``, ``--principal`` and ``--conversation``: who asks with a command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_desk import Desk, open_desk
from toolcall_pipeline.cli.commands import toolcall

ASKER = ("--principal", "ada", "--conversation", "t1")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch) as made:
        yield made


def call(desk: Desk, factory: str, *options: str) -> Result:
    asked = ["--no-trace", "--deps", f"{desk.module}:{factory}", *options]
    return CliRunner().invoke(toolcall, ["call", f"{desk.module}:pipeline", "who", *asked])


@pytest.mark.parametrize("factory", ["books", "books_later", "open_books", "open_books_here", "Library"])
def test_a_tool_gets_the_deps_of_the_factory(desk: Desk, factory: str, caplog: pytest.LogCaptureFixture) -> None:
    """It may be a function, an async one, or make a context manager; one that fails to close has no say any more."""
    result = call(desk, factory, *ASKER)
    assert (result.exit_code, result.stdout) == (0, "ada call_1 t1 books\n")
    assert ("the doors are stuck" in caplog.text) == (factory == "Library")
    if factory == "open_books":
        assert result.stderr.splitlines() == ["opened", "closed"]


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        ("nothing", "has no nothing"),
        ("running", "is of type int: expected a function without required parameters that returns the deps"),
        ("wants", "has required parameters: expected a function"),
        ("breaks", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_factory_that_makes_nothing_ends_the_command(desk: Desk, factory: str, why: str) -> None:
    """The exit code is 2, no tool runs, and one line says why."""
    result = call(desk, factory)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_lines_of_a_run_are_asked_by_it(desk: Desk) -> None:
    """A line that says itself who asks keeps that; the deps are closed when the run ends."""
    desk.put({"id": "a", "name": "who"}, {"id": "b", "name": "who", "principal": "bob", "conversation": "t2"})
    result = desk.run("--deps", f"{desk.module}:open_books", *ASKER)
    assert result.exit_code == 0
    assert [row["told"] for row in desk.by_line.values()] == ["ada a t1 books", "bob b t2 books"]
    assert "closed" in result.stderr
