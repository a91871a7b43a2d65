"""What is made the short way is what the constructors make."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from returns.primitives.exceptions import ImmutableStateError
from returns.primitives.tracing import collect_traces
from returns.result import Failure, Result, Success

from toolcall_pipeline import Call, Crashed, InvalidParams, Problem, ToolRegistry, ValidCall
from toolcall_pipeline import outcomes as made_by
from toolcall_pipeline.error_makers import make_crashed, make_invalid_params
from toolcall_pipeline.outcomes import fail, succeed

VALUES: list[Any] = [None, 5, "text", [1], Crashed()]
MAKERS: list[tuple[Callable[[Any], Any], type[Any]]] = [(succeed, Success), (fail, Failure)]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize(("make", "cls"), MAKERS, ids=["succeed", "fail"])
def test_a_result_is_that_of_its_class(make: Callable[[Any], Any], cls: type[Any], value: Any) -> None:
    """It has the class, equality, hash, text and pickle of a result that its constructor made, and is as frozen."""
    made, built = make(value), cls(value)
    assert type(made) is cls
    assert made == built
    assert repr(made) == repr(built)
    assert pickle.loads(pickle.dumps(made)) == built
    assert copy.deepcopy(made) is made
    assert made.swap() == built.swap()
    with pytest.raises(ImmutableStateError):
        made._inner_value = 1


def test_a_failure_has_the_trace_that_returns_collects() -> None:
    """Inside of ``collect_traces`` a failure has its frames, and none elsewhere."""
    with collect_traces():
        traced: Any = fail("boom")
    assert traced.trace
    assert fail("boom").trace is None


def test_another_version_of_returns_makes_them_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the results have other slots, the constructors are used."""
    monkeypatch.setattr(made_by, "Result", type("Result", (Result,), {"__slots__": ("_more",)}))
    assert made_by.make_makers() == (Success, Failure)


def test_errors_that_are_made_often_are_those_of_their_constructors() -> None:
    """Each field is set, also one that has its default."""
    problems = (Problem("a", "type", "an integer", "string"),)
    schema: dict[str, Any] = {"type": "object"}
    exc = ValueError()
    pairs: list[tuple[Any, Any]] = [
        (make_invalid_params(problems, {"a": "b"}, schema), InvalidParams(problems, sent={"a": "b"}, schema=schema)),
        (make_crashed(exc), Crashed(exc)),
    ]
    for made, built in pairs:
        assert attrs.asdict(made, recurse=False) == attrs.asdict(built, recurse=False)
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            made.details = None


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
