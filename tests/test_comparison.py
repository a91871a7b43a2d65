"""How a recorded call and its two replays are compared; by rows written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from benchmarks.comparison import (
    AGREEMENT,
    Came,
    Relation,
    Replayed,
    bare_schema,
    crossed,
    grouped,
    mended,
    of_text,
    share,
    shortfalls,
    timeless,
)
from pipeline import Call, CallReport, Repair

A_DAY = datetime(2024, 5, 1)  # noqa: DTZ001  # AgentDojo's are naive


def row(
    recorded: Came = "ok", plain: Came = "ok", ours: Came = "ok", call: str = "1", tool: str = "send", **more: Any
) -> Replayed:
    return Replayed(call, "post", tool, recorded, plain, ours, **more)


@pytest.mark.parametrize(
    ("recorded", "plain", "ours", "repairs", "expected"),
    [
        pytest.param("ok", "ok", "ok", (), "all agree", id="all"),
        pytest.param("invalid_params", "ok", "invalid_params", (), "only ours agrees", id="ours"),
        pytest.param("ok", "ok", "invalid_params", (), "only ours disagrees", id="not ours"),
        pytest.param("invalid_params", "invalid_params", "ok", (), "only ours disagrees", id="accepted"),
        pytest.param("invalid_params", "invalid_params", "ok", ("list",), "repaired", id="mended"),
        pytest.param("invalid_params", "ok", "runtime_error", ("list",), "repaired", id="mended, then failed"),
        pytest.param("runtime_error", "runtime_error", "ok", ("list",), "only ours disagrees", id="mended, as it ran"),
        pytest.param("ok", "ok", "ok", ("list",), "all agree", id="mended, and as recorded"),
        pytest.param("ok", "runtime_error", "runtime_error", (), "no replay agrees", id="no replay"),
        pytest.param("ok", "runtime_error", "invalid_params", (), "no replay agrees", id="three ways"),
    ],
)
def test_a_disagreement_is_ours_only_where_the_plain_replay_has_none(
    recorded: Came, plain: Came, ours: Came, repairs: tuple[str, ...], expected: Relation
) -> None:
    """Ours is what the plain replay gets right and we do not, save a refused call that was mended."""
    made = row(recorded, plain, ours, repairs=repairs)
    assert made.relation == expected
    assert made.holds == (expected in ("all agree", "only ours agrees", "repaired"))


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
            id="mended",
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
def test_disagreements_of_one_reason_are_one_group(made: Replayed, expected: str) -> None:
    """A group names what its calls have in common: our reason, or the tool where the reason is not ours."""
    assert made.group == expected


def test_groups_come_with_the_largest_first_and_their_ids_in_order() -> None:
    """A relation is told as its groups, the largest first, each with all of its ids."""
    rows = [
        row(ours="invalid_params", reason="a", call="3"),
        row(ours="invalid_params", reason="b", call="2"),
        row(ours="invalid_params", reason="b", call="1"),
        row(call="4"),
    ]
    expected = [("ok -> invalid_params: b", ["1", "2"]), ("ok -> invalid_params: a", ["3"])]
    assert expected == grouped(rows, "only ours disagrees")


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
def test_the_runtime_of_agentdojo_says_what_it_came_to(error: str | None, expected: Came) -> None:
    """Only a validation error of the arguments is the model's; one in the tool's body is a failure of the tool."""
    assert of_text(error) == expected


def test_only_repairs_of_arguments_count_as_mended() -> None:
    """A name that was put right says nothing of the arguments."""
    repairs = (Repair("name", "noise", "a", "b"), Repair("to", "list", "a", ["a"]), Repair("cc", "list", "a", ["a"]))
    assert mended(CallReport(Call("send"), repairs=repairs)) == ("list",)


def test_moments_of_the_replay_itself_make_no_difference() -> None:
    """What was stamped during the replay is alike; what the environment brought is compared."""

    class File(BaseModel):
        name: str
        changed: datetime

    def made(at: datetime) -> list[Any]:
        return [{"files": (File(name="a", changed=at),)}]

    early, late, later = (A_DAY + timedelta(hours=hours) for hours in (-1, 1, 2))
    assert timeless(made(late), A_DAY) == timeless(made(later), A_DAY)
    assert timeless(made(early), A_DAY) != timeless(made(late), A_DAY)
    elsewhere = late.replace(tzinfo=UTC)
    assert timeless(elsewhere, A_DAY) is elsewhere


def test_schemas_are_compared_without_what_is_for_readers() -> None:
    """Titles, descriptions and the ban on undeclared arguments make no difference, parameters so named do."""
    ours = {"type": "object", "additionalProperties": False, "properties": {"title": {"anyOf": [{"type": "string"}]}}}
    theirs = {"type": "object", "title": "T", "properties": {"title": {"anyOf": [{"type": "string", "title": "t"}]}}}
    assert bare_schema(ours) == bare_schema(theirs)
    assert bare_schema(ours) != bare_schema({**theirs, "properties": {}})
    assert bare_schema({"additionalProperties": True}) == {"additionalProperties": True}


def test_a_share_is_of_calls_or_of_occurrences() -> None:
    """A call that was recorded often counts once, or as often as it was seen; of no calls all hold."""
    rows = [row(seen=3), row(ours="runtime_error")]
    assert share(rows, lambda each: each.holds) == 0.5
    assert share(rows, lambda each: each.holds, seen=True) == 0.75
    assert share([], lambda each: each.holds) == 1


def test_calls_are_counted_by_suite_and_both_outcomes() -> None:
    """The table crosses what was recorded with what ours came to."""
    counted = crossed([row(), row(call="2"), row(ours="runtime_error")])
    assert counted == {("post", "ok", "ok"): 2, ("post", "ok", "runtime_error"): 1}


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        pytest.param([], [], id="reached"),
        pytest.param([row("ok", "runtime_error", "runtime_error")] * 53, [], id="not ours"),
        pytest.param([row("invalid_params", "invalid_params", repairs=("list",))] * 200, [], id="mended"),
        pytest.param([row(ours="invalid_params")], ["ours alone"], id="ours"),
        pytest.param([row("ok", "runtime_error", "runtime_error")] * 54, ["agreement"], id="fewer agree"),
        pytest.param([row(same=False)], ["the replays"], id="another value"),
    ],
)
def test_less_than_was_reached_is_told(odd: list[Replayed], expected: list[str]) -> None:
    """The check fails on less agreement, on more disagreements of ours, and on any end that differs."""
    rows = [*odd, *(row(same=True) for _ in range(1000 - len(odd)))]
    found = shortfalls(rows)
    assert [each.startswith(start) for each, start in zip(found, expected, strict=True)] == [True] * len(expected)


def test_nothing_replayed_is_less_than_was_reached() -> None:
    """A check of no calls fails: a file that lost its lines must not pass."""
    assert shortfalls([]) == ["no calls"]
    assert AGREEMENT < 1
