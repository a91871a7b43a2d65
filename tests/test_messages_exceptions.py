"""Exceptions for callers who want them: `raise_for_error` and ToolCallError."""

from __future__ import annotations

import pickle

import pytest
from returns.result import Failure, Success

from error_cases import EACH_KIND, SECRET
from toolcall_pipeline import (
    Crashed,
    Denied,
    OutcomeUnknown,
    ToolCallError,
    ToolError,
    Transient,
    UnknownTool,
    raise_for_error,
    render,
)


def test_a_success_gives_its_value() -> None:
    """`raise_for_error` returns the very value of a success."""
    value = object()
    assert raise_for_error(Success(value)) is value
    assert raise_for_error(Success(None)) is None


@pytest.mark.parametrize("error", EACH_KIND, ids=lambda error: error.kind)
def test_a_failure_is_raised(error: ToolError) -> None:
    """The exception holds the error, has the text for the model, and shows no private cause."""
    with pytest.raises(ToolCallError) as raised:
        raise_for_error(Failure(error))
    assert raised.value.error is error
    assert str(raised.value) == render(error)
    assert "hunter2" not in repr(raised.value)


CHAINED: list[tuple[ToolError, BaseException | None]] = [
    (Crashed(SECRET), SECRET),
    (Denied("policy", cause=SECRET), SECRET),
    (Crashed(), None),
    (UnknownTool("raed"), None),
    (OutcomeUnknown(Transient(SECRET)), None),
]


@pytest.mark.parametrize(("error", "cause"), CHAINED, ids=["crash", "denial", "no cause", "no such field", "an error"])
def test_the_private_cause_is_the_cause_of_the_exception(error: ToolError, cause: BaseException | None) -> None:
    """The exception is raised from the private cause of the error, if that is an exception."""
    with pytest.raises(ToolCallError) as raised:
        raise_for_error(Failure(error))
    assert raised.value.__cause__ is cause


def test_the_exception_can_be_pickled() -> None:
    """A pickled exception keeps its error, without the secrets of the cause."""
    raised = pickle.loads(pickle.dumps(ToolCallError(Crashed(SECRET))))
    assert raised.error == Crashed()
    assert str(raised) == "An unexpected error occurred while executing this tool"
