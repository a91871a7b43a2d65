"""benchmarks.repairs: what is said of a repaired or refused call, by outcomes written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.judged import Judged
from benchmarks.recorded import Offered, Recorded, pipeline_of
from benchmarks.repairable import Reader
from benchmarks.repairs import Repairs, changed, invented, names, names_of
from pipeline import Call

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "stay": {"type": "object", "properties": {"rooms": {"type": "integer"}, "view": {"type": "string"}}},
    },
    "required": ["city"],
}
OFFERED = Offered.of("book", SCHEMA)


def recorded(sent: Any, *wrong: tuple[str, str], offered: Offered | None = OFFERED) -> Recorded:
    kinds = tuple(kind for kind, _ in wrong)
    pipeline = pipeline_of({"book": OFFERED})
    return Recorded(Call("book", sent, "c1"), "hand", pipeline, kinds, None, schema=True, offered=offered, wrong=wrong)


def repaired(sent: Any, received: Any, *wrong: tuple[str, str]) -> Judged:
    return Judged(recorded(sent, *wrong), "repaired", received=received)


def refused(sent: Any, told: str, *wrong: tuple[str, str]) -> Judged:
    return Judged(recorded(sent, *wrong), "refused", "validation", told=told)


def malformed(told: str) -> Judged:
    return Judged(recorded('{"city": '), "refused", "malformed_call", told=told)


def odd(*judged: Judged) -> list[str]:
    return list(Repairs.of("by hand", judged, {}).odd())


DAYS = {"city": "Oslo", "days": "2"}
GIVEN: dict[str, tuple[Judged, list[str]]] = {
    "as meant": (repaired(DAYS, {"city": "Oslo", "days": 2}), []),
    "a value of another type": (
        repaired({"city": "Oslo", "days": "20"}, {"city": "Oslo", "days": 2.0}),
        ["repaired to another value"],
    ),
    "another value": (
        repaired(DAYS, {"city": "Oslo", "days": 3}),
        ["repaired to another value", "a value was invented"],
    ),
    "a right value": (
        repaired(DAYS, {"city": "oslo", "days": 2}),
        ["repaired to another value", "a right value was changed"],
    ),
    "still not valid": (repaired(DAYS, {"city": "Oslo", "days": "2"}), ["not repaired"]),
    "what nobody knows": (
        repaired({"city": ["Oslo", "Rome"]}, {"city": "Oslo"}),
        ["repaired, and nobody knows what was meant"],
    ),
    "refused, and could be repaired": (refused(DAYS, "Error: Invalid parameter value for days: no"), ["not repaired"]),
    "refused by name": (refused({}, "Error: Missing required parameter: city"), []),
    "refused by another name": (refused({}, "Error: Missing required parameter: days"), ["refused, and not by name"]),
    "with a position": (malformed("Error: not a JSON object: EOF at line 1 column 9."), []),
    "cut off": (malformed("Error: The arguments were cut off. Send less."), []),
    "without a position": (malformed("Error: not a JSON object."), ["refused, and not by name"]),
    "repaired text that is no JSON": (
        repaired("{'city': 'Oslo'}", {"city": "Oslo"}),
        ["repaired, and nobody knows what was meant"],
    ),
}


@pytest.mark.parametrize(("judged", "expected"), GIVEN.values(), ids=GIVEN)
def test_what_is_odd_is_told(judged: Judged, expected: list[str]) -> None:
    """A repair must give the value that was meant and touch no other, and a refusal must name what is wrong."""
    assert odd(judged) == expected


def test_what_nobody_can_judge_counts_for_nothing() -> None:
    """A valid call, a tool without a schema and a name that no tool has say nothing of repairs."""
    bare = Judged(recorded({"x": 1}, offered=Offered.of("book", None)), "accepted")
    unknown = Judged(recorded({"x": 1}, offered=None), "refused", "unknown_tool")
    assert Repairs.of("by hand", [bare, unknown], {}).cases == []


CHANGES: dict[str, tuple[Any, Any, list[str]]] = {
    "nothing": ({"city": 5}, {"city": "5"}, []),
    "a neighbour": ({"city": 5, "days": 2}, {"city": "5", "days": 3}, ["days"]),
    "a neighbour is lost": ({"city": 5, "days": 2}, {"city": "5"}, ["days"]),
    "1 and true": ({"city": 5, "days": 1}, {"city": "5", "days": True}, ["days"]),
    "inside an object": (
        {"stay": {"rooms": "2", "view": "sea"}},
        {"stay": {"rooms": 2, "view": "Sea"}},
        ["stay.view"],
    ),
    "inside a list": ({"tags": ["a", 5]}, {"tags": ["b", "5"]}, ["tags.0"]),
    "a stranger stays": ({"city": 5, "x": 1}, {"city": "5", "x": 1}, []),
    "a stranger is lost": ({"city": 5, "x": "long"}, {"city": "5"}, ["x"]),
    "a stranger has another name": ({"City": "Oslo"}, {"city": "Oslo"}, []),
    "a wrapper goes": ({"params": {"city": "Oslo"}}, {"city": "Oslo"}, []),
    "something in a wrapper goes": ({"params": {"city": "Oslo", "days": 7}}, {"city": "Oslo"}, ["params"]),
    "nothing is left out": ({"city": "Oslo", "days": None}, {"city": "Oslo"}, []),
}


@pytest.mark.parametrize(("sent", "received", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_right_value_must_arrive_as_it_was(sent: Any, received: Any, expected: list[str]) -> None:
    """Each place that fitted the schema is compared, to the type; of what was not declared nothing may be lost."""
    assert list(changed(sent, received, SCHEMA, Reader(SCHEMA))) == expected


@pytest.mark.parametrize(
    ("sent", "received", "expected"),
    [
        ({"a": "['x y']"}, {"a": ["x y"]}, []),
        ({"a": "True"}, {"a": True}, []),
        ({"a": "-1.5"}, {"a": -1.5}, []),
        ({"a": {}}, {"a": 0}, ["0"]),
        ({"a": "x"}, {"a": "x", "b": ["y"]}, ['"y"']),
    ],
)
def test_a_value_that_was_not_sent_is_invented(sent: Any, received: Any, expected: list[str]) -> None:
    """Each single value has to be found in what was sent, in whatever type and spelling."""
    assert list(invented(sent, received)) == expected


TOLD = """Error: Missing required parameter: destination
Please send destination: a string (The folder to which the source: will be copied).
Error: Invalid parameter value for stay.tags[0]: must be a string, not an array
Error: Unknown parameter: a"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("destination", True),
        ("stay", True),
        ("tags", True),
        ("a", True),
        ("source", False),
        ("string", True),
        ("an", False),
    ],
)
def test_a_text_names_a_parameter_outside_of_descriptions(name: str, expected: bool) -> None:
    """A name stands at the end of a phrase; a word of a description, or an article, is none."""
    assert names(TOLD, name) == expected


@pytest.mark.parametrize(
    ("sent", "wrong", "expected"),
    [
        pytest.param({"days": "x"}, [], ["days", "city"], id="by the schema"),
        pytest.param({"city": "a", "tags": [1], "x": 1}, [("t", "tags.0"), ("extra_arg", "x")], ["tags"], id="by both"),
        pytest.param({"city": "a", "stay": {"rooms": "2"}}, [], ["stay", "rooms"], id="each part of a path"),
        pytest.param({"city": "a"}, [("bad_enum", "city")], ["city"], id="by the record"),
    ],
)
def test_what_has_to_be_named(sent: Any, wrong: Sequence[tuple[str, str]], expected: list[str]) -> None:
    """What the record or the schema finds wrong has to be named, and no stranger that the schema lets pass."""
    assert sorted(names_of(recorded(sent, *wrong))) == sorted(expected)


def test_shares_by_kind_are_printed_and_held() -> None:
    """Each kind has a line, each share its floor, and what is odd its ids, which are all that is told of a call."""
    kinds = [("string_for_number", "days")]
    calls = [repaired(DAYS, {"city": "Oslo", "days": 2}, *kinds), refused(DAYS, "for days: no", *kinds)]
    floors = {"repairable, repaired to a value that validates": 50.0}
    repairs = Repairs.of("by hand", calls, floors)
    lines = [" ".join(line.split()) for line in repairs.lines()]
    assert lines[2] == "string_for_number 2 2 1 1 0 0"
    assert "to be read as spelt_number: 1 of 2" in lines
    assert lines[-2:] == ["not repaired: 1", "c1 string_for_number: spelt_number"]
    assert not any("Oslo" in line for line in lines)
    assert list(repairs.fallen()) == [
        "by hand, repairable, repaired to the value that was meant: 50.0 %, and it was 100.0 %"
    ]
    assert repairs.as_json()["repairable"] == {
        "by mistake": {"string_for_number": ["c1", "c1"]},
        "by reading": {"spelt_number": ["c1", "c1"]},
    }
