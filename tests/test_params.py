"""Arguments in any form become params by the same rules; anything that is no JSON object is malformed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date
from types import MappingProxyType
from typing import Annotated, Any, Literal, Union, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from shapes import TYPES, Span, both, raw, taking
from support import nothing
from toolcall_pipeline import InvalidParams, MalformedCall, Problem, SetupError, Tool, render, tool

STRICT = {"int": int, "float": float, "bool": bool, "str": str}
VALUES: list[Any] = [1, 1.0, 1.5, 0, True, False, "1", "1.0", "true", "", None, [], [1], {}, {"a": 1}, 10**30, -0.0]
TAKEN: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) in (int, float),
    "bool": lambda value: type(value) is bool,
    "str": lambda value: type(value) is str,
}


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("name", STRICT)
def test_plain_types_are_strict(name: str, value: Any) -> None:
    """Functions and raw schemas take no text for a number, no boolean for an integer, and no number for text."""
    of_function = taking(STRICT[name])
    of_schema = raw(of_function.definition()["parameters"]["properties"]["x"])
    parsed = both(of_function, {"x": value})
    taken = TAKEN[name](value)
    assert taken != isinstance(parsed, InvalidParams)
    if taken:
        assert parsed["x"] == STRICT[name](value)
        assert type(parsed["x"]) is STRICT[name]
    if name == "int" and type(value) is float and value.is_integer():
        assert both(of_schema, {"x": value}) == {"x": value}  # to JSON Schema, 1.0 is an integer
    else:
        assert both(of_schema, {"x": value}) == ({"x": value} if taken else parsed)


LIST: Any = list  # the type checkers accept no variable as a type
DICT: Any = dict
LEAVES: list[Any] = [int, float, bool, str, None, Any, object, list, dict, Literal["a", "b"], Literal[1, "a"]]
PLAIN: Any = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda hint: LIST[hint]),
        inner.map(lambda hint: DICT[str, hint]),
        inner.map(lambda hint: Annotated[hint, Field(description="Some.")]),
        st.lists(inner, min_size=1, max_size=3).map(lambda hints: Union[tuple(hints)]),  # noqa: UP007
    ),
    max_leaves=4,
)
JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["a", "b", "1", "NaN", ""])
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abx") | st.text(), inner, max_size=4),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.just("x") | st.sampled_from("yz"), JSON, max_size=3)


@settings(deadline=None, max_examples=150)
@given(hint=PLAIN, arguments=ARGUMENTS)
def test_a_mapping_and_its_text_are_one(hint: Any, arguments: dict[str, Any]) -> None:
    """For a tool of plain types, a mapping and its JSON text give the same params, or the same problems."""
    both(taking(hint), arguments)


@settings(deadline=None, max_examples=150)
@given(name=st.sampled_from(sorted(TYPES)), arguments=ARGUMENTS)
def test_a_mapping_and_its_text_are_one_for_rich_types(name: str, arguments: dict[str, Any]) -> None:
    """The same holds for a tool of any type, and for the raw schema of that type."""
    made = BY_TYPE[name]
    both(made, arguments)
    both(BY_SCHEMA[name], arguments)


BY_TYPE = {name: taking(row[0]) for name, row in TYPES.items()}
BY_SCHEMA = {
    name: Tool.from_schema(name="probe", parameters=made.definition()["parameters"], handler=nothing)
    for name, made in BY_TYPE.items()
}


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        pytest.param(name, good[0], id=f"{name}-{place}")
        for name, row in TYPES.items()
        for place, good in enumerate(row[2])
    ],
)
def test_a_tools_own_schema_takes_what_the_tool_takes(name: str, sent: Any) -> None:
    """A tool made of a function's schema accepts the arguments that the function accepts, and leaves them unchanged."""
    if (name, sent) != ("set", [1, 1]):  # pydantic accepts repeats, though its schema forbids them
        assert both(BY_SCHEMA[name], {"x": sent}) == {"x": sent}


class Own(dict[str, Any]):
    """A dict of a caller's own class."""


class Text(str):
    """A text of a caller's own class."""

    __slots__ = ()


def optional(x: int = 0) -> None: ...
def optional_date(x: date | None = None) -> None: ...


OPTIONAL = [
    pytest.param(tool(optional), id="plain function"),
    pytest.param(tool(optional_date), id="rich function"),
    pytest.param(Tool.from_schema(name="probe", parameters=None, handler=nothing), id="raw"),
]


@pytest.mark.parametrize("made", OPTIONAL)
def test_nothing_is_no_arguments(made: Tool[..., Any]) -> None:
    """None and empty text mean no arguments: providers send both."""
    empty: list[object] = [None, "", "  ", "\n", {}, "{}", Own(), MappingProxyType[str, object]({}), Text("")]
    assert [made.parse(each) for each in empty] == [{}] * len(empty)


def as_own_text(sent: object) -> Text:
    return Text(json.dumps(sent))


FORMS: list[Callable[[Any], object]] = [dict, Own, MappingProxyType, json.dumps, as_own_text]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_arguments_is_read(form: Callable[[Any], object]) -> None:
    """A dict, any other mapping, and JSON text give the same params."""
    assert taking(int).parse(form({"x": 1})) == {"x": 1}
    assert taking(date).parse(form({"x": "2026-11-21"})) == {"x": date(2026, 11, 21)}
    assert raw({"type": "integer"}).parse(form({"x": 1})) == {"x": 1}


def nested(levels: int = 100_000) -> Any:
    ring: Any = []
    for _ in range(levels):
        ring = [ring]
    return ring


def cyclic() -> Any:
    ring: list[Any] = []
    ring.append(ring)
    return ring


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


MALFORMED: dict[str, tuple[object, tuple[str, tuple[int, int] | None, bool]]] = {
    "cut off": ("{", ("EOF while parsing an object", (1, 1), True)),
    "cut off in a text": ('{"x": "ab', ("EOF while parsing a string", (1, 9), True)),
    "an array": ("[]", ("they are an array", None, False)),
    "a number": ("1", ("they are an integer", None, False)),
    "null": ("null", ("they are null", None, False)),
    "a text": ('"x"', ("they are a string", None, False)),
    "trailing comma": ('{"x": 1,}', ("trailing comma", (1, 9), False)),
    "on the second line": ('{\n"x": 1,}', ("trailing comma", (2, 8), False)),
    "single quotes": ("{'x': 1}", ("key must be a string", (1, 2), False)),
    "trailing text": ('{"x": 1} and', ("trailing characters", (1, 10), False)),
    "NaN": ('{"x": NaN}', ("expected value", (1, 7), False)),
    "Infinity": ('{"x": Infinity}', ("expected value", (1, 7), False)),
    "a lone surrogate, escaped": ('{"x": "\\ud800"}', ("unexpected end of hex escape", (1, 14), False)),
    "a lone surrogate": ('{"x": "\ud800"}', ("they hold a character that is no Unicode", None, False)),
    "a control character": (
        '{"x": "\x00"}',
        ("control character (\\u0000-\\u001F) found while parsing a string", (1, 8), False),
    ),
    "bytes": (b'{"x": 1}', ("they are no JSON value", None, False)),
    "a list": ([("x", 1)], ("they are an array", None, False)),
    "a boolean": (False, ("they are a boolean", None, False)),
    "a float": (1.5, ("they are a number", None, False)),
    "an object": (Unshowable(), ("they are no JSON value", None, False)),
}
EVERY = [
    pytest.param(taking(int), id="plain function"),
    pytest.param(taking(date), id="rich function"),
    pytest.param(taking(Any), id="function of anything"),
    pytest.param(raw({"type": "integer"}), id="raw"),
    pytest.param(Tool.from_schema(name="probe", parameters=None, handler=nothing), id="raw of anything"),
]


@pytest.mark.parametrize("made", EVERY)
@pytest.mark.parametrize(("sent", "fields"), [pytest.param(*row, id=name) for name, row in MALFORMED.items()])
def test_what_is_no_json_object_is_malformed(
    made: Tool[..., Any], sent: object, fields: tuple[Any, tuple[int, int] | None, bool]
) -> None:
    """The error says where text breaks and whether it was cut off, in the same words for every tool."""
    assert made.parse(sent) == MalformedCall(*fields)


@pytest.mark.parametrize("made", EVERY)
@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param("[" * 100_000, "they are nested too deeply", id="arrays"),
        pytest.param('{"x":' * 100_000, "they are nested too deeply", id="objects"),
        pytest.param('{"x":' + "9" * 5_000 + "}", "number out of range", id="digits"),
    ],
)
def test_text_beyond_a_parsers_limits_is_malformed(made: Tool[..., Any], sent: str, reason: str) -> None:
    """Text that is too deep or too large is malformed, and not taken as cut off."""
    parsed = made.parse(sent)
    assert isinstance(parsed, MalformedCall)
    assert (parsed.reason, parsed.truncated) == (reason, False)
    assert parsed.position
    assert parsed.position[0] == 1


PLAIN_VALUES = "plain JSON values: text, numbers, booleans, null, arrays, objects"
UNJSONLIKE: dict[str, Any] = {
    "a key that is a number": {1: 2},
    "a key that is nothing": {None: 1},
    "keys of many kinds": {"x": 1, (1, 2): 3},
    "a lone surrogate in a key": {"\ud800": 1},
    "a ring": {"x": cyclic()},
    "nested": {"x": nested()},
    "an object": {"x": Unshowable()},
    "bytes": {"x": b"\xff"},
    "5,000 digits": {"x": 10**5_000},
    "a set": {"x": {1, 2}},
    "NaN": {"x": math.nan},
}


@pytest.mark.parametrize("made", EVERY)
@pytest.mark.parametrize("sent", [pytest.param(sent, id=name) for name, sent in UNJSONLIKE.items()])
def test_a_mapping_that_is_no_json_is_refused(made: Tool[..., Any], sent: Any) -> None:
    """A value that JSON cannot hold is refused, unless the tool takes anything; a key that is no text always is."""
    parsed: Any = made.parse(sent)
    if isinstance(parsed, InvalidParams):
        assert render(parsed).startswith("Error: ")
        assert {each.path for each in parsed.problems} <= {"", "x", "\ud800"}
    else:
        assert [type(key) for key in parsed] == [str]


@pytest.mark.parametrize("made", EVERY)
@pytest.mark.parametrize("sent", [{1: 2}, {None: 1}, {"x": 1, (1, 2): 3}], ids=repr)
def test_a_key_that_is_no_text_is_refused(made: Tool[..., Any], sent: Any) -> None:
    """A key that is no text cannot name a parameter; every tool refuses it with the same problem."""
    assert made.parse(sent) == InvalidParams((Problem("", "type", PLAIN_VALUES),))


@pytest.mark.parametrize(
    ("value", "got"), [(math.nan, "nan"), (math.inf, "inf"), (10**400, "an integer")], ids=["NaN", "infinity", "1e400"]
)
def test_a_number_is_finite(value: float, got: str) -> None:
    """A float parameter takes no NaN, no infinity, and no number that would become one: JSON has none."""
    for made in (taking(float), taking(list[float]), taking(Span)):
        sent: Any = [value] if made.definition()["parameters"]["properties"]["x"].get("type") == "array" else value
        found = made.parse({"x": {"start": 1, "size": value} if "$defs" in made.definition()["parameters"] else sent})
        assert isinstance(found, InvalidParams)
        assert [(each.expected, each.got) for each in found.problems] == [("a finite number", got)]


def test_a_number_too_large_for_a_float_is_refused_in_text() -> None:
    """JSON text with a number too large for a float is refused like the number itself."""
    for digits, got in (("1e400", "inf"), ("9" * 400, "an integer")):
        assert taking(float).parse(f'{{"x": {digits}}}') == InvalidParams(
            (Problem("x", "type", "a finite number", got),)
        )


def test_large_integers_stay_whole() -> None:
    """An integer of 400 digits arrives exactly."""
    for made in (taking(int), raw({"type": "integer"})):
        assert both(made, {"x": 10**399}) == {"x": 10**399}


WILD: Any = st.recursive(
    JSON | st.floats() | st.binary() | st.dates() | st.builds(object) | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.frozensets(st.integers(), max_size=2)
        | st.dictionaries(st.text() | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(name=st.sampled_from(sorted(TYPES)), arguments=WILD | st.dictionaries(st.just("x"), WILD) | JSON.map(json.dumps))
def test_parsing_never_raises(name: str, arguments: Any) -> None:
    """For any arguments, a tool of a function or of a schema gives params or an error, and never raises."""
    for made in (BY_TYPE[name], BY_SCHEMA[name]):
        parsed: Any = made.parse(arguments)
        if isinstance(parsed, dict):
            assert {type(key) for key in cast("dict[object, object]", parsed)} <= {str}
        else:
            assert isinstance(parsed, (InvalidParams, MalformedCall))
            assert render(parsed).startswith("Error: ")


def test_the_schema_decides_about_undeclared_arguments() -> None:
    """A schema that allows undeclared arguments passes them on; one that forbids them names each of them."""
    lax = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = Tool.from_schema(name="probe", parameters=lax, handler=nothing)
    assert both(made, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    strict = Tool.from_schema(name="probe", parameters={**lax, "additionalProperties": False}, handler=nothing)
    assert both(strict, {"b": 2, "c": 3}).problems == (
        Problem("b", "additionalProperties", "a", "2"),
        Problem("c", "additionalProperties", "a", "3"),
    )


@pytest.mark.parametrize("value", [0, False, "", [], {}, None], ids=repr)
def test_no_empty_value_is_dropped(value: object) -> None:
    """0, false, empty text, empty containers and null arrive as they were sent."""
    for made in (taking(Any), raw({})):
        assert both(made, {"x": value}) == {"x": value}


def deep_schema() -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(5_000):
        schema = {"not": schema}
    return schema


UNUSABLE: dict[str, Any] = {
    "over the network": {"$ref": "http://127.0.0.1:9/schema.json"},
    "over TLS": {"$ref": "https://example.invalid/schema.json"},
    "from a file": {"$ref": "file:///etc/passwd"},
    "from a relative place": {"$ref": "other.json"},
    "relative to a base": {"$id": "https://example.invalid/a.json", "$ref": "b.json"},
    "to nowhere": {"$ref": "#/$defs/none"},
    "unknown draft": {"$schema": "https://example.invalid/draft"},
    "unknown type": {"type": "dict"},
    "properties that are a list": {"properties": []},
    "required as in draft 3": {"required": True},
    "pattern that is none": {"pattern": "("},
    "a limit that is text": {"minimum": "1"},
    "a key that is no text": {1: 2},
    "no JSON": {"const": object()},
}


@pytest.mark.parametrize("schema", [pytest.param(schema, id=name) for name, schema in UNUSABLE.items()])
def test_a_schema_that_cannot_be_used_is_refused_at_set_up(schema: dict[Any, Any]) -> None:
    """A schema compiles without network and files, or raises a SetupError with the tool's name."""
    with pytest.raises(SetupError, match=r"^probe: its parameters are no JSON Schema"):
        Tool.from_schema(name="probe", parameters=schema, handler=nothing)
    if "$schema" not in schema:  # which is allowed at the top only
        with pytest.raises(SetupError, match=r"^probe: "):
            raw(schema)


@pytest.mark.parametrize("kinds", ["array", "string", ["array", "null"]], ids=str)
def test_a_schema_that_no_arguments_fit_is_refused(kinds: object) -> None:
    """A model sends an object, so no call of such a tool could succeed."""
    with pytest.raises(
        SetupError, match="probe: `parameters` must describe an object, as a model sends arguments, not"
    ):
        Tool.from_schema(name="probe", parameters={"type": kinds}, handler=nothing)
    Tool.from_schema(name="probe", parameters={"type": ["object", "null"]}, handler=nothing)


def test_a_schema_is_copied_at_set_up() -> None:
    """Changing the caller's schema after set-up changes nothing of the tool."""
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    made = Tool.from_schema(name="probe", parameters=schema, handler=nothing)
    schema["required"].clear()
    schema["properties"]["x"]["type"] = "string"
    assert made.parse({"x": 1}) == {"x": 1}
    assert made.parse({}) == InvalidParams((Problem("x", "required", "an integer"),))
    assert made.definition()["parameters"]["required"] == ["x"]


class Broken(BaseModel):
    title: str

    @field_validator("title")
    @classmethod
    def crash(cls, value: str) -> str:
        raise TypeError(value)


@pytest.mark.parametrize("sent", [{"x": {"title": "a"}}, '{"x": {"title": "a"}}'], ids=["mapping", "text"])
def test_a_bug_in_a_validator_is_no_problem_of_the_models(sent: object) -> None:
    """Any exception of a validator but ValueError is a bug and passes through `parse`."""
    with pytest.raises(TypeError, match=r"^a$"):
        taking(Broken).parse(sent)
