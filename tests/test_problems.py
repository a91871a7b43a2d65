"""Problems: all that is wrong with arguments, in the same words from both validators."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

import pytest
from pydantic import UUID4, AfterValidator, Field, HttpUrl, PastDate
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import ErrorType

from shapes import Cat, Color, Dog, Level, Model, Node, Options, Pair, Picky, Point, Span, both, problem, raw, taking
from support import nothing
from toolcall_pipeline import InvalidParams, Problem, Tool, ToolRegistry, render, tool
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.parameters.problems import describe_value
from toolcall_pipeline.parameters.schema import json_type
from toolcall_pipeline.parameters.spelling import find_nearest

WRONG: dict[str, tuple[Any, Any, tuple[str, str, str, str]]] = {
    "enum": (Color, "RED", ("x", "enum", "'red' or 'blue'", "a string")),
    "enum of numbers": (Level, 3, ("x", "enum", "1 or 2", "3")),
    "boolean for an enum of numbers": (Level, True, ("x", "enum", "1 or 2", "true")),
    "float for an enum of numbers": (Level, 1.0, ("x", "enum", "1 or 2", "1.0")),
    "literal": (Literal["a", 1, True], "b", ("x", "enum", "'a', 1 or true", "a string")),
    "boolean for a literal": (Literal[1, 2], True, ("x", "enum", "1 or 2", "true")),
    "number for a literal": (Literal[True], 1, ("x", "enum", "true", "1")),
    "None": (None, 0, ("x", "type", "null", "0")),
    "date": (date, "soon", ("x", "format", "a date YYYY-MM-DD", "a string")),
    "number for a date": (date, 1700000000, ("x", "type", "a date YYYY-MM-DD", "1700000000")),
    "number for a datetime": (datetime, 1700000000, ("x", "type", "a datetime YYYY-MM-DDTHH:MM:SSZ", "1700000000")),
    "duration": (timedelta, "soon", ("x", "format", "a duration such as P1DT2H30M", "a string")),
    "UUID": (UUID, "7", ("x", "format", "a UUID xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "a string")),
    "path": (Path, 7, ("x", "type", "a string", "7")),
    "decimal": (Decimal, "many", ("x", "format", "a decimal number such as 12.50", "a string")),
    "URL": (HttpUrl, "example", ("x", "format", "a URL", "a string")),
    "URL of another scheme": (
        HttpUrl,
        "ftp://example.invalid",
        ("x", "format", "a URL that begins with 'http' or 'https'", "a string"),
    ),
    "UUID of another version": (UUID4, str(UUID(int=7)), ("x", "format", "a UUID of version 4", "a string")),
    "future": (PastDate, "2999-01-01", ("x", "format", "a date in the past", "a string")),
    "digits of a decimal": (
        Annotated[Decimal, Field(max_digits=2)],
        "1.234",
        ("x", "format", "a value with no more than 2 digits in total", "a string"),
    ),
    "short tuple": (tuple[int, str, str], [1], ("x", "minItems", "an array of at least 3 items", "1")),
    "long tuple": (tuple[int, str], [1, "a", 2], ("x", "maxItems", "an array of at most 2 items", "3")),
    "in a tuple": (tuple[int, ...], [1, "2"], ("x[1]", "type", "an integer", "a string")),
    "set": (set[int], {}, ("x", "type", "an array", "an object")),
    "list": (list[int], 1, ("x", "type", "an array", "1")),
    "dict": (dict[str, int], [], ("x", "type", "an object", "an array")),
    "in a dict": (dict[str, int], {"a": None}, ("x.a", "type", "an integer", "null")),
    "key of a dict": (
        dict[int, str],
        {"a": ""},
        ("x", "propertyNames", "an object in which each name is a valid integer", ""),
    ),
    "dataclass": (Point, [], ("x", "type", "an object", "an array")),
    "in a dataclass": (Point, {"x": "1"}, ("x.x", "type", "an integer", "a string")),
    "missing in a dataclass": (Point, {}, ("x.x", "required", "an integer", "")),
    "unknown in a dataclass": (Point, {"x": 1, "y": 2}, ("x.y", "additionalProperties", "x, label, tags", "2")),
    "deep in dataclasses": (list[Point], [{"x": 1}, {"x": 1, "tags": [1]}], ("x[1].tags[0]", "type", "a string", "1")),
    "unknown in a typed dict": (Options, {"depth": 1, "d": 1}, ("x.d", "additionalProperties", "depth, follow", "1")),
    "attrs": (Span, 3, ("x", "type", "an object", "3")),
    "in attrs": (Span, {"start": 1, "end": "2"}, ("x.end", "type", "an integer", "a string")),
    "private name in attrs": (
        Span,
        {"start": 1, "_end": 2},
        ("x._end", "additionalProperties", "start, end, unit, size, notes", "2"),
    ),
    "deep in attrs": (Node, {"name": "a", "children": [{}]}, ("x.children[0].name", "required", "a string", "")),
    "validator of attrs": (
        Span,
        {"start": 1, "unit": "page"},
        ("x", "validator", "'unit' must be in ['line', 'byte'] (got 'page')", "an object"),
    ),
    "another validator of attrs": (
        Span,
        {"start": 1, "size": 0},
        ("x", "validator", "'size' must be > 0: 0.0", "an object"),
    ),
    "ValueError in attrs": (Picky, {"name": "value"}, ("x", "validator", "name is taken", "an object")),
    "TypeError in attrs": (
        Picky,
        {"name": "type"},
        ("x", "validator", "it does not pass the tool's own check", "an object"),
    ),
    "validator of a model": (Model, {"title": " "}, ("x.title", "validator", "File path cannot be empty", "a string")),
    "assertion of a model": (
        Model,
        {"title": "assert"},
        ("x.title", "validator", "it does not pass the tool's own check", "a string"),
    ),
    "custom error of a model": (Model, {"title": "custom"}, ("x.title", "validator", "it is one of mine", "a string")),
    "several arguments": (Model, {"title": "several"}, ("x.title", "validator", "the first of several", "a string")),
    "the whole model": (Model, {"title": "ten"}, ("x", "validator", "ten wants 10", "an object")),
    "limit in a model": (Model, {"title": "a", "count": -1}, ("x.count", "minimum", "at least 0", "-1")),
    "unknown tag": (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {"kind": "cow"},
        ("x.kind", "enum", "'cat' or 'dog'", "a string"),
    ),
    "no tag": (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {"lives": 9},
        ("x.kind", "required", "'cat' or 'dog'", ""),
    ),
    "in a tagged union": (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {"kind": "cat", "lives": "9"},
        ("x.lives", "type", "an integer", "a string"),
    ),
    "named tuple": (Pair, ["1"], ("x[0]", "type", "an integer", "a string")),
}


@pytest.mark.parametrize(("hint", "sent", "fields"), [pytest.param(*row, id=name) for name, row in WRONG.items()])
def test_each_type_says_what_it_expects(hint: Any, sent: Any, fields: tuple[str, str, str, str]) -> None:
    """A wrong value is one problem: the path, the rule of JSON Schema, what is expected, and what was sent."""
    found = problem(taking(hint), sent)
    assert (found.path, found.rule, found.expected, found.got) == fields


LIMITS: dict[str, tuple[Any, Any, tuple[str, str, str]]] = {
    "ge": (Annotated[int, Field(ge=1)], 0, ("minimum", "at least 1", "0")),
    "gt": (Annotated[float, Field(gt=0)], 0.0, ("exclusiveMinimum", "greater than 0", "0.0")),
    "le": (Annotated[int, Field(le=5)], 6, ("maximum", "at most 5", "6")),
    "lt": (Annotated[int, Field(lt=5)], 5, ("exclusiveMaximum", "less than 5", "5")),
    "multiple": (Annotated[int, Field(multiple_of=3)], 4, ("multipleOf", "a multiple of 3", "4")),
    "short text": (Annotated[str, Field(min_length=1)], "", ("minLength", "at least 1 character long", "empty")),
    "long text": (Annotated[str, Field(max_length=3)], "abcd", ("maxLength", "at most 3 characters long", "4")),
    "pattern": (Annotated[str, Field(pattern="^a")], "b", ("pattern", "text that matches ^a", "a string")),
    "few items": (
        Annotated[list[int], Field(min_length=2)],
        [1],
        ("minItems", "an array of at least 2 items", "1"),
    ),
    "many items": (Annotated[list[int], Field(max_length=1)], [1, 2], ("maxItems", "an array of at most 1 item", "2")),
}


@pytest.mark.parametrize(("hint", "sent", "fields"), [pytest.param(*row, id=name) for name, row in LIMITS.items()])
def test_both_validators_say_the_same_of_a_limit(hint: Any, sent: Any, fields: tuple[str, Any, str]) -> None:
    """Breaking a limit of a function gives the same problem as breaking that limit in a raw schema."""
    of_function = taking(hint)
    assert problem(of_function, sent) == Problem("x", *fields)
    assert problem(raw(of_function.definition()["parameters"]["properties"]["x"]), sent) == Problem("x", *fields)


def many(a: int, b: str, c: list[int], d: Point, e: date | None = None, f: Literal["x", "y"] = "x") -> None:
    """Do it; one parameter has a description.

    Parameters:
        a: The first.
    """


BAD = {"b": 1, "c": [1, "2", None], "d": {"x": "1", "z": 0}, "e": "soon", "f": "z", "g": True}
ALL_WRONG = (
    Problem("a", "required", "an integer (The first)"),
    Problem("b", "type", "a string", "1"),
    Problem("c[1]", "type", "an integer", "a string"),
    Problem("c[2]", "type", "an integer", "null"),
    Problem("d.x", "type", "an integer", "a string"),
    Problem("d.z", "additionalProperties", "x, label, tags", "0"),
    Problem("f", "enum", "'x' or 'y'", "a string"),
    Problem("g", "additionalProperties", "a, b, c, d, e, f", "true"),
)


def test_all_problems_are_found_at_once() -> None:
    """Each mistake is a problem with its path, its rule, what is expected and what was sent; none hides another."""
    of_date = Problem("e", "format", "a date YYYY-MM-DD", "a string")
    assert set(both(tool(many), BAD).problems) == {*ALL_WRONG, of_date}


def test_raw_schemas_find_the_same_problems() -> None:
    """A function's schema as a raw one finds the same problems in the same words; a date or null is a union."""
    made = Tool.from_schema(name="probe", parameters=tool(many).definition()["parameters"], handler=nothing)
    of_date = Problem("e", "anyOf", "a date YYYY-MM-DD or null", "a string")
    assert set(both(made, BAD).problems) == {*ALL_WRONG, of_date}


def test_the_schema_describes_a_missing_parameter() -> None:
    """What is expected of a missing parameter is its values, or its types, and its description."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "mode": {"enum": ["r", "w", None]},
            "kind": {"const": 1},
            "path": {"type": "string", "description": "Where it is."},
            "size": {"type": ["integer", "null"]},
            "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/point"}, {"type": "string"}]},
            "point": {"$ref": "#/$defs/point"},
            "old": {"$ref": "#/definitions/old"},
            "ring": {"$ref": "#/$defs/ring"},
            "any": {},
            "yes": True,
        },
        "$defs": {"point": {"type": "object"}, "ring": {"oneOf": [{"$ref": "#/$defs/ring"}]}},
        "definitions": {"old": {"type": "boolean"}},
    }
    schema["required"] = [*schema["properties"], "undeclared"]
    made = Tool.from_schema(name="probe", parameters=schema, handler=nothing)
    assert {each.path: each.expected for each in both(made, {}).problems} == {
        "mode": "'r', 'w' or null",
        "kind": "1",
        "path": "a string (Where it is)",
        "size": "an integer or null",
        "either": "a string or an object",
        "point": "an object",
        "old": "a boolean",
        "ring": "a value",
        "any": "a value",
        "yes": "a value",
        "undeclared": "a value",
    }


AT_LEAST_ONE: Any = Annotated[int, Field(ge=1)]
UNIONS: dict[str, tuple[Any, Any, list[tuple[str, str, str]]]] = {
    "of plain types": (int | str, 1.5, [("x", "type", "an integer or a string")]),
    "of a list and its item": (list[int] | int, "a", [("x", "type", "an array or an integer")]),
    "inside the branch that fits": (list[int] | int, ["a"], [("x[0]", "type", "an integer")]),
    "with a literal": (Literal["a"] | int, 1.5, [("x", "anyOf", "'a' or an integer")]),
    "limit of the branch that fits": (AT_LEAST_ONE | None, 0, [("x", "minimum", "at least 1")]),
    "of a model and a number": (int | Model, {"title": 1}, [("x.title", "type", "a string")]),
    "of models, the nearest": (Cat | Dog, {"kind": "dog"}, [("x.breed", "required", "a string")]),
    "of models, none nearer": (
        Cat | Dog,
        {},
        [("x", "anyOf", "sent with kind and lives, or with kind and breed")],
    ),
    "of attrs and null": (Span | None, {"start": "1"}, [("x.start", "type", "an integer")]),
    "in a list": (list[int | None], [1, "a"], [("x[1]", "type", "an integer")]),
    "of lists": (list[int | str] | bool, [1, None], [("x[1]", "type", "an integer or a string")]),
    "of dates and numbers": (
        date | int,
        "soon",
        [("x", "anyOf", "a date YYYY-MM-DD or an integer")],
    ),
}


@pytest.mark.parametrize(("hint", "sent", "expected"), [pytest.param(*row, id=name) for name, row in UNIONS.items()])
def test_a_union_is_one_problem(hint: Any, sent: Any, expected: list[tuple[str, str, str]]) -> None:
    """The branch that the value has the type of gives the problem; if there is none, all branches in one line."""
    found = both(taking(hint), {"x": sent})
    assert [(each.path, each.rule, each.expected) for each in found.problems] == expected


TAGGED: dict[str, Any] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, "age": {"type": "integer"}, "name": {"type": "string"}},
        }
        for kind in ("cat", "dog")
    ]
}
RAW_UNIONS: dict[str, tuple[dict[str, Any], Any, list[tuple[str, str, str]]]] = {
    "of plain types": ({"type": ["integer", "string"]}, 1.5, [("x", "type", "an integer or a string")]),
    "any of plain types": (
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        1.5,
        [("x", "type", "an integer or a string")],
    ),
    "optional object": (
        {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]},
        {"a": 1},
        [("x.a", "type", "a string")],
    ),
    "too many fit": (
        {"oneOf": [{"type": "integer"}, {"minimum": 0}, {"type": "null"}]},
        1,
        [("x", "oneOf", "of one form only: it fits more than one of the forms that its schema allows")],
    ),
    "optional enum": (
        {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
        1.5,
        [("x", "anyOf", "'a' or 'b' or null")],
    ),
    "one of constants": ({"oneOf": [{"const": "a"}, {"const": None}]}, "b", [("x", "const", "'a' or null")]),
    "none nearer": (
        {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
        {},
        [("x", "anyOf", "sent with a, or with b")],
    ),
    "by a tag": (  # the other branch has fewer problems
        TAGGED,
        {"kind": "cat", "age": "old", "name": 5},
        [("x.age", "type", "an integer"), ("x.name", "type", "a string")],
    ),
    "a tag of no branch": (TAGGED, {"kind": "cow", "age": "old"}, [("x.kind", "enum", "'cat' or 'dog'")]),
    "nested": (
        {"anyOf": [{"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "boolean"}]},
        "a",
        [("x", "type", "an integer or null or a boolean")],
    ),
}


@pytest.mark.parametrize(
    ("schema", "sent", "expected"), [pytest.param(*row, id=name) for name, row in RAW_UNIONS.items()]
)
def test_a_union_in_a_raw_schema_is_one_problem(
    schema: dict[str, Any], sent: Any, expected: list[tuple[str, str, str]]
) -> None:
    """`anyOf`, `oneOf` and a list of types give one problem, as a union of a function does."""
    found = both(raw(schema), {"x": sent})
    assert [(each.path, each.rule, each.expected) for each in found.problems] == expected


RAW: dict[str, tuple[dict[str, Any], Any, tuple[str, str, str, str]]] = {
    "enum": ({"enum": ["a", None, 1]}, "b", ("x", "enum", "'a', null or 1", "a string")),
    "type and enum": ({"type": "string", "enum": ["a", "b"]}, ["a"], ("x", "enum", "'a' or 'b'", "an array")),
    "const": ({"const": "a"}, 1, ("x", "const", "'a'", "1")),
    "uniqueItems": ({"uniqueItems": True}, [1, 1], ("x", "uniqueItems", "an array without repeats", "an array")),
    "minProperties": ({"minProperties": 1}, {}, ("x", "minProperties", "an object of at least 1 entry", "empty")),
    "maxProperties": ({"maxProperties": 0}, {"a": 1}, ("x", "maxProperties", "an object of at most 0 entries", "1")),
    "items": ({"items": {"type": "string"}}, ["a", 1], ("x[1]", "type", "a string", "1")),
    "false": ({"properties": {"a": False}}, {"a": 1}, ("x.a", "falseSchema", "left out", "1")),
    "not": ({"not": {"type": "null"}}, None, ("x", "not", "anything but null", "")),
    "contains": (
        {"contains": {"type": "null"}},
        [1],
        ("x", "contains", "an array in which at least 1 item is null", ""),
    ),
    "propertyNames": (
        {"propertyNames": {"maxLength": 1}},
        {"ab": 1},
        ("x", "propertyNames", "an object in which each name is at most 1 character long", ""),
    ),
    "if": ({"if": {"type": "integer"}, "then": {"minimum": 3}}, 1, ("x", "minimum", "at least 3", "1")),
    "allOf": ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 1, ("x", "minimum", "at least 3", "1")),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ("x.b", "required", "a value", "")),
    "unevaluatedProperties": (
        {"properties": {"a": {}}, "unevaluatedProperties": False},
        {"a": 1, "b": 2},
        ("x.b", "additionalProperties", "a", "2"),
    ),
    "reference": ({"$ref": "#/$defs/n"}, "1", ("x", "type", "an integer", "a string")),
    "draft 7 reference": ({"$ref": "#/definitions/n"}, "1", ("x", "type", "an integer", "a string")),
}


@pytest.mark.parametrize(("schema", "sent", "fields"), [pytest.param(*row, id=name) for name, row in RAW.items()])
def test_each_keyword_of_json_schema_is_a_rule(
    schema: dict[str, Any], sent: Any, fields: tuple[str, str, str, str]
) -> None:
    """The rule of a problem is the keyword that the value breaks; both keywords for undeclared names are one rule."""
    found = problem(
        raw(schema, **{"$defs": {"n": {"type": "integer"}}, "definitions": {"n": {"type": "integer"}}}), sent
    )
    assert (found.path, found.rule, found.expected, found.got) == fields


CONTEXTS: list[dict[str, Any] | None] = [
    {
        "class_name": "Secret",
        "date": "x",
        "discriminator": "'kind'",
        "encoding": "utf8",
        "encoding_error": "bad",
        "error": "inner",
        "expected": "'a' or 'b'",
        "expected_schemes": "'http'",
        "expected_tags": "'a', 'b'",
        "expected_version": 4,
        "field_name": "f",
        "field_type": "List",
        "ge": 1,
        "gt": 1,
        "le": 1,
        "lt": 1,
        "max_digits": 1,
        "max_length": 1,
        "decimal_places": 1,
        "whole_digits": 1,
        "actual_length": 3,
        "min_length": 1,
        "method_name": "m",
        "multiple_of": 2,
        "name": "n",
        "pattern": "^a",
        "tag": "t",
        "tz_actual": 2,
        "tz_expected": 1,
    },
    {"class": "Secret", "error": "inner", "attribute": "a"},
    None,
]


def known_error(kind: Any) -> PydanticKnownError:
    """Make an error of pydantic's own, with the facts that it needs."""
    for context in CONTEXTS:
        try:
            made = PydanticKnownError(kind, context)
            made.message()
        except TypeError:
            continue
        return made
    raise AssertionError(f"pydantic's {kind} needs other facts")


@pytest.mark.parametrize("kind", get_args(ErrorType))
@pytest.mark.parametrize("value", ["a", 1, None], ids=repr)
def test_every_error_of_pydantic_has_words(kind: str, value: object) -> None:
    """Every error of pydantic's becomes a text without its phrases, class names and links."""

    def fail(_: object) -> object:
        raise known_error(kind)

    found = taking(Annotated[Any, AfterValidator(fail)]).parse({"x": value})
    assert isinstance(found, InvalidParams)
    text = render(found)
    assert text.startswith("Error: ")
    assert not [phrase for phrase in ("Input", "://", "pydantic", "Secret", "python") if phrase in text]


JSON_TYPES = {  # by a part of the name that pydantic gives the error
    "an array": re.compile("list|tuple|set|deque|iterable"),
    "an object": re.compile("dict|mapping|counter|model|dataclass"),
    "a string": re.compile("string|bytes"),
    "an integer": re.compile("^int_"),
    "a decimal number such as 12.50": re.compile("decimal"),
    "a number or a fraction such as 1/3": re.compile("fraction"),
    "a boolean": re.compile("bool"),
}
TYPE_KINDS = [each for each in get_args(ErrorType) if each.endswith("_type")]


@pytest.mark.parametrize(("words", "pattern"), JSON_TYPES.items(), ids=JSON_TYPES.keys())
def test_each_type_of_python_is_told_as_one_of_json(words: str, pattern: re.Pattern[str]) -> None:
    """A model knows arrays and objects, and no frozenset, deque, mapping or dataclass."""
    kinds = [each for each in TYPE_KINDS if pattern.search(each)]
    assert kinds
    for kind in kinds:

        def fail(_: object, kind: str = kind) -> object:
            raise known_error(kind)

        error: Any = taking(Annotated[Any, AfterValidator(fail)]).parse({"x": None})
        assert (kind, error.problems[0].rule, error.problems[0].expected) == (kind, "type", words)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (0, "integer"),
        (0.0, "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
        (object(), ""),
        (b"", ""),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_value_has_one_type_of_json(value: object, kind: str) -> None:
    """A boolean is no integer, and what JSON cannot hold has no type."""
    assert json_type(value) == kind


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10**20 - 1, "99999999999999999999"),
        (10**20, "an integer"),
        (1 - 10**20, "-99999999999999999999"),
        (-(10**20), "an integer"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ("secret", "a string"),
        ([1], "an array"),
        ({"a": 1}, "an object"),
        pytest.param(object(), "another value", id="another value"),
    ],
    ids=str,
)
def test_what_was_sent_is_told_without_its_text(value: object, text: str) -> None:
    """A number or a boolean itself, unless it is longer than anybody reads; the type of anything else."""
    assert describe_value(value) == text


class Share(Enum):
    HALF = 0.5
    WHOLE = 1.0


class Rounded(Enum):
    ONE = 1
    TWO = 2

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.TWO if value == 3 else None


@pytest.mark.parametrize(
    ("hint", "sent", "meant"),
    [
        (Share, 0.5, Share.HALF),
        (Share, 1.0, Share.WHOLE),
        (Share, 1, Share.WHOLE),  # JSON has one kind of number, and a model writes the shorter form
        (Share, True, None),
        (Share, 2, None),
        (Rounded, 1, Rounded.ONE),
        (Rounded, 3, Rounded.TWO),  # the class looks it up itself
        (Rounded, 4, None),
    ],
)
def test_an_enum_of_numbers(hint: Any, sent: Any, meant: Any) -> None:
    """A number is a member if it has the member's value and is a number; a class with a lookup of its own decides."""
    found = taking(hint).parse({"x": sent})
    assert found == {"x": meant} if meant is not None else type(found) is InvalidParams


@pytest.mark.parametrize(
    ("sent", "among", "nearest"),
    [
        ("time", {"meal_time"}, "meal_time"),  # a name of four letters is found inside of another one
        ("day", {"birthday"}, ""),  # one of three is in too many
        ("", {"a"}, ""),
        ("_", {"a"}, ""),
        (5, {"a"}, ""),
        ("n" * 100, {"n" * 99}, "n" * 99),
        ("n" * 101, {"n" * 99}, ""),
        ("colour", {"color", "flavour"}, "color"),
    ],
)
def test_the_nearest_name(sent: object, among: set[str], nearest: str) -> None:
    """The one that is most like what was sent; none, where none is like it."""
    assert find_nearest(sent, among) == nearest


@pytest.mark.parametrize(("hint", "sent"), [pytest.param(*row[:2], id=name) for name, row in WRONG.items()])
def test_no_text_holds_what_is_inside(hint: Any, sent: Any) -> None:
    """No text holds a class name, a phrase of a validator, or a link."""
    text = render(both(taking(hint), {"x": sent}))
    assert text.startswith("Error: ")
    inside = ("Input should", "https://", "pydantic", "Attribute(", "secret", *(cls.__name__ for cls in CLASSES))
    assert not [phrase for phrase in inside if phrase in text]


CLASSES = (Cat, Color, Dog, Level, Model, Node, Options, Pair, Picky, Point, Span)


@pytest.mark.parametrize(
    ("sent", "known"),
    [
        ("no_color", "color"),
        ("notify", "no_notify"),
        ("not_verified", "verified"),
        ("unread", "read"),
        ("include_hidden", "exclude_hidden"),
        ("ascending", "descending"),
        ("disabled", "enabled"),
        ("without_tags", "tags"),
        ("non_recursive", "recursive"),
        ("inactive", "active"),
        *(
            tuple(pair.split("/"))
            for pair in (  # noqa: SIM905
                "open_gate/close_gate get_user/set_user read_only/write_only min_size/max_size "
                "first_page/last_page sync/async promote_user/demote_user eject/inject start_job/stop_job "
                "add_user/remove_user turn_on/turn_off scale_up/scale_down allow_ip/deny_ip encrypt/decrypt "
                "mount/unmount lock/unlock enabled/disabled antivirus/virus nonblocking/blocking "
                "deactivate/activate disconnect/connect not_before/before start_date/end_date "
                "source_path/target_path freezing_point/boiling_point"
            ).split()
        ),
    ],
)
def test_no_opposite_is_suggested(sent: str, known: str) -> None:
    """A name or value that negates the one that was sent is not suggested for it, in either direction."""
    assert find_nearest(sent, [known]) == find_nearest(known, [sent]) == ""


def test_a_near_name_is_suggested() -> None:
    """Names with a slip, another case or a part are still suggested."""
    for sent, known in (
        ("maxResult", "max_results"),
        ("mealTime", "optional_meal_time"),
        ("recursiv", "recursive"),
        ("file_pth", "file_path"),
    ):
        assert find_nearest(sent, [known]) == known


D4, D7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
ANY_INTEGER = {"type": "integer"}
WORDS: list[tuple[dict[str, Any], Any, str]] = [
    ({"format": "date", "$schema": D7}, "x", "a date YYYY-MM-DD"),
    ({"format": "ipv4", "$schema": D4}, "x", "an IPv4 address"),
    ({"items": [ANY_INTEGER], "additionalItems": False, "$schema": D7}, [1, 2], "an array of at most 1 item"),
    ({"prefixItems": [ANY_INTEGER], "unevaluatedItems": False}, [1, 2], "an array of at most 1 item"),
    ({"prefixItems": [ANY_INTEGER], "items": False}, [1, 2], "left out"),
    ({"contains": ANY_INTEGER}, ["a"], "an array in which at least 1 item is an integer"),
    ({"contains": ANY_INTEGER, "minContains": 2}, [1], "an array in which at least 2 items are each an integer"),
    ({"contains": ANY_INTEGER, "maxContains": 1}, [1, 2], "an array in which exactly 1 item is an integer"),
    (
        {"contains": ANY_INTEGER, "minContains": 0, "maxContains": 1},
        [1, 2],
        "an array in which at most 1 items are each an integer",
    ),
    (
        {"contains": {"minimum": 5}},
        [1],
        "an array in which at least 1 item is a value that is at least 5",
    ),
    (
        {"contains": {"if": True}, "minContains": 9},
        [1],
        "an array in which at least 9 items are each of the form that its schema names",
    ),
    ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, "an object in which each name is text that matches ^a"),
    ({"propertyNames": {"enum": ["a", "b"]}}, {"c": 1}, "an object in which each name is 'a' or 'b'"),
    ({"propertyNames": False}, {"c": 1}, "an object without entries"),
    ({"not": ANY_INTEGER}, 1, "anything but an integer"),
    ({"not": {"enum": ["a", "b"]}}, "a", "anything but 'a' or 'b'"),
    ({"not": {"pattern": "^a"}}, "a", "anything but text that matches ^a"),
    ({"not": {"anyOf": [ANY_INTEGER, {"type": "null"}]}}, 1, "anything but an integer or null"),
    ({"not": {"required": ["a"]}}, {"a": 1}, "sent without a"),
    ({"not": {"required": ["a", "b"]}}, {"a": 1, "b": 1}, "sent without all of a and b"),
    ({"not": {}}, 1, "left out"),
    ({"not": {"multipleOf": 2}}, 2, "of another form: its schema forbids this one"),
    (
        {"if": {"required": ["a"]}, "then": False},
        {"a": 1},
        "another combination of values: its schema forbids this one",
    ),
    ({"contentEncoding": "base64", "$schema": D7}, "%", "text in base64"),
    ({"contentMediaType": "application/json", "$schema": D7}, "{", "text that holds valid application/json"),
    ({"minimum": 1, "exclusiveMinimum": True, "$schema": D4}, 1, "greater than 1"),
]


@pytest.mark.parametrize(("node", "value", "words"), WORDS, ids=[str(row[0]) for row in WORDS])
def test_each_keyword_has_words(node: dict[str, Any], value: Any, words: str) -> None:
    """No keyword of a draft is left to "as its schema says"."""
    dialect = {"$schema": node["$schema"]} if "$schema" in node else {}
    form = {key: each for key, each in node.items() if key != "$schema"}
    schema = {**dialect, "type": "object", "properties": {"x": form}}
    made = Tool.from_schema(name="probe", parameters=schema, handler=nothing)
    refused = made.parse({"x": value})
    assert isinstance(refused, InvalidParams)
    assert [each.expected for each in refused.problems] == [words]


@pytest.mark.parametrize(
    ("hint", "sent", "said"),
    [
        (Annotated[str, Field(min_length=1)], "", "at least 1 character long"),
        (Annotated[bytes, Field(min_length=2)], "", "at least 2 characters long"),
        (Annotated[list[int], Field(min_length=1)], [], "an array of at least 1 item"),
        (Annotated[set[int], Field(min_length=2)], [], "an array of at least 2 items"),
        (Annotated[dict[str, int], Field(min_length=1)], {}, "an object of at least 1 entry"),
    ],
    ids=["text", "bytes", "list", "set", "dict"],
)
def test_a_length_of_nothing_is_called_empty(hint: Any, sent: Any, said: str) -> None:
    """A function tool and a schema tool say in words that nothing was sent, and an object is not called an array."""

    async def probe(**values: object) -> None: ...

    def own(x: Any) -> None: ...

    own.__annotations__ = {"x": hint}
    made = tool(effect="read")(own)
    remote = Tool.from_schema(name="probe", parameters=made.parameters.schema, handler=probe, effect="read")
    for each in (made, remote):
        tools = ToolRegistry()
        tools.register(each)
        outcome = standard(tools).call_sync(each.name, {"x": sent})
        assert render(outcome).splitlines()[0] == f"Error: Invalid parameter value for x: must be {said}, and is empty"
