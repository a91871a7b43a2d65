"""Examples: the smallest valid arguments of a schema, or no example."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from toolcall_pipeline import InvalidParams, Problem, tool
from toolcall_pipeline.messages import render
from toolcall_pipeline.parameters.example import make_example


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "nothing is required": ({"type": "object", "properties": {"a": TEXT}}, {}),
    "required only": ({"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}, {"a": "text"}),
    "any object": ({}, {}),
    "not declared": ({"type": "object", "required": ["a"]}, {"a": "text"}),
    "types": (
        an_object(a=INTEGER, b={"type": "number"}, c={"type": "boolean"}, d={"type": "null"}, e={"type": "array"}),
        {"a": 1, "b": 1, "c": True, "d": None, "e": []},
    ),
    "types to choose from": (an_object(a={"type": ["null", "integer"]}), {"a": 1}),
    "example": (an_object(a={**TEXT, "examples": ["Ada"], "default": "Bob"}), {"a": "Ada"}),
    "default": (an_object(a={**TEXT, "default": "Bob"}), {"a": "Bob"}),
    "example out of date": (an_object(a={**INTEGER, "examples": ["Ada"], "default": "x"}), {"a": 1}),
    "const": (an_object(a={"const": {"b": 1}}), {"a": {"b": 1}}),
    "enum": (an_object(a={"enum": ["x", "y"]}), {"a": "x"}),
    "minimum": (an_object(a={**INTEGER, "minimum": 5}), {"a": 5}),
    "minimum, in fractions": (an_object(a={**INTEGER, "minimum": 4.5}), {"a": 5}),
    "exclusive minimum": (an_object(a={**INTEGER, "exclusiveMinimum": 5}), {"a": 6}),
    "maximum": (an_object(a={**INTEGER, "maximum": -5}), {"a": -5}),
    "exclusive maximum": (an_object(a={**INTEGER, "exclusiveMaximum": 0}), {"a": -1}),
    "multiple": (an_object(a={**INTEGER, "minimum": 5, "multipleOf": 4}), {"a": 8}),
    "between": (an_object(a={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}), {"a": 0.5}),
    "length": (an_object(a={**TEXT, "minLength": 6}), {"a": "ABC-123"}),
    "long": (an_object(a={**TEXT, "minLength": 30, "maxLength": 30}), {"a": "text" * 7 + "te"}),
    "short": (an_object(a={**TEXT, "maxLength": 2}), {"a": "a"}),
    "pattern": (an_object(a={**TEXT, "pattern": "^[A-Z]{3}$"}), {"a": "ABC"}),
    "format": (an_object(a={**TEXT, "format": "date"}), {"a": "2026-01-31"}),
    "formats": (
        an_object(**{name: {**TEXT, "format": name} for name in ("uuid", "email", "uri", "date-time", "time", "ipv4")}),
        {
            "uuid": "00000000-0000-4000-8000-000000000000",
            "email": "name@example.com",
            "uri": "https://example.com",
            "date-time": "2026-01-31T09:00:00Z",
            "time": "09:00:00Z",
            "ipv4": "192.0.2.1",
        },
    ),
    "more formats": (
        an_object(
            **{
                name: {**TEXT, "format": name}
                for name in ("duration", "idn-email", "hostname", "ipv6", "uri-reference", "json-pointer", "regex")
            }
        ),
        {
            "duration": "P1D",
            "idn-email": "name@example.com",
            "hostname": "example.com",
            "ipv6": "2001:db8::1",
            "uri-reference": "a",
            "json-pointer": "/a",
            "regex": "a",
        },
    ),
    "items": (an_object(a={"type": "array", "items": INTEGER, "minItems": 2}), {"a": [1, 1]}),
    "different items": (
        an_object(a={"type": "array", "items": INTEGER, "minItems": 3, "uniqueItems": True}),
        {"a": [1, 2, 3]},
    ),
    "different texts": (
        an_object(a={"type": "array", "items": TEXT, "minItems": 2, "uniqueItems": True}),
        {"a": ["text", "text2"]},
    ),
    "tuple": (
        an_object(a={"type": "array", "prefixItems": [TEXT, INTEGER], "minItems": 2}),
        {"a": ["text", 1]},
    ),
    "nested": (an_object(a=an_object(b=an_object(c=INTEGER))), {"a": {"b": {"c": 1}}}),
    "entries": (
        {"type": "object", "properties": {"a": INTEGER, "b": TEXT}, "minProperties": 1},
        {"a": 1},
    ),
    "reference": (
        {**an_object(a={"$ref": "#/$defs/A~1%20%25"}), "$defs": {"A/ %": an_object(b=INTEGER)}},
        {"a": {"b": 1}},
    ),
    "reference to a reference": (
        {**an_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/B"}, "B": INTEGER}},
        {"a": 1},
    ),
    "the root is a reference": ({"$ref": "#/$defs/A", "$defs": {"A": an_object(b=INTEGER)}}, {"b": 1}),
    "any of": (an_object(a={"anyOf": [{"type": "null"}, {**INTEGER, "minimum": 3}]}), {"a": 3}),
    "one of": (an_object(a={"oneOf": [an_object(kind={"const": "x"}), INTEGER]}), {"a": {"kind": "x"}}),
    "null by default": (
        an_object(a={"anyOf": [{"type": "array", "items": INTEGER}, {"type": "null"}], "default": None}),
        {"a": []},
    ),
    "nothing but null": (an_object(a={"type": "null", "default": None}), {"a": None}),
    "all of": (an_object(a={"allOf": [an_object(b=TEXT), an_object(c=INTEGER)]}), {"a": {"b": "text", "c": 1}}),
    "no type": (
        an_object(a={"minimum": 3}, b={"items": TEXT}, c={"properties": {}}, d={}),
        {"a": 3, "b": [], "c": {}, "d": "text"},
    ),
}


@pytest.mark.parametrize(("schema", "example"), [pytest.param(*row, id=name) for name, row in EXAMPLES.items()])
def test_a_valid_example_is_made(schema: Any, example: Any) -> None:
    """The example takes the values that the schema gives, and holds required parameters only."""
    assert json.loads(make_example(schema)) == example


def wide(level: int) -> dict[str, Any]:
    """Make a schema of nine parameters, each with nine of its own, ten levels deep."""
    inner = {"$ref": f"#/$defs/a{level + 1}"} if level < 9 else TEXT
    return an_object(**{f"p{number}": inner for number in range(9)})


NONE: dict[str, Any] = {
    "no schema": None,
    "another type": 5,
    "not of an object": {"type": "string"},
    "nothing is valid": an_object(a=False),
    "a contradiction": an_object(a={**INTEGER, "minimum": 5, "maximum": 3}),
    "an unusual pattern": an_object(a={**TEXT, "pattern": "^q{17}$"}),
    "a ring": an_object(a={"$ref": "#"}),
    "a reference to nothing": an_object(a={"$ref": "#/$defs/a"}),
    "a reference elsewhere": an_object(a={"$ref": "https://example.com/a"}),
    "no good schema": {"type": 5},
    "too long": an_object(a={**TEXT, "minLength": 100_000}),
    "too many": an_object(a={"type": "array", "items": TEXT, "minItems": 100_000}),
    "too wide": {**an_object(a={"$ref": "#/$defs/a0"}), "$defs": {f"a{n}": wide(n) for n in range(10)}},
    "nothing but not": an_object(a={"not": {}}),
    "odd parts": {"type": "object", "required": 5, "properties": {"a": 7}, "anyOf": 3},
}


@pytest.mark.parametrize("schema", NONE.values(), ids=NONE)
def test_no_example_rather_than_a_wrong_one(schema: Any) -> None:
    """There is no example where none was found that validates, nor for anything that is no schema of an object."""
    assert make_example(schema) == ""


class Mode(Enum):
    READ = "read"


class Filter(BaseModel):
    tags: list[str] = Field(min_length=1)
    mode: Mode
    deep: Literal["yes", "no"] = "no"


async def search(filter: Filter, limit: Annotated[int, Field(gt=2)], note: str | None = None) -> str:  # noqa: A002
    """Search."""
    return "found"


def test_a_tool_accepts_its_own_example() -> None:
    """The example of a function tool is valid for the tool's own parser."""
    made = tool(search)
    example = json.loads(made.parameters.example())
    assert example == {"filter": {"tags": ["text"], "mode": "read"}, "limit": 3}
    assert isinstance(made.parse(example), dict)


def an_array(items: Any, least: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


LEAVES: Any = st.sampled_from(
    [TEXT, INTEGER, {"type": "number", "minimum": 0.5}, {"enum": [1, "a"]}, {"type": "boolean"}, {"const": None}, True]
)
SCHEMAS: Any = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda each: an_object(**each)),
        st.builds(an_array, inner, st.integers(0, 3)),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"anyOf": each}),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("xyz"), SCHEMAS, max_size=3))
def test_an_example_of_ordinary_parts_is_always_found(properties: dict[str, Any]) -> None:
    """For a schema without contradictions there is an example, and it is valid."""
    schema = an_object(**properties)
    example = json.loads(make_example(schema))
    assert jsonschema_rs.validator_for(schema, offline=True).is_valid(example)
    assert example.keys() == properties.keys()


KEYWORDS = tuple(
    "type properties required anyOf allOf $ref items enum const default minItems minLength pattern multipleOf minimum "  # noqa: SIM905
    "exclusiveMaximum examples $defs a".split()
)
JUNK: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["object", "string", "#", "#/$defs/a", "^a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JUNK)
def test_no_schema_is_too_odd(schema: Any) -> None:
    """For any schema there is a valid example or none; neither `make_example` nor `render` raises."""
    example = make_example(schema)
    if example:
        assert jsonschema_rs.validator_for(schema, offline=True).is_valid(json.loads(example))
    assert render(InvalidParams((Problem("a", "type", "a string"),), schema=schema), verbosity="full")
