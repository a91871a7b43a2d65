"""benchmarks.corpus.repair_quality and repair_report, on hand-written outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.corpus.oracle import Interpreter
from benchmarks.corpus.recordings import OfferedTool, RecordedCall, build_pipeline
from benchmarks.corpus.repair_quality import find_changed, find_invented, mentions, wrong_parameters
from benchmarks.corpus.repair_report import RepairReport
from benchmarks.corpus.verdicts import JudgedCall
from toolcall_pipeline import Call

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
OFFERED = OfferedTool.make("book", SCHEMA)


def recorded(sent: Any, *mistakes: tuple[str, str], offered: OfferedTool | None = OFFERED) -> RecordedCall:
    kinds = tuple(kind for kind, _ in mistakes)
    pipeline = build_pipeline({"book": OFFERED})
    call = Call("book", sent, "c1")
    return RecordedCall(call, "hand", pipeline, kinds, None, schema=True, offered=offered, mistakes_at=mistakes)


def repaired(sent: Any, received: Any, *mistakes: tuple[str, str]) -> JudgedCall:
    return JudgedCall(recorded(sent, *mistakes), "repaired", received=received)


def refused(sent: Any, text: str, *mistakes: tuple[str, str]) -> JudgedCall:
    return JudgedCall(recorded(sent, *mistakes), "refused", "validation", text=text)


def malformed(text: str) -> JudgedCall:
    return JudgedCall(recorded('{"city": '), "refused", "malformed_call", text=text)


def findings(*judged: JudgedCall) -> list[str]:
    return list(RepairReport.of("by hand", judged, {}).findings())


DAYS = {"city": "Oslo", "days": "2"}
GIVEN: dict[str, tuple[JudgedCall, list[str]]] = {
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
    "an ambiguous value": (
        repaired({"city": ["Oslo", "Rome"]}, {"city": "Oslo"}),
        ["repaired, and nobody knows what was meant"],
    ),
    "refused, and could be repaired": (refused(DAYS, "Error: Invalid parameter value for days: no"), ["not repaired"]),
    "refused by name": (refused({}, "Error: Missing required parameter: city"), []),
    "refused by another name": (refused({}, "Error: Missing required parameter: days"), ["refused without the name"]),
    "with a position": (malformed("Error: not a JSON object: EOF at line 1 column 9."), []),
    "cut off": (malformed("Error: The arguments were cut off. Send less."), []),
    "without a position": (malformed("Error: not a JSON object."), ["refused without the name"]),
    "repaired text that is no JSON": (
        repaired("city is Oslo", {"city": "Oslo"}),
        ["repaired, and nobody knows what was meant"],
    ),
}


@pytest.mark.parametrize(("judged", "expected"), GIVEN.values(), ids=GIVEN)
def test_what_is_not_as_it_should_be_is_found(judged: JudgedCall, expected: list[str]) -> None:
    """A repair must give the intended value and change no other, and a refusal must name what is wrong."""
    assert findings(judged) == expected


def test_calls_that_nobody_can_judge_do_not_count() -> None:
    """Valid calls, tools without a schema and unknown names say nothing about repairs."""
    bare = JudgedCall(recorded({"x": 1}, offered=OfferedTool.make("book", None)), "accepted")
    unknown = JudgedCall(recorded({"x": 1}, offered=None), "refused", "unknown_tool")
    assert RepairReport.of("by hand", [bare, unknown], {}).cases == []


CHANGES: dict[str, tuple[Any, Any, list[str]]] = {
    "nothing": ({"city": 5}, {"city": "5"}, []),
    "another value": ({"city": 5, "days": 2}, {"city": "5", "days": 3}, ["days"]),
    "another value is lost": ({"city": 5, "days": 2}, {"city": "5"}, ["days"]),
    "1 and true": ({"city": 5, "days": 1}, {"city": "5", "days": True}, ["days"]),
    "inside an object": (
        {"stay": {"rooms": "2", "view": "sea"}},
        {"stay": {"rooms": 2, "view": "Sea"}},
        ["stay.view"],
    ),
    "inside a list": ({"tags": ["a", 5]}, {"tags": ["b", "5"]}, ["tags.0"]),
    "an undeclared value stays": ({"city": 5, "x": 1}, {"city": "5", "x": 1}, []),
    "an undeclared value is lost": ({"city": 5, "x": "long"}, {"city": "5"}, ["x"]),
    "an undeclared name is corrected": ({"City": "Oslo"}, {"city": "Oslo"}, []),
    "a wrapper is removed": ({"params": {"city": "Oslo"}}, {"city": "Oslo"}, []),
    "a wrapped value is lost": ({"params": {"city": "Oslo", "days": 7}}, {"city": "Oslo"}, ["params"]),
    "a null is omitted": ({"city": "Oslo", "days": None}, {"city": "Oslo"}, []),
}


@pytest.mark.parametrize(("sent", "received", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_right_value_must_arrive_unchanged(sent: Any, received: Any, expected: list[str]) -> None:
    """Every value that fitted the schema is compared, with its type, and no undeclared value may be lost."""
    assert list(find_changed(sent, received, SCHEMA, Interpreter(SCHEMA))) == expected


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
    """Every single value must be in what was sent, whatever its type and spelling are there."""
    assert list(find_invented(sent, received)) == expected


TEXT = """Error: Missing required parameter: destination
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
def test_a_text_mentions_a_parameter_outside_descriptions(name: str, expected: bool) -> None:
    """A name is at the end of a phrase; a word in a description, or an article, is not a name."""
    assert mentions(TEXT, name) == expected


@pytest.mark.parametrize(
    ("sent", "mistakes", "expected"),
    [
        pytest.param({"days": "x"}, [], ["days", "city"], id="by the schema"),
        pytest.param({"city": "a", "tags": [1], "x": 1}, [("t", "tags.0"), ("extra_arg", "x")], ["tags"], id="by both"),
        pytest.param({"city": "a", "stay": {"rooms": "2"}}, [], ["stay", "rooms"], id="each part of a path"),
        pytest.param({"city": "a"}, [("bad_enum", "city")], ["city"], id="by the record"),
    ],
)
def test_what_a_refusal_must_name(sent: Any, mistakes: Sequence[tuple[str, str]], expected: list[str]) -> None:
    """A refusal must name what the record or the schema finds wrong, but no undeclared name that the schema allows."""
    assert sorted(wrong_parameters(recorded(sent, *mistakes))) == sorted(expected)


def test_the_report_has_lines_shares_and_floors() -> None:
    """Every mistake has a line and every share a floor; of a call only its id is printed."""
    kinds = [("string_for_number", "days")]
    calls = [repaired(DAYS, {"city": "Oslo", "days": 2}, *kinds), refused(DAYS, "for days: no", *kinds)]
    floors = {"repairable, repaired to a value that validates": 50.0}
    report = RepairReport.of("by hand", calls, floors)
    lines = [" ".join(line.split()) for line in report.lines()]
    assert lines[2] == "string_for_number 2 2 1 1 0 0"
    assert "meant as number_from_text: 1 of 2 repaired" in lines
    assert lines[-2:] == ["not repaired: 1", "c1 string_for_number: number_from_text"]
    assert not any("Oslo" in line for line in lines)
    assert list(report.regressions()) == [
        "by hand, repairable, repaired to the value that was meant: 50.0 %, and it was 100.0 %"
    ]
    assert report.as_json()["repairable"] == {
        "by mistake": {"string_for_number": ["c1", "c1"]},
        "by interpretation": {"number_from_text": ["c1", "c1"]},
    }
