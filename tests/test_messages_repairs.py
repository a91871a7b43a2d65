"""Repairs and limits: the note about repairs, and the middle of a long value that is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from toolcall_pipeline import Crashed, Repair, UnknownTool
from toolcall_pipeline.messages import render
from toolcall_pipeline.messages.repair_notes import describe_repairs

SENTENCES: dict[str, tuple[Repair, str]] = {
    "json_text": (
        Repair("filter", "json_text", '{"a": "hunter2"}', {"a": "hunter2"}),
        "filter was sent as text. Send it as an object, not in quotes.",
    ),
    "json_text, array": (
        Repair("ids", "json_text", "[1]", [1]),
        "ids was sent as text. Send it as an array, not in quotes.",
    ),
    "json_text, the whole": (
        Repair("", "json_text", '"{}"', {}),
        "the whole of the arguments was sent as text. Send it as an object, not in quotes.",
    ),
    "null_optional": (
        Repair("note", "null_optional", "null", None),
        "note was sent as the text null and read as no value. Send null unquoted, or leave it out.",
    ),
    "number_text": (
        Repair("count", "number_text", "5", 5),
        "count was sent as text and taken as the number 5. Send it as a number.",
    ),
    "number_text, huge": (
        Repair("count", "number_text", "4" * 20, int("4" * 20)),
        "count was sent as text and taken as the number. Send it as a number.",
    ),
    "boolean_text": (
        Repair("all", "boolean_text", "True", True),
        "all was sent as text and taken as true. Send it as a boolean.",
    ),
    "text_of_number": (
        Repair("zip", "text_of_number", 5, "5"),
        "zip was sent as the number 5 and taken as text. Send it as text.",
    ),
    "whole_float": (
        Repair("n", "whole_float", 3.0, 3),
        "n was sent with a fraction and taken as the integer 3. Send an integer.",
    ),
    "lone_scalar": (
        Repair("to", "lone_scalar", "hunter2", ["hunter2"]),
        "to was sent as a single value and taken as an array of one. Send an array.",
    ),
    "separated_text": (
        Repair("to", "separated_text", "a, hunter2", ["a", "hunter2"]),
        "to was sent as one text and taken as an array of several values. Send an array.",
    ),
    "enum_spelling": (
        Repair("mode", "enum_spelling", "Home Delivery", "home-delivery"),
        "mode was taken as home-delivery. Send it spelt like that.",
    ),
    "parameter_name": (
        Repair("filePath", "parameter_name", "filePath", "file_path"),
        "filePath was taken for file_path. Use that name.",
    ),
    "wrapped": (
        Repair("", "wrapped", {"arguments": {}}, {}),
        "the arguments were sent inside of another object. Send them directly.",
    ),
    "undeclared_dropped": (
        Repair("extra", "undeclared_dropped", "hunter2", None),
        "extra is no parameter of this tool and was left out.",
    ),
    "alias": (Repair("name", "alias", "cat", "read"), "the tool cat was taken for read. Use that name."),
    "canonical_name": (
        Repair("name", "canonical_name", "Read-File", "read_file"),
        "the tool Read-File was taken for read_file. Use that name.",
    ),
    "transport_noise": (
        Repair("name", "transport_noise", "functions.read", "read"),
        "the tool functions.read was taken for read. Use that name.",
    ),
    "a rule of somebody's own": (
        Repair("a", "my_rule", "hunter2", "x"),
        "a was put right before the tool ran.",
    ),
    "a long name": (Repair("x" * 99, "my_rule", 1, 2), f"{'x' * 60}… was put right before the tool ran."),
}


@pytest.mark.parametrize(("repair", "sentence"), [pytest.param(*row, id=name) for name, row in SENTENCES.items()])
def test_each_rule_has_its_sentence(repair: Repair, sentence: str) -> None:
    """A note says what the model did and what to do next time; of the values only numbers and choices are repeated."""
    assert render(Success("done"), repairs=[repair]) == f"done\nNote: {sentence}"
    assert render(Failure(Crashed()), repairs=[repair]) == f"{render(Crashed())}\nNote: {sentence}"


def test_a_name_of_the_provider_is_not_noted() -> None:
    """There is no note about a name that an adapter made: the model wrote what it was given."""
    repair = Repair("name", "provider_name", "read_file_0a1b2c3d", "read.file")
    assert render(Success("done"), repairs=[repair]) == "done"
    assert render(Failure(Crashed()), repairs=[repair]) == render(Crashed())


def test_repairs_are_noted_only_if_given() -> None:
    """Without ``repairs=`` a text has no note."""
    assert "Note" not in render(Failure(UnknownTool("a")))


def test_several_repairs_are_one_line() -> None:
    """The note has the first five repairs, each once, and the number of the others."""
    repairs = [Repair(f"p{place}", "number_text", "1", 1) for place in range(8)] * 2
    note = render(Success("done"), repairs=repairs).removeprefix("done\n")
    assert "\n" not in note
    assert note.count("Send it as a number.") == 5
    assert note.endswith("And 3 more.")
    five = render(Success("done"), repairs=repairs[:5])
    assert five.count("Send it as a number.") == 5
    assert "more" not in five


def test_a_note_in_json() -> None:
    """In the profile ``structured`` the note is a field of its own."""
    repairs = [Repair("count", "number_text", "5", 5)]
    note = "Note: count was sent as text and taken as the number 5. Send it as a number."
    assert json.loads(render(Success([1]), profile="structured", repairs=repairs)) == {
        "ok": True,
        "data": [1],
        "note": note,
    }
    told = json.loads(render(Failure(Crashed()), profile="structured", repairs=repairs))
    assert told == {**json.loads(render(Crashed(), profile="structured")), "note": note}


ODD: Any = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.builds(object) | st.lists(st.text())


@given(st.lists(st.builds(Repair, st.text(), st.sampled_from([r.rule for r, _ in SENTENCES.values()]), ODD, ODD)))
def test_a_note_is_one_bounded_line(repairs: list[Repair]) -> None:
    """A note is one line of bounded length for any repairs, and can be encoded."""
    told = render(Success("done"), repairs=repairs)
    assert len(told.splitlines()) <= 2
    assert len(told) < 2_000
    assert told.encode().decode() == told


def test_the_middle_of_a_long_value_is_left_out() -> None:
    """A long value is told by head and tail and the number of characters between, within the limit."""
    text = "".join(map(str, range(50_000)))
    told = render(Success(text))
    assert len(told) == 100_000
    head, missing, tail = told.partition(" characters left out) …\n")
    assert text.endswith(tail)
    kept, _, number = head.rpartition("\n… (")
    assert text.startswith(kept)
    assert int(number.replace(",", "")) == len(text) - len(kept) - len(tail)
    assert missing


def test_without_a_limit_the_whole_value_is_told() -> None:
    """``limit=None`` gives the whole value, and so does a value within the limit."""
    text = "x" * 200_000
    assert render(Success(text), limit=None) == text
    assert render(Success("x" * 100_000)) == "x" * 100_000


@given(st.text(max_size=300) | st.lists(st.integers()), st.integers(-5, 400))
def test_a_limit_is_kept(value: Any, limit: int) -> None:
    """A text is within the limit if that has room for the line about what is left out, and is never empty."""
    whole, told = render(Success(value), limit=None), render(Success(value), limit=limit)
    assert told
    if len(whole) <= limit:
        assert told == whole
    assert len(told) <= max(limit, 45)
    assert "left out" in told or told == whole


def test_the_note_does_not_count_for_the_limit() -> None:
    """The limit is for the value alone, and the note follows it."""
    told = render(Success("x" * 500), limit=100, repairs=[Repair("count", "number_text", "5", 5)])
    assert told.splitlines()[-1].startswith("Note: count")
    assert "left out" in told


@pytest.mark.parametrize(
    ("number", "shown"), [(10**15 - 1, True), (-(10**15) + 1, True), (10**15, False), (1e15, False)]
)
def test_a_number_that_nobody_reads_is_left_out(number: float, shown: bool) -> None:
    """The note says what was sent; of a number with more than fifteen digits, only that it was one."""
    note = describe_repairs((Repair("zip", "text_of_number", number, str(number)),))
    assert (str(number) in note) == shown
    assert "zip was sent as the number" in note
