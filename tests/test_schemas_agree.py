"""The schema that a model is shown and the validator of its arguments accept the same, but for differences with a name.

The schema is read by jsonschema-rs, with formats; the validator is that of `Validate(repair=())`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field
from typing_extensions import Unpack

from annotation_table import ANNOTATIONS, Movie, Point
from json_values import WORDS, accepted, perturbed
from shapes import taking
from toolcall_pipeline import Tool, tool


def with_defaults(a: int, b: str = "b", c: list[int] | None = None) -> None: ...
def with_fields(a: Annotated[int, Field(ge=1)] = Field(default=2, le=9), b: str = Field(min_length=1)) -> None: ...
def with_alias(a: Annotated[int, Field(alias="from")], b: str = Field(default="", alias="to")) -> None: ...
def with_anything(a: int, **more: object) -> None: ...
def with_numbers(a: int = 0, **more: int) -> None: ...
def with_points(**more: Point) -> None: ...
def with_names(a: int, **more: Unpack[Movie]) -> None: ...
def with_nothing() -> None: ...
def with_keyword_only(a: Point, *, b: float) -> None: ...
def without_types(a: Any, b: Any = 1) -> None: ...


without_types.__annotations__ = {}

FUNCTIONS = (
    with_defaults,
    with_fields,
    with_alias,
    with_anything,
    with_numbers,
    with_points,
    with_names,
    with_nothing,
    with_keyword_only,
    without_types,
)
TOOLS: dict[str, Tool[..., Any]] = {
    **{name: taking(hint) for name, hint in ANNOTATIONS.items()},
    **{cast("Any", function).__name__: tool(cast("Any", function)) for function in FUNCTIONS},
}

# A difference, with an annotation that has it and a value. The README of pipeline/parameters lists the differences.
SCHEMA_TAKES_MORE = [
    ("a whole float is an integer to JSON Schema", "int", 1.0),
    ("a whole float is an integer to JSON Schema", "list of int", [1, 2.0]),
    ("a bound of a value that is sent as text is not shown", "Decimal, bounded", "-1"),
    ("a bound of a value that is sent as text is not shown", "Decimal, digits", "1.234"),
    ("a bound of a value that is sent as text is not shown", "bounded date", "2000-01-01"),
    ("a bound of a value that is sent as text is not shown", "future date", "2000-01-01"),
    ("a bound of a value that is sent as text is not shown", "bounded timedelta", "P2D"),
    ("a length of bytes is shown as one of characters", "bounded bytes", "üü"),
    ("a format that JSON Schema does not have is not checked", "base64", "x"),
    ("a format that JSON Schema does not have is not checked", "IPv4Network", "x"),
    ("a format that JSON Schema does not have is not checked", "Json", "x"),
    ("a format that JSON Schema does not have is not checked", "ByteSize", "1 x"),
    ("blanks that will be stripped count as characters", "stripped text", " "),
    ("two names may be one key once they are read", "dict by int", {"1": "a", "01": "b"}),
    ("a leap second matches the format of a time", "time", "23:59:60Z"),
    ("a day that the calendar does not have matches a pattern", "naive datetime", "2026-02-30T00:00"),
]
VALIDATOR_TAKES_MORE = [
    ("a date-time may be without a zone, and a time too", "datetime", "2026-01-01T00:00:00"),
    ("a date-time may be without a zone, and a time too", "time", "12:30"),
    ("a date-time may have a blank in place of its T", "aware datetime", "2026-01-01 00:00:00Z"),
    ("an item of a set may be repeated", "set", [1, 1]),
    ("an item of a set may be repeated", "frozenset", ["a", "a"]),
    ("an item of a set may be repeated", "set of floats", [0.5, 0.5]),
    ("an item of a set may be repeated", "bounded set", [1, 2, 2]),
    ("an item of a set may be repeated", "AbstractSet", [1, 1]),
    ("a number in text is read as Python reads it", "Decimal", " 1"),
    ("a number in text is read as Python reads it", "Decimal, bounded", " 1"),
    ("a number in text is read as Python reads it", "Decimal, digits", " 1"),
    ("a number in text is read as Python reads it", "Fraction", " 1/2"),
    ("a number in text is read as Python reads it", "complex", " 1"),
    ("a number in text is read as Python reads it", "dict by int", {" 1": "a"}),
    ("a duration may be written as by a clock", "timedelta", "12:30"),
    ("a duration may be written as by a clock", "bounded timedelta", "12:30"),
    ("a UUID may have braces, or no hyphens", "UUID", "{00000000-0000-0000-0000-000000000007}"),
    ("a regular expression is Python's", "Pattern", "a++"),
    ("a pattern takes the digits and letters of all scripts", "pattern of digits", "٣٣٣"),
    ("a pattern takes the digits and letters of all scripts", "ByteSize", "٣"),
]


def schema_of(made: Tool[..., Any]) -> tuple[dict[str, Any], Any]:
    shown = made.definition()["parameters"]
    return shown, jsonschema_rs.validator_for(shown, offline=True, validate_formats=True)


def is_accepted(made: Tool[..., Any], arguments: Any) -> bool:
    """Whether the validator accepts arguments; their JSON text is judged alike."""
    verdicts = {type(made.parse(sent)) is dict for sent in (arguments, json.dumps(arguments))}
    assert len(verdicts) == 1
    return verdicts.pop()


def has_whole_float(value: Any) -> bool:
    if isinstance(value, (list, dict)):
        held = cast("Any", value)
        return any(map(has_whole_float, held.values() if isinstance(value, dict) else held))
    return type(value) is float and value.is_integer()


def compare(name: str, by_schema: Any, arguments: Any) -> None:
    if not isinstance(arguments, dict) or has_whole_float(arguments):
        return
    expected, found = by_schema.is_valid(arguments), is_accepted(TOOLS[name], arguments)
    if expected != found:
        differing = {row[1] for row in (SCHEMA_TAKES_MORE if expected else VALIDATOR_TAKES_MORE)}
        assert name in differing - {"int", "list of int"}, (expected, arguments)


@pytest.mark.parametrize("name", TOOLS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of each of 120 signatures
@given(data=st.data())
@pytest.mark.long
def test_the_schema_and_the_validator_accept_the_same(name: str, data: st.DataObject) -> None:
    """What one of them accepts, the other one accepts, unless the difference has a name."""
    shown, by_schema = schema_of(TOOLS[name])
    drawn = data.draw(accepted(shown, shown))
    compare(name, by_schema, drawn)
    compare(name, by_schema, data.draw(perturbed(drawn)))


@pytest.mark.parametrize("name", TOOLS)
def test_the_schema_and_the_validator_read_the_same_texts(name: str) -> None:
    """Texts that some type reads as a number, a date, a path and so on, alone and inside of containers."""
    _, by_schema = schema_of(TOOLS[name])
    words: tuple[Any, ...] = (*WORDS, 0, 1, -1, 0.5, True, None, [], {})
    for word in words:
        for value in (word, [word], [word, word], {"a": word}, {word if isinstance(word, str) else "b": 1}):
            compare(name, by_schema, {"x": value})


@pytest.mark.parametrize(("why", "name", "value"), SCHEMA_TAKES_MORE)
def test_what_only_the_schema_accepts(why: str, name: str, value: object) -> None:
    """A named difference exists: a call that the schema accepts is refused, with a problem at its place."""
    made = TOOLS[name]
    assert schema_of(made)[1].is_valid({"x": value}), why
    assert not is_accepted(made, {"x": value}), why


@pytest.mark.parametrize(("why", "name", "value"), VALIDATOR_TAKES_MORE)
def test_what_only_the_validator_accepts(why: str, name: str, value: object) -> None:
    """A named difference exists: the validator reads what the schema does not promise."""
    made = TOOLS[name]
    assert not schema_of(made)[1].is_valid({"x": value}), why
    assert is_accepted(made, {"x": value}), why


def test_the_table_is_large_and_has_every_kind() -> None:
    """About 100 signatures; each can be shown to a model."""
    assert len(TOOLS) >= 120
