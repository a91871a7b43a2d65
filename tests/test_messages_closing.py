"""The last line of a text about missing parameters: what to do now, and the form of the arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import FailureDetails, InvalidParams, Problem, render
from toolcall_pipeline.privacy import approved

FIX = "Fix the errors and try again."
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "default": "Lima"},
        "days": {"type": ["integer", "null"], "description": "For how many days."},
        "place": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
    },
    "required": ["city"],
}
MISSING = Problem("city", "required", "a string")
WRONG = Problem("days", "type", "an integer", "a string")


def last_line(schema: Any, sent: Any, *problems: Problem, **options: Any) -> str:
    return render(InvalidParams(problems or (MISSING,), sent=sent, schema=schema), **options).splitlines()[-1]


@pytest.mark.parametrize(
    ("sent", "form"),
    [
        ({}, '"days": <optional integer or null: For how many days>, "place": <optional object>'),
        (None, '"days": <optional integer or null: For how many days>, "place": <optional object>'),
        ("", '"days": <optional integer or null: For how many days>, "place": <optional object>'),
        ("{", '"days": <optional integer or null: For how many days>, "place": <optional object>'),
        ('["days"]', '"days": <optional integer or null: For how many days>, "place": <optional object>'),
        ('"days"', '"days": <optional integer or null: For how many days>, "place": <optional object>'),
        ({"days": 3}, '"days": <integer or null: For how many days>, "place": <optional object>'),
        ('{"days": "many"}', '"days": <integer or null: For how many days>, "place": <optional object>'),
        (
            {"place": {}, "unknown": 1},
            '"place": {"street": <string>}, "days": <optional integer or null: For how many days>',
        ),
    ],
    ids=str,
)
def test_a_missing_parameter_is_asked_for_with_the_form(sent: Any, form: str) -> None:
    """The form has what is required, then what was sent, then the rest, and no value of any of them."""
    text = f'Fix the errors and try again, with arguments of this form: {{"city": <string>, {form}}}'
    for verbosity in ("normal", "full"):
        assert last_line(SCHEMA, sent, verbosity=verbosity) == text
        assert last_line(SCHEMA, sent, WRONG, MISSING, verbosity=verbosity) == text


def test_a_missing_object_keeps_its_line_of_help() -> None:
    """The form has its fields in its place, and no room for its description."""
    place = {**SCHEMA["properties"]["place"], "description": "Where it is"}
    schema = {"type": "object", "properties": {"place": place}, "required": ["place"]}
    missing = Problem("place", "required", "an object (Where it is)")
    assert render(InvalidParams((missing,), schema=schema)).splitlines()[1:] == [
        "Please send place: an object (Where it is).",
        'Fix the errors and try again, with arguments of this form: {"place": {"street": <string>}}',
    ]


def test_the_form_says_what_is_expected() -> None:
    """The line of a missing parameter has no line of help, unless the form does not describe it."""
    schema = {
        "type": "object",
        "properties": {
            "unit": {"enum": ["a degree", "kelvin"], "description": "In which unit"},
            "place": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
        },
        "required": ["unit"],
    }
    unit, street = (
        Problem("unit", "required", "'a degree' or 'kelvin'"),
        Problem("place.street", "required", "a string"),
    )
    form = "{\"unit\": <'a degree' or 'kelvin': In which unit>, \"place\": <optional object>}"
    assert render(InvalidParams((unit,), schema=schema, sent={})) == (
        f"Error: Missing required parameter: unit\nFix the errors and try again, with arguments of this form: {form}"
    )
    assert render(InvalidParams((unit, street), schema=schema, sent={"place": {}})) == (
        "Error: Missing required parameters: unit, place.street\n"
        "- unit: 'a degree' or 'kelvin'.\n"
        "- place.street: a string.\n"
        "Fix the errors and try again, with arguments of this form: "
        '{"unit": <\'a degree\' or \'kelvin\'>, "place": {"street": <string>}}'
    )


def test_a_form_that_is_too_long_has_only_what_is_required() -> None:
    """So it is with optional parameters for which no value is known to be valid."""
    many = {f"a_long_name_of_a_parameter_{number}": {"type": "string"} for number in range(50)}
    for others in (many, {"code": {"pattern": "^(?=z)$"}}):
        schema = {"type": "object", "properties": {"city": {"type": "string"}} | others, "required": ["city"]}
        assert last_line(schema, {}).endswith(' of this form: {"city": <string>}')


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "array"},
        {"type": "object", "properties": None},
        {"type": "object", "required": ["a"], "properties": {"a": {"pattern": "^(?=z)$"}}},
        {"type": "object", "required": [f"a_long_name_of_a_parameter_{number}" for number in range(50)]},
    ],
    ids=["none", "no object", "odd", "no example", "long"],
)
def test_without_a_form_the_line_is_short(schema: Any) -> None:
    assert last_line(schema, {"a": 1}) == FIX


def test_other_texts_end_without_it() -> None:
    """Neither a terse text, nor one about a wrong value, nor one whose author says what to do next."""
    assert "Fix" not in last_line(SCHEMA, {}, verbosity="terse")
    assert "Fix" not in last_line(SCHEMA, {}, WRONG)
    advice = FailureDetails(suggestion=approved("Use the map."))
    assert render(InvalidParams((MISSING,), schema=SCHEMA, details=advice)).endswith(" Use the map.")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["type", "properties", "required", "a", "items", "enum"])


@given(st.none() | st.dictionaries(KEYS, JSON, max_size=4), JSON)
def test_no_schema_and_nothing_that_was_sent_raises(schema: Any, sent: Any) -> None:
    assert last_line(schema, sent).startswith("Fix the errors and try again")
