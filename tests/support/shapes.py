"""Types that a parameter may have, with their JSON Schema and JSON form; and tools with one parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union
from uuid import UUID

import attrs
from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from support import nothing
from toolcall_pipeline import InvalidParams, Problem, Tool, tool

MISSING: Any = object()


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    label: str = "here"
    tags: list[str] = field(default_factory=list[str])


class Options(TypedDict):
    depth: int
    follow: NotRequired[bool]


class Pair(NamedTuple):
    left: int
    right: str = "r"


@attrs.frozen
class Span:
    start: int
    _end: int | None = None
    unit: str = attrs.field(default="line", validator=attrs.validators.in_(["line", "byte"]))
    size: float = attrs.field(default=1.0, validator=[attrs.validators.instance_of(float), attrs.validators.gt(0)])
    notes: list[str] = attrs.field(factory=list[str])
    made: int = attrs.field(init=False, default=0)


@attrs.frozen
class Picky:
    name: str

    def __attrs_post_init__(self) -> None:
        if self.name == "type":
            raise TypeError("Picky.__init__ got a secret")
        if self.name == "value":
            raise ValueError("name is taken")


@attrs.frozen
class Node:
    """A tree."""

    name: str
    children: list[Node] = attrs.field(factory=list["Node"])


class Model(BaseModel):
    title: str
    count: int = Field(default=1, ge=0, description="How many.")

    @field_validator("title")
    @classmethod
    def no_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("File path cannot be empty")
        assert value != "assert"
        if value == "custom":
            raise PydanticCustomError("mine", "it is one of mine")
        if value == "several":
            raise ValueError("the first of several", "secret")
        return value

    @model_validator(mode="after")
    def together(self) -> Model:
        if self.title == "ten" and self.count != 10:
            raise ValueError("ten wants 10")
        return self


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    breed: str


def taking(hint: Any, default: Any = MISSING) -> Tool[..., Any]:
    """Make a tool of a function with one parameter, ``x``, of that type."""

    def probe(x: Any) -> None: ...

    probe.__annotations__ = {"x": hint}
    if default is not MISSING:
        probe.__defaults__ = (default,)
    return tool(probe)


def raw(schema: Mapping[str, Any], **more: Any) -> Tool[..., Any]:
    """Make a tool of a schema with one parameter, ``x``."""
    parameters = {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "additionalProperties": False,
        **more,
    }
    return Tool.from_schema(name="probe", parameters=parameters, handler=nothing)


def both(made: Tool[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Parse a mapping, and check that its JSON text gives the same."""
    parsed = made.parse(arguments)
    assert repr(made.parse(json.dumps(arguments))) == repr(parsed)
    return parsed


def problem(made: Tool[..., Any], value: Any) -> Problem:
    """Return the only problem of ``x``."""
    found = both(made, {"x": value})
    assert isinstance(found, InvalidParams), found
    (only,) = found.problems
    return only


ARRAY_OF_INTEGERS = {"type": "array", "items": {"type": "integer"}}
POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "label": {"type": "string", "default": "here"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}
TYPES: dict[str, tuple[Any, dict[str, Any], list[tuple[Any, Any]]]] = {
    "int": (int, {"type": "integer"}, [(0, 0), (-7, -7), (10**400, 10**400)]),
    "float": (float, {"type": "number"}, [(1.5, 1.5), (2, 2.0)]),
    "bool": (bool, {"type": "boolean"}, [(False, False)]),
    "str": (str, {"type": "string"}, [("", ""), ("null", "null"), ("ü", "ü"), ("NaN", "NaN")]),
    "None": (None, {"type": "null"}, [(None, None)]),
    "anything": (Any, {}, [(None, None), ([1, {"a": "b"}], [1, {"a": "b"}])]),
    "object": (object, {}, [(1.5, 1.5)]),
    "optional": (
        Optional[int],  # noqa: UP045  # the old spelling is a type of its own
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        [(1, 1), (None, None)],
    ),
    "union": (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, [(1, 1), ("1", "1")]),  # noqa: UP007
    "new union": (bool | list[int], {"anyOf": [{"type": "boolean"}, ARRAY_OF_INTEGERS]}, [(True, True), ([1], [1])]),
    "literal": (Literal["a", 1], {"enum": ["a", 1]}, [("a", "a"), (1, 1)]),
    "literal of one": (Literal["a"], {"const": "a", "type": "string"}, [("a", "a")]),
    "list": (list, {"type": "array", "items": {}}, [([1, "a"], [1, "a"])]),
    "list of": (list[int], ARRAY_OF_INTEGERS, [([], []), ([1], [1])]),
    "dict": (dict, {"type": "object", "additionalProperties": True}, [({"a": 1}, {"a": 1})]),
    "dict of": (
        dict[str, bool],
        {"type": "object", "additionalProperties": {"type": "boolean"}},
        [({"a": True}, {"a": True})],
    ),
    "dict by number": (
        dict[int, str],
        {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "propertyNames": {"pattern": "^[+-]?[0-9]+$"},
        },
        [({"1": "a"}, {1: "a"})],
    ),
    "enum": (Color, {"enum": ["red", "blue"], "type": "string"}, [("red", Color.RED)]),
    "enum of numbers": (Level, {"enum": [1, 2], "type": "integer"}, [(2, Level.HIGH)]),
    "date": (date, {"type": "string", "format": "date"}, [("2026-11-21", date(2026, 11, 21))]),
    "datetime": (
        datetime,
        {"type": "string", "format": "date-time"},
        [("2026-11-21T10:00:00Z", datetime(2026, 11, 21, 10, tzinfo=timezone.utc))],  # noqa: UP017
    ),
    "duration": (timedelta, {"type": "string", "format": "duration"}, [("PT1M", timedelta(minutes=1))]),
    "UUID": (UUID, {"type": "string", "format": "uuid"}, [(str(UUID(int=7)), UUID(int=7))]),
    "path": (Path, {"type": "string", "format": "path"}, [("a/b.txt", Path("a/b.txt"))]),
    "decimal": (
        Decimal,
        {
            "anyOf": [
                {"type": "number"},
                {"type": "string", "pattern": r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"},
            ]
        },
        [("1.50", Decimal("1.50"))],
    ),
    "tuple": (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
        [([1, "a"], (1, "a"))],
    ),
    "tuple of any length": (tuple[int, ...], ARRAY_OF_INTEGERS, [([1, 2], (1, 2)), ([], ())]),
    "set": (set[int], {**ARRAY_OF_INTEGERS, "uniqueItems": True}, [([1, 1], {1})]),
    "dataclass": (Point, POINT, [({"x": 1}, Point(1)), ({"x": 1, "label": "l", "tags": ["t"]}, Point(1, "l", ["t"]))]),
    "dataclasses in a list": (list[Point], {"type": "array", "items": POINT}, [([{"x": 1}], [Point(1)])]),
    "typed dict": (
        Options,
        {
            "type": "object",
            "properties": {"depth": {"type": "integer"}, "follow": {"type": "boolean"}},
            "required": ["depth"],
            "additionalProperties": False,
        },
        [({"depth": 1}, {"depth": 1})],
    ),
    "model": (
        Model,
        {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "count": {"type": "integer", "default": 1, "minimum": 0, "description": "How many."},
            },
            "required": ["title"],
            "additionalProperties": False,
        },
        [({"title": "a"}, Model(title="a"))],
    ),
    "tagged union": (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        MISSING,
        [({"kind": "cat", "lives": 9}, Cat(kind="cat", lives=9))],
    ),
    "attrs": (
        Span,
        {
            "type": "object",
            "properties": {
                "start": {"type": "integer"},
                "end": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
                "unit": {"type": "string", "default": "line"},
                "size": {"type": "number", "default": 1.0},
                "notes": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["start"],
            "additionalProperties": False,
        },
        [({"start": 1}, Span(1)), ({"start": 1, "end": 2, "notes": ["n"]}, Span(1, 2, notes=["n"]))],
    ),
    "attrs in a list": (list[Span], MISSING, [([{"start": 1}], [Span(1)])]),
    "attrs, optional": (Span | None, MISSING, [({"start": 1}, Span(1)), (None, None)]),
    "attrs in a dict": (dict[str, Span], MISSING, [({"a": {"start": 1}}, {"a": Span(1)})]),
    "attrs, annotated": (Annotated[Span, Field(description="Where.")], MISSING, [({"start": 1}, Span(1))]),
    "attrs in attrs": (
        Node,
        MISSING,
        [({"name": "a", "children": [{"name": "b"}]}, Node("a", [Node("b")]))],
    ),
}
