"""The guide "What does my middleware cost?" is true: its commands run as printed, and print those lines."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from snippets import snippets

pytestmark = pytest.mark.long  # each command of the guide measures

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "pipeline" / "testing" / "overhead" / "README.md").read_text(encoding="utf-8")
_FIGURE = re.compile(r"\s(?=-?\d[\d,.]*|within|beyond|blocks|better|worse|same)")


def list_commands() -> list[tuple[str, list[str]]]:
    """Each command of the ``console`` blocks with the lines below it."""
    blocks = re.findall(r"^```console\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    parts = [part.splitlines() for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, lines) for command, *lines in parts]


def firsts(lines: list[str]) -> list[str]:
    """What each line says before its first figure or verdict; nobody knows those in advance."""
    return [
        " ".join(_FIGURE.split(line.strip(), maxsplit=1)[0].split()) for line in lines if line.strip() and line != "..."
    ]


def test_every_command_prints_its_lines(tmp_path: Path) -> None:
    """The commands succeed in their order, and each line of the guide is printed, figures and verdicts aside."""
    (tmp_path / "desk.py").write_text(snippets(GUIDE)[0][1], encoding="utf-8")
    command = shlex.join([sys.executable, "-P", "-m", "toolcall_pipeline"])
    (tmp_path / "toolcall").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (tmp_path / "toolcall").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TOOLCALL_"))}
    environment |= {"PATH": f"{tmp_path}{os.pathsep}{environment['PATH']}", "PYTHONPATH": str(ROOT)}
    assert list_commands()
    for typed, expected in list_commands():
        done = subprocess.run(
            ["sh", "-c", typed], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False
        )
        others = [line for line in done.stderr.splitlines() if not line.startswith("measuring ")]
        assert (done.returncode, others) == (0, []), typed
        assert set(firsts(expected)) <= set(firsts(done.stdout.splitlines())), typed
    assert (tmp_path / "cost.svg").exists()
