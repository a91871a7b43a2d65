"""The prose of docstrings and comments: habits that make a sentence hard to read do not come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.prose import LIMIT, count_patterns, find_patterns

ROOT = Path(__file__).resolve().parent.parent
NOT_READ_YET = {
    "benchmarks/agentdojo",
    "benchmarks/corpus",
    "benchmarks/mutants",
    "benchmarks/texts",
    "pipeline/adapters",
    "pipeline/cli",
    "pipeline/dialogue",
    "pipeline/hosts",
    "pipeline/mcp",
    "pipeline/testing",
}  # a room leaves this list when its sentences have been rewritten
ROOMS: dict[str, list[Path]] = {}
for folder in ("pipeline", "middlewares", "benchmarks"):
    for file in sorted({path.resolve() for path in (ROOT / folder).rglob("*.py")}):
        parts = file.relative_to(ROOT).parts
        room = folder if file.parent == ROOT / folder else "/".join(parts[:2])
        files = ROOMS.setdefault(room, [])
        if file not in files and file.name != "prose.py":  # which quotes them
            files.append(file)


@pytest.mark.parametrize("room", sorted(ROOMS.keys() - NOT_READ_YET))
def test_no_habit_stands_in_a_room(room: str) -> None:
    """Each pattern stands at most once in 2,000 words of a room, or twice in a small one."""
    words, shares = count_patterns(ROOMS[room])
    over = {name for name, share in shares.items() if share > LIMIT and share * words / 1000 > 2}
    places = [
        f"{file.name}:{line}: {text}"
        for file in ROOMS[room]
        for line, name, text in find_patterns(file)
        if name in over
    ]
    assert places == []


@pytest.mark.parametrize("room", sorted(NOT_READ_YET))
def test_a_room_that_was_read_leaves_the_list(room: str) -> None:
    """A room stays on the list of those to read only for as long as a pattern is too frequent there."""
    _, shares = count_patterns(ROOMS[room])
    assert max(shares.values()) > LIMIT
