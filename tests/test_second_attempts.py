"""benchmarks.second_attempts: what our text names of what a model then changed, by pairs written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.second_attempts import Attempt, SecondAttempts, attempt

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["path"],
}
TOOL = {"suite": "hand", "tool_id": "t", "tool": "find", "json_schema": SCHEMA}


def pair(id_: str, failed: Any, repaired: Any, tool: str = "find") -> dict[str, Any]:
    return {"id": id_, "suite": "hand", "tool": tool, "failed_arguments": failed, "repaired_arguments": repaired}


async def test_only_what_breaks_the_schema_counts(tmp_path: Path) -> None:
    """A pair is repaired outright, or told what the model then changed; a call that is valid has no such text."""
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
    found = await attempt(tmp_path)
    assert (found.pairs, [each.id for each in found.attempts]) == (6, ["mended", "named", "renamed", "and more"])
    assert {each.id: each.unnamed for each in found.attempts if each.unnamed} == {"and more": ["depth"]}
    assert found.shares() == {
        "repaired outright": (1, 4),
        "repaired to what the model sent then": (1, 1),
        "told every argument that was changed": (2, 3),
        "told every argument that was changed and not just left out": (2, 3),
        "repaired, or told every argument that was changed": (3, 4),
    }
    assert [line for line in found.lines() if "not named" in line] == [
        "  not named: and more  depth",
    ]


@pytest.mark.parametrize(
    ("sent", "then", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ["b"]),
        ({"a": 1}, {"a": 1.0, "c": None}, ["a", "c"]),
        ({"a": None}, {}, ["a"]),
        ({"a": [1]}, {"a": [1]}, []),
    ],
)
def test_what_the_model_changed(sent: Any, then: Any, expected: list[str]) -> None:
    """It added an argument, left one out, or sent another value, to the type."""
    assert Attempt("x", None, sent, then).changed == expected


def test_less_than_was_reached_is_told() -> None:
    """Fewer repairs, or texts that name less, fall below the floors; of no pairs nothing does."""
    silent = SecondAttempts(1, [Attempt("x", "Error: Invalid parameters.", {"a": 1}, {"a": 2})])
    assert [line.partition(":")[0] for line in silent.fallen()] == [
        "second attempts, repaired outright",
        "second attempts, told every argument that was changed",
        "second attempts, told every argument that was changed and not just left out",
    ]
    assert list(SecondAttempts(0, []).fallen()) == []
    assert silent.as_json()["not named"] == ["x"]
