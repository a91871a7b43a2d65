"""ToolFailed: what a tool raises to tell the model about its failure, in words that the tool's author approves."""

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


class ToolFailed(Exception):  # noqa: N818  # it says what happened: "raise ToolFailed"
    """A failure with a text for the model, which the tool's author approves by raising it.

    Args:
        message: The text for the model. Errors of the kinds ``unavailable``, ``timeout`` and ``transient`` have a fixed
            text instead.
        kind: What kind of error it is; see `pipeline.tools.classification`. Default: ``execution``.
        parameter: The argument that caused the failure. Default None: no single one.
        suggestion: The next step, for the model. Default None: none.
        retry_after: Seconds until another attempt makes sense, for ``unavailable`` and ``transient``. Default None: not
            known.
        landed: Whether the side effect happened. Default None: not known, so a mutating tool is not called again.
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
