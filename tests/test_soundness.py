"""Soundness of repairs: over generated schemas and values a repair gives the only reading, and nothing raises.

``SOUNDNESS_CASES=1000 pytest tests/test_soundness.py -s`` generates that many for each property, tries every schema of
the counterexamples with every value of them, and prints what became of all cases.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readings import canonical, forget, parse, read_arguments, read_value
from repair_cases import ONE, REFUSED
from toolcall_pipeline import Call, Tool, ValidCall
from toolcall_pipeline.middlewares import Validate

IS_LONG = "SOUNDNESS_CASES" in os.environ
CASES = int(os.environ.get("SOUNDNESS_CASES", "300"))
LONGEST = 1_000  # characters of a value; json.loads refuses larger integers
TALLY: Counter[str] = Counter()
SLOW = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
)  # so is a machine with other work
LONG = settings(max_examples=CASES, deadline=None, suppress_health_check=SLOW)

ALIKE = [
    ["+1", "-1", "0", "1", "1-"],
    ["<5", ">5", "5", "5-10", "510", "5 10"],
    ["1.5", "15", "1,5", "2.0", "20", "1 5"],
    ["C++", "C#", "C", "c", "c++"],
    ["-created", "created", "Created", "+created", "created-"],
    ["10%", "10", "$10", "10 %", "#10"],
    ["A+", "A-", "A", "a", "a-"],
    ["3.1", "3.10", "31", "3.100", "v3.1"],
    ["2024-1-12", "2024-11-2", "2024112", "2024 1 12"],
    ["MW", "mW", "mw", "Mw"],
    ["1m", "1M", "m", "M", "1 m"],
    ["UTC-5", "UTC+5", "UTC 5", "utc5", "utc_5"],
    ["home-delivery", "Home Delivery", "home_delivery", "homeDelivery", " HOME  delivery"],
    ["a b", "a-b", "a+b", "ab", "A_B", "a, b", "a", "b"],
    ["true", "True", "yes", "1"],
    ["null", "", "none", "NULL"],
    ["1_000", "1000", "1 000", "1,000", "1.000"],
    ["m\u00b2", "m2", "M2", "m 2"],
    ["Ma\u00dfe", "Masse", "MASSE"],
    ["12", "1\uff12", "\u0661\u0662", "012", "0x12", "1e1"],
    ["not now", "notnow", "now", "not-now"],
]
TOKENS = [
    *("0", "-0", "1", "-1", "5", "7.0", "7.5", "3.10", "3.1", "1e5", "1E+2", "1e-7", "1e400", "1e-400", "2024"),
    *("9007199254740993", "9007199254740993.0", "4.99999999999999999999", "0.1", "1.000", "12345678901234567890"),
]
TEXTS = [
    *TOKENS,
    *("1,000", "1_000", "0x10", "+5", "5%", "$5", "(5)", "5-", "\u22125", "1\uff12", "\u0661", "\u00bd", "inf", "1/2"),
    *("15, 20, 25", "15,20", "1,234", "1, 234", "1.5, 2", "true, false", "a, b", "a;b", "red and blue", "New York"),
    *("['a' 'b']", "['a', 3.10]", "[1, 2]", "[1.0]", "[1e999]", "[0x10]", "[(1, 2)]", "(1, 2)", "{1, 2}", "[(1)]"),
    *('{"a": 1}', '{"a": 1, "a": 2}', "{'a': '1'}", "[true, None]", "[null]", "null", "", " ", "TRUE", "False", "yes"),
    *("2024-01-02", "12:30", "P1D", "\ud800", "\x1b[1m", "5 6", "--5", "[1, ", "['a\\d']"),
]
SCALARS = [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]
FORMATS = [{"type": "string", "format": each} for each in ("date", "date-time", "duration", "uuid")]


def one_of(values: list[str]) -> dict[str, Any]:
    return {"type": "string", "enum": values}


words = st.sampled_from(ALIKE).flatmap(
    lambda alike: st.tuples(
        st.lists(st.sampled_from(alike), min_size=1, unique=True).map(one_of), st.sampled_from(alike).map(json.dumps)
    )
)
known = st.tuples(
    st.sampled_from([row[0] for row in ONE]), st.sampled_from([row[1] for row in ONE if len(row[1]) < LONGEST])
)
loose_text = st.text(alphabet="0123456789.,-+%$e_xX \uff12()'\"[]{}:;|abTN", max_size=8)
texts = st.sampled_from(TEXTS) | loose_text | st.sampled_from(ALIKE).flatmap(st.sampled_from)
scalars = st.sampled_from(TOKENS) | st.sampled_from(["true", "false", "null"]) | texts.map(json.dumps)
sent_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]")
        | inner.map(lambda each: f'{{"value": {each}}}')
        | st.tuples(st.sampled_from(["float", "percent", "string", "array"]), inner).map(
            lambda each: f'{{"type": "{each[0]}", "value": {each[1]}}}'
        )
        | st.tuples(st.sampled_from(["x", "value", "not"]), inner).map(lambda each: f'{{"{each[0]}": {each[1]}}}')
    ),
    max_leaves=4,
)
flat_schemas = st.sampled_from([*SCALARS, *FORMATS]) | st.sampled_from(ALIKE).flatmap(
    lambda alike: st.lists(st.sampled_from(alike), min_size=1, unique=True).map(one_of)
)
schemas = st.recursive(
    flat_schemas,
    lambda inner: (
        inner.map(lambda each: {"type": "array", "items": each})
        | st.lists(inner.filter(lambda each: "anyOf" not in each), min_size=2, max_size=2).map(
            lambda each: {"anyOf": each}
        )
    ),
    max_leaves=3,
)
cases = st.tuples(schemas, sent_values) | words | known


async def return_params(**params: object) -> object:
    return params


@lru_cache
def make_tool(schema: str) -> Tool[..., Any]:
    return Tool.from_schema(name="probe", parameters=json.loads(schema), handler=return_params)


def repair(schema: dict[str, Any], sent: object) -> dict[str, Any] | None:
    """The params if something was repaired; None where the call was refused, or valid as it is."""
    made = make_tool(json.dumps(schema))
    verdict: Any = Validate()(Call("probe", sent).resolved(made))
    repaired = isinstance(verdict, ValidCall) and bool(verdict.repairs)
    TALLY["repaired" if repaired else "valid" if isinstance(verdict, ValidCall) else "refused"] += 1
    return verdict.params if repaired else None


def close_around(form: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    required = [] if optional else ["x"]
    return {"type": "object", "properties": {"x": form}, "required": required, "additionalProperties": False}


def judge(schema: dict[str, Any], text: str, *, mapping: bool) -> None:
    """Fail if the pipeline gave what is not the only reading."""
    try:
        node = parse(text)
    except ValueError:  # a name that stands twice
        assert repair(schema, text) is None
        return
    if mapping:
        node = forget(node)
    params = repair(schema, json.loads(text) if mapping else text)
    if params is not None:
        assert [canonical(params)] == [*read_arguments(node, schema)]


@LONG
@given(case=cases, mapping=st.booleans(), optional=st.booleans())
def test_a_repaired_value_has_no_other_reading(case: tuple[dict[str, Any], str], mapping: bool, optional: bool) -> None:
    """Where a value is repaired, what the tool gets is its only reading under the schema."""
    form, value = case
    judge(close_around(form, optional=optional), f'{{"x": {value}}}', mapping=mapping)


def test_every_schema_with_every_value() -> None:
    """So it is where each schema of the counterexamples meets each of their values; a sample of them, if not long."""
    forms = {json.dumps(form): form for form, _, _ in ONE}.values()
    values = dict.fromkeys([*(value for _, value, _ in ONE if len(value) < LONGEST), *TOKENS, *map(json.dumps, TEXTS)])
    every = itertools.product(forms, (True, False), values, (True, False))
    for form, optional, value, mapping in itertools.islice(every, 0, None, 1 if IS_LONG else 97):
        judge(close_around(form, optional=optional), f'{{"x": {value}}}', mapping=mapping)


NAMES = [
    *("path", "Path", "paths", "_path", "class", "_class", "class_", "filePath", "file_path", "file path", "x_1_1"),
    *("x_11", "x11", "n", "base", "$path", "-path", "params_path", "input_path", "path+", "v1.5", "v15", "v.path"),
]
WRAPPING = [
    *("arguments", "args", "params", "input", "kwargs", "_", "toolInput", "properties"),
    *("dry_run", "not", "preview", "data", "undo", "except", "test"),
]
FORMS = [{"type": "integer"}, {"type": "string"}, {"type": "number"}]
members = st.tuples(st.sampled_from(NAMES), st.sampled_from(["1", '"1"', '"a"', "3.10", "null"]))
objects = st.lists(members, max_size=3, unique_by=lambda each: each[0]).map(
    lambda each: "{" + ", ".join(f'"{key}": {value}' for key, value in each) + "}"
)
positions = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["=1", "= 2", "==3", ">=4", "=1, n=2", "='a'", "=a"])), max_size=2
).map(lambda each: json.dumps({f"__positional_{index}": name + value for index, (name, value) in enumerate(each)}))
wholes = st.recursive(
    objects | positions,
    lambda inner: st.tuples(st.sampled_from(WRAPPING), inner, st.booleans()).map(
        lambda each: f'{{"{each[0]}": {json.dumps(each[1]) if each[2] else each[1]}}}'
    ),
    max_leaves=2,
)


@LONG
@given(
    properties=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(FORMS), min_size=1, max_size=4),
    text=wholes,
    data=st.data(),
)
def test_a_repaired_name_has_no_other_reading(properties: dict[str, Any], text: str, data: Any) -> None:
    """Where names are repaired, or a wrapper is opened, what the tool gets is the only reading under the schema."""
    required = data.draw(st.lists(st.sampled_from([*properties]), unique=True))
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    judge(schema, text, mapping=data.draw(st.booleans()))


def test_the_oracle_and_the_counterexamples_agree() -> None:
    """Every counterexample has one reading where it is repaired, and not this one where it is refused."""
    for form, value, meant in ONE:
        try:
            found = [] if meant == "valid" else [*read_value(parse(value), form, "x")]
        except ValueError:
            found = []
        if meant is not REFUSED and meant != "valid":
            assert found == [canonical(meant)], (form, value)


def teardown_module() -> None:
    """Print what became of the cases of a long run."""
    if IS_LONG:
        print(f"\ncases {TALLY.total():,}: {dict(TALLY)}, wrong 0 unless a test above failed")  # noqa: T201


PIECES = [
    *("a", "b.py", "src/a", "red", "New York", "ann@x.org", "--all", "-v", "#12", "x=1", "2024-01-01", "10.0.0.1"),
    *(
        "C:\\a",
        "https://a.b",
        "Taylor Swift",
        "'q'",
        '"q"',
        "none",
        "N/A",
        "unknown",
        "tbd",
        "all",
        "3",
        "1.5",
        "",
        "-",
    ),
    *("rm", "e", "not set", "und", "\u00e9", "[a]", "(a)", "*", "*.py", "a+b"),
]
BETWEEN = [
    *(
        " ",
        "  ",
        ", ",
        ",",
        ";",
        " | ",
        "|",
        "\n",
        "\\n",
        "\t",
        " and ",
        " or ",
        " & ",
        " + ",
        " / ",
        "/",
        " -> ",
        "->",
    ),
    *(
        " => ",
        " \u2192 ",
        " \u2022 ",
        " \u00b7 ",
        "\u3001",
        " then ",
        " vs ",
        " plus ",
        " > ",
        "...",
        "\u2026",
        " - ",
        "-",
    ),
]
LIST_OF_TEXTS = close_around({"type": "array", "items": {"type": "string"}}, optional=False)
PLURALS: dict[str, dict[str, Any]] = {
    "file": {"type": "string"},
    "page": {"type": "integer"},
    "tags": {"type": "array", "items": {"type": "string"}},
}


@pytest.mark.long
def test_no_text_of_several_or_of_none_is_one_item() -> None:
    """Over 30,000 texts of two pieces, and plurals with each piece, are read as one item only if nothing else fits."""
    calls = 0
    for first, between, second in itertools.product(PIECES, BETWEEN, PIECES):
        judge(LIST_OF_TEXTS, json.dumps({"x": f"{first}{between}{second}"}), mapping=False)
        calls += 1
    for name, form in PLURALS.items():
        schema = {**close_around(form, optional=False), "properties": {name: form}, "required": [name]}
        other = name[:-1] if name.endswith("s") else f"{name}s"
        values = [*PIECES, 3, 1.5, True, None, ["a"], ["a", "b"], {"a": 1}, *map(" ".join, itertools.pairwise(PIECES))]
        for value in values:
            judge(schema, json.dumps({other: value}), mapping=False)
            calls += 1
    assert calls > 20_000
