"""The programs of the tutorial: each is named in the line above its block, and a file that grows is added to."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SHELL = re.compile(r"^```console\n\$ \.venv/bin/(\w+) (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^(Add to )?`([\w.]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_steps(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, code of the block, and code of the whole file so far, for each program in its order."""
    files: dict[str, str] = {}
    for found in _BLOCK.finditer(text):
        added, name, code = found.groups()
        files[name] = f"{files[name]}\n\n{code}" if added else code
        yield name, code, files[name]


def run_commands(text: str, folder: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The lines that each command of a shell prints in that folder, and those of the text; without times."""
    environment = {**os.environ, "COLUMNS": "120"}
    for program, arguments, expected in _SHELL.findall(text):
        command = [str(Path(sys.executable).with_name(program)), *shlex.split(arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, env=environment)
        yield _without_times(done.stderr + done.stdout), _without_times(expected)


def _without_times(lines: str) -> list[str]:
    return [re.sub(r" +\d+\.\d\d ms", " ms", line).rstrip() for line in lines.splitlines()]


def main(path: str) -> None:
    """Run programs and commands in an empty folder with this very Python; end with 1 where one prints other lines."""
    text = Path(path).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for name, code, whole in read_steps(text):
            Path(folder, name).write_text(whole, encoding="utf-8")
            command = ["-m", "pytest", "-q", name] if name.startswith("test_") else [name]
            done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=folder, check=False)
            expected = re.findall(r"^\s*#> ?(.*)$", code, re.MULTILINE)
            right = done.returncode == 0 and (name.startswith("test_") or done.stdout.splitlines() == expected)
            print("ok   " if right else "wrong", name)  # noqa: T201  # for `make release`
            if not right:
                sys.exit(done.stdout + done.stderr)
        for printed, expected in run_commands(text, Path(folder)):
            if printed != expected:
                sys.exit("\n".join(printed))


if __name__ == "__main__":
    main(*sys.argv[1:])
