"""ToolFailed: what a tool raises to tell the model of its failure, in words that its author approved."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..errors import FailureDetails, Landed
from ..privacy import approved

FailureKind: TypeAlias = Literal[
    "execution",
    "not_found",
    "permission",
    "configuration",
    "needs_input",
    "validation",
    "unavailable",
    "timeout",
    "transient",
]


class ToolFailed(Exception):  # noqa: N818  # it is what happened, as in "raise ToolFailed"
    """Raised by a tool: a failure whose text its author approved for the model.

    ``parameter`` names the argument at fault, ``suggestion`` what to do about it, ``retry_after`` is in seconds,
    ``landed`` says whether the side effect happened (None: not known).
    """

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "execution",
        parameter: str | None = None,
        suggestion: str | None = None,
        retry_after: float | None = None,
        landed: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.details = FailureDetails(parameter, None if suggestion is None else approved(suggestion))
        self.retry_after = retry_after
        self.landed: Landed = "maybe" if landed is None else "yes" if landed else "no"
