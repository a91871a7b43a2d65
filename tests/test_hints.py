"""Did you mean, for parameter names and the values to choose from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewares import Validate
from pipeline import Call, Tool, render
from pipeline.parameters.suggestions import nearest

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "optional_meal_time": {"type": "string"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "filter": {"type": "object", "properties": {"label": {"type": "string"}}, "additionalProperties": False},
    },
    "additionalProperties": False,
}


async def taken(**params: object) -> object:
    return params


probe = Tool.from_schema(name="probe", parameters=SCHEMA, handler=taken)


@pytest.mark.parametrize(
    ("sent", "suggestion"),
    [
        ({"pth": "a"}, "path"),
        ('{"pth": "a"}', "path"),
        ({"meal_time": "noon"}, "optional_meal_time"),
        ({"unit": "celcius"}, "celsius"),
        ({"filter": {"labels": "x"}}, "label"),
        ({"pth": "a", "path": "b"}, ""),
        ({"colour": "red"}, ""),
        ({"unit": "kelvin"}, ""),
        ({"unit": 5}, ""),
        ({"unit": "c" * 1000}, ""),
    ],
    ids=str,
)
def test_the_closest_is_suggested(sent: Any, suggestion: str) -> None:
    """The name or value most like what came, if one is like it and still free."""
    verdict: Any = Validate()(Call("probe", sent).resolved(probe))
    (problem,) = verdict.failure().problems
    assert problem.suggestion == suggestion


@pytest.mark.parametrize("sent", [{"path": None}, '{"path": null}'], ids=str)
def test_null_for_what_is_required_is_that_missing(sent: Any) -> None:
    """The model is told that the parameter is missing, and what it should hold; null elsewhere is of a wrong type."""
    needed = Tool.from_schema(name="probe", parameters={**SCHEMA, "required": ["path"]}, handler=taken)
    verdict: Any = Validate()(Call("probe", sent).resolved(needed))
    assert "Missing required parameter: path" in render(verdict.failure())
    inside: Any = Validate()(Call("probe", {"path": "a", "filter": {"label": [None]}}).resolved(needed))
    assert "must be a string" in render(inside.failure())


@given(st.text(), st.lists(st.text(max_size=20), max_size=5))
def test_only_what_is_allowed_is_suggested(text: str, among: list[str]) -> None:
    """Whatever came, the suggestion is one of those there are, or none."""
    assert nearest(text, among) in {"", *among}


def test_a_name_that_is_there_is_the_closest() -> None:
    """In another case it is the same."""
    assert nearest("PATH", ["path", "paths"]) == "path"
