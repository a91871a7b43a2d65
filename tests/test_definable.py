"""Definitions that a provider would refuse: changed where that loses nothing, else refused with the tool's name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support import nothing
from toolcall_pipeline import SetupError, Tool, ToolRegistry
from toolcall_pipeline.adapters import anthropic, gemini, openai

TEXT = {"type": "string"}
ODD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "filter[id]": TEXT,
        "filter_id_": TEXT,
        "user id": TEXT,
        "$top": {"type": "integer"},
        "": TEXT,
        "plain": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "x" * 70: TEXT,
    },
    "required": ["filter[id]", "plain"],
    "$defs": {"item": {"type": "object", "properties": {"a b": TEXT}, "required": ["a b"]}},
}


def registry(schema: dict[str, Any], name: str = "search") -> ToolRegistry:
    tools = ToolRegistry()
    tools.register(Tool.from_schema(name=name, parameters=schema, handler=nothing))
    return tools


def list_names(schema: Any) -> list[str]:
    found = [*schema.get("properties", {})]
    for each in (*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()):
        found += list_names(each)
    return found


def test_anthropic_gets_names_that_it_takes() -> None:
    """Each property has a name of its own that the provider accepts, and is required as before."""
    (definition,) = anthropic.tools(registry(ODD))
    schema = definition["input_schema"]
    names = list_names(schema)
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in names)
    assert len(set(schema["properties"])) == len(ODD["properties"])
    assert set(schema["required"]) <= set(schema["properties"])
    assert "filter_id_" in names  # a name that is accepted stays
    assert registry(ODD)["search"].parameters.schema["properties"].keys() == ODD["properties"].keys()


def test_the_names_come_back() -> None:
    """The names of a call are the tool's own again, at any depth; names that the model took from a text stay."""
    tools = registry(ODD)
    (definition,) = anthropic.tools(tools)
    sent = dict(zip(ODD["properties"], definition["input_schema"]["properties"], strict=True))
    given = {sent["filter[id]"]: "1", "user id": "2", sent["plain"]: [{"a_b": "3"}], sent[""]: "4", "filter_id_": "5"}
    reply = {"type": "message", "content": [{"type": "tool_use", "id": "1", "name": "search", "input": given}]}
    (call,) = anthropic.calls(reply, tools)
    assert call.arguments == {"filter[id]": "1", "user id": "2", "plain": [{"a b": "3"}], "": "4", "filter_id_": "5"}
    (raw,) = anthropic.calls(reply)
    assert raw.arguments == given


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_anthropic_takes_no_union_at_the_top(keyword: str) -> None:
    """Such a schema is refused at set-up, with the name of the tool and the way out."""
    schema = {"type": "object", "properties": {"a": TEXT}, keyword: [{"required": ["a"]}]}
    with pytest.raises(SetupError, match=rf"{keyword} at the top.*'search'"):
        anthropic.tools(registry(schema))
    assert openai.tools(registry(schema))


def test_gemini_gets_no_const() -> None:
    """A constant is sent as an enum of one value, which accepts the same."""
    schema = {
        "type": "object",
        "properties": {"k": {"const": "x"}, "const": {"anyOf": [{"const": 1}, {"type": "null"}]}},
    }
    (group,) = gemini.tools(registry(schema))
    shown = group["function_declarations"][0]["parameters_json_schema"]
    assert shown["properties"] == {"k": {"enum": ["x"]}, "const": {"anyOf": [{"enum": [1]}, {"type": "null"}]}}


@pytest.mark.parametrize(("values", "strict"), [(1_000, True), (1_001, False)])
def test_strict_mode_has_a_limit_of_values(values: int, strict: bool) -> None:
    """With more allowed values than the provider takes, a tool is sent without strict mode."""
    form = {"type": "string", "enum": [f"v{number}" for number in range(values)]}
    schema = {"type": "object", "properties": {"k": form}, "required": ["k"], "additionalProperties": False}
    (definition,) = openai.tools(registry(schema), strict=True)
    assert definition["function"].get("strict", False) is strict
