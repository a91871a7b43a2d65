"""Definitions that a provider would refuse: changed where that loses nothing, else refused with the tool's name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support import nothing
from toolcall_pipeline import SetupError, Tool, ToolRegistry
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, openai
from toolcall_pipeline.cli.lint.tool_findings import check_tools, estimate_costs

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
    """Its definitions have the same names of properties, and a union at the top is refused as well."""
    (definition,) = bedrock.tools(registry(ODD))
    assert list_names(definition["toolSpec"]["inputSchema"]["json"]) == list_names(
        anthropic.tools(registry(ODD))[0]["input_schema"]
    )
    with pytest.raises(SetupError, match=r"oneOf at the top.*'search'"):
        bedrock.tools(registry({"type": "object", "oneOf": [{"required": ["a"]}]}))


def test_lint_finds_definitions_that_a_provider_refuses() -> None:
    """A union at the top is an error, and a name that is changed on the way is a note."""
    tools = registry({"type": "object", "properties": {"a": TEXT}, "oneOf": [{"required": ["a"]}]}, "top")
    tools.register(Tool.from_schema(name="odd", parameters=ODD, handler=nothing))
    found = [each for each in check_tools(tools, {}, ["top", "odd"]) if each.rule == "schema"]
    assert [(each.tool, each.severity) for each in found] == [("top", "error"), ("odd", "note")]
    assert set(estimate_costs(tools)) == {"top", "odd"}


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
