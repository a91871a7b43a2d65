"""The tutorial is true: its programs run in their order, and print what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tutorial import read_steps, run_commands

TUTORIAL = (Path(__file__).parent.parent / "TUTORIAL.md").read_text(encoding="utf-8")
STEPS = list(read_steps(TUTORIAL))


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, check=False, env=os.environ
    )


@pytest.mark.long
@pytest.mark.parametrize("place", range(len(STEPS)), ids=[f"{place}-{step[0]}" for place, step in enumerate(STEPS)])
def test_each_step_runs_as_it_stands(place: int, tmp_path: Path) -> None:
    """A program prints what its comments `#> …` say, with the files as they are at that step."""
    for name, _, whole in STEPS[: place + 1]:
        (tmp_path / name).write_text(whole, encoding="utf-8")
    name, code, _ = STEPS[place]
    if name.startswith("test_"):
        done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", name)
        assert "1 passed" in done.stdout
        return
    done = run(tmp_path, name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"^\s*#> ?(.*)$", code, re.MULTILINE)
    assert ("Traceback" in done.stderr) is (name == "failures.py")


@pytest.mark.long
def test_a_call_from_a_shell_draws_the_trace(tmp_path: Path) -> None:
    """A command prints the lines below it, but for the times."""
    for name, _, whole in STEPS:
        (tmp_path / name).write_text(whole, encoding="utf-8")
    printed = list(run_commands(TUTORIAL, tmp_path))
    assert len(printed) == TUTORIAL.count("```console\n") == 1
    for lines, expected in printed:
        assert lines == expected


def test_every_block_is_a_step() -> None:
    """Each Python block has the line that names its file, and the shop grows."""
    assert len(STEPS) == TUTORIAL.count("```python\n")
    assert [name for name, _, _ in STEPS].count("shop.py") == 3
