"""The prose of docstrings and comments: habits that make a sentence hard to read do not come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.prose import LIMIT, count_patterns, find_patterns

ROOT = Path(__file__).resolve().parent.parent
ROOMS: dict[str, list[Path]] = {}
for folder in ("pipeline", "middlewares", "benchmarks"):
    for file in sorted({path.resolve() for path in (ROOT / folder).rglob("*.py")}):
        parts = file.relative_to(ROOT).parts
        room = folder if file.parent == ROOT / folder else "/".join(parts[:2])
        files = ROOMS.setdefault(room, [])
        if file not in files and file.name != "prose.py" and "tests" not in parts:  # prose.py quotes them
            files.append(file)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_no_habit_stands_in_a_room(room: str) -> None:
    """Each pattern stands at most once in 2,000 words of a room, or twice in a small one."""
    words, shares = count_patterns(ROOMS[room])
    over = {name for name, share in shares.items() if share > LIMIT and round(share * words / 1000) > 2}
    places = [
        f"{file.name}:{line}: {text}"
        for file in (ROOMS[room] if over else [])
        for line, name, text in find_patterns(file)
        if name in over
    ]
    assert places == []
