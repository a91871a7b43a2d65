"""For callers who want exceptions after all: a view of the outcome, and no second way through the pipeline."""

from __future__ import annotations

from typing import TypeVar

from returns.result import Failure

from ..call import Outcome
from ..errors import ToolError
from .rendering import render

T = TypeVar("T")


class ToolCallError(Exception):
    """A failed call; its text is what the model would be told, ``error`` is the error itself."""

    def __init__(self, error: ToolError) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return render(self.error)


def raise_for_error(outcome: Outcome[T]) -> T:
    """The value of a success; raises ToolCallError for a failure, from its private cause where there is one."""
    if type(outcome) is Failure:
        error: ToolError = outcome.failure()
        cause = getattr(error, "cause", None)
        raise ToolCallError(error) from (cause if isinstance(cause, BaseException) else None)
    return outcome.unwrap()
