"""Names of JSON objects that are keys of another type: two names that are one key lose a value, so they are refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping, MutableMapping
from decimal import Decimal
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import attrs
import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import InvalidParams, Tool, tool
from toolcall_pipeline.parameters.tool_parameters import Given


@dataclasses.dataclass
class Table:
    rows: dict[int, str]


class Sheet(pydantic.BaseModel):
    rows: dict[int, str] = {}
    inner: list[Sheet] = []


class Grid(typing_extensions.TypedDict):
    rows: dict[int, str]


Numbered = typing_extensions.TypeAliasType("Numbered", dict[int, str])
TWICE = {"1": "a", "01": "b"}
ZERO = "00000000-0000-0000-0000-000000000000"


def taking(hint: Any) -> Tool[..., Any]:
    async def take(x: Any) -> None: ...

    take.__annotations__["x"] = hint
    return tool(effect="read")(take)


def parse(hint: Any, value: Any) -> Any:
    """What the validator makes of a value, as a mapping and as JSON text: both must be the same."""
    parameters = taking(hint).parameters
    found, read = parameters.parse({"x": value}), parameters.parse(json.dumps({"x": value}))
    assert type(found) is type(read)
    assert found == read or isinstance(found, InvalidParams)
    return found


EQUAL: dict[str, tuple[Any, Any, str]] = {
    "integers": (dict[int, str], TWICE, "x"),
    "a sign": (dict[int, str], {"1": "a", "+1": "b"}, "x"),
    "a blank": (dict[int, str], {" 1": "a", "2": "b", "1": "c"}, "x"),
    "equal values too": (dict[int, str], {"1": "a", "01": "a"}, "x"),
    "floats": (dict[float, str], {"1": "a", "1.0": "b"}, "x"),
    "booleans": (dict[bool, str], {"true": "a", "yes": "b"}, "x"),
    "Decimals": (dict[Decimal, str], {"1": "a", "1.0": "b"}, "x"),
    "datetimes": (dict[dt.datetime, int], {"2026-01-01T00:00:00Z": 1, "2026-01-01T01:00:00+01:00": 2}, "x"),
    "durations": (dict[dt.timedelta, str], {"PT60S": "a", "PT1M": "b"}, "x"),
    "UUIDs": (dict[UUID, int], {ZERO: 1, ZERO.replace("-", ""): 2}, "x"),
    "paths": (dict[Path, int], {"a/b": 1, "a//b": 2}, "x"),
    "addresses": (dict[IPv6Address, int], {"::1": 1, "0::1": 2}, "x"),
    "text in one case": (dict[Annotated[str, pydantic.StringConstraints(to_lower=True)], int], {"A": 1, "a": 2}, "x"),
    "text that is stripped": (
        dict[Annotated[str, pydantic.StringConstraints(strip_whitespace=True)], int],
        {"a ": 1, "a": 2},
        "x",
    ),
    "text that the author reads": (
        dict[Annotated[str, pydantic.BeforeValidator(str.casefold)], int],
        {"A": 1, "a": 2},
        "x",
    ),
    "a Mapping": (Mapping[int, str], TWICE, "x"),
    "a MutableMapping": (MutableMapping[int, str], TWICE, "x"),
    "a defaultdict": (defaultdict[int, str], TWICE, "x"),
    "an OrderedDict": (OrderedDict[int, str], TWICE, "x"),
    "a Counter": (Counter[int], {"1": 1, "01": 2}, "x"),
    "an optional one": (dict[int, str] | None, TWICE, "x"),
    "one with a bound": (Annotated[dict[int, str], pydantic.Field(max_length=3)], TWICE, "x"),
    "an alias": (Numbered, TWICE, "x"),
    "inside of a list": (list[dict[int, str]], [{}, TWICE], "x[1]"),
    "inside of a dict": (dict[int, dict[int, str]], {"1": TWICE}, "x.1"),
    "inside of a tuple": (tuple[int, dict[int, str]], [1, TWICE], "x[1]"),
    "in a dataclass": (Table, {"rows": TWICE}, "x.rows"),
    "in a model": (Sheet, {"rows": TWICE}, "x.rows"),
    "in a model of its own kind": (Sheet, {"inner": [{"inner": [{"rows": TWICE}]}]}, "x.inner[0].inner[0].rows"),
    "in a TypedDict": (Grid, {"rows": TWICE}, "x.rows"),
}


@pytest.mark.parametrize(("hint", "value", "path"), EQUAL.values(), ids=EQUAL.keys())
def test_two_names_of_one_key_are_refused(hint: Any, value: Any, path: str) -> None:
    """One of their values would be lost, so nothing is handed on; the problem stands at the object."""
    error = parse(hint, value)
    assert isinstance(error, InvalidParams)
    (problem,) = error.problems
    assert (problem.path, problem.rule, problem.got) == (path, "propertyNames", "an object")
    assert problem.expected == "an object with one name for each key"


DIFFERENT: dict[str, tuple[Any, Any, Any]] = {
    "integers": (dict[int, str], {"2": "b", "1": "a"}, {2: "b", 1: "a"}),
    "none": (dict[int, str], {}, {}),
    "text": (dict[str, str], {"1": "a", "01": "b", "A": "c", "a ": "d"}, {"1": "a", "01": "b", "A": "c", "a ": "d"}),
    "text or integers": (dict[int | str, str], TWICE, TWICE),
    "two kinds of dicts": (dict[int, str] | dict[str, str], {"1": "a"}, {"1": "a"}),
    "another kind fits": (dict[int, str] | dict[str, str], TWICE, TWICE),
    "values of another type": (dict[int, dt.date], {"1": "2026-01-01"}, {1: dt.date(2026, 1, 1)}),
    "tuples as values": (dict[int, tuple[int, int]], {"1": [1, 2]}, {1: (1, 2)}),
    "a Counter": (Counter[int], {"1": 2}, Counter({1: 2})),
    "a defaultdict": (defaultdict[int, str], {"1": "a"}, defaultdict(str, {1: "a"})),
    "an OrderedDict": (OrderedDict[int, str], {"2": "b", "1": "a"}, OrderedDict({2: "b", 1: "a"})),
    "a model of its own kind": (
        Sheet,
        {"inner": [{"rows": {"1": "a"}}]},
        Sheet(inner=[Sheet(rows={1: "a"})]),
    ),
}


@pytest.mark.parametrize(("hint", "value", "expected"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_names_of_different_keys_arrive(hint: Any, value: Any, expected: Any) -> None:
    """Each with its own value, in the order in which they were sent, in a value of the annotated type."""
    params = parse(hint, value)
    assert params == {"x": expected}
    assert type(params["x"]) is type(expected)
    assert repr(params["x"]) == repr(expected)


@given(names=st.lists(st.from_regex(r"[+-]?[0-9]{1,3}", fullmatch=True), unique=True, max_size=6))
def test_as_many_values_arrive_as_were_sent(names: list[str]) -> None:
    """Either every name is a key of its own, or the call is refused."""
    found = parse(dict[int, str], dict.fromkeys(names, "v"))
    if len({int(name) for name in names}) == len(names):
        assert found == {"x": {int(name): "v" for name in names}}
    else:
        assert isinstance(found, InvalidParams)


@attrs.frozen
class Visit:
    rows: list[int]


Visits = typing_extensions.TypeAliasType("Visits", list[Visit])


def test_an_alias_is_what_it_stands_for() -> None:
    """Classes that pydantic does not know are found behind it too."""
    assert parse(Visits, [{"rows": [1]}]) == {"x": [Visit([1])]}
    assert parse(dict[int, Visits], {"1": []}) == {"x": {1: []}}


def test_a_wrong_key_is_a_problem_of_the_object() -> None:
    """A name that is no key at all is a fault of the object and not of its value; a wrong value is one of its own."""
    error = parse(dict[int, int], {"a": 1, "2": "x"})
    assert [(each.path, each.expected) for each in error.problems] == [
        ("x", "an object in which each name is a valid integer"),
        ("x.2", "an integer"),
    ]


def test_a_bound_counts_names() -> None:
    """A dict that is too long is told so."""
    error = parse(Annotated[dict[int, str], pydantic.Field(max_length=1)], {"1": "a", "2": "b"})
    assert [each.rule for each in error.problems] == ["maxProperties"]


def test_a_program_gives_keys_as_they_are() -> None:
    """Keys of the annotated type stay the same; names that the type makes equal are refused as a model's are."""
    parameters = taking(dict[int, str]).parameters
    assert parameters.parse(Given({"x": {1: "a", 2: "b"}})) == {"x": {1: "a", 2: "b"}}
    assert isinstance(parameters.parse(Given({"x": TWICE})), InvalidParams)
    lowered = taking(dict[Annotated[str, pydantic.StringConstraints(to_lower=True)], int]).parameters
    assert isinstance(lowered.parse(Given({"x": {"A": 1, "a": 2}})), InvalidParams)
