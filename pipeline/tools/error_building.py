"""An error of each kind from the same parts: what a `ToolFailed`, an exception or a returned failure says."""

from __future__ import annotations

from typing import Any

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
_WITH_WAIT: tuple[Kind, ...] = ("unavailable", "timeout", "transient")  # these have a field of their own for it


def build_error(  # noqa: C901  # one case for each kind
    kind: Kind,
    tool: str,
    message: PublicText,
    details: FailureDetails = _NO_DETAILS,
    *,
    retry_after: float | None = None,
    landed: Landed = "maybe",
    cause: BaseException | None = None,
) -> ToolError:
    """Make the error of a kind; no part is lost in any of them.

    Args:
        kind: The kind. One that is not known counts as ``execution``.
        tool: The name of the tool.
        message: The text for the model. "": the fixed text of the kind.
        details: What is known beside the text. Default: nothing.
        retry_after: Seconds until another call makes sense. Default None: what the details say.
        landed: Whether the side effect happened. Default: it may have.
        cause: The exception, for the log. Default None: there is none.
    """
    wait = details.retry_after if retry_after is None else retry_after
    if kind in _WITH_WAIT:
        details = _without("retry_after", details)
    elif retry_after is not None:
        details = attrs.evolve(details, retry_after=retry_after)
    match kind:
        case "not_found":
            return ResourceNotFound(message, details, cause=cause)
        case "permission":
            return Denied(tool, message, details, cause=cause)
        case "configuration":
            return NeedsSetup(approved(tool), message, details, cause=cause)
        case "needs_input":
            rest = _without("parameter", details)  # it has a field of its own
            return NeedsUserInput(message or "What is missing to carry this out?", details.parameter, rest)
        case "validation":
            text = message or "the tool refused it"
            problem = Problem(details.parameter or "", "validator", text)
            return InvalidParams((problem,), details=_without("parameter", details))
        case "unavailable":
            return Unavailable(tool, "busy", wait, message, details)
        case "timeout":
            return TimedOut(None, landed=landed, retry_after=wait, message=message, details=details, cause=cause)
        case "transient":
            return Transient(cause, wait, landed, message, details)
        case "internal":
            return Crashed(cause)
        case _:
            return ExecutionFailed(message, details, cause=cause)


def _without(name: str, details: FailureDetails) -> FailureDetails:
    """The details without one of them. Most have it not, and `evolve` takes ten times as long as all the rest."""
    changes: dict[str, Any] = {name: None}
    return details if getattr(details, name) is None else attrs.evolve(details, **changes)
