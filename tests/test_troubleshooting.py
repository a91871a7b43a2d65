"""The page of symptoms quotes texts that the library has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = "\n".join(
    file.read_text(encoding="utf-8") for folder in ("pipeline", "middlewares") for file in (ROOT / folder).rglob("*.py")
)
JOINED = re.sub(r'"\s*\n\s*f?"', "", SOURCE)  # a text that goes on in the next line
ROWS = re.findall(r"^\| `(.*?)` \|", (ROOT / "TROUBLESHOOTING.md").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("text", ROWS)
def test_a_quoted_text_is_in_the_source(text: str) -> None:
    """Each part of a text between `…` stands in the source as it is, or as the words of its parts."""
    parts = [part.strip(" `") for part in text.split("…")]
    missing = [
        part for part in parts if part and not all(word in JOINED for word in re.split(r"Error: |\{.*?\}", part))
    ]
    assert missing == []


def test_there_are_many() -> None:
    """The pattern above finds the rows."""
    assert len(ROWS) >= 20
