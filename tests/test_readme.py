"""The README is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fake_providers import FakeProvider, completion
from snippets import snippets

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


TURN = [  # a model that gets the name wrong, is told, and goes on
    completion(("call_1", "read-file", '{"path": "notes.txt"}')),
    completion(("call_2", "read_file", '{"path": "notes.txt"}')),
    completion(text="You wanted milk and a lamp."),
]


@pytest.mark.parametrize("code", [pytest.param(code, id=f"line {line}") for line, code in snippets(README)])
def test_every_snippet_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    """Each Python block is a whole program, and prints what its comments `#> …` say; the model is a local server."""
    script = tmp_path / "snippet.py"
    script.write_text(code)
    (tmp_path / "notes.txt").write_text("milk\na lamp\n")
    with FakeProvider(*TURN) as server:
        address = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none"}
        command = [sys.executable, "-W", "error", str(script)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, check=False, env=os.environ | address
        )
    assert done.stderr == ""
    assert done.stdout.splitlines() == re.findall(r"^\s*#> ?(.*)$", code, re.MULTILINE)


def test_every_make_target_exists() -> None:
    """Each `make …` that the README tells is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z-]+)", README)) <= targets
