"""MODULE:REGISTRY: what may be named, and the error for anything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli_desk import Desk, open_desk
from toolcall_pipeline.cli.commands import toolcall


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch) as made:
        yield made


@pytest.mark.parametrize("target", ["tools", "pipeline", "make", "Deep.tools"])
def test_what_may_be_named(desk: Desk, target: str) -> None:
    """REGISTRY is a registry, a pipeline, or a function that returns one; it may be an attribute of another object."""
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
    ("{module}:App", "has required parameters: expected"),
    ("{module}:app", "is of type App: expected"),
    ("{module}:none", "{module}:none() returns None: expected"),
    ("{module}:breaks", "ZeroDivisionError: division by zero ({module}.py:69)"),
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
    "broken_twice": "from toolcall_pipeline import ToolRegistry\ntools = ToolRegistry()\n"
    "def nothing(): pass\ndef none(): pass\ntools.tool(name='a')(nothing)\ntools.tool(name='a')(none)\n",
    "broken_schema": "from toolcall_pipeline import ToolRegistry\ntools = ToolRegistry()\nclass Own: pass\n"
    "@tools.tool\ndef cannot(x: Own) -> None: ...\n",
}


@pytest.mark.parametrize(("target", "told"), BROKEN)
@pytest.mark.parametrize("command", ["run", "tools"])
def test_a_broken_module(desk: Desk, command: str, target: str, told: str) -> None:
    """A target that cannot be loaded is reported in one line, with the place in the user's code; the exit code is 2."""
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
    """Limits given for a pipeline are refused, because they would have no effect."""
    desk.put({"name": "greet"})
    result = desk.run(*options, target="pipeline")
    assert (result.exit_code, told in result.stderr) == (2, True)
