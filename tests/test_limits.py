"""Limits: arguments that are too large are refused before anybody reads them, with the limit in the text."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Annotated, Any, Literal, Union, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from returns.result import Failure
from typing_extensions import TypedDict

from support import a_tool, nothing
from toolcall_pipeline import Call, InvalidParams, Limits, MalformedCall, SetupError, Tool, ToolRegistry, render, tool
from toolcall_pipeline.middlewares import Validate, standard
from toolcall_pipeline.parameters import spelling
from toolcall_pipeline.parameters.limits import count_problems, measure
from toolcall_pipeline.parameters.schema_limits import _MOST, Growth  # pyright: ignore[reportPrivateUsage]  # what is counted
from toolcall_pipeline.parameters.tool_parameters import Parameters

NO_LIMITS = Limits(bytes=None, depth=None, keys=None)
Expr = Union["Add", "Mul", int]
Tagged = Annotated[Union["Plus", "Times"], Field(discriminator="op")]


class Add(TypedDict):
    """A form that no field tells from the next."""

    left: Expr
    right: Expr


class Mul(TypedDict):
    """The next."""

    left: Expr
    right: Expr
    by: int


class Plus(TypedDict):
    """A form that has a tag."""

    op: Literal["plus"]
    left: Tagged | int


class Times(TypedDict):
    """Another one."""

    op: Literal["times"]
    left: Tagged | int


@tool(effect="read")
async def evaluate(expr: Expr) -> str:
    """Evaluate."""
    return "ok"


@tool(effect="read")
async def evaluate_tagged(expr: Tagged) -> str:
    """Evaluate."""
    return "ok"


@tool(effect="read")
async def total(numbers: list[int], names: dict[str, int] | None = None) -> str:
    """Add."""
    return "ok"


def chain(depth: int, leaf: object, **beside: object) -> Any:
    value = leaf
    for _ in range(depth):
        value = {"left": value, **beside}
    return value


def refuse(arguments: object, limits: Limits, made: Tool[..., Any] | None = None) -> Any:
    made = made or a_tool()
    verdict = Validate(limits=limits)(Call(made.name, arguments).resolved(made))
    return verdict.failure() if type(verdict) is Failure else None


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
@pytest.mark.parametrize(
    ("limits", "within", "above", "kind", "words"),
    [
        (Limits(bytes=50), {"a": "x" * 40}, {"a": "x" * 60}, MalformedCall, "50 bytes"),
        (Limits(bytes=50), {"a": "é" * 20}, {"a": "é" * 30}, MalformedCall, "50 bytes"),
        (Limits(depth=3), {"a": [[1]]}, {"a": [[[1]]]}, MalformedCall, "3 levels"),
        (Limits(keys=4), {"a": [1, 2, 3]}, {"a": [1, 2, 3, 4]}, InvalidParams, "4 names and items"),
        (Limits(keys=2), {"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1}, InvalidParams, "2 names and items"),
    ],
)
def test_a_limit_is_named_where_it_is_broken(
    limits: Limits, within: object, above: object, kind: type[Any], words: str, *, as_text: bool
) -> None:
    """Arguments up to a limit pass; above it they are refused, and the text says which limit that is."""
    sent, refused = (json.dumps(each, ensure_ascii=False) if as_text else each for each in (within, above))
    assert refuse(sent, limits) is None
    error: Any = refuse(refused, limits)
    assert isinstance(error, kind)
    assert words in render(error)


@tool(effect="read")
async def note(text: str, count: int = 1, also: str | None = None) -> str:
    """Note."""
    return "ok"


@pytest.mark.parametrize("name", ["text", "also"])
@pytest.mark.parametrize(("limits", "most"), [(Limits(), 1_000_000), (Limits(bytes=2_000), 2_000)], ids=str)
def test_a_long_text_for_a_tool_of_flat_parameters_is_refused(limits: Limits, most: int, name: str) -> None:
    """Only its texts are measured before it is parsed, and each of them is, up to the last byte."""
    raw = Tool.from_schema(name="note", parameters=note.parameters.schema, handler=nothing, effect="read")
    for made in (note, raw):
        assert made.parse({"text": ""}) == {"text": ""}
        assert made.parameters.flat
        names = len({"text", name})  # "text" and "also" have four letters each
        for length, refused in ((most - 4 * names, False), (most - 4 * names + 1, True)):
            sent = {"text": "", name: "x" * length}
            assert (type(refuse(sent, limits, made)) is MalformedCall) == refused
        assert type(refuse(json.dumps({"text": "", name: "x" * most}), limits, made)) is MalformedCall


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize("limits", [Limits(keys=1), Limits(keys=31), Limits(bytes=1), Limits(bytes=1_000)], ids=str)
def test_a_small_limit_holds_for_a_tool_without_texts(limits: Limits) -> None:
    """It is measured before all else is said, whether the arguments are valid, wrong or incomplete."""
    add.compile()  # before that each call is measured
    most, _, keys = limits.most
    right: dict[str, int | str] = {"a": 1, "b": 2}
    calls: list[dict[str, int | str]] = [right, {"a": "x", "b": 2}, {"a": 1}, {"b": 2}, {"a": "x" * 2_000}]
    for sent in calls:
        size = len(sent) + sum(len(each) for each in sent.values() if isinstance(each, str))  # each name has one letter
        error: Any = refuse(sent, limits, add)
        told = "" if error is None else render(error)
        assert ("limit" in told) == (size > most or len(sent) > keys)
        assert bool(told) == ("limit" in told or sent is not right)


def closed(count: int, form: Any, **beside: Any) -> dict[str, Any]:
    properties = {f"p{n}": form for n in range(count)}
    return {"type": "object", "properties": properties, "additionalProperties": False, **beside}


@pytest.mark.parametrize(
    ("schema", "flat"),
    [
        (closed(32, {"type": "string"}), True),
        (closed(33, {"type": "string"}), False),
        (closed(1, {"type": ["integer", "null"]}), True),
        (closed(1, {"type": ["array", "null"]}), False),
        (closed(1, {"type": "object"}), False),
        (closed(1, {}), False),
        (closed(1, {"anyOf": [{"type": "string"}, {"type": "null"}]}), True),
        (closed(1, {"anyOf": [{"type": "string"}, {"type": "array"}]}), False),
        (closed(1, {"$ref": "#/$defs/d"}, **{"$defs": {"d": {"type": "number"}}}), True),
        (closed(1, {"type": "string"}, additionalProperties=True), False),
        (closed(1, {"type": "string"}, allOf=[{"properties": {"p0": {"type": "string"}}}]), False),
    ],
)
def test_which_parameters_are_flat(schema: dict[str, Any], flat: bool) -> None:
    """Those of which every valid call has one level and few names; `Validate` measures the others first."""
    made = Tool.from_schema(name="t", parameters=schema, handler=nothing, effect="read")
    made.parameters.compile()
    assert made.parameters.flat == flat


def test_a_mapping_that_is_no_dict_has_the_same_limits() -> None:
    """It is measured as the dict that it will be read as."""
    limits = Limits(keys=2)
    assert limits.check(MappingProxyType({"a": 1, "b": 1})) is None
    assert (
        limits.check(MappingProxyType({"a": 1, "b": 1, "c": 1})) == limits.check({"a": 1, "b": 1, "c": 1}) is not None
    )


def test_as_many_problems_as_are_told_are_all() -> None:
    """The entry that counts them stands before the others only where some are left out."""
    error = refuse({"numbers": ["x"] * 3}, Limits(problems=3), total)
    assert [problem.path for problem in error.problems] == ["numbers[0]", "numbers[1]", "numbers[2]"]
    error = refuse({"numbers": ["x"] * 4}, Limits(problems=3), total)
    assert [problem.path for problem in error.problems] == ["", "numbers[0]", "numbers[1]", "numbers[2]"]
    assert error.problems[0].expected == f"{count_problems(4).expected}, of which 3 are listed, which is the limit"
    assert [count_problems(found).expected for found in (4, None)] == [
        "too much is wrong with them: there are 4 problems",
        "too much is wrong with them: there may be more problems than the first",
    ]


def test_marks_in_a_text_are_no_levels_and_no_items() -> None:
    """Brackets and commas inside of a JSON string count for nothing."""
    sent = json.dumps({"a": "[{," * 500 + '"\\"'})
    assert refuse(sent, Limits(depth=2, keys=2)) is None


def test_a_few_problems_of_many_are_told() -> None:
    """As many problems as the limit are listed, after one that says how many there are."""
    error = refuse({"numbers": ["x"] * 100}, Limits(problems=3), total)
    assert len(error.problems) == 1 + 3
    assert "there are 100 problems, of which 3 are listed" in render(error)
    many = refuse({"numbers": [1], "names": {f"k{i}": "x" for i in range(4_000)}}, Limits(), total)
    assert "there are 4000 problems" in render(many)
    assert "names" in [problem.path for problem in many.problems]
    assert "numbers" not in [problem.path for problem in many.problems]


def test_large_arguments_of_a_raw_schema_name_the_parameters_that_are_wrong() -> None:
    """Where not all problems are listed, the parameters that they are in are."""
    numbers = {"type": "array", "items": {"type": "integer"}}
    schema = {"type": "object", "properties": {"good": numbers, "bad": numbers}, "additionalProperties": False}
    made = Tool.from_schema(name="t", parameters=schema, handler=nothing, effect="read")
    error = refuse({"good": [1] * 300, "bad": ["x"] * 300, "odd": 1}, Limits(), made)
    assert [(each.path, each.rule) for each in error.problems[1:]] == [
        ("bad", "anyOf"),
        ("odd", "additionalProperties"),
    ]


def test_text_that_a_repair_opens_keeps_to_the_limits() -> None:
    """JSON text inside of JSON text does not get past a limit."""
    limits = Limits(keys=10, depth=3)
    assert refuse({"numbers": json.dumps([1] * 5)}, limits, total) is None
    assert refuse({"numbers": json.dumps([1] * 50)}, limits, total) is not None
    assert refuse(json.dumps(json.dumps({"numbers": [1] * 50})), limits, total) is not None


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "9"], ids=repr)
@pytest.mark.parametrize("name", ["bytes", "depth", "keys", "problems"])
def test_a_limit_is_a_positive_integer(name: str, bad: Any) -> None:
    """Anything else is refused at set-up, and None only where it means no limit."""
    with pytest.raises(SetupError, match=name):
        Limits(**{name: bad})
    with pytest.raises(SetupError, match="limits"):
        Validate(limits=bad)


async def test_the_standard_stack_takes_limits() -> None:
    """`standard` passes them to Validate."""
    registry = ToolRegistry()
    registry.register(total)
    outcome = await standard(registry, limits=Limits(keys=5)).call("total", {"numbers": [1] * 9})
    assert "5 names and items" in render(outcome)
    assert (await standard(registry).call("total", {"numbers": [1] * 9})).unwrap() == "ok"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_text_and_mapping_are_measured_alike(sent: dict[str, Any]) -> None:
    """What passes as a mapping passes as text, for levels and for names and items."""
    size = measure(sent, Limits(bytes=None, depth=None, keys=None))
    text = json.dumps(sent, separators=(",", ":"))
    for form in (sent, text):
        assert refuse(form, Limits(depth=size.depth, keys=max(1, size.keys))) is None
        assert size.depth == 1 or refuse(form, Limits(depth=size.depth - 1)) is not None
        assert size.keys <= 1 or refuse(form, Limits(keys=size.keys - 1)) is not None


def with_tuples(value: Any) -> Any:
    """The value with a tuple for each list, which is measured value by value."""
    if isinstance(value, dict):
        return {name: with_tuples(each) for name, each in cast("dict[str, Any]", value).items()}
    return tuple(map(with_tuples, cast("list[Any]", value))) if isinstance(value, list) else value


@given(JSON, st.integers(0, 300), st.integers(1, 6), st.integers(0, 300))
def test_values_of_json_are_measured_as_others_are(sent: Any, size: int, depth: int, keys: int) -> None:
    """A whole level at once gives what its values give one by one, and the same refusal."""
    many = ["é", *[sent] * 20]
    assert measure(many, NO_LIMITS) == measure(with_tuples(many), NO_LIMITS)
    limits = Limits(bytes=max(1, size), depth=depth, keys=max(1, keys))
    at_once, one_by_one = limits.check_value(many), limits.check_value(with_tuples(many))
    assert str(at_once and render(Failure(at_once))) == str(one_by_one and render(Failure(one_by_one)))


@pytest.mark.parametrize("depth", [1, 4, 5])
def test_a_union_that_holds_itself_is_parsed_as_deep_as_its_time_allows(depth: int) -> None:
    """Calls of usual depth are judged as those of any other tool are."""
    assert evaluate.parse({"expr": chain(depth, 1, right=2)}) == {"expr": chain(depth, 1, right=2)}
    assert type(evaluate.parse({"expr": chain(depth, "x", right=2)})) is InvalidParams


@pytest.mark.parametrize("leaf", [1, "x"], ids=repr)
@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
def test_a_union_that_holds_itself_is_refused_where_it_is_too_deep(leaf: object, *, as_text: bool) -> None:
    """A call that would be read exponentially often is refused, a valid one too."""
    sent = {"expr": chain(40, leaf, right=2)}
    error = evaluate.parse(json.dumps(sent) if as_text else sent)
    assert type(error) is MalformedCall
    assert "no field tells apart" in error.reason


def test_a_union_with_a_discriminator_has_no_bound_of_its_own() -> None:
    """Only unions that are read exponentially often are bounded: other tools pay nothing."""
    assert evaluate.parameters.is_ambiguous
    assert not evaluate_tagged.parameters.is_ambiguous
    assert not total.parameters.is_ambiguous
    sent = {"expr": chain(50, 1, op="plus")}
    assert evaluate_tagged.parse(sent) == sent


LINK = {"$ref": "#/$defs/l"}


def test_how_often_values_are_read_is_counted_up_to_a_limit() -> None:
    """The limit itself is counted; whatever is above it is one more."""
    for empty_objects, counted in ((10, 11), (_MOST - 1, _MOST), (_MOST, _MOST + 1), (_MOST + 9, _MOST + 1)):
        arguments: list[dict[str, int]] = [{}] * empty_objects
        assert Growth(names=1, items=1).count(arguments) == counted


@pytest.mark.parametrize(
    ("inner", "ambiguous"),
    [
        pytest.param({"properties": {"a": LINK}}, False, id="ring"),
        pytest.param({"anyOf": [{"type": "null"}, {"properties": {"a": LINK}}]}, False, id="one branch goes on"),
        pytest.param(
            {"anyOf": [{"type": "array", "items": LINK}, {"type": "object", "additionalProperties": LINK}]},
            False,
            id="an array is no object",
        ),
        pytest.param({"anyOf": [{"properties": {"a": LINK}}, {"properties": {"b": LINK}}]}, False, id="other names"),
        *(
            pytest.param({"items": LINK, keyword: dict(LINK)}, True, id=f"items and {keyword}")
            for keyword in ("contains", "additionalItems", "unevaluatedItems")
        ),
        pytest.param({"items": LINK, "unevaluatedItems": {"type": "null"}}, False, id="items once"),
        pytest.param({"anyOf": [{"properties": {"a": LINK}}, {"properties": {"a": LINK}}]}, True, id="union"),
        pytest.param({"allOf": [{"properties": {"a": LINK}}, {"properties": {"a": LINK}}]}, True, id="both"),
        pytest.param({"properties": {"a": LINK}, "patternProperties": {"^a": LINK}}, True, id="name and pattern"),
        pytest.param({"if": {"properties": {"a": LINK}}, "then": {"properties": {"a": LINK}}}, True, id="condition"),
    ],
)
def test_what_is_read_exponentially_often(inner: dict[str, Any], ambiguous: bool) -> None:  # a table
    """A schema is bounded if two subschemas of one value lead to the same value inside of it, again and again."""
    schema = {"type": "object", "properties": {"x": LINK}, "$defs": {"l": inner}}
    made = Tool.from_schema(name="t", parameters=schema, handler=nothing, effect="read")
    assert made.parameters.is_ambiguous is ambiguous


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubled(keyword: str, levels: int) -> dict[str, Any]:
    steps = {f"s{i}": {keyword: [{"$ref": f"#/$defs/s{i + 1}"}] * 2} for i in range(levels)}
    return {"type": "object", **steps["s0"], "$defs": {**steps, f"s{levels}": {"type": "object"}}}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (deep(2_000), "at most 100 levels"),
        ({"type": "object", "properties": {"a": {"pattern": "a" * 20_000}}}, "at most 2000 characters"),
        ({"type": "object", "patternProperties": {"a" * 20_000: {}}}, "at most 2000 characters"),
        ({"type": "object", "enum": [0] * 200_000}, "at most 100000 values"),
        (doubled("anyOf", 20), "more than 1000 subschemas"),
        (doubled("allOf", 20), "more than 1000 subschemas"),
        (doubled("oneOf", 20), "more than 1000 subschemas"),
    ],
    ids=["deep", "pattern", "pattern of names", "large", "anyOf", "allOf", "oneOf"],
)
def test_a_hostile_schema_is_refused_at_set_up(schema: dict[str, Any], words: str) -> None:
    """A schema that nobody could walk in time is a SetupError, which names the tool and the limit."""
    with pytest.raises(SetupError, match=words) as found:
        Tool.from_schema(name="remote", parameters=schema, handler=nothing)
    assert "remote" in str(found.value)


def test_a_schema_that_holds_itself_is_refused() -> None:
    """A Python object may hold itself, which JSON cannot."""
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    with pytest.raises(SetupError, match="holds itself"):
        Tool.from_schema(name="remote", parameters=schema, handler=nothing)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("short", ["b", "", 5])
def test_one_long_text_of_a_flat_tool_is_enough(place: int, short: Any) -> None:
    """Wherever it stands, and whatever the others are; as long as the limit it is accepted."""

    @tool(effect="read")
    async def write(a: str | int, b: str | int, c: str | int) -> None: ...

    @tool(effect="read")
    async def write_one(a: str) -> None: ...

    for made in (write, write_one):
        made.compile()
        assert made.parameters.flat
    stage = Validate(limits=Limits(bytes=1_000))
    for length, accepted in ((1_001, False), (900, True)):
        sent = {name: "x" * length if index == place else short for index, name in enumerate("abc")}
        verdict: Any = stage(Call("write", sent).resolved(write))
        assert (type(verdict) is not Failure) == accepted
        verdict = stage(Call("write_one", {"a": "x" * length}).resolved(write_one))
        assert (type(verdict) is not Failure) == accepted


def _fork(inner: dict[str, Any], **own: Any) -> dict[str, Any]:
    """A union that reads each item of a list twice."""
    lists: list[dict[str, Any]] = [{"type": "array", "items": inner}, {"type": "array", "items": inner, "minItems": 1}]
    return {**own, "anyOf": [*lists, {"type": "integer"}]}


INTEGER: dict[str, Any] = {"type": "integer"}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
REFERENCES: dict[str, dict[str, Any]] = {
    "pointer": {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": _fork({"$ref": "#/$defs/n"})}},
    "anchor": {"properties": {"a": _fork({"$ref": "#n"}, **{"$anchor": "n"})}},
    "dynamic": {"properties": {"a": _fork({"$dynamicRef": "#n"}, **{"$dynamicAnchor": "n"})}},
    "own id": {
        "$id": "https://x.test/r",
        "properties": {"a": {"$ref": "https://x.test/r#/$defs/n"}},
        "$defs": {"n": _fork({"$ref": "r#/$defs/n"})},
    },
    "id inside": {"properties": {"a": {"$ref": "urn:n"}}, "$defs": {"n": _fork({"$ref": "urn:n"}, **{"$id": "urn:n"})}},
    "its root": {"properties": {"a": {"$ref": "urn:n"}}, "$defs": {"n": _fork({"$ref": "#"}, **{"$id": "urn:n"})}},
    "recursive": {
        "$schema": DRAFT_2019,
        "properties": {"a": {"$ref": "urn:n"}},
        "$defs": {"n": _fork({"$recursiveRef": "#"}, **{"$id": "urn:n", "$recursiveAnchor": True})},
    },
    "an id in draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://x.test/r",
        "properties": {"a": {"$ref": "n.json"}},
        "definitions": {"n": _fork({"$ref": "n.json"}, id="n.json")},
    },
    "an anchor in draft 7": {
        "$schema": DRAFT_7,
        "properties": {"a": {"$ref": "#n"}},
        "definitions": {"n": _fork({"$ref": "#n"}, **{"$id": "#n"})},
    },
    "an id beside a reference in draft 7": {
        "$schema": DRAFT_7,
        "$id": "http://x.test/a/r",
        "properties": {"a": {"$ref": "n.json"}},
        "definitions": {
            "n": _fork({"$id": "http://x.test/b/other", "$ref": "n.json"}, **{"$id": "http://x.test/a/n.json"})
        },
    },
    "an id in other letters": {
        "$id": "HTTP://X.test/r",
        "properties": {"a": {"$ref": "http://x.test/r#/$defs/n"}},
        "$defs": {"n": _fork({"$ref": "http://x.test/r#/$defs/n"})},
    },
    "the address of a schema without an id": {
        "properties": {"a": {"$ref": "json-schema:///#/$defs/n"}},
        "$defs": {"n": _fork({"$ref": "json-schema:///#/$defs/n"})},
    },
    "a reference beside it": {
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"any": {"description": "any"}, "n": _fork({"$ref": "#/$defs/n"}, **{"$ref": "#/$defs/any"})},
    },
    "many references in a row": {
        "properties": {"a": {"$ref": "#/$defs/r0"}},
        "$defs": {
            **{f"r{i}": {"$ref": f"#/$defs/r{i + 1}"} for i in range(30)},
            "r30": _fork({"$ref": "#/$defs/r0"}),
        },
    },
    "items as a list": {
        "$schema": DRAFT_7,
        "properties": {"a": {"$ref": "#/definitions/n"}},
        "definitions": {
            "n": {"anyOf": [*({"items": [{"$ref": "#/definitions/n"}], "type": "array"} for _ in "ab"), INTEGER]}
        },
    },
    "behind many other places": {
        "properties": {
            "a": {"$ref": "#/$defs/n"},
            **{f"p{i}": {"type": "object", "properties": {"q": {"type": "string"}}} for i in range(5_001)},
        },
        "$defs": {"n": _fork({"$ref": "#/$defs/n"})},
    },
    "a name with a slash": {
        "properties": {"a": {"$ref": "#n"}},
        "$defs": {"a/b~c": _fork({"$ref": "#n"}, **{"$anchor": "n"})},
    },
}


@pytest.mark.parametrize("case", REFERENCES)
def test_however_a_union_refers_to_itself(case: str) -> None:
    """By a pointer, an anchor or an id: a deep value is refused unread, a flat one runs or is described."""
    tools = ToolRegistry()
    tools.register(Tool.from_schema(name="t", parameters={"type": "object", **REFERENCES[case]}, handler=nothing))
    pipeline = standard(tools)
    deep: Any = "x"
    for _ in range(40):
        deep = [deep]
    assert isinstance(pipeline.call_sync("t", {"a": deep}).failure(), MalformedCall)
    assert isinstance(pipeline.call_sync("t", {"a": [["x"]]}).failure(), InvalidParams)
    pipeline.call_sync("t", {"a": [[1], 2]}).unwrap()


def test_a_union_is_found_beside_another_type_and_behind_a_dependency() -> None:
    """A validator reads what stands inside of a value even where its type is wrong, or where a name asks for it."""
    link = {"properties": {"a": {"$ref": "#/$defs/n"}}}
    for schema in (
        {"oneOf": [{**link, "type": "string"} for _ in "ab"]},
        {"dependencies": {"a": {"oneOf": [link, dict(link), INTEGER]}}},
    ):
        made = Tool.from_schema(
            name="t", parameters={"type": "object", **link, "$defs": {"n": schema}}, handler=nothing
        )
        assert made.parameters.is_ambiguous


def test_a_union_that_goes_on_through_the_schema_of_schemas_is_found() -> None:
    """A dynamic reference in a schema that the validator has itself may lead back."""
    meta = "https://json-schema.org/draft/2020-12/schema"
    schema = {
        "$dynamicAnchor": "meta",
        "type": "object",
        "anyOf": [{"$ref": meta}, {"$ref": meta}, {"type": "integer"}],
    }
    assert Tool.from_schema(name="t", parameters=schema, handler=nothing).parameters.is_ambiguous
    plain = {"type": "object", "properties": {"schema": {"$ref": meta}}}
    assert not Tool.from_schema(name="t", parameters=plain, handler=nothing).parameters.is_ambiguous


LARGE: dict[str, tuple[dict[str, Any], str]] = {
    "a reference of many steps": (
        {"properties": {"a": {"$ref": "#" + "/" * 2_000}}},
        "a pattern or a reference must have at most 2000 characters",
    ),
    "a long name above many values": (
        {"properties": {"n" * 100_000: {"properties": {f"p{i}": {} for i in range(300)}}}},
        "its names are so long that the paths have more than 20000000 characters",
    ),
    "many patterns for a name": (
        {"patternProperties": {f"a{i}": {} for i in range(101)}},
        "more than 100 patterns apply to the names of one place",
    ),
    "many targets of each reference": (
        {
            "properties": {f"p{i}": {"$dynamicRef": "#n"} for i in range(400)},
            "$defs": {f"d{i}": {"$dynamicAnchor": "n"} for i in range(400)},
        },
        "references by id or anchor lead to more than 100000 places",
    ),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_schema_that_takes_long_or_much_memory_is_refused(case: str) -> None:
    """A validator keeps the path to each value, and tries each pattern for each name: both have a bound."""
    schema, words = LARGE[case]
    with pytest.raises(SetupError, match=words):
        Tool.from_schema(name="t", parameters={"type": "object", **schema}, handler=nothing)


def test_errors_of_a_wide_union_are_counted_before_they_are_listed() -> None:
    """A hundred items that fit none of 250 forms are 25,000 errors: the parameter is told instead."""
    forms = [{"type": "object", "properties": {"k": {"const": i}}, "required": ["k"]} for i in range(250)]
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"anyOf": forms}}}}
    made = Tool.from_schema(name="t", parameters=schema, handler=nothing)
    error = made.parse({"a": [{"k": -1}] * 100})
    assert isinstance(error, InvalidParams)
    assert [each.path for each in error.problems] == ["", "a"]
    error = made.parse({"a": [{"k": -1}]})
    assert isinstance(error, InvalidParams)
    assert [each.path for each in error.problems] == ["a[0].k"]


def test_names_are_compared_by_their_words_only_where_their_letters_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice of thousands is compared in milliseconds: words take a hundred times as long as letters."""
    compared: list[str] = []

    def note(sent: str, other: str) -> bool:
        compared.append(other)
        return False

    monkeypatch.setattr(spelling, "is_opposite", note)
    assert spelling.find_nearest("colour 1999x", (f"colour 1{i}" for i in range(2_000))) == "colour 1999"
    assert len(compared) < 50  # of 2,000


@pytest.mark.parametrize("is_only_shown", [True, False])
def test_too_many_targets_of_references_are_found_at_set_up(is_only_shown: bool) -> None:
    """A schema that only the mask of a call would walk through is refused with the tool, and no call raises."""
    forms = [{"$dynamicAnchor": "n", "properties": {"x": {"$dynamicRef": "#n"}}} for _ in range(400)]
    many = {"type": "object", "$defs": {f"d{number}": form for number, form in enumerate(forms)}}
    accepted = {"type": "object"} if is_only_shown else None
    with pytest.raises(SetupError, match="lead to more than 100000 places"):
        Parameters.of_schema(many, "pay", accepted=accepted).compile()
