"""benchmarks.agentdojo.comparison: a recorded call against its two replays, on hand-written rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from benchmarks.agentdojo.comparison import (
    AGREEMENT,
    OutcomeKind,
    Relation,
    ReplayedCall,
    bare_schema,
    cross_tabulate,
    group,
    kind_of_text,
    regressions,
    repair_rules,
    share,
    without_timestamps,
)
from toolcall_pipeline import Call, CallReport, Repair

A_DAY = datetime(2024, 5, 1)  # noqa: DTZ001  # AgentDojo's are naive


def row(
    recorded: OutcomeKind = "ok",
    plain: OutcomeKind = "ok",
    ours: OutcomeKind = "ok",
    call: str = "1",
    tool: str = "send",
    **more: Any,
) -> ReplayedCall:
    return ReplayedCall(call, "post", tool, recorded, plain, ours, **more)


@pytest.mark.parametrize(
    ("recorded", "plain", "ours", "repairs", "expected"),
    [
        pytest.param("ok", "ok", "ok", (), "all agree", id="all"),
        pytest.param("invalid_params", "ok", "invalid_params", (), "only ours agrees", id="ours"),
        pytest.param("ok", "ok", "invalid_params", (), "only ours disagrees", id="not ours"),
        pytest.param("invalid_params", "invalid_params", "ok", (), "only ours disagrees", id="accepted"),
        pytest.param("invalid_params", "invalid_params", "ok", ("list",), "repaired", id="repaired"),
        pytest.param("invalid_params", "ok", "runtime_error", ("list",), "repaired", id="repaired, then failed"),
        pytest.param(
            "runtime_error", "runtime_error", "ok", ("list",), "only ours disagrees", id="repaired, though it ran"
        ),
        pytest.param("ok", "ok", "ok", ("list",), "all agree", id="repaired, and as recorded"),
        pytest.param("ok", "runtime_error", "runtime_error", (), "no replay agrees", id="no replay"),
        pytest.param("ok", "runtime_error", "invalid_params", (), "no replay agrees", id="three ways"),
    ],
)
def test_a_disagreement_is_ours_if_the_plain_replay_agrees(
    recorded: OutcomeKind, plain: OutcomeKind, ours: OutcomeKind, repairs: tuple[str, ...], expected: Relation
) -> None:
    """A disagreement is ours if only the plain replay agrees, unless ours repaired a call that was refused."""
    made = row(recorded, plain, ours, repairs=repairs)
    assert made.relation == expected
    assert made.agrees == (expected in ("all agree", "only ours agrees", "repaired"))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(
            row(ours="invalid_params", reason="type, wants an integer"),
            "ok -> invalid_params: type, wants an integer",
            id="ours",
        ),
        pytest.param(
            row("invalid_params", "invalid_params"),
            "invalid_params -> ok: accepted",
            id="ours, which gives no reason",
        ),
        pytest.param(
            row("invalid_params", "invalid_params", repairs=("list", "whole")),
            "invalid_params -> ok: list, whole",
            id="repaired",
        ),
        pytest.param(
            row("invalid_params", "ok", "invalid_params"),
            "post send: invalid_params, plain ok",
            id="ours agrees",
        ),
        pytest.param(
            row("ok", "runtime_error", "runtime_error", reason="execution"),
            "post send: ok -> runtime_error",
            id="no replay",
        ),
    ],
)
def test_disagreements_of_one_reason_are_one_group(made: ReplayedCall, expected: str) -> None:
    """A group is named by what its calls have in common: our reason, or the tool if the reason is not ours."""
    assert made.group == expected


def test_groups_are_sorted_by_size() -> None:
    """The groups of a relation come with the largest first, each with all of its ids in order."""
    rows = [
        row(ours="invalid_params", reason="a", call="3"),
        row(ours="invalid_params", reason="b", call="2"),
        row(ours="invalid_params", reason="b", call="1"),
        row(call="4"),
    ]
    expected = [("ok -> invalid_params: b", ["1", "2"]), ("ok -> invalid_params: a", ["3"])]
    assert expected == group(rows, "only ours disagrees")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, "ok"),
        ("ToolNotFoundError: The requested function `x` is not available.", "unknown_tool"),
        ("ValidationError: 1 validation error for Input schema for `x`\ny\n  Field required", "invalid_params"),
        ("ValidationError: 1 validation error for Email\nto\n  not an address", "runtime_error"),
        ("ValidationError: 1 validation error for Email\nto\n  Input schema for `x`", "runtime_error"),
        ("ValueError: No emails found.", "runtime_error"),
    ],
)
def test_the_outcome_is_read_from_the_text_of_agentdojos_runtime(error: str | None, expected: OutcomeKind) -> None:
    """A validation error of the arguments is a refusal; one in the tool's body is a failure of the tool."""
    assert kind_of_text(error) == expected


def test_only_repairs_of_arguments_count() -> None:
    """A corrected name is no repair of the arguments."""
    repairs = (Repair("name", "noise", "a", "b"), Repair("to", "list", "a", ["a"]), Repair("cc", "list", "a", ["a"]))
    assert repair_rules(CallReport(Call("send"), repairs=repairs)) == ("list",)


def test_timestamps_of_the_replay_make_no_difference() -> None:
    """Moments during the replay are equal; those of the environment are compared."""

    class File(BaseModel):
        name: str
        changed: datetime

    def made(at: datetime) -> list[Any]:
        return [{"files": (File(name="a", changed=at),)}]

    early, late, later = (A_DAY + timedelta(hours=hours) for hours in (-1, 1, 2))
    assert without_timestamps(made(late), A_DAY) == without_timestamps(made(later), A_DAY)
    assert without_timestamps(made(early), A_DAY) != without_timestamps(made(late), A_DAY)
    elsewhere = late.replace(tzinfo=UTC)
    assert without_timestamps(elsewhere, A_DAY) is elsewhere


def test_schemas_are_compared_without_titles_and_descriptions() -> None:
    """Titles, descriptions and the ban on undeclared arguments are ignored; parameters with such names are not."""
    ours = {"type": "object", "additionalProperties": False, "properties": {"title": {"anyOf": [{"type": "string"}]}}}
    theirs = {"type": "object", "title": "T", "properties": {"title": {"anyOf": [{"type": "string", "title": "t"}]}}}
    assert bare_schema(ours) == bare_schema(theirs)
    assert bare_schema(ours) != bare_schema({**theirs, "properties": {}})
    assert bare_schema({"additionalProperties": True}) == {"additionalProperties": True}


def test_a_share_is_of_calls_or_of_occurrences() -> None:
    """A call counts once, or as often as it was seen; the share of no calls is 1."""
    rows = [row(seen=3), row(ours="runtime_error")]
    assert share(rows, lambda each: each.agrees) == 0.5
    assert share(rows, lambda each: each.agrees, seen=True) == 0.75
    assert share([], lambda each: each.agrees) == 1


def test_calls_are_counted_by_suite_and_both_outcomes() -> None:
    """The table counts recorded outcomes against ours."""
    counted = cross_tabulate([row(), row(call="2"), row(ours="runtime_error")])
    assert counted == {("post", "ok", "ok"): 2, ("post", "ok", "runtime_error"): 1}


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        pytest.param([], [], id="reached"),
        pytest.param([row("ok", "runtime_error", "runtime_error")] * 53, [], id="not ours"),
        pytest.param([row("invalid_params", "invalid_params", repairs=("list",))] * 200, [], id="repaired"),
        pytest.param([row(ours="invalid_params")], ["ours alone"], id="ours"),
        pytest.param([row("ok", "runtime_error", "runtime_error")] * 54, ["agreement"], id="fewer agree"),
        pytest.param([row(same=False)], ["the replays"], id="another value"),
    ],
)
def test_less_agreement_is_a_regression(odd: list[ReplayedCall], expected: list[str]) -> None:
    """Less agreement, more disagreements of ours, and any result that differs are regressions."""
    rows = [*odd, *(row(same=True) for _ in range(1000 - len(odd)))]
    found = regressions(rows)
    assert [each.startswith(start) for each, start in zip(found, expected, strict=True)] == [True] * len(expected)


def test_no_calls_are_a_regression() -> None:
    """A file that lost its lines must not pass the check."""
    assert regressions([]) == ["no calls"]
    assert AGREEMENT < 1
