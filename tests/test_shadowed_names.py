"""An application's own ``pipeline`` or ``middlewares`` that Python finds before ours: the error names the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = """
from pipeline import ToolRegistry
tools = ToolRegistry()

@tools.tool(effect="read")
def one() -> int:
    return 1
"""
COMMAND = ("-P", "-c", "from pipeline.cli import main; main()")  # as the console script: -P keeps out the directory
AS_A_MODULE = ("-m", "pipeline")  # which puts the current directory first


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "calls.jsonl").write_text('{"name": "one"}\n')
    return tmp_path


def python(app: Path, *arguments: str, first: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(first), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=app, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def own_module(app: Path, name: str, *, package: bool) -> Path:
    file = app / name / "__init__.py" if package else app / f"{name}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text("print('the application')\ndef build(): ...\n")
    return file


@pytest.mark.parametrize("package", [False, True], ids=["module", "package"])
@pytest.mark.parametrize("first", ["", "import json; "], ids=["alone", "after another"])
def test_import_middlewares(app: Path, first: str, package: bool) -> None:
    """`import middlewares` says which file hides `pipeline` and what to do; that file is not executed."""
    file = own_module(app, "pipeline", package=package)
    done = python(app, "-c", f"{first}import middlewares")
    assert (done.returncode, done.stdout) == (1, "")
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"ImportError: {file} hides the package 'pipeline' of toolcall-pipeline")
    assert error.endswith(": rename it, or move it into a package of your application")


def test_import_middlewares_after_the_shadow(app: Path) -> None:
    """The same where the application's own module was imported before."""
    file = own_module(app, "pipeline", package=False)
    done = python(app, "-c", "import pipeline, middlewares")
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {file} hides the package 'pipeline'")


@pytest.mark.parametrize("code", ["import middlewares", "import pipeline, middlewares"])
def test_nothing_is_hidden(app: Path, code: str) -> None:
    """Without a module of that name, or with one that Python finds later, nothing is said."""
    own_module(app, "pipeline", package=False)
    done = python(app, "-P", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_imports_ours(app: Path) -> None:
    """`toolcall` does not take a `pipeline.py` of the current directory for ours, and neither do the user's tools."""
    own_module(app, "pipeline", package=False)
    own_module(app, "middlewares", package=False)
    listed = python(app, *COMMAND, "tools", "tools:tools")
    assert (listed.returncode, listed.stderr) == (0, "")
    done = python(app, *COMMAND, "run", "tools:tools", "calls.jsonl", "-o", "results.jsonl")
    assert (done.returncode, '"told": "1"' in (app / "results.jsonl").read_text()) == (0, True)


@pytest.mark.parametrize("name", ["pipeline", "middlewares"])
def test_a_target_of_our_name(app: Path, name: str) -> None:
    """MODULE cannot be a module that has the name of ours: that is said, instead of looking into ours."""
    file = own_module(app, name, package=False)
    done = python(app, *COMMAND, "tools", f"{name}:build")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {name}:build: {file} has the name of a package of toolcall-pipeline, which is imported instead: "
        "rename it, or move it into a package of your application\n"
    )


@pytest.mark.parametrize("statement", ["from pipeline import build", "import pipeline.steps"])
def test_a_target_that_imports_a_module_of_our_name(app: Path, statement: str) -> None:
    """Where a user's module wants its own `pipeline` and gets ours, the error says that there are two."""
    file = own_module(app, "pipeline", package=True)
    (app / "wants_its_own.py").write_text(statement)
    done = python(app, *COMMAND, "tools", "wants_its_own:tools")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"{file} has the name of a package of toolcall-pipeline, which is imported instead" in done.stderr


@pytest.mark.parametrize("executor", ["process", "ray"])
def test_worker_processes_would_import_the_other(app: Path, executor: str) -> None:
    """A worker process imports from the current directory first: --executor says so, instead of losing each call."""
    file = own_module(app, "pipeline", package=False)
    done = python(app, *COMMAND, "run", "tools:tools", "calls.jsonl", "-o", "results.jsonl", "--executor", executor)
    assert (done.returncode, done.stdout, (app / "results.jsonl").exists()) == (2, "", False)
    assert f"Error: --executor {executor}: {file} hides the package 'pipeline' of toolcall-pipeline" in done.stderr


@pytest.mark.parametrize("command", ["tools", "demo"])
def test_the_command_with_middlewares_hidden(app: Path, command: str) -> None:
    """Where the command itself would import another `middlewares`, it says which file that is, with exit code 2."""
    file = own_module(app, "middlewares", package=False)
    done = python(app, *AS_A_MODULE, command, *(["tools:tools"] if command == "tools" else []))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith(f"toolcall: {file} hides the package 'middlewares' of toolcall-pipeline")


def test_python_m_runs_the_first_one(app: Path) -> None:
    """`python -m pipeline` runs the application's file: Python's own rule. `python -P -m pipeline` runs ours."""
    own_module(app, "pipeline", package=False)
    assert python(app, *AS_A_MODULE).stdout == "the application\n"
    assert python(app, "-P", *AS_A_MODULE, "tools", "tools:tools").stdout.startswith("one  read")
