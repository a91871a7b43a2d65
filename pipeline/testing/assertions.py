"""assert_success and assert_failure: what a test says about an outcome, and the whole story where it is not so."""

from __future__ import annotations

import traceback
from typing import Any, TypeVar

from ..engine.call import Outcome, is_failure
from ..engine.errors import ToolError
from ..messages import render

T = TypeVar("T")
_SHOWN = 500  # characters of a value


def assert_success(outcome: Outcome[T]) -> T:
    """Check that a call succeeded, and return its value.

    Raises:
        AssertionError: It failed. The message has the kind of the error, what the model reads, and the exception
            behind it with its traceback, which is also the ``__cause__``.
    """
    if not is_failure(outcome):
        return outcome.unwrap()
    error: ToolError = outcome.failure()
    raise AssertionError(_tell(f"the call failed: {error.kind}", error)) from _find_cause(error)


def assert_failure(outcome: Outcome[Any], *, kind: str | None = None) -> ToolError:
    """Check that a call failed, and return its error.

    Args:
        outcome: The outcome of the call.
        kind: The kind of error that it has to be, such as ``"timeout"``. Default None: any.

    Raises:
        AssertionError: It succeeded, or failed with another kind of error, which the message describes as
            `assert_success` does.
    """
    wanted = kind or "a failure"
    if not is_failure(outcome):
        shown = repr(outcome)
        raise AssertionError(f"{wanted} wanted, and the call succeeded: {shown[:_SHOWN]}{'…' * (len(shown) > _SHOWN)}")
    error: ToolError = outcome.failure()
    if kind is not None and error.kind != kind:
        raise AssertionError(_tell(f"{kind} wanted, and the call failed: {error.kind}", error)) from _find_cause(error)
    return error


def _tell(what: str, error: ToolError) -> str:
    lines = [what, f"error: {error!r}", "told to the model:", *(f"    {line}" for line in render(error).splitlines())]
    if (cause := _find_cause(error)) is not None:
        lines.append("caused by:")
        lines += [f"    {line}" for part in traceback.format_exception(cause) for line in part.splitlines()]
    return "\n".join(lines)


def _find_cause(error: ToolError) -> BaseException | None:
    """Return the exception behind an error; for an unknown outcome, the exception of the failure behind it."""
    cause: object = getattr(error, "cause", None)
    while cause is not None and not isinstance(cause, BaseException):
        cause = getattr(cause, "cause", None)
    return cause
