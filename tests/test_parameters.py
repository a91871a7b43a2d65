"""Parameters: one object per tool that parses, repairs, advises, and shows an example."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from types import MappingProxyType
from typing import Any, Literal, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import nothing
from toolcall_pipeline import Call, InvalidParams, MalformedCall, Problem, Repair, SetupError, Tool, ToolRegistry, tool
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.parameters import RULES, Parameters, Rule, read_arguments
from toolcall_pipeline.parameters.given import is_json
from toolcall_pipeline.parameters.reading import read_literal
from toolcall_pipeline.parameters.schema import find_target, resolve_ref
from toolcall_pipeline.parameters.tool_parameters import copy_containers

ALL = frozenset(RULES)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}, "unit": {"enum": ["kg", "lb"]}},
    "required": ["path"],
    "additionalProperties": False,
}


def read(path: str, limit: int = 10, unit: Literal["kg", "lb"] = "kg") -> str:
    return path * limit


def lost(path: Any) -> None: ...


lost.__annotations__ = {"path": "Missing"}


both = pytest.mark.parametrize(
    "parameters", [Parameters.of_function(read), Parameters.of_schema(SCHEMA, "read")], ids=["function", "schema"]
)


def refuse(parameters: Parameters, arguments: object) -> InvalidParams:
    found = parameters.parse(arguments)
    assert isinstance(found, InvalidParams)
    return found


def test_parameters_are_compiled_at_first_use() -> None:
    """A function's signature is read when its schema, or a parse, is first needed, and only once."""
    made = tool(read)
    assert (made.schema, made.parameters.is_compiled) == (None, False)
    assert made.parse({"path": "a"}) == {"path": "a"}
    assert made.parameters.compile() is made.parameters.compile()
    assert made.parse == made.parameters.parse
    assert made.schema == made.definition()["parameters"]


def test_a_signature_that_cannot_be_read_raises_at_every_use() -> None:
    """Failing to compile is a SetupError each time, and nothing is kept of it."""
    parameters = Parameters.of_function(lost)
    for use in (parameters.compile, parameters.example, lambda: parameters.parse({})):
        with pytest.raises(SetupError, match="Missing"):
            use()
    assert not parameters.is_compiled


@both
def test_a_repair_gives_params_and_a_record(parameters: Parameters) -> None:
    """What was meant is returned with what was repaired; the arguments stay as they were sent."""
    sent = {"path": "a", "limit": "5"}
    error = refuse(parameters, sent)
    assert parameters.repair(sent, error, ALL) == (
        {"path": "a", "limit": 5},
        (Repair("limit", "number_text", "5", 5),),
    )
    assert sent == {"path": "a", "limit": "5"}
    assert parameters.repair(sent, error, frozenset()) is None


def test_a_tool_with_a_secret_gets_repaired_params() -> None:
    """The params are those that were meant, the secret included; the repair does not show it."""
    parameters = Parameters.of_schema(
        {
            "type": "object",
            "properties": {"key": {"type": "string", "writeOnly": True}, "limit": {"type": "integer"}},
            "required": ["key", "limit"],
        },
        "probe",
    )
    sent = {"key": "hunter2", "limit": "5"}
    repaired = parameters.repair(sent, refuse(parameters, sent), frozenset(RULES))
    assert isinstance(repaired, tuple)
    assert repaired[0] == {"key": "hunter2", "limit": 5}
    assert [(each.path, each.rule, each.after) for each in repaired[1]] == [("limit", "number_text", 5)]
    assert "hunter2" not in repr(repaired[1])


@both
def test_advice_is_added_to_a_refusal(parameters: Parameters) -> None:
    """A near name or value is suggested; without one, and without repairs, the same error comes back."""
    sent = {"path": "a", "unti": "kg"}
    (problem,) = parameters.advise(sent, refuse(parameters, sent)).problems
    assert (problem.path, problem.suggestion) == ("unti", "unit")
    for plain in ({}, {"limit": 1}, {"path": 5}):
        error = refuse(parameters, plain)
        assert parameters.advise(plain, error) is error
    error, repairs = refuse(parameters, {}), (Repair("name", "noise", "read ", "read"),)
    assert parameters.advise({}, error, repairs) == attrs.evolve(error, repairs=repairs)


VALUES: list[Any] = ["a", "5", "", "KG", "true", 5, 5.0, 2.5, True, None, [], ["a"], {}, "x" * 2_000]
SENT = st.dictionaries(st.sampled_from(["path", "limit", "unit", "other"]), st.sampled_from(VALUES))


@both
@given(SENT, st.sets(st.sampled_from(RULES)))
def test_a_settled_refusal_is_neither_repaired_nor_advised(
    parameters: Parameters, sent: dict[str, Any], rules: set[Rule]
) -> None:
    """The short way says only what the long one would; values that hold others go the long way."""
    error = parameters.parse(sent)
    if isinstance(error, InvalidParams) and parameters.is_settled(sent, error, frozenset(rules), 1_000):
        assert parameters.repair(sent, error, frozenset(rules)) is None
        assert parameters.advise(sent, error) is error
        wrong = [sent[problem.path] for problem in error.problems if problem.path in sent]
        assert not any(isinstance(value, (list, dict)) or value == "x" * 2_000 for value in wrong)


UNJSONLIKE = {"path": "a", 1: 2}


@both
@pytest.mark.parametrize("sent", [{"limit": 1}, '{"limit": 1}', {"path": "a", "pth": "b"}, UNJSONLIKE, None], ids=repr)
def test_a_refusal_keeps_what_was_sent_and_the_schema(parameters: Parameters, sent: object) -> None:
    """The texts need both; neither is in the repr, in an equality, or in a pickle."""
    error = parameters.advise(sent, refuse(parameters, sent))
    assert (error.sent, error.schema) == (sent, parameters.schema)
    bare = InvalidParams(error.problems)
    assert error == bare
    assert repr(error) == repr(bare)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.sent, copy.schema) == (None, None)


@both
def test_an_example_is_valid(parameters: Parameters) -> None:
    """The example holds the required parameters, and nothing else."""
    assert parameters.example() == '{"path": "text"}'


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        ({"path": "a", "b": 1, "a": 2}, ("b", "a")),
        ('{"path": "a", "b": 1}', ("b",)),
        ({"limit": 1}, ()),
        (None, ()),
        ("[]", ()),
        ("{", ()),
    ],
    ids=repr,
)
def test_undeclared_arguments_are_listed(sent: object, names: tuple[str, ...]) -> None:
    """The names that the schema does not declare are listed in the order in which they were sent."""
    for parameters in (Parameters.of_function(read), Parameters.of_schema(SCHEMA, "read")):
        assert parameters.find_undeclared(sent) == ()  # not used yet: they passed nothing on
        parameters.compile()
        assert parameters.find_undeclared(sent) == names


async def test_a_report_of_a_call_that_was_never_parsed_lists_none() -> None:
    """A tool whose parameters were not looked at has passed no undeclared argument on."""
    tools = ToolRegistry()
    tools.tool(read)
    tools.disable("read")
    report = await standard(tools).report(Call("read", {"path": "a"}))
    assert report.undeclared == ()


def test_a_wider_schema_may_decide() -> None:
    """With `accepted` the model is shown one schema, and its arguments are checked by another."""
    shown = {**SCHEMA, "properties": {"path": {"type": "string", "minLength": 3}}}
    parameters = Parameters.of_schema(shown, "read", accepted=SCHEMA)
    assert parameters.parse({"path": "a"}) == {"path": "a"}
    assert parameters.schema == shown
    assert refuse(parameters, {"path": 1}).schema == shown


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (None, {}),
        ("", {}),
        (" \n", {}),
        ({"a": 1}, {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("{'a': None}", {"a": None}),
        ("null", None),
        ("[1]", None),
        ('{"a": NaN}', None),
        ("a", None),
        (5, None),
        ([("a", 1)], None),
    ],
    ids=repr,
)
def test_arguments_are_read_in_every_form(sent: object, read: object) -> None:
    """A mapping, JSON, or a Python literal of an object is read; anything else is None."""
    assert read_arguments(sent) == read


@pytest.mark.parametrize(("length", "is_read"), [(10_000, True), (10_001, False)])
def test_a_long_text_is_read_as_json_only(length: int, is_read: bool) -> None:
    """Python's spelling is read up to 10,000 characters, and JSON up to the limits of a call."""
    text = "['" + "a" * (length - 4) + "']"
    assert len(text) == length
    assert (read_literal(text) is not None) == is_read
    assert read_literal(text.replace("'", '"')) is not None


ROOT: dict[str, Any] = {
    "$defs": {
        "a/b~c %": {"type": "integer"},
        "next": {"$ref": "#/$defs/a~1b~0c%20%25"},
        "ring": {"$ref": "#/$defs/ring"},
        "list": [{"type": "null"}],
    },
}


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({"$ref": "#/$defs/a~1b~0c%20%25"}, {"type": "integer"}),
        ({"$ref": "#/$defs/next"}, {"type": "integer"}),
        ({"$ref": "#/$defs/list/0"}, {"type": "null"}),
        ({"$ref": "#"}, ROOT),
        ({"$ref": "#/$defs/ring"}, {}),
        ({"$ref": "#/$defs/none"}, {}),
        ({"$ref": "#/$defs/list/1"}, {}),
        ({"$ref": "#/$defs/list/x"}, {}),
        ({"$ref": "#anchor"}, {}),
        ({"$ref": "https://example.invalid/a"}, {"$ref": "https://example.invalid/a"}),
        ({"$ref": 5}, {"$ref": 5}),
        (True, {}),
        (None, {}),
    ],
    ids=repr,
)
def test_references_are_resolved_in_one_document(node: Any, found: object) -> None:
    """A pointer into the same schema is followed to its end; a ring, and one to nowhere, give an empty schema."""
    assert resolve_ref(ROOT, node) == found


def test_a_reference_to_another_document_leads_nowhere() -> None:
    """Nothing is fetched."""
    assert find_target(ROOT, "https://example.invalid/a#/$defs/next") is None
    with pytest.raises(SetupError, match="probe"):
        Tool.from_schema(name="probe", parameters={"$ref": "https://example.invalid/a"}, handler=nothing)


def test_text_inside_text_is_a_malformed_call_that_can_be_repaired() -> None:
    """JSON text of JSON text is one object, if the rule may be used."""
    parameters = Parameters.of_function(read)
    sent = '"{\\"path\\": \\"a\\"}"'
    error = parameters.parse(sent)
    assert isinstance(error, MalformedCall)
    assert parameters.repair(sent, error, ALL) == (
        {"path": "a"},
        (Repair("", "json_text", sent, {"path": "a"}),),
    )
    assert parameters.repair(sent, error, ALL - {"json_text"}) is None


def test_a_missing_parameter_of_a_nested_object_is_described() -> None:
    """Parameters of a tool's parameters are described as its own are."""
    schema = {"type": "object", "properties": {"a": {**SCHEMA, "additionalProperties": True}}, "required": ["a"]}
    error = refuse(Parameters.of_schema(schema, "probe"), {"a": {}})
    assert error.problems == (Problem("a.path", "required", "a string"),)


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a", "path": "b"}',
        '{"path": "a", "path": "a"}',
        '{"path": "a", "pa\\u0074h": "b"}',
        '{"path": "a", "path": "b", "more": "no object"}',
        '{"path": "a:", "more": {"x": [{"y": 1, "y": 2}]}}',
        '{"path": {"y": 1, "y": 2}}',
        '{"path": "a:", "more": {"x": [' + '{"y": 1}, ' * 20 + '{"y": 1, "y": 2}]}}',
        '{"path": "a:", "more": {"x": [' + '{"y": "\\":"}, ' * 20 + '{"y": 1, "\\u0079": 2}]}}',
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_a_name_that_stands_twice_is_refused(text: str, raw: bool) -> None:
    """Text in which an object has one name twice is refused, at any depth, and never repaired: either may be meant."""

    @tool(effect="mutating")
    def delete(path: str, more: dict[str, Any] | None = None) -> str:
        return path

    tools = ToolRegistry()
    tools.register(
        Tool.from_schema(name="delete", parameters=delete.parameters.schema, handler=nothing) if raw else delete
    )
    run = standard(tools)
    error = run.call_sync("delete", text).failure()
    assert error == MalformedCall("an object has one name twice")
    assert run.call_sync("delete", '{"path": "c:", "more": {"x": {"path": 1}}}').unwrap() == ("done" if raw else "c:")


ALONE: list[Any] = [
    {"a": "x"},
    {"a": [1]},
    {1: 2},
    {"a": (1,)},
    {"a": b"x"},
    OrderedDict[str, int](a=1),
    1,
    [1],
    (1,),
    None,
    object(),
]


@pytest.mark.parametrize("item", ALONE)
def test_a_value_is_json_among_many_if_it_is_json_alone(item: Any) -> None:
    """Many objects are looked at together, and one that no model can send is found among them."""
    many = [{"a": 1}, {"b": None}] * 20
    assert is_json({"x": [*many, item]}) == is_json(item)


LEAVES = st.fixed_dictionaries({"a": st.integers(), "b": st.text(max_size=2)})
ITEMS = st.lists(LEAVES | st.integers() | st.lists(st.integers(), max_size=2) | st.just((1, {2})), max_size=4)


def list_containers(value: Any) -> list[Any]:
    """All dicts and lists in a value, in the order in which they stand there."""
    held = cast("dict[str, Any] | list[Any]", value)
    if not isinstance(value, (dict, list)):
        return []
    inner = list(held.values()) if isinstance(held, dict) else held
    return [held, *(found for each in inner for found in list_containers(each))]


@given(st.dictionaries(st.text(max_size=2), ITEMS | LEAVES, max_size=3), st.lists(st.integers(0, 40), max_size=3))
def test_a_copy_shares_no_container_and_keeps_what_stands_twice(params: dict[str, Any], twice: list[int]) -> None:
    """Each list and dict is copied once, however often it stands in the params."""
    many: list[Any] = [{"at": place} for place in range(20)]
    params = {"first": many[0], **params, "many": many, "numbers": list(range(20))}
    known = list_containers(params)
    for place, index in enumerate(twice):
        params[f"again {place}"] = known[index % len(known)] if index % len(known) else [{"a": 1}]
    params["all"] = [each for each in known[1:] if isinstance(each, dict)] * 2
    copied = copy_containers(params)
    assert copied == params
    sent, made = list_containers(params), list_containers(copied)
    assert {id(each) for each in sent}.isdisjoint(map(id, made))
    assert [[each is other for other in sent] for each in sent] == [[each is other for other in made] for each in made]


def test_a_copy_of_what_holds_itself_holds_itself() -> None:
    """As deep as that is."""
    params: dict[str, Any] = {"items": [{"a": 1}]}
    params["items"].append(params)
    copied = copy_containers(params)
    assert copied["items"][1] is copied
    assert copied["items"][0] == {"a": 1}
    assert copied["items"][0] is not params["items"][0]
