"""Schemas as providers take them: in the documented subset, without a word lost that can be said there.

Strict mode of OpenAI: what it asks for is valid on the way back.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import jsonschema_rs
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from provider_schemas import ODD_SCHEMAS, list_schemas, refusals
from support import nothing
from toolcall_pipeline import Call, SetupError, Success, Tool, ToolRegistry
from toolcall_pipeline.adapters import anthropic, fit, openai
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.cli.lint.tool_findings import check_tools, estimate_costs
from toolcall_pipeline.mcp.tool_definitions import make_tool
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.parameters.schema import is_object

TEXT = {"type": "string"}
LARGE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
PROVIDERS = ("openai", "strict", "anthropic", "gemini", "bedrock", "mistral", "ollama")


def fit_for(schema: Any, provider: str) -> Any:
    """A fitted schema; ``strict`` is OpenAI's strict mode."""
    return fit(schema, "openai" if provider == "strict" else provider, strict=provider == "strict")


@settings(suppress_health_check=LARGE)
@given(ODD_SCHEMAS)
@example({"type": "object", "properties": {"a": {"enum": ["x"], "anyOf": [False]}}, "oneOf": [False, False]})
def test_each_provider_takes_what_it_is_sent(schema: Any) -> None:
    """Whatever a schema says, nothing is raised, it stays as it is, and the other one follows the provider's rules."""
    before = json.dumps(schema)
    for provider in PROVIDERS:
        found = fit_for(schema, provider)
        kind = "openai" if provider == "strict" and not found.is_strict else provider
        assert refusals(found.schema, kind) == []
        assert found.changes or found.schema is schema
        if kind == provider:  # what was lost is said once
            assert [each for each in fit_for(found.schema, provider).changes if each.lost] == []
    assert json.dumps(schema) == before


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, 0, 1.5, 11, "a", "aa", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "node"]), inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS: Any = st.dictionaries(st.sampled_from(["a", "b", "node"]), VALUES, max_size=3)
_OTHER_MEANING = ("$id", "$schema", "$anchor", "$dynamicRef")  # as to references; the tests of `References` have them


@settings(suppress_health_check=LARGE)
@given(ODD_SCHEMAS, st.lists(ARGUMENTS, min_size=3, max_size=5))
def test_what_a_tool_takes_a_provider_lets_through(schema: Any, several: list[Any]) -> None:
    """A schema that was changed takes all that the tool's own takes, but for variants at the top, which are joined."""
    try:
        takes = jsonschema_rs.validator_for(schema).is_valid if is_object(schema) else None
    except ValueError:
        takes = None
    text = json.dumps(schema)
    odd = any(f'"{name}"' in text for name in _OTHER_MEANING)
    if takes is None or odd or not {"anyOf", "oneOf", "$ref"}.isdisjoint(schema):
        return
    for each in list_schemas(schema):  # more in a definition is less in these, and a definition is fitted alone
        if any("$ref" in json.dumps(each.get(key)) for key in ("not", "if", "oneOf", "contains")):
            return
    for provider in (each for each in PROVIDERS if each != "strict"):
        found = fit_for(schema, provider)
        if not any("another form" in each.what for each in found.changes):
            lets_through = jsonschema_rs.Draft202012Validator(found.schema).is_valid
            assert all(lets_through(each) for each in several if takes(each))


DEEP: Any = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/A"}}, "required": ["next"]}
BARE: Any = {"type": "array", "prefixItems": [{"type": "number"}, TEXT], "items": False}
LOOKS: Any = {"type": "string", "pattern": "^(?=.*[A-Z]).+$", "description": "A name."}
TOLD = {"type": "string", "description": "A name. (pattern: ^(?=.*[A-Z]).+$)"}
NUMBERS: Any = {"type": ["string", "integer"], "minimum": 1}
OR_NULL: Any = {"anyOf": [TEXT, {"type": "null"}]}


@pytest.mark.parametrize(
    ("provider", "schema", "sent", "lost"),
    [
        ("openai", BARE, {**BARE, "items": {}, "maxItems": 2}, 0),
        ("openai", {"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}, 0),
        ("openai", LOOKS, TOLD, 1),
        ("openai", {"items": [TEXT], "additionalItems": TEXT}, {"prefixItems": [TEXT], "items": TEXT}, 0),
        ("openai", {"$ref": "#/$defs/nope", "title": "T"}, {"title": "T"}, 1),
        ("openai", {"type": "object"}, {"type": "object", "properties": {}}, 0),
        ("openai", {"type": "any", "description": "D"}, {"description": "D"}, 1),
        ("openai", {"not": {"pattern": "(?!a)"}}, {}, 2),
        ("openai", {"oneOf": [LOOKS, TEXT]}, {"anyOf": [TOLD, TEXT]}, 2),
        ("mistral", {"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}, 0),
        ("gemini", {"const": "x"}, {"enum": ["x"]}, 0),
        ("gemini", {"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}, 0),
        ("gemini", {"enum": ["a", None]}, {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, 0),
        ("gemini", NUMBERS, {"anyOf": [TEXT | {"minimum": 1}, {"type": "integer", "minimum": 1}]}, 0),
        ("gemini", {"oneOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}, 1),
        ("gemini", {"type": "string", "format": "uri"}, {"type": "string", "description": "(format: uri)"}, 1),
        ("strict", BARE, {"type": "array", "maxItems": 2, "items": {"anyOf": [{"type": "number"}, TEXT]}}, 1),
        ("ollama", OR_NULL, {**OR_NULL, "type": ["string", "null"]}, 0),
    ],
)  # fmt: skip
def test_what_is_sent_of_a_parameter(provider: str, schema: Any, sent: Any, lost: int) -> None:
    """What has another form is written in it; what has none is left out, said, and told where it is short."""
    given = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    found = fit_for(given, provider)
    assert found.schema["properties"]["a"] == sent
    assert sum(each.lost for each in found.changes) == lost


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_type_that_holds_itself(provider: str) -> None:
    """Gemini is told that it need not, where there is no reference it is cut off, and else it stays."""
    given = {**DEEP, "$defs": {"A": NODE}}
    found = fit_for(given, provider)
    if provider == "gemini":
        assert found.schema["$defs"]["A"]["required"] == []
    elif provider in ("bedrock", "ollama"):
        assert found.schema["properties"]["a"]["properties"]["next"] == {"type": "object"}
    elif provider != "strict":
        assert found.schema is given
    assert sum(each.lost for each in found.changes) == (provider in ("gemini", "bedrock", "ollama"))


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each != "mistral"])
def test_variants_at_the_top_are_one_object(provider: str, keyword: str) -> None:
    """The parameters of all stand beside each other; required is what each of them requires."""
    first = {"properties": {"a": TEXT, "k": TEXT}, "required": ["k"]}
    schema = {"type": "object", keyword: [first, {"properties": {"b": TEXT, "k": TEXT}, "required": ["b", "k"]}]}
    found = fit_for(schema, provider)
    assert found.schema["properties"].keys() == {"a", "b", "k"}
    assert {*found.schema["required"]} == ({"b", "k"} if keyword == "allOf" else {"k"})
    tools = ToolRegistry()
    tools.register(Tool.from_schema(name="top", parameters=schema, handler=nothing))
    assert anthropic.tools(tools)[0]["input_schema"]["properties"].keys() == {"a", "b", "k"}


def test_what_there_is_not() -> None:
    """A provider that is not known, and a strict mode of another one than OpenAI, are mistakes of a programmer."""
    with pytest.raises(SetupError, match="openai, anthropic, gemini"):
        fit({}, "azure")
    with pytest.raises(SetupError, match="not of gemini"):
        fit({}, "gemini", strict=True)


def test_lint_tells_what_providers_are_sent() -> None:
    """What is lost is a warning, and what is written otherwise is a note."""
    tools = ToolRegistry()
    for name, schema in (
        ("top", {"oneOf": [{"required": ["a"]}]}),
        ("array", {"properties": {"b": {"type": "array"}}}),
    ):
        tools.register(Tool.from_schema(name=name, parameters={"type": "object", **schema}, handler=nothing))
    found = [each for each in check_tools(tools, {}, ["top", "array"]) if each.rule == "schema"]
    assert [(each.tool, each.severity) for each in found] == [("top", "warning"), ("top", "warning"), ("array", "note")]
    assert "properties.b: items are said to be anything" in found[2].what
    assert {*estimate_costs(tools)} == {"top", "array"}


@pytest.mark.parametrize(("values", "strict"), [(1_000, True), (1_001, False)])
def test_strict_mode_has_a_limit_of_values(values: int, strict: bool) -> None:
    """With more allowed values than the provider takes, a tool is sent without strict mode."""
    form = {"type": "string", "enum": [f"v{number}" for number in range(values)]}
    schema = {"type": "object", "properties": {"k": form}, "required": ["k"], "additionalProperties": False}
    assert fit(schema, "openai", strict=True).is_strict is strict


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
        (
            {"type": "string", "minLength": 2, "format": "uri"},
            {"type": "string", "description": "(format: uri, minLength: 2)"},
        ),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ({"allOf": [{"type": "integer"}], "description": "n"}, {"type": "integer", "description": "n"}),
        ({"const": "a", "uniqueItems": 1}, {"const": "a"}),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "unknown": 1}, {"type": "integer"}),
        ({"$ref": "#/$defs/P", "description": "p"}, {"anyOf": [{"$ref": "#/$defs/P"}], "description": "p"}),
    ],
)
def test_what_the_subset_has(schema: Any, strict: Any) -> None:
    """Constraints that it does not have are dropped, since more is allowed without; words stay."""
    found = fit(
        {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": {"P": TEXT}}, "openai", strict=True
    )
    assert found.is_strict
    assert found.schema["properties"]["a"] == strict


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": "object"},
        {"type": "array"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        {"not": {"type": "integer"}},
        {"type": "array", "prefixItems": [{"type": "integer"}]},
        {"type": "integer", "if": {}},
    ],
)
def test_what_the_subset_cannot_say(schema: Any) -> None:
    """There the tool is offered without strict mode: the provider would refuse the whole request."""
    found = fit({"type": "object", "properties": {"a": schema}, "required": ["a"]}, "openai", strict=True)
    assert not found.is_strict
    assert found.changes[0].what.startswith("not strict: ")


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
    strict = fit(parameters, "openai", strict=True).schema
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


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        ({"$ref": "#/$defs/nope", "description": "D"}, {"description": "D"}),
        ({"$ref": "https://a.example/x.json"}, {}),
        ({"type": "any", "title": "T"}, {"title": "T"}),
        ({"type": "array", "items": [TEXT]}, {"type": "array", "prefixItems": [TEXT]}),
        ({"type": "string", "pattern": "x" * 3_000}, {"type": "string"}),
    ],
)
def test_a_tool_of_a_server_has_the_good_part_of_its_schema(bad: Any, shown: Any) -> None:
    """A bad part of a schema is not shown, and all else is; the server validates it."""
    schema = {"type": "object", "properties": {"bad": bad, "good": {"type": "integer"}}, "required": ["good"]}
    tool, mistake = make_tool("t", {"inputSchema": schema}, nothing)
    assert tool.parameters.schema == {**schema, "properties": {"bad": shown, "good": {"type": "integer"}}}
    assert mistake


async def test_the_command_tells_what_a_provider_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``toolcall tools --provider`` has the list of changes under each tool; ``--json`` has the schemas."""
    text = """from toolcall_pipeline import Tool, ToolRegistry
tools = ToolRegistry()
schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"pattern": "(?=a)"}}}, "not": {}}
tools.register(Tool.from_schema(name="t", parameters=schema, handler=print, effect="read"))
"""
    (tmp_path / "shelf_of_schemas.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    run = CliRunner().invoke
    told = run(toolcall, ["tools", "shelf_of_schemas:tools", "--provider", "openai"]).stdout
    assert "left out at the top: not  (lost)" in told
    assert "properties.a.items: a pattern that looks around is left out  (lost)" in told
    shown = run(toolcall, ["tools", "shelf_of_schemas:tools", "--provider", "openai", "--json"]).stdout
    assert json.loads(shown)[0]["parameters"]["properties"]["a"]["items"] == {"description": "(pattern: (?=a))"}
    assert run(toolcall, ["tools", "shelf_of_schemas:tools", "--strict"]).exit_code == 2
