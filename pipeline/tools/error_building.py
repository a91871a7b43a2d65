"""An error of each kind from the same parts: what a `ToolFailed`, an exception or a returned failure says."""

from __future__ import annotations

import attrs

from ..errors import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    Landed,
    NeedsSetup,
    NeedsUserInput,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
)
from ..privacy import PublicText, approved
from .client_rules import Kind

_NO_DETAILS = FailureDetails()


def build_error(
    kind: Kind,
    tool: str,
    message: PublicText,
    details: FailureDetails = _NO_DETAILS,
    *,
    landed: Landed = "maybe",
    cause: BaseException | None = None,
) -> ToolError:
    """Make the error of a kind; no part is lost in any of them.

    Args:
        kind: The kind. One that is not known counts as ``execution``.
        tool: The name of the tool.
        message: The text for the model. "": the fixed text of the kind.
        details: What is known beside the text. Default: nothing.
        landed: Whether the side effect happened. Default: it may have.
        cause: The exception, for the log. Default None: there is none.
    """
    match kind:
        case "not_found":
            return ResourceNotFound(message, details, cause=cause)
        case "permission":
            return Denied(tool, message, details, cause=cause)
        case "configuration":
            return NeedsSetup(approved(tool), message, details, cause=cause)
        case "needs_input":
            rest = attrs.evolve(details, parameter=None)  # it has a field of its own, as `retry_after` below
            return NeedsUserInput(message or "What is missing to carry this out?", details.parameter, rest)
        case "validation":
            text = message or "the tool refused it"
            problem = Problem(details.parameter or "", "validator", text)
            return InvalidParams((problem,), details=attrs.evolve(details, parameter=None))
        case "unavailable":
            return Unavailable(tool, "busy", details.retry_after, message, attrs.evolve(details, retry_after=None))
        case "timeout":
            rest, seconds = attrs.evolve(details, retry_after=None), details.retry_after
            return TimedOut(None, landed=landed, retry_after=seconds, message=message, details=rest, cause=cause)
        case "transient":
            return Transient(cause, details.retry_after, landed, message, attrs.evolve(details, retry_after=None))
        case "internal":
            return Crashed(cause)
        case _:
            return ExecutionFailed(message, details, cause=cause)
