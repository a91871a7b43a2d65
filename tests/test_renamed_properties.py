"""Names of properties that a provider would refuse: it is sent others, and calls have the tool's own again."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support import nothing
from toolcall_pipeline import Tool, ToolRegistry
from toolcall_pipeline.adapters import anthropic, bedrock, gemini

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


@pytest.mark.parametrize("adapter", [anthropic, bedrock], ids=["Anthropic", "Bedrock"])
@pytest.mark.parametrize("as_text", [False, True], ids=["object", "text"])
def test_the_names_come_back_from_each_form_of_arguments(adapter: Any, as_text: bool) -> None:
    """Arguments may be JSON text, as in a stream; Bedrock follows the rules of Anthropic's models."""
    tools = registry(ODD)
    given: Any = {"filter_id__2": "é", "plain": [{"a_b": 1.5}]}
    given = json.dumps(given, ensure_ascii=False) if as_text else given
    block = {"id": "1", "name": "search", "input": given}
    reply: Any = {"type": "message", "content": [{"type": "tool_use", **block}]}
    if adapter is bedrock:
        use = {"toolUseId": "1", "name": "search", "input": given}
        reply = {"output": {"message": {"role": "assistant", "content": [{"toolUse": use}]}}, "stopReason": "tool_use"}
    (call,) = adapter.calls(reply, tools)
    found = json.loads(call.arguments) if as_text else call.arguments
    assert type(call.arguments) is type(given)
    assert found == {"filter[id]": "é", "plain": [{"a b": 1.5}]}


@pytest.mark.parametrize("text", ["{", "[]", '{"plain": []}', ""])
def test_other_text_stays_as_it_was_sent(text: str) -> None:
    """Text that is no object, and text without a changed name, is not written anew."""
    block = {"type": "tool_use", "id": "1", "name": "search", "input": text}
    (call,) = anthropic.calls({"type": "message", "content": [block]}, registry(ODD))
    assert call.arguments == text


def test_bedrock_gets_the_names_of_anthropic() -> None:
    """Its definitions have the same names of properties; it has no references."""
    (definition,) = bedrock.tools(registry(ODD))
    schema = definition["toolSpec"]["inputSchema"]["json"]
    assert [*schema["properties"]] == [*anthropic.tools(registry(ODD))[0]["input_schema"]["properties"]]
    assert [*schema["properties"]["plain"]["items"]["properties"]] == ["a_b"]


def test_names_of_variants_at_the_top() -> None:
    """All variants are sent as one object, and each name comes back; Gemini's names begin with a letter."""
    schema = {"type": "object", "anyOf": [{"properties": {"a b": TEXT}}, {"properties": {"1 b": TEXT, "a_b": TEXT}}]}
    tools = registry(schema)
    (group,) = gemini.tools(tools)
    shown = group["function_declarations"][0]["parameters_json_schema"]
    assert [*shown["properties"]] == ["a_b_2", "_1_b", "a_b"]
    parts = [{"function_call": {"name": "search", "args": dict.fromkeys(shown["properties"], "x")}}]
    (call,) = gemini.calls({"candidates": [{"content": {"parts": parts}}]}, tools)
    assert call.arguments == {"a b": "x", "1 b": "x", "a_b": "x"}
