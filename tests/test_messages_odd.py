"""Odd errors: an error whose fields are of other types than it declares has a text, in every profile and verbosity."""

from __future__ import annotations

import json
import math
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure

from error_cases import EACH_KIND, PROFILES, SECRET, VERBOSITIES
from toolcall_pipeline import (
    Call,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    Outcome,
    Problem,
    Repair,
    SetupError,
    Success,
    TimedOut,
    ToolError,
    ToolFailed,
    ToolRegistry,
    Transient,
    UnknownTool,
    approved,
    render,
)
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.messages import Conversation
from toolcall_pipeline.middlewares import standard


class Hostile:
    """Raises when it is shown, compared or converted."""

    def __str__(self) -> str:
        raise RuntimeError("hunter2")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("hunter2")

    def __bool__(self) -> bool:
        raise RuntimeError("hunter2")

    __hash__ = object.__hash__


ODD: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.just(math.inf)
    | st.builds(object)
    | st.builds(Hostile)
    | st.lists(st.integers() | st.text(max_size=3) | st.builds(Hostile), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
    | st.sampled_from([Problem("a", "type", approved("b")), (1, 2), FailureDetails(), ()])
)


def with_odd_fields(data: st.DataObject, thing: Any) -> Any:
    names = [field.name for field in attrs.fields(cast("Any", type(thing)))]
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return attrs.evolve(thing, **{name: data.draw(ODD) for name in chosen})


@given(st.data(), st.sampled_from(EACH_KIND), st.sampled_from(PROFILES), st.sampled_from(list(VERBOSITIES)))
def test_an_error_with_odd_fields_has_a_text(
    data: st.DataObject, error: ToolError, profile: str, verbosity: str
) -> None:
    """Nothing is raised, the text is not empty, within its budget and without the secret of the cause."""
    odd = with_odd_fields(data, error)
    if isinstance(odd, (InvalidParams,)) and data.draw(st.booleans()):
        odd = InvalidParams((with_odd_fields(data, Problem("a", "type", approved("b"))),))
    previous = data.draw(st.sampled_from([None, error, odd]))
    text = render(odd, profile=profile, verbosity=verbosity, previous=previous)
    assert text.strip()
    assert len(text) <= VERBOSITIES[verbosity] * 2
    assert "hunter2" not in text
    text.encode()
    if profile == "structured":
        assert json.loads(text)["ok"] is False
    answered = Failure(odd)
    assert openai.message(Call("x"), answered)["content"]
    assert anthropic.result(Call("x"), answered)["is_error"] is True
    assert Conversation(profile).render(Call("x"), answered)


def odd(value: Any) -> Any:
    """A value of a wrong type, past the type checkers."""
    return value


TEXTS: dict[str, tuple[ToolError, str]] = {
    "time": (TimedOut(odd("abc")), "Error: The tool did not finish in time."),
    "wait": (Transient(None, odd("soon")), "Error: The service is temporarily unavailable."),
    "path": (
        InvalidParams((Problem(odd(5), "validator", approved("wrong")),)),
        "Error: Invalid parameter value for 5: wrong",
    ),
    "names": (
        UnknownTool(odd(7), odd([1])),
        "Error: Tool '7' not found.\nDid you mean: 1?\nPlease try again with one of the available tools.",
    ),
    "suggestion": (ExecutionFailed(approved("no"), FailureDetails(odd(3), odd(4))), "Error: no. 4"),
    "no error": (odd(ValueError("hunter2")), "An unexpected error occurred while executing this tool"),
}


@pytest.mark.parametrize(("error", "text"), [pytest.param(*row, id=name) for name, row in TEXTS.items()])
def test_what_can_be_read_is_told(error: ToolError, text: str) -> None:
    """A number stands for its digits, what cannot be read is left out, and what is no error is a crash."""
    assert render(error) == text
    assert render(Failure(error)) == text


def test_odd_repairs() -> None:
    """Repairs that hold anything leave the text of a failure, and of a value, as it is or add a note."""
    repairs = (Repair(odd(5), odd(None), Hostile(), Hostile()),)
    for outcome in (Failure(TimedOut(1.0)), Success({"a": 1})):
        assert "hunter2" not in render(cast("Outcome[Any]", outcome), repairs=repairs)


def test_set_up_errors_are_still_raised() -> None:
    """A profile that is not known is a mistake of the caller."""
    with pytest.raises(SetupError):
        render(TimedOut(odd("abc")), profile="nope")


KINDS = ("execution", "not_found", "permission", "configuration", "needs_input", "validation", "unavailable", "timeout")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_that_fails_oddly(kind: Any) -> None:
    """A `ToolFailed` with fields of wrong types reaches the model as a failure with a text, in every profile."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def fail() -> None:
        raise ToolFailed(odd(3), kind=kind, parameter=odd(5), suggestion=odd(6), retry_after=odd("soon")) from SECRET

    outcome = await standard(tools).call("fail")
    for profile in PROFILES:
        assert "hunter2" not in render(outcome, profile=profile)
