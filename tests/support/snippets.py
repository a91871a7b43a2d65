"""The Python blocks of a Markdown file, each a program of its own: for tests, and as files for the type checkers."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tutorial import read_steps

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def snippets(text: str) -> list[tuple[int, str]]:
    """Line number and code of each block."""
    return [(text[: found.start()].count("\n") + 2, found[1]) for found in _BLOCK.finditer(text)]


def main(target: str, *sources: str) -> None:
    """Write each block of each source to a file of its own."""
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for source in map(Path, sources):
        if source.name == "TUTORIAL.md":  # its programs import each other by their names
            tutorial = folder.parent / "tutorial"
            tutorial.mkdir(exist_ok=True)
            for name, _, whole in read_steps(source.read_text()):
                (tutorial / name).write_text(whole)
            continue
        name = "_".join([*source.parts[:-1], source.stem.lower()])
        for line, code in snippets(source.read_text()):
            (folder / f"{name}_{line}.py").write_text(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
