"""The form in a refusal: what it shows, and that a call which follows it is accepted."""

# A tool made of a function of any type has no type either.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import datetime as dt
import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from toolcall_pipeline import InvalidParams, Problem, Tool, ToolRegistry, render
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.parameters.schema import is_array, is_object

LEAD = "with arguments of this form: "
TEXT, INTEGER = {"type": "string"}, {"type": "integer"}


def an_object(required: Any = None, **properties: Any) -> dict[str, Any]:
    names = [*properties] if required is None else required
    return {"type": "object", "properties": properties, "required": names}


def form_of(schema: Any, sent: Any = None, *paths: str) -> str:
    """Return the form in a refusal for missing parameters; "" without one."""
    problems = tuple(Problem(path, "required", "a value") for path in paths or ("x",))
    return render(InvalidParams(problems, sent=sent, schema=schema)).partition(LEAD)[2]


CARD = an_object(method={"const": "card"}, number=TEXT, cvc=INTEGER)
SEPA = an_object(method={"const": "sepa"}, iban=TEXT)
CASH = an_object(method={"enum": ["cash", "coins"]}, amount={"type": "number"})
PAY = an_object(by={"oneOf": [CARD, SEPA, CASH]})
NAMED = an_object(by={"anyOf": [an_object(number=TEXT, cvc=INTEGER), an_object(iban=TEXT, bic=TEXT)]})
FORMS: dict[str, tuple[Any, Any, str]] = {
    "by its tag": (PAY, {"by": {"method": "sepa"}}, '{"by": {"method": "sepa", "iban": <string>}}'),
    "by the first tag": (
        PAY,
        {"by": {"method": "card"}},
        '{"by": {"method": "card", "number": <string>, "cvc": <integer>}}',
    ),
    "by one of several tags": (
        PAY,
        {"by": {"method": "coins"}},
        '{"by": {"method": <\'cash\' or \'coins\'>, "amount": <number>}}',
    ),
    "by its tag, in JSON text": (PAY, '{"by": {"method": "sepa"}}', '{"by": {"method": "sepa", "iban": <string>}}'),
    "by its tag, against its names": (
        PAY,
        {"by": {"method": "sepa", "number": "1", "cvc": 2}},
        '{"by": {"method": "sepa", "iban": <string>}}',
    ),
    "by its tag, misspelt": (PAY, {"by": {"method": "SEPA"}}, '{"by": {"method": "sepa", "iban": <string>}}'),
    "by its names, the tag is missing": (PAY, {"by": {"iban": 1}}, '{"by": {"method": "sepa", "iban": <string>}}'),
    "by its names, the tag is unknown": (
        PAY,
        {"by": {"method": "iou", "iban": "x"}},
        '{"by": {"method": "sepa", "iban": <string>}}',
    ),
    "by the tag alone": (PAY, {"by": "sepa"}, '{"by": {"method": "sepa", "iban": <string>}}'),
    "by the values of its names": (
        an_object(by={"anyOf": [an_object(a=INTEGER, b=TEXT), an_object(a={"type": "array"}, c=TEXT)]}),
        {"by": {"a": []}},
        '{"by": {"a": <array>, "c": <string>}}',
    ),
    "by the tag of an item inside": (
        an_object(by={"anyOf": [an_object(a=INTEGER), an_object(a={"type": "array", "items": SEPA}, b=TEXT)]}),
        {"by": {"a": [{"method": "sepa", "iban": "x"}]}},
        '{"by": {"a": [{"method": "sepa", "iban": <string>}], "b": <string>}}',
    ),
    "by its names, no tag": (NAMED, {"by": {"bic": "x"}}, '{"by": {"iban": <string>, "bic": <string>}}'),
    "inside of an array": (
        an_object(steps={"type": "array", "items": {"anyOf": [CARD, SEPA]}}),
        {"steps": [{"method": "sepa"}]},
        '{"steps": [{"method": "sepa", "iban": <string>}]}',
    ),
    "union in a union": (
        an_object(by={"anyOf": [{"type": "null"}, {"oneOf": [CARD, {"anyOf": [SEPA, CASH]}]}]}),
        {"by": {"method": "sepa"}},
        '{"by": {"method": "sepa", "iban": <string>}}',
    ),
    "through references": (
        {
            **an_object(by={"oneOf": [{"$ref": "#/$defs/card"}, {"$ref": "#/$defs/sepa"}]}),
            "$defs": {"card": CARD, "sepa": {"allOf": [an_object(method={"const": "sepa"}), an_object(iban=TEXT)]}},
        },
        {"by": {"method": "sepa"}},
        '{"by": {"method": "sepa", "iban": <string>}}',
    ),
    "of the whole": (
        {"type": "object", "oneOf": [an_object(["a", "x"], a=TEXT, x=TEXT), an_object(["b", "x"], b=TEXT, x=TEXT)]},
        {"b": "1"},
        '{"b": <string>, "x": <string>}',
    ),
    "by a condition": (
        {
            **an_object(["kind"], kind={"enum": ["a", "b"]}, x=TEXT, y=TEXT),
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"required": ["x"]},
            "else": {"required": ["y"]},
        },
        {"kind": "b"},
        '{"kind": "b", "y": <string>, "x": <optional string>}',
    ),
    "what a name requires": (
        {**an_object([], a=TEXT, b=INTEGER), "dependentRequired": {"a": ["b"]}},
        {"a": "1"},
        '{"a": <string>, "b": <integer>}',
    ),
    "what a name requires, in draft 7": (
        {**an_object([], a=TEXT, b=INTEGER), "dependencies": {"a": {"required": ["b"]}}},
        {"a": "1"},
        '{"b": <integer>, "a": <string>}',
    ),
    "an only value": (an_object(a={"const": "x"}), {}, "{\"a\": <'x'>}"),
    "of a list of links": (
        {
            **an_object(v={"$ref": "#/$defs/n"}),
            "$defs": {"n": an_object(id=INTEGER, next={"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]})},
        },
        {},
        '{"v": {"id": <integer>, "next": {"id": <integer>, "next": <null>}}}',
    ),
    "of a tuple": (
        an_object(a={"type": "array", "prefixItems": [TEXT, INTEGER], "minItems": 2}),
        {},
        '{"a": [<string>, <integer>]}',
    ),
    "of a tuple, in draft 7": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **an_object(a={"type": "array", "items": [TEXT, INTEGER], "minItems": 2}),
        },
        {},
        '{"a": [<string>, <integer>]}',
    ),
    "of objects in an array": (
        an_object(a={"type": "array", "minItems": 2, "items": an_object(b=TEXT)}),
        {},
        '{"a": [{"b": <string>}, {"b": <string>}]}',
    ),
}


@pytest.mark.parametrize(("schema", "sent", "form"), [pytest.param(*row, id=name) for name, row in FORMS.items()])
def test_the_form_is_that_of_the_branch_that_was_meant(schema: Any, sent: Any, form: str) -> None:
    """Of a union the form shows the branch that the sent value chooses: by its tag, its names, or its type."""
    assert form_of(schema, sent) == form


def test_the_form_shows_the_item_that_is_wrong() -> None:
    """Of an array, the form shows the branch of the first item that a problem names."""
    schema = an_object(steps={"type": "array", "items": {"anyOf": [CARD, SEPA]}})
    sent = {"steps": [{"method": "card", "number": "1", "cvc": 2}, {"method": "sepa"}]}
    assert form_of(schema, sent, "steps[1].iban") == '{"steps": [{"method": "sepa", "iban": <string>}]}'


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("least", [0, 1, 2, 5, 6, 9])
def test_an_array_shows_the_items_that_it_needs(first: int, least: int) -> None:
    """Those with a form of their own, and as many others as are required; more than five of these are no form."""
    array: dict[str, Any] = {"type": "array", "minItems": least, "items": an_object(b=TEXT)}
    array |= {"prefixItems": [INTEGER] * first} if first else {}
    others = max(0 if first else 1, least - first)
    items = ["<integer>"] * first + ['{"b": <string>}'] * others
    assert form_of(an_object(a=array), {}) == (f'{{"a": [{", ".join(items)}]}}' if others <= 5 else "")


STRUCTURED: dict[str, Any] = {
    "of an object with a required name": an_object(b=TEXT),
    "of an object with names, one of which is needed": {**an_object((), b=TEXT), "minProperties": 1},
    "of arrays of objects": {"type": "array", "items": an_object(b=TEXT)},
    "of a tuple": {"type": "array", "prefixItems": [TEXT]},
    "of a union with an object": {"anyOf": [INTEGER, {"oneOf": [TEXT, an_object(b=TEXT)]}]},
}


@pytest.mark.parametrize("name", [*STRUCTURED, "of an object without a required name", "of an object of any names"])
def test_items_are_written_out_if_they_have_parts(name: str) -> None:
    """Else one hole says the type of all."""
    plain = {**an_object((), b=TEXT), "minProperties": 0} if "without" in name else {"type": "object"}
    form = form_of(an_object(a={"type": "array", "items": STRUCTURED.get(name, plain)}), {})
    assert form.startswith('{"a": [') is (name in STRUCTURED)
    assert form.startswith('{"a": <array of objects') is (name not in STRUCTURED)


def a_format(name: str) -> dict[str, str]:
    return {"type": "string", "format": name}


HOLES: dict[str, Any] = {
    "string": TEXT,
    "integer": INTEGER,
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "array": {"type": "array"},
    "object": {"type": "object"},
    "value": {},
    "integer or null": {"type": ["integer", "null"]},
    "string or integer": {"anyOf": [TEXT, INTEGER]},
    "'a', 'b' or null": {"enum": ["a", "b", None]},
    "date YYYY-MM-DD": a_format("date"),
    "datetime YYYY-MM-DDTHH:MM:SSZ": a_format("date-time"),
    "time HH:MM:SSZ": a_format("time"),
    "duration such as P1DT2H30M": a_format("duration"),
    "UUID xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx": a_format("uuid"),
    "email address": a_format("email"),
    "URL": a_format("uri"),
    "string (colour)": a_format("colour"),
    "date YYYY-MM-DD or null": {"anyOf": [a_format("date"), {"type": "null"}]},
    "string that matches ^[A-Z]{3}$": {**TEXT, "pattern": "^[A-Z]{3}$"},
    "array of integers": {"type": "array", "items": INTEGER},
    "array of at least 2 strings": {"type": "array", "items": TEXT, "minItems": 2},
    "array of dates YYYY-MM-DD": {"type": "array", "items": a_format("date")},
    "array of 'a' or 'b'": {"type": "array", "items": {"enum": ["a", "b"]}},
    "array of arrays of integers": {"type": "array", "items": {"type": "array", "items": INTEGER}},
    "array of objects": {"type": "array", "items": {"type": "object"}},
    "object of integers": {"type": "object", "additionalProperties": INTEGER},
}


@pytest.mark.parametrize("words", HOLES)
def test_a_hole_says_the_type_and_the_format(words: str) -> None:
    """So it is at the top, deeper, in an optional parameter, and with a description after it."""
    node = HOLES[words]
    assert form_of(an_object(a=node)) == f'{{"a": <{words}>}}'
    assert form_of(an_object(a=an_object(b=node))) == f'{{"a": {{"b": <{words}>}}}}'
    assert form_of(an_object(["b"], a=node, b=TEXT)) == f'{{"b": <string>, "a": <optional {words}>}}'
    described = an_object(x={**node, "description": "In words."})
    assert form_of(described) == f'{{"x": <{words}: In words>}}'


class Address(BaseModel):
    street: str
    since: dt.date


class Range(TypedDict):
    start: dt.datetime
    end: NotRequired[dt.datetime]


def book(
    at: Address, when: Range, times: list[dt.time], price: Decimal, ids: dict[str, UUID], pair: tuple[int, dt.date]
) -> str:
    """Book."""
    return "booked"


def test_a_function_tool_says_the_types_of_its_annotations() -> None:
    """Dates, times, decimals, UUIDs and the items of arrays are named in the form of a function tool."""
    tools = ToolRegistry()
    tools.tool(effect="read")(book)
    text = render(standard(tools).call_sync("book", {}))
    assert text.partition(LEAD)[2] == (
        '{"at": {"street": <string>, "since": <date YYYY-MM-DD>}, "when": {"start": <datetime YYYY-MM-DDTHH:MM:SSZ>}, '
        '"times": <array of times HH:MM:SSZ>, "price": <decimal number such as 12.50>, '
        '"ids": <object of UUIDs xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx>, "pair": [<integer>, <date YYYY-MM-DD>]}'
    )


@pytest.mark.parametrize(
    "schema",
    [
        an_object(a={"not": {}}),
        an_object(a=False),
        an_object(a={"$ref": "#"}),
        {"type": "string"},
        an_object(a={"pattern": "^q{17}$"}),
    ],
    ids=["not", "false", "ring", "no object", "pattern"],
)
def test_no_form_rather_than_a_wrong_one(schema: Any) -> None:
    """Where no valid arguments are known, there is no form."""
    assert form_of(schema) == ""


# --- Who follows the form is accepted ---
# The reader below is a model's: it knows the words in a hole, and nothing of the code that wrote them.
_HOLE = re.compile(r"<((?:[^<>\"]|\"[^\"]*\")*)>")
_SAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 7,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "object": {},
    "date YYYY-MM-DD": "2026-01-31",
    "datetime YYYY-MM-DDTHH:MM:SSZ": "2026-01-31T09:00:00Z",
    "time HH:MM:SSZ": "09:00:00Z",
    "duration such as P1DT2H30M": "P1DT2H30M",
    "UUID xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx": "12345678-1234-4234-8234-123456789abc",
    "decimal number such as 12.50": 12.5,
}


def fill_hole(words: str) -> Any:
    """Make a value from the words in a hole."""
    if words.startswith("array of "):
        return []
    if words.startswith("object of "):
        return {}
    if words.startswith("'"):
        return words[1:].partition("'")[0]
    for name in sorted(_SAMPLES, key=len, reverse=True):
        if words.startswith(name):
            return _SAMPLES[name]
    raise AssertionError(words)


def fill(form: str, *, optional: bool) -> dict[str, Any]:
    """Fill the holes of a form; leave the optional ones out, or fill them too."""
    words: list[str] = []

    def number(match: re.Match[str]) -> str:
        words.append(match[1])
        return f'"hole {len(words) - 1}"'

    def put(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("hole "):
            return fill_hole(words[int(value[5:])].removeprefix("optional "))
        if is_array(value):
            return [put(each) for each in value]
        if is_object(value):
            return {key: put(each) for key, each in value.items() if optional or not is_optional(each)}
        return value

    def is_optional(value: Any) -> bool:
        return isinstance(value, str) and value.startswith("hole ") and words[int(value[5:])].startswith("optional ")

    filled: dict[str, Any] = put(json.loads(_HOLE.sub(number, form)))
    return filled


SCALARS: list[Any] = [str, int, float, bool, dt.date, dt.datetime, dt.time, dt.timedelta, UUID, Decimal]
leaves: Any = st.sampled_from([*SCALARS, Literal["a", "b"], list[int], list[dt.date], dict[str, int], int | None])
names = st.sampled_from(["alpha", "beta", "gamma", "delta", "kind", "size"])


def make_model(fields: Mapping[str, Any], tag: str | None) -> Any:
    annotated: dict[str, Any] = {name: each for name, each in fields.items() if name != "method"}
    if tag is not None:
        annotated = {"method": Literal[tag], **annotated}
    space = {"__annotations__": annotated, "model_config": {"defer_build": True}}
    return type(f"Model{next(NUMBERS)}", (BaseModel,), space)


@st.composite
def models(draw: Any, depth: int = 0, tag: str | None = None) -> Any:
    inner = leaves if depth > 1 else leaves | types(depth + 1)
    fields = draw(st.dictionaries(names, inner, min_size=1, max_size=3))
    return make_model(fields, tag)


@st.composite
def unions(draw: Any, depth: int = 0) -> Any:
    """A union of two to four models: with a tag that pydantic knows of or not, or without a tag."""
    count = draw(st.integers(2, 4))
    tagged = draw(st.booleans())
    branches = [draw(models(depth + 1, tag=f"m{n}" if tagged else None)) for n in range(count)]
    union: Any = branches[0]
    for each in branches[1:]:
        union |= each
    return Annotated[union, Field(discriminator="method")] if tagged and draw(st.booleans()) else union


def make_list(item: Any) -> Any:
    """Make the type of a list of these items."""
    kind: Any = list
    return kind[item]


@functools.cache
def types(depth: int = 0) -> Any:
    return st.deferred(lambda: models(depth) | unions(depth) | (models(depth) | unions(depth)).map(make_list))


signatures = st.dictionaries(names, leaves | types(), min_size=1, max_size=4)
TALLY: Counter[str] = Counter()
NUMBERS = itertools.count()  # pydantic tells the branches of a union apart by the names of their classes


def make_tool(annotations: Mapping[str, Any]) -> Tool[..., Any]:
    """Make a tool whose function has these parameters."""
    source = f"def probe({', '.join(annotations)}): 'Probe.'; return 'ok'"
    space: dict[str, Any] = {}
    exec(source, space)  # the only way to a real signature of random names
    space["probe"].__annotations__ = {**annotations, "return": str}
    tools = ToolRegistry()
    return tools.tool(effect="read")(space["probe"])


@st.composite
def mistakes(draw: Any, value: Any) -> Any:
    """Leave out one field of valid arguments, at any depth."""
    here = value
    while True:
        inner = [key for key, each in here.items() if each and isinstance(each, dict)]
        inner += [key for key, each in here.items() if isinstance(each, list) and each and isinstance(each[0], dict)]
        if not inner or draw(st.booleans()):
            break
        key = draw(st.sampled_from(inner))
        here = here[key] if isinstance(here[key], dict) else here[key][0]
    if here:
        del here[draw(st.sampled_from([*here]))]
    return value


@st.composite
def samples(draw: Any, schema: Any, whole: Any) -> Any:
    """Draw valid arguments from a schema, any branch of its unions."""
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return draw(samples(draw(st.sampled_from(schema[keyword])), whole))
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    match schema.get("type"):
        case "object" if "properties" in schema:
            return {name: draw(samples(each, whole)) for name, each in schema["properties"].items()}
        case "array":
            return [draw(samples(schema["items"], whole)) for _ in range(draw(st.integers(0, 1)))]
        case "string":
            by_format = {
                "date": "date YYYY",
                "date-time": "datetime",
                "time": "time",
                "duration": "dur",
                "uuid": "UUID",
            }
            wanted = by_format.get(schema.get("format", ""), "string")
            return next(value for name, value in _SAMPLES.items() if name.startswith(wanted))
        case kind:
            return _SAMPLES[kind]


SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example)


# Without shrinking, which takes minutes: each example makes classes.
@settings(max_examples=1_000, deadline=None, suppress_health_check=SLOW, phases=[Phase.generate])
@given(annotations=signatures, data=st.data())
@pytest.mark.long
def test_a_call_that_follows_the_form_is_accepted(annotations: dict[str, Any], data: Any) -> None:
    """For random models and unions: leave a field out, fill the form of the refusal, and the call validates."""
    made = make_tool(annotations)
    tools = ToolRegistry()
    tools.register(made)
    pipeline = standard(tools)
    schema: Any = made.parameters.schema
    sent = data.draw(mistakes(data.draw(samples(schema, schema))))
    text = render(pipeline.call_sync("probe", json.dumps(sent)))
    form = text.partition(LEAD)[2]
    TALLY["accepted as sent" if text == "ok" else "form" if form else "no form"] += 1
    if form:
        for optional in (False, True):
            filled = fill(form, optional=optional)
            assert render(pipeline.call_sync("probe", filled)) == "ok", (form, filled)
        assert choose_tags(filled) >= choose_tags(sent), (sent, form)


def choose_tags(value: Any) -> set[str]:
    """Return the tags in arguments, of the first item of each array."""
    if is_array(value):
        return choose_tags(value[0]) if value else set()
    if not is_object(value):
        return set()
    own = {str(value["method"])} if "method" in value else set[str]()
    return own.union(*map(choose_tags, value.values()))


def teardown_module() -> None:
    """Print how many refusals had a form."""
    print(f"\nforms: {dict(TALLY)}")  # noqa: T201
