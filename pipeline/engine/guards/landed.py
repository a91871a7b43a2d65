"""Whether the side effect of a body happened, as far as an outcome says it; and errors that must not deny it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
from returns.result import Failure, Success

from ..errors import Landed, NotExecuted, OutcomeUnknown, TimedOut, Transient, Unavailable

if TYPE_CHECKING:
    from ...tools.definition import Tool

E = TypeVar("E")
# An exception of the author may say it by an attribute of its class: ``landed = False``.
_BY_ANSWER: dict[object, Landed] = {"yes": "yes", "no": "no", "maybe": "maybe", True: "yes", False: "no"}


def landed_of(outcome: object, tool: Tool[..., Any] | None = None, *, began: bool = False) -> Landed:
    """Whether the side effect of a body happened, as far as the outcome of that body says it.

    Args:
        outcome: The outcome.
        tool: Whose body it was. Default None: not known, so nothing that it declares counts.
        began: Whether the body is known to have begun. Default: an `Unavailable` that says nothing else means that it
            has not.
    """
    if type(outcome) is Success:
        return "yes"
    error: Any = cast("Failure[Any]", outcome).failure() if type(outcome) is Failure else None
    if type(error) is Unavailable:
        return "no" if error.body_landed == "maybe" and not began else error.body_landed
    if type(error) is NotExecuted:
        return "no"
    witness = error if hasattr(error, "landed") else getattr(error, "cause", None)  # a ToolFailed is a cause, and knows
    landed: Any = getattr(witness, "landed", "maybe")
    found = _BY_ANSWER.get(landed, "maybe") if landed.__hash__ else "maybe"
    if found == "maybe" and tool is not None and tool.proves_no_effect(error):
        return "no"
    return found


def as_outcome_unknown(error: Any, tool: Tool[..., Any]) -> OutcomeUnknown:
    """Replace an error that does not say that the tool may have taken effect."""
    if isinstance(error, (TimedOut, Transient)):
        return OutcomeUnknown(attrs.evolve(error, landed="maybe"), tool.verify_with)
    if type(error) is Unavailable:
        landed: Landed = "yes" if error.body_landed == "yes" else "maybe"
        told = Transient(None, error.retry_after, landed, error.message, error.details)
        return OutcomeUnknown(told, tool.verify_with)
    return OutcomeUnknown(Transient(getattr(error, "cause", None), landed="maybe"), tool.verify_with)


def as_not_landed(error: E) -> E:
    """Make ``landed`` of an error "no" where it says "maybe", for a call without a body that may have taken effect."""
    if isinstance(error, (TimedOut, Transient)) and error.landed == "maybe":
        return cast("E", attrs.evolve(error, landed="no"))
    return error


def as_maybe_landed(error: E) -> E:
    """Make ``landed`` of an error "maybe", for a call with a body that may have taken effect."""
    return cast("E", attrs.evolve(cast("Any", error), landed="maybe"))


def denies_effect(error: Any) -> bool:
    """Whether an error that a stage puts in place of the inside's answer lets the model believe that nothing ran."""
    landed = landed_of(Failure(error)) if type(error) is Unavailable else getattr(error, "landed", "no")
    return getattr(error, "body", "unsaid") != "ran" and landed == "no"
