"""benchmarks.corpus.second_attempts: does our text name what a model changed next? On hand-written pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus.second_attempts import SecondAttempt, SecondAttempts, run_second_attempts

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["path"],
}
TOOL = {"suite": "hand", "tool_id": "t", "tool": "find", "json_schema": SCHEMA}


def pair(id_: str, failed: Any, repaired: Any, tool: str = "find") -> dict[str, Any]:
    return {"id": id_, "suite": "hand", "tool": tool, "failed_arguments": failed, "repaired_arguments": repaired}


async def test_only_calls_that_break_the_schema_count(tmp_path: Path) -> None:
    """A call is repaired outright, or its text names what the model changed next; a valid call does not count."""
    pairs = [
        pair("valid", {"path": "/a"}, {"path": "/b"}),
        pair("mended", {"path": "/a", "depth": "2"}, {"path": "/a", "depth": 2}),
        pair("named", {"depth": 1}, {"path": "/a", "depth": 1}),
        pair("renamed", {"folder": "/a"}, {"path": "/a"}),
        pair("and more", {"depth": 1}, {"path": "/a", "depth": 2}),
        pair("elsewhere", {}, {}, tool="grep"),
    ]
    (tmp_path / "tools.jsonl").write_text(json.dumps(TOOL) + "\n")
    (tmp_path / "repair_pairs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pairs))
    found = await run_second_attempts(tmp_path)
    assert (found.pairs, [each.id for each in found.attempts]) == (6, ["mended", "named", "renamed", "and more"])
    assert {each.id: each.unnamed for each in found.attempts if each.unnamed} == {"and more": ["depth"]}
    assert found.shares() == {
        "repaired outright": (1, 4),
        "repaired to what the model sent next": (1, 1),
        "told every argument that was changed": (2, 3),
        "told every argument that was changed and not just left out": (2, 3),
        "repaired, or told every argument that was changed": (3, 4),
    }
    assert [line for line in found.lines() if "not named" in line] == [
        "  not named: and more  depth",
    ]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ["b"]),
        ({"a": 1}, {"a": 1.0, "c": None}, ["a", "c"]),
        ({"a": None}, {}, ["a"]),
        ({"a": [1]}, {"a": [1]}, []),
    ],
)
def test_a_changed_argument(first: Any, second: Any, expected: list[str]) -> None:
    """An argument is changed if it was added, left out, or sent with another value or type."""
    assert SecondAttempt("x", None, first, second).changed == expected


def test_a_share_below_its_floor_is_a_regression() -> None:
    """Fewer repairs, and texts that name less, are regressions; without pairs there are none."""
    silent = SecondAttempts(1, [SecondAttempt("x", "Error: Invalid parameters.", {"a": 1}, {"a": 2})])
    assert [line.partition(":")[0] for line in silent.regressions()] == [
        "second attempts, repaired outright",
        "second attempts, told every argument that was changed",
        "second attempts, told every argument that was changed and not just left out",
    ]
    assert list(SecondAttempts(0, []).regressions()) == []
    assert silent.as_json()["not named"] == ["x"]
