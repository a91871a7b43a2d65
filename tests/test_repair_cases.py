"""The counterexamples of `repair_cases`: read as meant where there is one reading, and refused where there are more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from repair_cases import ONE, REFUSED, WHOLE
from toolcall_pipeline import Call, InvalidParams, MalformedCall, Tool, ToolRegistry, ValidCall, is_success, render
from toolcall_pipeline.middlewares import Validate, standard


async def return_params(**params: object) -> object:
    return params


def validate(schema: Any, sent: object) -> Any:
    made = Tool.from_schema(name="probe", parameters=schema, handler=return_params)
    return Validate()(Call("probe", sent).resolved(made))


def judge(schema: Any, sent: str, meant: Any, *, whole: bool) -> None:
    verdict = validate(schema, sent)
    if meant is REFUSED:
        error = verdict.failure()
        assert isinstance(error, (InvalidParams, MalformedCall))
        assert render(error)
    else:
        assert isinstance(verdict, ValidCall), verdict
        expected = meant if whole else {"x": meant}
        assert json.dumps(verdict.params, sort_keys=True) == json.dumps(expected, sort_keys=True)
        assert verdict.repairs


@pytest.mark.parametrize(("form", "value", "meant"), [each for each in ONE if each[2] != "valid"], ids=str)
def test_a_value_has_one_reading_or_is_refused(form: Any, value: str, meant: Any) -> None:
    """A repair gives the only value that was meant; a value that could mean two things is refused."""
    schema = {"type": "object", "properties": {"x": form}, "required": ["x"]}
    judge(schema, f'{{"x": {value}}}', meant, whole=False)


@pytest.mark.parametrize(("schema", "sent", "meant"), WHOLE, ids=str)
def test_a_name_has_one_reading_or_is_refused(schema: Any, sent: str, meant: Any) -> None:
    """A wrapper is opened if it is a known one, and a name is taken for a parameter that it can only mean."""
    judge(schema, sent, meant, whole=True)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (2.5, "2.5"),
        (5, "5"),
        (5.0, REFUSED),  # may have been 5: a float is all that some providers send
        (1e22, REFUSED),
        (1e-7, REFUSED),
        (float("inf"), REFUSED),
        (float("nan"), REFUSED),
        (10**5000, REFUSED),
        (-0.0, REFUSED),
    ],
    ids=lambda each: str(each)[:10] if isinstance(each, float | str) else type(each).__name__,
)
def test_a_number_in_a_mapping_is_text_only_as_it_was_written(sent: Any, meant: Any) -> None:
    """In a mapping only the value of a float is known: one that may have been written otherwise is refused."""
    verdict = validate({"type": "object", "properties": {"x": {"type": "string"}}}, {"x": sent})
    if meant is REFUSED:
        assert isinstance(verdict.failure(), InvalidParams)
    else:
        assert verdict.params == {"x": meant}


HOSTILE = {
    "huge": 10**5000,
    "huge negative": -(10**5000),
    "wide digit": "1\uff12",
    "long": "9" * 5000,
    "surrogate": "\ud800",
    "huge exponent": "1e" + "9" * 5000,
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("kind", ["string", "integer", "number", "boolean", "array", "object", "null"])
async def test_no_value_is_an_internal_error(sent: Any, kind: str) -> None:
    """Huge numbers and digits of other scripts are refused, or accepted, by every type and by no exception."""
    for form in ({"type": kind}, {"enum": ["1", 5]}, {"type": "array", "items": {"type": kind}}):
        tools = ToolRegistry()
        schema = {"type": "object", "properties": {"x": form}}
        tools.register(Tool.from_schema(name="probe", parameters=schema, handler=return_params, effect="read"))
        outcome: Any = await standard(tools).call("probe", {"x": sent})
        assert is_success(outcome) or outcome.failure().kind in ("validation", "malformed_call")
