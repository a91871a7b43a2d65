"""benchmarks.suggestions: what came of names that no tool has, by rows written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suggestions import Answered, Suggestions, answer

FIRST, LEAKED = "run, or suggested first", "run, or suggested first, no control tokens"
NONE, WRONG = "something suggested where nothing fits", "another tool run"


def row(called: str, gold: str | None, basis: str = "typo") -> dict[str, Any]:
    return {"id": called, "called": called, "gold": gold, "basis": basis, "offered": ["read_file", "grep"]}


async def test_each_name_is_called_with_what_was_offered(tmp_path: Path) -> None:
    """Each row says what ran and what was suggested; rows that nobody can judge are left out."""
    rows = [
        row("grep<|channel|>x", "grep", "leaked_token_or_trailing_text"),
        row("read_files", "read_file"),
        row("bake", None, "no_offered_tool_fits"),
        row("mv", None, "undetermined"),
    ]
    (tmp_path / "resolve_gold.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    found = await answer(tmp_path)
    assert [*found.answered] == [
        Answered("grep<|channel|>x", "grep", leaked=True, run="grep"),
        Answered("read_files", "read_file", leaked=False, run=None, suggested=("read_file",)),
        Answered("bake", None, leaked=False, run=None),
    ]
    assert (found.shares()[FIRST], found.shares()[LEAKED]) == ((2, 2), (1, 1))
    assert (found.shares()[NONE], found.shares()[WRONG]) == ((0, 1), (0, 3))


async def test_without_such_rows_nothing_is_measured(tmp_path: Path) -> None:
    """Without the file there are no answers and no failure."""
    found = await answer(tmp_path)
    assert (list(found.answered), list(found.fallen())) == ([], [])


RIGHT = [Answered(f"r{number}", "a", leaked=False, run=None, suggested=("a", "b")) for number in range(99)]
QUIET = [Answered(f"q{number}", None, leaked=False, run=None) for number in range(99)]


@pytest.mark.parametrize(
    ("odd", "why", "fallen"),
    [
        pytest.param(Answered("x", "a", leaked=False, run="a"), None, [], id="run"),
        pytest.param(
            Answered("x", "a", leaked=True, run=None, suggested=("b", "a")),
            "not suggested first",
            [FIRST],
            id="second",
        ),
        pytest.param(
            Answered("x", "a", leaked=False, run=None),
            "not suggested first",
            [FIRST, "run, or among the first three", LEAKED, "run, or among the first three, no control tokens"],
            id="never",
        ),
        pytest.param(Answered("x", None, leaked=False, run=None, suggested=("b",)), NONE, [], id="one too many"),
        pytest.param(
            Answered("x", "a", leaked=True, run="b"),
            WRONG,
            [FIRST, "run, or among the first three", WRONG],
            id="another",
        ),
        pytest.param(Answered("x", None, leaked=False, run="b"), WRONG, [WRONG], id="one where none fits"),
    ],
)
def test_less_than_was_reached_is_told(odd: Answered, why: str | None, fallen: list[str]) -> None:
    """A right tool that is not first, a suggestion where none fits, and a wrong tool that ran are listed by id."""
    found = Suggestions([*RIGHT, *QUIET, odd])
    assert ("x" in [each.id for each in found.wrong.get(why, ())]) if why else not found.wrong
    assert [line.removeprefix("names, ").partition(":")[0] for line in found.fallen()] == fallen
    assert why is None or any(line.startswith(f"  {why}: x") for line in found.lines())
    assert found.as_json()["wrong"].get(why, []) == ([] if why is None else ["x"])
