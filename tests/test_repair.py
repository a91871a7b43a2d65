"""Repairs: a value that was sent in another form is read as it was meant, or the call is refused."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict, UserDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from returns.result import Failure, Success

from support import nothing
from toolcall_pipeline import (
    Call,
    InvalidParams,
    MalformedCall,
    Repair,
    SetupError,
    Tool,
    ToolRegistry,
    ValidCall,
    render,
    tool,
)
from toolcall_pipeline.engine.errors import NAME_KEPT
from toolcall_pipeline.middlewares import Validate, standard
from toolcall_pipeline.parameters import RULES
from toolcall_pipeline.parameters.renames import find_renames, list_kept


class Size(enum.Enum):
    SMALL = "small size"
    LARGE = "large-size"


@tool(effect="read")
async def order(
    item_name: str,
    count: int = 1,
    price: float = 0.5,
    gift: bool = False,
    tags: list[str] | None = None,
    sizes: list[Size] | None = None,
    scores: list[int] | None = None,
    address: dict[str, int] | None = None,
    unit: Literal["kg", "lb"] = "kg",
) -> str:
    return item_name


PROPERTIES = {
    "item_name": {"type": "string"},
    "count": {"type": "integer"},
    "price": {"type": "number"},
    "gift": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "sizes": {"type": "array", "items": {"enum": ["small size", "large-size"]}},
    "scores": {"type": "array", "items": {"type": "integer"}},
    "address": {"type": "object", "additionalProperties": {"type": "integer"}},
    "unit": {"enum": ["kg", "lb"]},
}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["item_name"], "additionalProperties": False}


async def return_params(**params: object) -> object:
    return params


def a_tool_of(properties: Mapping[str, Any], *required: str, **options: Any) -> Tool[..., Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool.from_schema(name="probe", parameters=schema, handler=return_params, effect="read", **options)


raw = Tool.from_schema(name="order", parameters=SCHEMA, handler=return_params, effect="read")
BOTH = pytest.mark.parametrize("made", [order, raw], ids=["function", "schema"])


def validate(made: Tool[..., Any], arguments: object, **options: Any) -> Any:
    return Validate(**options)(Call(made.name, arguments).resolved(made))


@BOTH
@pytest.mark.parametrize(
    ("rule", "sent", "meant"),
    [
        ("json_text", {"tags": '["a", "b"]'}, {"tags": ["a", "b"]}),
        ("json_text", {"tags": "['a', 'b']"}, {"tags": ["a", "b"]}),
        ("json_text", {"address": ' {"zip": 1} '}, {"address": {"zip": 1}}),
        ("number_text", {"count": "5"}, {"count": 5}),
        ("number_text", {"count": "5.0"}, {"count": 5}),
        ("number_text", {"count": " -7 "}, {"count": -7}),
        ("number_text", {"price": "2.5"}, {"price": 2.5}),
        ("number_text", {"price": "1e3"}, {"price": 1000.0}),
        ("boolean_text", {"gift": "True"}, {"gift": True}),
        ("boolean_text", {"gift": "false"}, {"gift": False}),
        ("text_of_number", {"item_name": 5}, {"item_name": "5"}),
        ("text_of_number", {"item_name": 0.25}, {"item_name": "0.25"}),
        ("text_of_boolean", {"item_name": False}, {"item_name": "false"}),
        ("lone_scalar", {"tags": "New York"}, {"tags": ["New York"]}),
        ("lone_scalar", {"scores": 3}, {"scores": [3]}),
        ("separated_text", {"sizes": "small size,large size"}, {"sizes": ["small size", "large-size"]}),
        ("enum_spelling", {"unit": "KG"}, {"unit": "kg"}),
        ("parameter_name", {"itemName": "x"}, {"item_name": "x"}),
        ("parameter_name", {"params_item_name": "x", "params_count": 2}, {"item_name": "x", "count": 2}),
        ("parameter_name", {"item_names": "x"}, {"item_name": "x"}),
        ("wrapped", {"price": {"type": "number", "value": 2.5}}, {"price": 2.5}),
        ("wrapped", {"scores": {"scores": [1]}}, {"scores": [1]}),
        ("null_optional", {"count": None}, {}),
        ("null_optional", {"count": "null"}, {}),
        ("null_optional", {"unit": ""}, {}),
        ("wrapped", {"arguments": {"item_name": "x", "count": 2}}, {"item_name": "x", "count": 2}),
        ("wrapped", {"_": {"item_name": "x"}}, {"item_name": "x"}),
        ("wrapped", {"name": "order", "parameters": '{"item_name": "x"}'}, {"item_name": "x"}),
        ("wrapped", {"function": {"name": "order", "arguments": {"item_name": "x"}}}, {"item_name": "x"}),
        ("wrapped", {'"item_name": "x"': ""}, {"item_name": "x"}),
    ],
    ids=lambda each: each if isinstance(each, str) else json.dumps(each),
)
def test_each_rule_reads_what_was_meant(made: Tool[..., Any], rule: Any, sent: Any, meant: Any) -> None:
    """Each rule gives the value that was meant and records a repair; switched off, it leaves the call refused."""
    rest = {} if "item_name" in str(sent) or "itemName" in str(sent) else {"item_name": "x"}
    call = validate(made, {**rest, **sent})
    assert isinstance(call, ValidCall)
    rest = {} if "item_name" in meant else rest
    plain = json.dumps(call.params, sort_keys=True, default=lambda each: each.value)
    assert plain == json.dumps({**rest, **meant}, sort_keys=True)
    assert {repair.rule for repair in call.repairs} == {rule}
    others = tuple(each for each in RULES if each != rule)
    assert isinstance(validate(made, {**rest, **sent}, repair=others).failure(), InvalidParams)


@BOTH
@pytest.mark.parametrize(
    "sent",
    [
        {"count": 3.5},
        {"count": "3.5"},
        {"count": "1, 55"},
        {"count": "007"},
        {"count": True},
        {"count": "five"},
        {"count": "1e999"},
        {"price": "NaN"},
        {"gift": 1},
        {"gift": "yes"},
        {"gift": "none"},
        {"item_name": ["x"]},
        {"item_name": None},
        {"tags": "a, b"},
        {"tags": "<item>a</item>"},
        {"tags": "[a, b"},
        {"tags": 5},
        {"tags": ["a", 0, None]},
        {"scores": [1, [2]]},
        {"scores": True},
        {"sizes": "small size, huge"},
        {"address": "unknown"},
        {"unit": "pounds"},
        {"itemname": 1, "ItemName": 2},
    ],
    ids=json.dumps,
)
def test_nothing_is_made_up(made: Tool[..., Any], sent: dict[str, Any]) -> None:
    """No rule rounds, guesses, or takes a boolean for a number: the call is refused, and its text names the value."""
    rest = {} if "item_name" in str(sent).lower() or "itemname" in str(sent).lower() else {"item_name": "x"}
    error = validate(made, {**rest, **sent}).failure()
    assert isinstance(error, InvalidParams)
    assert any(name.lower() in render(error).lower() for name in sent)


@BOTH
def test_a_refusal_lists_only_what_no_repair_mends(made: Tool[..., Any]) -> None:
    """Repairs that hold are kept while the rest is judged, so the text blames no value that was understood."""
    error = validate(made, {"item_name": "x", "count": "5", "gift": "yes"}).failure()
    assert {problem.path for problem in error.problems} == {"gift"}


def test_a_repaired_value_is_judged_by_the_other_rules() -> None:
    """One refusal names the bound that a number as text breaks; a second call would have met it."""

    def book(a: int, b: Annotated[int, Field(ge=1)]) -> int:
        return a + b

    error = validate(ToolRegistry().tool(book), {"a": "1", "b": "0"}).failure()
    assert [(problem.path, problem.rule) for problem in error.problems] == [("b", "minimum")]


@BOTH
def test_repairs_reach_what_was_behind_them(made: Tool[..., Any]) -> None:
    """Text that holds an object that holds a number as text: each step is repaired and recorded."""
    call = validate(made, '{"args": "{\\"item_name\\": \\"x\\", \\"scores\\": \\"[1, \\\\\\"2\\\\\\"]\\"}"}')
    assert call.params == {"item_name": "x", "scores": [1, 2]}
    assert [(each.path, each.rule, each.after) for each in call.repairs] == [
        ("", "wrapped", {"item_name": "x", "scores": '[1, "2"]'}),
        ("scores", "json_text", [1, "2"]),
        ("scores[1]", "number_text", 2),
    ]


def test_a_whole_float_is_an_integer() -> None:
    """3.0 becomes 3 where a function wants an integer."""
    call = validate(order, {"item_name": "x", "count": 3.0, "scores": [1.0]})
    assert (call.params["count"], call.params["scores"]) == (3, [1])
    assert all(type(each) is int for each in (call.params["count"], *call.params["scores"]))
    assert [each.rule for each in call.repairs] == ["whole_float", "whole_float"]


def test_text_in_text_is_one_object() -> None:
    """Arguments that were encoded as JSON twice are decoded twice."""
    call = validate(order, json.dumps(json.dumps({"item_name": "x"})))
    assert call.params == {"item_name": "x"}
    assert [each.rule for each in call.repairs] == ["json_text"]


@pytest.mark.parametrize(
    "sent",
    [
        "{'item_name': 'x', 'gift': True}",
        '{"item_name": "x", "gift": True}',
        '{"item_name": "x", "gift": true,}',
        '```json\n{"item_name": "x", "gift": true}\n```',
        '```\n{"item_name": "x", "gift": true}```',
        '\ufeff{"item_name": "x", "gift": true}',
        "\"{'item_name': 'x', 'gift': True}\"",
    ],
)
def test_text_with_one_reading_is_read(sent: str) -> None:
    """A fence, a byte order mark, Python's spelling and a comma too many leave one reading, of all that was sent."""
    call = validate(order, sent)
    assert (call.params["item_name"], call.params["gift"]) == ("x", True)
    assert [(each.path, each.rule) for each in call.repairs] == [("", "json_text")]


def test_a_line_end_in_a_string_is_read() -> None:
    """A string with a raw line end or tab has one reading, though JSON wants an escape."""
    assert validate(order, '{"item_name": "a\n\tb"}').params["item_name"] == "a\n\tb"


def test_what_is_wrong_in_text_with_one_reading_is_told() -> None:
    """Of such text the refusal says what is wrong with the values, as of any other."""
    (problem,) = validate(order, "{'item_name': 'x', 'gift': 'perhaps'}").failure().problems
    assert (problem.path, problem.rule) == ("gift", "type")


@pytest.mark.parametrize(
    "sent",
    [
        'Here it is: {"item_name": "x"}',
        '{"item_name": "x"} and more',
        '{"item_name": "x"}{"item_name": "y"}',
        '{"item_name": "x", "item_name": "y"}',
        "{'item_name': 'x', 'item_name': 'y'}",
        "{item_name: 'x'}",
        '{"item_name": "x",, "gift": true}',
        '{"item_name": "x" "gift": true}',
        '{"item_name": "x", "price": 1.00000000000000000001,}',
        '{"item_name": "\\ud800"}',
        '```json\n{"item_name": "x"}\n```\n```json\n{"item_name": "y"}\n```',
    ],
)
def test_text_with_several_readings_is_refused(sent: str) -> None:
    """Words around an object, two objects, a name twice and a number that would be rounded are not read."""
    assert isinstance(validate(order, sent).failure(), MalformedCall)


@pytest.mark.parametrize("sent", ['["a"]', '"{\\"item_name\\": "', '"x"', "[1]", "nothing", "5"])
def test_what_is_no_object_stays_malformed(sent: str) -> None:
    """Arguments that are no JSON object as a whole are refused, whatever they look like."""
    assert isinstance(validate(order, sent).failure(), MalformedCall)


def test_text_stays_text_where_text_is_admitted() -> None:
    """JSON in a string stays a string where the schema allows a string, also in a union."""
    made = a_tool_of({"x": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "array"}]}}, "x")
    assert isinstance(validate(made, {"x": '["a"]'}).failure(), InvalidParams)
    assert validate(a_tool_of({"x": {"type": ["string", "array"]}}, "x"), {"x": "[1]"}).params == {"x": "[1]"}


def test_items_of_an_array_are_not_wrapped() -> None:
    """[1, 3] for an array of arrays may be one of them or a mistake, so it is refused, and is not [[1], [3]]."""
    made = a_tool_of({"pairs": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}}, "pairs")
    assert isinstance(validate(made, {"pairs": [1, 3]}).failure(), InvalidParams)


@pytest.mark.parametrize(("step", "most"), [(".a", 16), ("[0]", 16), (".a[0]", 8)])
@pytest.mark.parametrize("deeper", [0, 1], ids=["at the limit", "deeper"])
def test_values_are_repaired_down_to_sixteen_levels(step: str, most: int, deeper: int) -> None:
    """Objects and arrays count alike; what is deeper is refused as it was sent."""

    def nest(value: Any) -> Any:
        for _ in range(most + deeper):
            value = [value] if step == "[0]" else {"a": value} if step == ".a" else {"a": [value]}
        return {"a": value}

    items = {"items": {"$ref": "#/$defs/any"}} if "[" in step else {}
    types = ["object", "integer", "array"] if items else ["object", "integer"]  # where both are allowed, 5 may be [5]
    any_ = {"type": types, "properties": {"a": {"$ref": "#/$defs/any"}}, **items}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/any"}}, "$defs": {"any": any_}}
    made = Tool.from_schema(name="deep", parameters=schema, handler=nothing)
    verdict: Any = Validate()(Call("deep", nest("5")).resolved(made))
    if deeper:
        assert isinstance(verdict.failure(), InvalidParams)
    else:
        assert verdict.params == nest(5)


@pytest.mark.parametrize("make", [MappingProxyType, OrderedDict, UserDict, dict], ids=lambda each: each.__name__)
def test_any_mapping_is_repaired_like_a_dict(make: Callable[[Any], Mapping[str, object]]) -> None:
    """The caller's mapping stays as it was."""
    sent = make({"item_name": "pen", "count": "5"})
    verdict: Any = Validate()(Call("order", sent).resolved(order))
    assert verdict.params == {"item_name": "pen", "count": 5}
    assert verdict.repairs == (Repair("count", "number_text", "5", 5),)
    assert dict(sent) == {"item_name": "pen", "count": "5"}


def test_null_text_is_null_where_null_is_admitted() -> None:
    """The text "null" becomes null for a required parameter that may be null; empty text is refused."""
    made = a_tool_of({"x": {"type": ["integer", "null"]}}, "x")
    assert validate(made, {"x": "null"}).params == {"x": None}
    assert isinstance(validate(made, {"x": ""}).failure(), InvalidParams)


def test_references_and_nested_objects_are_followed() -> None:
    """A repair reaches the place that failed through references, unions, arrays and names with dots."""
    point = {
        "type": "object",
        "properties": {"a.b": {"type": "number"}, "on": {"type": "boolean"}},
        "required": ["a.b"],
    }
    schema = {
        "type": "object",
        "$defs": {"point": point},
        "properties": {"points": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]}}},
    }
    made = Tool.from_schema(name="probe", parameters=schema, handler=return_params)
    sent = {"points": [None, {"a.b": "1.5", "on": None}, {"A_B": "2"}]}
    call = validate(made, sent)
    assert call.params == {"points": [None, {"a.b": 1.5}, {"a.b": 2}]}
    assert sent == {"points": [None, {"a.b": "1.5", "on": None}, {"A_B": "2"}]}
    assert [each.path for each in call.repairs] == ["points[1].a.b", "points[1].on", "points[2].A_B", "points[2].a.b"]


@pytest.mark.parametrize(
    ("undeclared", "closed", "sent_on", "rules"),
    [
        (None, False, {"x": 1, "y": 2}, []),
        ("pass", True, {"x": 1, "y": 2}, []),
        ("drop", True, {"x": 1}, ["undeclared_dropped"]),
        ("drop", False, {"x": 1}, ["undeclared_dropped"]),
        (None, True, None, []),
        ("reject", False, None, []),
    ],
    ids=str,
)
def test_a_policy_decides_about_undeclared_arguments(undeclared: Any, closed: Any, sent_on: Any, rules: Any) -> None:
    """They are refused, left out and recorded, or passed on: as the tool says, or else as its schema says."""
    schema = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        **({"additionalProperties": False} if closed else {}),
    }
    made = Tool.from_schema(name="probe", parameters=schema, handler=return_params, undeclared=undeclared)
    verdict = validate(made, {"x": 1, "y": 2})
    if sent_on is None:
        assert "Unknown parameter: y" in render(verdict.failure())
    else:
        assert verdict.params == sent_on
        assert [each.rule for each in verdict.repairs] == rules


_OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "dry_run": {"type": "boolean"},
        "walk": {"type": "array", "items": {"type": "object", "properties": {"max_depth": {"type": "integer"}}}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}, "properties": {"home": {}}},
        "marks": {"type": "object", "patternProperties": {"^H": {}}, "properties": {"home": {}}},
    },
    "required": ["path"],
}


@pytest.mark.parametrize("undeclared", [None, "pass"])
@pytest.mark.parametrize("text", [False, True], ids=["object", "text"])
@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"dryRun": True}, [("dryRun", "dry_run")]),
        ({"DRY-RUN": "true"}, [("DRY-RUN", "dry_run")]),
        ({"dry_rnu": {"x": 1}}, [("dry_rnu", "dry_run")]),
        ({"Walk": [{}, {"maxDepth": 3}]}, [("Walk", "walk")]),
        ({"dryRun": True, "dry-run": False}, [("dryRun", "dry_run"), ("dry-run", "dry_run")]),
        ({"dryRun": True, "dry_run": False}, [("dryRun", "dry_run")]),
        ({"walk": [{}, {"maxDepth": "3"}]}, []),
        ({"env": {"HOME": "/"}}, []),
        ({"marks": {"HOME": "/"}}, []),
        ({"other": {"dryRun": True}}, []),
        ({"verbose": True}, []),
    ],
    ids=str,
)
def test_a_valid_call_of_an_open_schema_is_never_changed(undeclared: Any, sent: Any, kept: Any, text: Any) -> None:
    """Where a schema permits any name, one that looks like a misspelt parameter is told, and stays what it is."""
    made = Tool.from_schema(name="probe", parameters=_OPEN, handler=return_params, undeclared=undeclared)
    arguments = {"path": "x", **sent}
    verdict = validate(made, json.dumps(arguments) if text else arguments)
    assert verdict.params == arguments
    assert verdict.repairs == tuple(Repair(name, NAME_KEPT, name, declared) for name, declared in kept)


async def test_a_name_that_looks_misspelt_is_told_in_the_report_and_to_the_model() -> None:
    """The report lists it with the parameter that it looks like, as undeclared too; the note with the result asks."""
    tools = ToolRegistry()
    tools.register(Tool.from_schema(name="probe", parameters=_OPEN, handler=return_params, effect="read"))
    report = await standard(tools).report(Call("probe", {"path": "x", "dryRun": True, "other": 1}))
    assert report.undeclared == ("dryRun", "other")
    assert report.repairs == (Repair("dryRun", NAME_KEPT, "dryRun", "dry_run"),)
    assert report.outcome == Success(report.call.arguments)
    assert report.outcome is not None
    assert render(report.outcome, repairs=report.repairs).endswith(
        "Note: dryRun is no parameter of this tool and was passed on. If dry_run was meant, use that name."
    )


@pytest.mark.parametrize(
    ("others", "length", "told"), [(0, 200, True), (49, 200, True), (50, 7, False), (0, 201, False)]
)
def test_how_many_names_are_compared(others: int, length: int, told: bool) -> None:
    """With more than fifty undeclared names another set of parameters was meant, and no name is that long."""
    name, declared = "dryRun".ljust(length, "x"), "dry_run".ljust(length + 1, "x")
    sent = {**{f"z{number}": 1 for number in range(others)}, name: True}
    schema = {"type": "object", "properties": {declared: {"type": "boolean"}}}
    closed = Tool.from_schema(name="probe", parameters={**schema, "additionalProperties": False}, handler=return_params)
    assert bool(list_kept(sent, frozenset({declared}))) is told
    assert (find_renames(sent, declared, closed.parameters, {}) == [([name], declared)]) is told


def test_five_names_are_measured_for_their_likeness() -> None:
    """That takes time; a name that is the same but for its spelling is found however many stand before it."""
    sent = {**{f"z{number}": 1 for number in range(4)}, "limmit": 1, "lmit": 1, "Limit": 1}
    assert [each.before for each in list_kept(sent, frozenset({"limit"}))] == ["limmit", "Limit"]


def test_a_name_is_told_beside_a_repair() -> None:
    """Another argument of the call may be repaired; where a name had to be read, all of that spelling are."""
    made = Tool.from_schema(name="probe", parameters=_OPEN, handler=return_params)
    verdict = validate(made, {"path": "x", "walk": "[]", "dryRun": True})
    assert verdict.params == {"path": "x", "walk": [], "dryRun": True}
    assert [(each.path, each.rule) for each in verdict.repairs] == [("walk", "json_text"), ("dryRun", NAME_KEPT)]
    read = validate(made, {"Path": "x", "dryRun": True})
    assert [each.after for each in read.repairs] == ["path", "dry_run"]


@pytest.mark.parametrize(("undeclared", "sent_on"), [("drop", {"x": 1}), ("reject", None), ("pass", {"x": 1, "y": 2})])
def test_a_policy_knows_the_parameters_of_all_of(undeclared: Any, sent_on: Any) -> None:
    """A policy goes by the parameters of the whole schema, those of `allOf` included."""
    schema = {"type": "object", "allOf": [{"properties": {"x": {"type": "integer"}}}]}
    made = Tool.from_schema(name="probe", parameters=schema, handler=return_params, undeclared=undeclared)
    verdict = validate(made, {"x": 1, "y": 2})
    if sent_on is None:
        assert "Unknown parameter: y" in render(verdict.failure())
        assert [each.expected for each in verdict.failure().problems] == ["x"]
    else:
        assert verdict.params == sent_on


def test_functions_drop_what_they_do_not_take() -> None:
    """With "drop" a function is called without the arguments that it does not declare."""

    @tool(undeclared="drop")
    async def search(query: str) -> str:
        return query

    call = validate(search, {"query": "x", "limit": 5})
    assert call.params == {"query": "x"}
    assert call.repairs == (Repair("limit", "undeclared_dropped", 5, None),)


def test_a_policy_that_contradicts_the_function_is_refused() -> None:
    """A function without **kwargs cannot be passed undeclared arguments; one with them cannot refuse any."""

    async def some(query: str) -> str:
        return query

    async def every(**query: str) -> str:
        return str(query)

    for function, policy in ((some, "pass"), (every, "reject"), (every, "drop")):
        with pytest.raises(SetupError, match=rf"undeclared='{policy}' contradicts the function"):
            tool(undeclared=policy)(function)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def test_the_report_says_what_the_schema_let_pass() -> None:
    """The report lists arguments that the schema neither declares nor refuses, without those that were repaired."""
    tools = ToolRegistry()
    tools.register(a_tool_of({"x": {"type": "integer"}}))
    report = await standard(tools).report(Call("probe", '{"x": "1", "y": 2}'))
    assert (report.undeclared, report.repairs) == (("y",), (Repair("x", "number_text", "1", 1),))
    refused = await standard(tools).report(Call("probe", {"x": "a", "y": 2}))
    assert refused.undeclared == ()


@pytest.mark.parametrize("repair", ["json_text", ("json",), ("json_text", 5)], ids=str)
def test_unknown_rules_are_refused_at_set_up(repair: Any) -> None:
    """A rule that does not exist is a SetupError that lists those that do."""
    with pytest.raises(SetupError, match="number_text"):
        Validate(repair=repair)


def test_without_rules_nothing_is_repaired() -> None:
    """``Validate(repair=())`` refuses every mistake."""
    assert isinstance(validate(order, {"item_name": "x", "count": "5"}, repair=()).failure(), InvalidParams)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=6)
    | st.sampled_from(["null", "5", "[1]", "true", "KG"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*PROPERTIES, "itemName", "arguments", "y"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@BOTH
@given(sent=st.dictionaries(st.sampled_from([*PROPERTIES, "itemName", "arguments", "y"]), JSON, max_size=4))
def test_any_arguments_are_valid_refused_and_left_alone(made: Tool[..., Any], sent: dict[str, Any]) -> None:
    """The caller's arguments stay as they were, and params differ from them only where a repair says so."""
    before = json.dumps(sent)
    verdict = validate(made, sent)
    assert json.dumps(sent) == before
    if isinstance(verdict, ValidCall):
        strict = validate(made, sent, repair=())
        assert isinstance(strict, ValidCall) != bool(verdict.repairs)
        if not verdict.repairs:
            assert strict.params == verdict.params
    else:
        assert isinstance(verdict.failure(), InvalidParams)
        assert verdict.failure().problems


@given(sent=st.dictionaries(st.sampled_from([*PROPERTIES]), JSON, max_size=4))
def test_right_values_are_never_changed(sent: dict[str, Any]) -> None:
    """A repair elsewhere never changes a value that was valid."""
    verdict = validate(raw, {"item_name": "x", **sent})
    if isinstance(verdict, ValidCall):
        repaired = {each.path.partition("[")[0].partition(".")[0] for each in verdict.repairs}
        for name, value in sent.items():
            if name not in repaired:
                assert json.dumps(verdict.params[name]) == json.dumps(value)


def test_a_positional_name_is_the_only_parameter() -> None:
    """A value under a name that only counts is meant for the parameter if there is one; never if there are several."""
    assert validate(a_tool_of({"country": {"type": "string"}}, "country"), {"__positional_0": "Peru"}).params == {
        "country": "Peru"
    }
    two = a_tool_of({"country": {"type": "string"}, "city": {"type": "string"}}, "country")
    assert isinstance(validate(two, {"__positional_0": "Peru"}).failure(), InvalidParams)


def test_undeclared_names_are_told_where_a_parameter_is_missing() -> None:
    """Where a parameter is missing, the text names undeclared ones, even if the schema lets them pass."""
    made = a_tool_of({"path": {"type": "string"}, "limit": {"type": "integer"}}, "path")
    text = render(validate(made, {"file": "a", "limits": 5}).failure())
    assert "Missing required parameter: path" in text
    assert "file" in text
    assert "limits" in text


@BOTH
@pytest.mark.parametrize("key", [1, None, b"a", ("a",)], ids=repr)
def test_keys_that_are_no_text_are_refused(made: Tool[..., Any], key: object) -> None:
    """Arguments that JSON cannot hold are not repaired, wherever such a key stands."""
    for odd in ({key: 2}, {key: 2, "item_name": "x"}):
        for sent in (odd, {"args": odd}, {"name": "order", "args": odd}, {"item_name": "x", "scores": odd}):
            assert isinstance(validate(made, sent).failure(), InvalidParams), sent


def many(**properties: Any) -> Tool[..., Any]:
    return a_tool_of(properties, *properties)


VAGUE = ["n.a.", "TBD", "Not applicable", "not_specified", "None.", "(none)", "no value", "all", "any", "*", "blank"]
SEVERAL = ["a.py b.py", '"a" "b"', "- a", "a -> b", "rm -rf /x", "#a #b", "a \u00b7 b", "a\\nb", "a plus b", "a  b"]


@pytest.mark.parametrize("text", [*VAGUE, *SEVERAL])
def test_a_text_that_may_be_none_or_several_is_no_item(text: str) -> None:
    """A word for nothing or for all, and a text that may hold several values, are not read as an array of one."""
    tags = many(tags={"type": "array", "items": {"type": "string"}})
    assert isinstance(validate(tags, {"tags": text}), Failure)


@pytest.mark.parametrize(
    ("name", "form", "sent"),
    [
        ("page", "integer", {"pages": "3"}),
        ("page", "integer", {"pages": 3}),
        ("file", "string", {"files": "*.py"}),
        ("file", "string", {"files": "all"}),
        ("file", "string", {"files": "a, b"}),
        ("file", "string", {"files": "a b"}),
        ("user", "string", {"users": "ann and bob"}),
        ("hour", "number", {"hours": "1.5"}),
    ],
)
def test_a_plural_that_may_count_is_no_singular(name: str, form: str, sent: dict[str, Any]) -> None:
    """A number, a pattern, or a text that may be several is not the value of a parameter in the singular."""
    assert isinstance(validate(many(**{name: {"type": form}}), sent), Failure)


def test_a_plural_with_one_name_is_the_singular() -> None:
    """One name under a plural is the value of the parameter."""
    assert validate(many(artist={"type": "string"}), {"artists": "Ed Sheeran"}).params == {"artist": "Ed Sheeran"}


@pytest.mark.parametrize("key", ["path:", '"path"', "'path'", "`path`", "path=", "--path", " path : ", '"path":'])
def test_marks_around_a_name_mean_nothing(key: str) -> None:
    """Quotes, a colon, an equals sign and the dashes of an option around a name are cut."""
    assert validate(many(path={"type": "string"}), {key: "a"}).params == {"path": "a"}


def test_the_name_of_the_tool_is_a_wrapper() -> None:
    """Arguments under the tool's own name are taken out, and nothing under another name."""
    made = many(path={"type": "string"})
    assert validate(made, {made.name: {"path": "a"}}).params == {"path": "a"}
    assert isinstance(validate(made, {"other": {"path": "a"}}), Failure)
    assert isinstance(validate(made, {made.name: {"path": "a"}, "force": True}), Failure)


LEFT: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"A": "1", "b": "0"}, {"b": "minimum"}),
    ({"arguments": {"a": "1", "b": "0"}}, {"b": "minimum"}),
    ({"a": "1", "b": "x"}, {"b": "type"}),
    ({"a": 1.0, "b": 0}, {"b": "minimum"}),
    ({"a": "1"}, {"b": "required"}),
    ({"a": 1, "b": 1, "list": '["1", "2", "3"]'}, {"list": "maxItems"}),
    ({"a": 1, "b": 1, "list": '["1", "x"]'}, {"list[1]": "type"}),
    ({"a": 1, "b": 1, "inner": '{"c": "0"}'}, {"inner.c": "minimum"}),
]


@pytest.mark.parametrize(("sent", "left"), LEFT, ids=str)
def test_a_refusal_lists_what_repairs_leave(sent: dict[str, Any], left: dict[str, str]) -> None:
    """Repairs that hold are kept while the rest is judged: the refusal names no value that was read."""
    least = {"type": "integer", "minimum": 1}
    properties = {
        "a": {"type": "integer"},
        "b": least,
        "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        "inner": {"type": "object", "properties": {"c": least}},
    }
    refused = validate(a_tool_of(properties, "a", "b"), sent).failure()
    assert isinstance(refused, InvalidParams)
    assert {each.path: each.rule for each in refused.problems} == left
