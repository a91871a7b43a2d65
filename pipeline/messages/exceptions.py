"""For callers who want exceptions: raise_for_error turns a failure into a ToolCallError."""

from __future__ import annotations

from typing import TypeVar

from returns.result import Failure

from ..call import Outcome
from ..errors import ToolError
from .rendering import render

T = TypeVar("T")


class ToolCallError(Exception):
    """A failed call, as an exception. Its text is the default text for the model.

    Args:
        error: The error of the failure; also an attribute.
    """

    def __init__(self, error: ToolError) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return render(self.error)


def raise_for_error(outcome: Outcome[T]) -> T:
    """Return the value of a success.

    Raises:
        ToolCallError: The outcome is a failure. The private cause of the error, if any, is the ``__cause__``.
    """
    if type(outcome) is Failure:
        error: ToolError = outcome.failure()
        cause = getattr(error, "cause", None)
        raise ToolCallError(error) from (cause if isinstance(cause, BaseException) else None)
    return outcome.unwrap()
