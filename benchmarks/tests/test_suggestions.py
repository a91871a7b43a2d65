"""benchmarks.corpus.suggestions: what came of unknown names, on hand-written rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus.suggestions import Suggestions, UnknownName, run_unknown_names

FIRST, LEAKED = "run, or suggested first", "run, or suggested first, no control tokens"
NONE, WRONG = "something suggested where nothing fits", "another tool run"


def row(called: str, gold: str | None, basis: str = "typo") -> dict[str, Any]:
    return {"id": called, "called": called, "gold": gold, "basis": basis, "offered": ["read_file", "grep"]}


async def test_each_name_is_called_with_the_offered_tools(tmp_path: Path) -> None:
    """What ran and what was suggested is kept; rows that cannot be judged are left out."""
    rows = [
        row("grep<|channel|>final", "grep", "leaked_token_or_trailing_text"),
        row("read_files", "read_file"),
        row("bake", None, "no_offered_tool_fits"),
        row("mv", None, "undetermined"),
    ]
    (tmp_path / "resolve_gold.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    found = await run_unknown_names(tmp_path)
    assert [*found.names] == [
        UnknownName("grep<|channel|>final", "grep", leaked=True, run="grep"),
        UnknownName("read_files", "read_file", leaked=False, run=None, suggested=("read_file",)),
        UnknownName("bake", None, leaked=False, run=None),
    ]
    assert (found.shares()[FIRST], found.shares()[LEAKED]) == ((2, 2), (1, 1))
    assert (found.shares()[NONE], found.shares()[WRONG]) == ((0, 1), (0, 3))


async def test_without_rows_nothing_is_measured(tmp_path: Path) -> None:
    """A missing file is not a failure."""
    found = await run_unknown_names(tmp_path)
    assert (list(found.names), list(found.regressions())) == ([], [])


RIGHT = [UnknownName(f"r{number}", "a", leaked=False, run=None, suggested=("a", "b")) for number in range(99)]
QUIET = [UnknownName(f"q{number}", None, leaked=False, run=None) for number in range(299)]


@pytest.mark.parametrize(
    ("odd", "why", "worse"),
    [
        pytest.param(UnknownName("x", "a", leaked=False, run="a"), None, [], id="run"),
        pytest.param(
            UnknownName("x", "a", leaked=True, run=None, suggested=("b", "a")),
            "not suggested first",
            [FIRST],
            id="second",
        ),
        pytest.param(
            UnknownName("x", "a", leaked=False, run=None),
            "not suggested first",
            [FIRST, "run, or among the first three", LEAKED, "run, or among the first three, no control tokens"],
            id="never",
        ),
        pytest.param(UnknownName("x", None, leaked=False, run=None, suggested=("b",)), NONE, [], id="one too many"),
        pytest.param(
            UnknownName("x", "a", leaked=True, run="b"),
            WRONG,
            [FIRST, "run, or among the first three", WRONG],
            id="another",
        ),
        pytest.param(UnknownName("x", None, leaked=False, run="b"), WRONG, [WRONG], id="one where none fits"),
    ],
)
def test_a_share_beyond_its_limit_is_a_regression(odd: UnknownName, why: str | None, worse: list[str]) -> None:
    """Wrong answers are listed by id: the right tool not first, a suggestion where nothing fits, a wrong tool run."""
    found = Suggestions([*RIGHT, *QUIET, odd])
    assert ("x" in [each.id for each in found.wrong.get(why, ())]) if why else not found.wrong
    assert [line.removeprefix("names, ").partition(":")[0] for line in found.regressions()] == worse
    assert why is None or any(line.startswith(f"  {why}: x") for line in found.lines())
    assert found.as_json()["wrong"].get(why, []) == ([] if why is None else ["x"])
