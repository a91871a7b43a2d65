"""The programs of the tutorial: each is named in the line above its block, and a file that grows is added to."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"^(Add to )?`([\w.]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_steps(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, code of the block, and code of the whole file so far, for each program in its order."""
    files: dict[str, str] = {}
    for found in _BLOCK.finditer(text):
        added, name, code = found.groups()
        files[name] = f"{files[name]}\n\n{code}" if added else code
        yield name, code, files[name]


def main(path: str) -> None:
    """Run the programs in an empty folder with this very Python, and end with 1 where one prints other lines."""
    with tempfile.TemporaryDirectory() as folder:
        for name, code, whole in read_steps(Path(path).read_text(encoding="utf-8")):
            Path(folder, name).write_text(whole, encoding="utf-8")
            command = ["-m", "pytest", "-q", name] if name.startswith("test_") else [name]
            done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=folder, check=False)
            expected = re.findall(r"^\s*#> ?(.*)$", code, re.MULTILINE)
            right = done.returncode == 0 and (name.startswith("test_") or done.stdout.splitlines() == expected)
            print("ok   " if right else "wrong", name)  # noqa: T201  # for `make release`
            if not right:
                sys.exit(done.stdout + done.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
