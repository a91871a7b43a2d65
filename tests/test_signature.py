"""Signatures: the schema that a model is shown of a function, and what each type accepts."""

# A tool made of a function of any type has no type either.
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable, Mapping
from datetime import date
from typing import Annotated, Any, Literal, Union, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, FailFast, Field
from typing_extensions import Unpack

import json_values
from shapes import MISSING, TYPES, Color, Options, Point, both, taking
from toolcall_pipeline import InvalidParams, SetupError, ToolRegistry, is_success, tool
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.parameters.schema_generator import drop_titles


def inline_refs(schema: Any, root: Mapping[str, Any]) -> Any:
    """Replace the references of a schema, once, by what they refer to."""
    if isinstance(schema, list):
        return [inline_refs(each, root) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    known = cast("dict[str, Any]", schema)
    if "$ref" in known:
        return root["$defs"][known["$ref"].removeprefix("#/$defs/")]
    return {key: inline_refs(value, root) for key, value in known.items()}


@pytest.mark.parametrize(
    ("hint", "schema"), [pytest.param(*row[:2], id=name) for name, row in TYPES.items() if row[1] is not MISSING]
)
def test_each_type_has_its_json_schema(hint: Any, schema: dict[str, Any]) -> None:
    """The schema of a parameter is the JSON Schema of its type, and nothing else."""
    shown = taking(hint).definition()["parameters"]
    assert inline_refs(shown["properties"]["x"], shown) == schema
    assert (shown["type"], shown["required"], shown["additionalProperties"]) == ("object", ["x"], False)


@pytest.mark.parametrize(
    ("hint", "sent", "param"),
    [
        pytest.param(row[0], *good, id=f"{name}-{place}")
        for name, row in TYPES.items()
        for place, good in enumerate(row[2])
    ],
)
def test_each_type_accepts_its_json_form(hint: Any, sent: Any, param: Any) -> None:
    """A value in its JSON form becomes a value of the parameter's type, from a mapping and from text."""
    parsed = both(taking(hint), {"x": sent})
    assert parsed == {"x": param}
    assert type(parsed["x"]) is type(param)


def documented(  # noqa: D417  # not every parameter has a description
    path: str,
    limit: Annotated[int, Field(ge=1, description="Its own words.")] = 10,
    mode: str = Field(default="r", max_length=2, description="How.", examples=["rb"]),
    lines: list[int] = Field(default_factory=list),  # noqa: B008  # as pydantic users write it
    title: str = "t",
) -> None:
    """Read.

    Args:
        path: Where it is,
            over two lines.
        limit: Not these.
        title: A property of that name.
    """


def test_a_schema_holds_what_the_author_wrote() -> None:
    """Descriptions come from a Field, or else from the docstring; defaults are shown, also those of a Field."""
    assert tool(documented).definition()["parameters"] == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where it is, over two lines."},
            "limit": {"type": "integer", "minimum": 1, "default": 10, "description": "Its own words."},
            "mode": {"type": "string", "maxLength": 2, "default": "r", "description": "How.", "examples": ["rb"]},
            "lines": {"type": "array", "items": {"type": "integer"}},
            "title": {"type": "string", "default": "t", "description": "A property of that name."},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_a_field_as_default_is_filled_in() -> None:
    """The default of a Field is filled in, since Python would pass the Field; a factory makes a new one each time."""
    parse = tool(documented).parse
    one: Any = parse({"path": "a"})
    other: Any = parse('{"path": "a"}')
    assert one == other == {"path": "a", "mode": "r", "lines": []}
    assert one["lines"] is not other["lines"]
    assert parse({"path": "a", "mode": "w", "lines": [1]}) == {"path": "a", "mode": "w", "lines": [1]}


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (None, None),
        (3, 3),
        (Color.RED, "red"),
        (Point(1), {"x": 1, "label": "here", "tags": []}),
        (date(2026, 11, 21), "2026-11-21"),
        ((1, 2), [1, 2]),
    ],
    ids=repr,
)
def test_defaults_are_shown_as_json(default: object, shown: object) -> None:
    """A default is shown to the model in its JSON form, and not filled in: the function has it."""
    assert taking(Any, default).definition()["parameters"]["properties"]["x"] == {"default": shown}
    assert taking(Any, default).parse({}) == {}


@pytest.mark.parametrize("default", [pytest.param(object(), id="object"), math.nan, math.inf, b"\xff", print], ids=repr)
def test_a_default_that_is_no_json_is_not_shown(default: object) -> None:
    """A sentinel is not shown: a schema holds JSON only, and the parameter is optional all the same."""
    shown = taking(Any, default).definition()
    assert shown["parameters"]["properties"]["x"] == {}
    assert "required" not in shown["parameters"]
    json.dumps(shown, allow_nan=False)


class Titled(BaseModel):
    title: str = Field(title="A title that pydantic shows")
    properties: dict[str, int] = {}


def named_like_keywords(x: Titled, title: int = 0, properties: int = 0, required: int = 0) -> None: ...


def test_titles_are_left_out_and_parameters_of_that_name_are_not() -> None:
    """Titles repeat names and cost tokens; a parameter may be called title, or properties."""
    shown = tool(named_like_keywords).definition()["parameters"]
    assert list(shown["properties"]) == ["x", "title", "properties", "required"]
    assert shown["$defs"]["Titled"]["properties"]["title"] == {"type": "string"}
    assert list(shown["$defs"]["Titled"]["properties"]) == ["title", "properties"]
    assert '"A title' not in json.dumps(shown)
    assert "title" not in shown


def unannotated(x: Any, b: Any = 2) -> None: ...
def any_more(a: int, **more: object) -> None: ...
def numbers_more(a: int, **more: int) -> None: ...
def named_more(a: int, **more: Unpack[Options]) -> None: ...
def with_alias(from_: Annotated[str, Field(alias="from", description="Whence.")] = "here") -> None: ...
def of_context(context: Any, **more: object) -> None: ...


unannotated.__annotations__ = {}
SIGNATURES: dict[str, tuple[Callable[..., Any], dict[str, Any], object]] = {
    "**kwargs": (any_more, {"a": 1, "b": [2]}, {"a": 1, "b": [2]}),
    "**kwargs of a type": (numbers_more, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    "**kwargs of another type": (numbers_more, {"a": 1, "b": [2], "c": "3"}, [("b", "type"), ("c", "type")]),
    "**kwargs by name": (named_more, {"a": 1, "depth": 2}, {"a": 1, "depth": 2}),
    "**kwargs by name, of a wrong type": (named_more, {"a": 1, "depth": "2"}, [("depth", "type")]),
    "**kwargs by name, another": (named_more, {"a": 1, "depth": 2, "b": 3}, [("b", "additionalProperties")]),
    "no annotation accepts anything": (unannotated, {"x": [None]}, {"x": [None]}),
    "alias": (with_alias, {"from": "there"}, {"from_": "there"}),
    "alias, by python's name": (with_alias, {"from_": "there"}, {"from_": "there"}),
    "partial": (functools.partial(documented, title="bound"), {"path": "a"}, {"path": "a", "mode": "r", "lines": []}),
    "partial's own": (functools.partial(with_alias, from_="x"), {"from_": "y"}, [("from_", "additionalProperties")]),
    "partial's own **kwargs": (functools.partial(any_more, b=1), {"a": 1, "b": 2}, [("b", "additionalProperties")]),
}


@pytest.mark.parametrize(
    ("function", "sent", "expected"), [pytest.param(*row, id=name) for name, row in SIGNATURES.items()]
)
def test_signatures_of_all_kinds(function: Callable[..., Any], sent: dict[str, Any], expected: object) -> None:
    """A parameter that can be passed by name is accepted; one that is filled already, or has no name, is not."""
    parsed = both(tool(name="probe")(function), sent)
    if isinstance(parsed, InvalidParams):
        assert [(each.path, each.rule) for each in parsed.problems] == expected
    else:
        assert parsed == expected


def test_a_context_cannot_be_sent() -> None:
    """An argument with the name of the ToolContext's parameter is refused, even by `**kwargs`."""
    parsed = both(tool(context=True)(of_context), {"a": 1, "context": 2})
    assert isinstance(parsed, InvalidParams)
    assert [(each.path, each.rule) for each in parsed.problems] == [("context", "additionalProperties")]


def test_what_a_partial_filled_is_not_shown() -> None:
    """An argument that a partial has bound, perhaps a secret, is not in the schema."""
    shown = json.dumps(tool(name="probe")(functools.partial(documented, path="secret")).definition())
    assert "secret" not in shown
    assert '"path"' not in shown


class Schemaless: ...


FUNCTION: Any = Callable[[int], int]


def found_nowhere(a: Any) -> None: ...


found_nowhere.__annotations__ = {"a": "Missing"}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(found_nowhere, "found_nowhere: name 'Missing' is not defined", id="unknown annotation"),
        pytest.param(taking(Schemaless).fn, "probe: .*Schemaless", id="class without a schema"),
        pytest.param(taking(FUNCTION).fn, "probe: .*Callable", id="function type"),
        pytest.param(taking(list[Schemaless]).fn, "probe: .*Schemaless", id="inside"),
    ],
)
def test_a_type_without_a_schema_is_a_setup_error(function: Callable[..., Any], message: str) -> None:
    """An annotation that cannot be found, or has no schema, raises at first use, with the function's name."""
    with pytest.raises(SetupError, match=message):
        tool(function).definition()


@pytest.mark.parametrize("keyword", ["enum", "const", "examples", "required", "discriminator", "default"])
def test_values_in_a_schema_stay_as_they_are(keyword: str) -> None:
    """Titles that pydantic makes of names are left out; one inside of a value, or a name of the author's, is none."""
    value = {"title": "kept", "inner": [{"title": "kept too"}]}
    named = {"title": {"type": "string", "title": "Title"}}
    schema: dict[str, Any] = {"title": "Arguments", "properties": {"x": {keyword: value, "title": "X"}, **named}}
    shown = drop_titles(schema)
    assert shown == {"properties": {"x": {keyword: value}, "title": {"type": "string"}}}


def with_notes(
    a: Annotated[list[int], FailFast()],
    b: list[Annotated[int, ["a note"]]],
    c: Annotated[int, Field(ge=1), {"a": "note"}] = 1,
) -> None: ...


async def test_metadata_of_any_kind_may_stand_beside_a_type() -> None:
    """Also such as has no hash, as pydantic's own FailFast."""
    made = tool(effect="read")(with_notes)
    arguments = {"a": [1], "b": [2], "c": 3}
    assert arguments == made.parse(arguments)
    tools = ToolRegistry()
    tools.register(made)
    assert is_success(await standard(tools).run(made, a=[1], b=[2]))


_builtins: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from((str, int, float, bool, Any, object, list, dict, Literal["a", "x"], Literal["x", "a"])),
    lambda inner: st.one_of(
        inner.map(lambda hint: cast("Any", list)[hint]),
        inner.map(lambda hint: cast("Any", dict)[str, hint]),
        inner.map(lambda hint: Union[hint, None]),  # noqa: UP007  # Literal and Any too
        st.tuples(inner, inner).map(lambda pair: Union[pair]),  # noqa: UP007  # of any types
    ),
    max_leaves=4,
)


def taking_each(hints: Mapping[str, Any], optional: frozenset[str]) -> Callable[..., None]:
    """Make a function of these keyword parameters; the optional ones are None by default."""

    def probe(**more: Any) -> None: ...

    empty, keyword = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    cast("Any", probe).__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, keyword, annotation=hint, default=None if name in optional else empty)
            for name, hint in hints.items()
        ]
    )
    return probe


@pytest.mark.hypothesis
@settings(deadline=None, max_examples=300)
@given(
    st.dictionaries(st.sampled_from("abx"), _builtins),
    st.frozensets(st.sampled_from("abx")),
    st.lists(st.dictionaries(st.sampled_from("abxy"), json_values.values), max_size=4),
)
def test_a_builtin_type_is_read_as_pydantic_reads_it(
    hints: dict[str, Any], optional: frozenset[str], sent: list[dict[str, Any]]
) -> None:
    """The parts of builtin types join to the schema and the values of the same types with a note beside them.

    A type with a note beside it is read anew each time, with its whole signature.
    """
    joined = tool(name="probe")(taking_each(hints, optional))
    noted = {name: Annotated[hint, object()] for name, hint in hints.items()}  # typing would return an equal type
    whole = tool(name="probe")(taking_each(noted, optional))
    assert json.dumps(joined.definition()) == json.dumps(whole.definition())
    for arguments in sent:
        assert repr(both(joined, arguments)) == repr(both(whole, arguments))


def test_equal_unions_in_another_order_are_read_apart() -> None:
    """``int | str`` equals ``str | int`` in Python, and a model reads them in the order that the author wrote."""
    shown = [taking(hint).definition()["parameters"]["properties"]["x"]["anyOf"] for hint in (int | str, str | int)]
    assert shown[0] == shown[1][::-1]


def test_a_schema_is_not_changed_through_another_tool() -> None:
    """Each tool has a copy of what is known of a type: a default of one is not shown by the next."""
    assert "default" in taking(list[int], []).definition()["parameters"]["properties"]["x"]
    assert taking(list[int]).definition()["parameters"]["properties"]["x"] == {
        "type": "array",
        "items": {"type": "integer"},
    }
