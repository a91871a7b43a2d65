"""The phases of a call: no field is lost on the way."""

from __future__ import annotations

from typing import Any

import attrs

from toolcall_pipeline import Call, ToolRegistry, ValidCall


def test_each_phase_has_all_fields_of_the_one_before() -> None:
    """No field is lost on the way from a call to its params, and none is without a value."""
    tools = ToolRegistry()
    tool = tools.tool(effect="read")(make_nothing)
    given: dict[str, Any] = {
        "id": "1",
        "principal": "p",
        "deps": [],
        "finish_reason": "stop",
        "timeout": 5.0,
        "state": {},
    }
    call = Call("make_nothing", {"a": 1}, **given)
    resolved = call.resolved(tool)
    valid = resolved.validated({"a": 1})
    sent: dict[str, Any] = {field.name: getattr(call, field.name) for field in attrs.fields(Call)}
    built = ValidCall(**sent, tool=tool, params={"a": 1})
    for field in attrs.fields(ValidCall):
        assert getattr(valid, field.name) == getattr(built, field.name), field.name
    for field in attrs.fields(Call):
        assert getattr(resolved, field.name) is getattr(call, field.name), field.name


async def make_nothing(a: int) -> None:
    """Do nothing."""
