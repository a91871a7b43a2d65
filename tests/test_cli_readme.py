"""The guides of the command line are true: each command of them is run, and prints what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from snippets import snippets

pytestmark = pytest.mark.long  # each test starts processes

ROOT = Path(__file__).parent.parent
README = "".join((ROOT / "pipeline" / "cli" / name).read_text(encoding="utf-8") for name in ("README.md", "RUN.md"))
_CHANGING = re.compile(r"\d[\d,.]*(?= ms| s\b| calls/s)|(?<=\"ms\": )[\d.]+")
_SETTINGS = ("COLUMNS", "FORCE_COLOR", "OTEL_", "TTY_")  # of a developer, which change what is printed


def list_commands() -> Iterator[tuple[str, list[str]]]:
    """Each command of the ``console`` blocks with the lines below it."""
    for block in re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield command, lines


def normalise(line: str) -> str:
    """The line without times, which differ from run to run, and without the blanks that align it."""
    return " ".join(_CHANGING.sub("0", line).split())


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether the lines are printed as expected; ``...`` stands for any lines, or for a figure that changes."""
    text = "\n".join(map(normalise, printed)).strip()
    wanted = "\n".join(map(normalise, expected)).strip()
    return re.fullmatch(re.escape(wanted).replace(re.escape("..."), ".*"), text, re.DOTALL) is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README shows, and the command."""
    made = tmp_path_factory.mktemp("readme")
    (made / "tools.py").write_text(snippets(README)[0][1], encoding="utf-8")
    (calls,) = re.findall(r"`calls\.jsonl`:\n\n```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (made / "calls.jsonl").write_text(calls, encoding="utf-8")
    command = shlex.join([sys.executable, "-P", "-m", "toolcall_pipeline"])
    (made / "toolcall").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (made / "toolcall").chmod(0o755)
    return made


def test_every_command_prints_what_it_says(folder: Path) -> None:
    """The commands of the README, run in their order, print the lines below them, times aside."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)},
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
    }
    code = 0
    for command, expected in list_commands():
        done = subprocess.run(
            ["sh", "-c", command.replace("$?", str(code))],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
        code = done.returncode
        assert matches(expected, done.stdout.splitlines()), f"$ {command}\n{done.stdout}"
