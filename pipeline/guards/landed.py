"""Landed: what an outcome says of the side effect of the body, and what to tell where it must not say too little."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import attrs
from returns.result import Failure, Success

from ..errors import Landed, OutcomeUnknown, TimedOut, Transient, Unavailable

if TYPE_CHECKING:
    from ..call import Outcome
    from ..tools.definition import Tool


def landed_of(outcome: object) -> Landed:
    """Whether the side effect of a body that ran happened, as far as the outcome of that body tells."""
    if type(outcome) is Success:
        return "yes"
    error: Any = cast("Failure[Any]", outcome).failure() if type(outcome) is Failure else None
    if type(error) is Unavailable:  # refused before the body began, or by the tool itself
        return "no"
    witness = error if hasattr(error, "landed") else getattr(error, "cause", None)  # a ToolFailed is a cause, and knows
    landed: Landed = getattr(witness, "landed", "maybe")
    return landed


def tell_lost(error: Any, tool: Tool[..., Any]) -> OutcomeUnknown:
    """What to tell in place of an error that does not say that the tool may have taken effect."""
    if isinstance(error, (TimedOut, Transient)):
        return OutcomeUnknown(attrs.evolve(error, landed="maybe"), tool.verify_with)
    return OutcomeUnknown(Transient(getattr(error, "cause", None), landed="maybe"), tool.verify_with)


def hides_effect(error: Any) -> bool:
    """Whether an error that a stage puts in place of the inside's answer lets the model believe that nothing ran."""
    return getattr(error, "kind", "internal") not in _TELL_OF_A_RUN and getattr(error, "landed", "no") == "no"


def landed_of_own_work(outcome: Outcome) -> Landed:
    """What the outcome of a stage that did not call on says of its own work: most such stages only refuse."""
    if type(outcome) is Failure and getattr(outcome.failure(), "kind", "") in _REFUSED:
        return "no"
    return landed_of(outcome)


_TELL_OF_A_RUN = frozenset(("execution", "outcome_unknown"))
_REFUSED = frozenset(
    (
        "unknown_tool",
        "unavailable",
        "not_executed",
        "malformed_call",
        "validation",
        "needs_input",
        "permission",
    )
)
