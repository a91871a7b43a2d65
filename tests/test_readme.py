"""The README is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from snippets import snippets

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("code", [pytest.param(code, id=f"line {line}") for line, code in snippets(README)])
def test_every_snippet_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    """Each Python block is a whole program, and prints what its comments `#> …` say."""
    script = tmp_path / "snippet.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == re.findall(r"^\s*#> ?(.*)$", code, re.MULTILINE)


def test_every_make_target_exists() -> None:
    """Each `make …` that the README tells is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z-]+)", README)) <= targets
