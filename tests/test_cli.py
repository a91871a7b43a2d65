"""The command ``toolcall``: the extras that it needs, and what it imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolcall_pipeline import cli


@pytest.mark.parametrize("missing", ["click", "rich", "opentelemetry.sdk"])
def test_without_the_extras(missing: str) -> None:
    """If an extra is not installed, one line says how to install it."""
    script = f"import sys; sys.modules[{missing!r}] = None; from toolcall_pipeline.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "demo"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith(f"toolcall needs {missing}")
    assert done.stderr.endswith("which is not installed: pip install 'toolcall-pipeline[cli,otel]'\n")


def test_a_missing_module_of_our_own_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other missing module is raised as ModuleNotFoundError, with its traceback."""
    monkeypatch.setitem(sys.modules, "toolcall_pipeline.cli.commands", None)
    with pytest.raises(ModuleNotFoundError, match=r"pipeline\.cli\.commands"):
        cli.main()


def test_the_library_does_not_load_the_command() -> None:
    """The library imports neither click nor rich nor the SDK; nor does the command before it runs."""
    script = "import sys, toolcall_pipeline.cli; print({'click', 'rich', 'opentelemetry.sdk'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
