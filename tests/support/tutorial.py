"""The programs of the tutorial: each is named in the line above its block, and a file that grows is added to."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLOCK = re.compile(r"^(Add to )?`([\w.]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_steps(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, code of the block, and code of the whole file so far, for each program in its order."""
    files: dict[str, str] = {}
    for found in _BLOCK.finditer(text):
        added, name, code = found.groups()
        files[name] = f"{files[name]}\n\n{code}" if added else code
        yield name, code, files[name]
