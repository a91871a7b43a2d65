"""Did you mean: suggestions for the names of parameters and for values to choose from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import Call, Tool, render
from toolcall_pipeline.middlewares import Validate
from toolcall_pipeline.parameters.spelling import find_nearest

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


async def return_params(**params: object) -> object:
    return params


probe = Tool.from_schema(name="probe", parameters=SCHEMA, handler=return_params)


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
    """The name or value most like what was sent is suggested, if one is like it and not already used."""
    verdict: Any = Validate()(Call("probe", sent).resolved(probe))
    (problem,) = verdict.failure().problems
    assert problem.suggestion == suggestion


@pytest.mark.parametrize("sent", [{"path": None}, '{"path": null}'], ids=str)
def test_null_for_a_required_parameter_is_a_missing_one(sent: Any) -> None:
    """Null for a required parameter is told as the parameter missing; null anywhere else is a wrong type."""
    needed = Tool.from_schema(name="probe", parameters={**SCHEMA, "required": ["path"]}, handler=return_params)
    verdict: Any = Validate()(Call("probe", sent).resolved(needed))
    assert "Missing required parameter: path" in render(verdict.failure())
    inside: Any = Validate()(Call("probe", {"path": "a", "filter": {"label": [None]}}).resolved(needed))
    assert "must be a string" in render(inside.failure())


@given(st.text(), st.lists(st.text(max_size=20), max_size=5))
def test_only_what_is_allowed_is_suggested(text: str, among: list[str]) -> None:
    """For any text, the suggestion is one of the allowed ones, or none."""
    assert find_nearest(text, among) in {"", *among}


def test_the_same_name_in_another_case_is_the_closest() -> None:
    """A name that differs only in case is closer than any other."""
    assert find_nearest("PATH", ["path", "paths"]) == "path"
