"""Strict mode of OpenAI: each schema is in the provider's subset, and what it asks for is valid on the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import Call, Success, Tool, ToolRegistry
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.adapters.strict_schemas import make_strict
from toolcall_pipeline.middlewares import standard


@dataclass
class Point:
    """A place on a plane."""

    x: int
    y: int = 0


def made() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def plot(
        a: int,
        at: Point,
        unit: Literal["c", "f"] = "c",
        to: Point | None = None,
        tags: list[str] = [],  # noqa: B006  # a tool may have it
        n: int = 3,
    ) -> Any:
        """Plot."""
        return [a, at.x, at.y, unit, to is None, tags, n]

    @tools.tool(effect="read")
    async def anything(given: dict[str, int]) -> int:
        """Take any names."""
        return len(given)

    return tools


def every_object(schema: Any) -> Iterator[dict[str, Any]]:
    """Each schema of an object in a schema."""
    if isinstance(schema, dict):
        found = cast("dict[str, Any]", schema)
        if found.get("type") == "object":
            yield found
        for each in found.values():
            yield from every_object(each)
    elif isinstance(schema, list):
        for each in cast("list[Any]", schema):
            yield from every_object(each)


def test_definitions() -> None:
    """All parameters are required, none may be added; a tool that takes any names is offered without."""
    plot, anything = openai.tools(made(), strict=True)
    assert plot["function"]["strict"] is True
    parameters = plot["function"]["parameters"]
    for each in every_object(parameters):
        assert each["required"] == list(each["properties"])
        assert each["additionalProperties"] is False
    assert "default" not in str(parameters)
    assert anything == openai.tools(made())[1]
    flat, other = openai.tools(made(), api="responses", strict=True)
    assert (flat["strict"], other["strict"]) == (True, False)


async def test_null_is_left_out_on_the_way_back() -> None:
    """A strict model sends null for what it leaves out, also inside of objects: the tool has its defaults."""
    tools = made()
    schema = openai.tools(tools, strict=True)[0]["function"]["parameters"]
    nothing = {"a": 1, "at": {"x": 2, "y": None}, "unit": None, "to": None, "tags": None, "n": None}
    jsonschema_rs.validate(schema, nothing)
    expected: list[Any] = [1, 2, 0, "c", True, [], 3]
    assert await standard(tools)(Call("plot", nothing)) == Success(expected)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "string", "minLength": 2, "format": "uri"}, {"type": "string"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ({"allOf": [{"type": "integer"}], "description": "n"}, {"type": "integer", "description": "n"}),
        ({"const": "a", "minLength": 1}, {"const": "a"}),
        ({"$ref": "#/$defs/P", "description": "p"}, {"anyOf": [{"$ref": "#/$defs/P"}], "description": "p"}),
    ],
)
def test_what_the_subset_has(schema: Any, strict: Any) -> None:
    """Constraints that it does not have are dropped, since more is allowed without; words stay."""
    found = make_strict({"type": "object", "properties": {"a": schema}, "required": ["a"]})
    assert found is not None
    assert found["properties"]["a"] == strict


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": "object"},
        {"type": "array"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        {"allOf": [{"type": "integer"}, {"minimum": 1}]},
        {"not": {"type": "integer"}},
        {"type": "array", "prefixItems": [{"type": "integer"}]},
        {"type": "integer", "if": {}},
        {"type": "integer", "unknown": 1},
    ],
)
def test_what_the_subset_cannot_say(schema: Any) -> None:
    """There the tool is offered without strict mode: the provider would refuse the whole request."""
    assert make_strict({"type": "object", "properties": {"a": schema}, "required": ["a"]}) is None


def an_object(properties: dict[str, Any], few: int) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties][:few]}


def an_array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def a_union(variants: list[Any]) -> dict[str, Any]:
    return {"anyOf": variants}


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    return (
        st.builds(an_array, inner)
        | st.builds(a_union, st.lists(inner, min_size=1, max_size=2))
        | st.builds(an_object, objects, st.integers(0, 3))
    )


FLAT: list[Any] = [*({"type": kind} for kind in ("integer", "string", "boolean")), {"enum": ["a", 1]}]
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([*FLAT, {"type": ["integer", "null"]}]), nested, max_leaves=5
)


@given(st.dictionaries(st.sampled_from("abc"), SCHEMAS, min_size=1, max_size=3), st.integers(0, 3))
def test_a_strict_schema_only_lets_null_in(properties: Any, few: int) -> None:
    """The tool's schema stays as it is, and null for each optional parameter is valid."""
    parameters = an_object(properties, few)
    before = str(parameters)
    strict = make_strict(parameters)
    assert strict is not None
    assert str(parameters) == before
    for name in [*properties][few:]:
        jsonschema_rs.validate(strict["properties"][name], None)
    for each in every_object(strict):
        assert each["required"] == list(each["properties"])


def test_a_tool_without_parameters() -> None:
    """There is nothing to leave out."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def now() -> int:
        """Tell the time."""
        return 1

    tools.register(Tool.from_schema(name="open", parameters={"type": "object"}, handler=dict, effect="read"))
    first, second = openai.tools(tools, strict=True)
    assert first["function"]["strict"] is True
    assert "strict" not in second["function"]
