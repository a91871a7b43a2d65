"""A call's arguments and result as text, as far as they may be recorded. No other module of this room reads either."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from returns.result import Failure, Success

from ...messages import render
from ...messages.values import as_json
from ...privacy import REDACTED, Mask, Redact

if TYPE_CHECKING:
    from .call_report import CallReport

# Paths for the application's `redact`: the first part for values of a result, and the path of a failure's text.
_RESULT, _ERROR = "result", "error"


def render_arguments(report: CallReport) -> str:
    """Return the arguments: text as it was sent, anything else as JSON."""
    redacted = report.redacted
    arguments = report.call.arguments if redacted is None else redacted.call.arguments
    if arguments is None:
        return "{}"
    return arguments if isinstance(arguments, str) else render(Success(arguments))


def render_outcome(report: CallReport, *, limit: int | None = None) -> str:
    """Return the text for the model, without secrets and with each value as the application's `redact` returned it.

    Returns:
        "" for a cancelled call.
    """
    outcome, redacted = report.outcome, report.redacted
    if outcome is None:
        return ""
    if redacted is None:
        return render(outcome, call=report.call, limit=limit)
    if type(outcome) is not Success:
        masked = outcome if redacted.mask is None else mask_outcome(outcome, redacted.mask)
        return redacted.show(render(masked, call=report.call), _ERROR)
    if redacted.hook is not None or redacted.mask is not None:
        outcome = Success(find_value(report))
    return render(outcome, call=report.call, limit=limit)


def find_value(report: CallReport) -> object:
    """The value of a success as it may be recorded: without secrets, and as the application's `redact` returned it."""
    value: object = cast("Any", report.outcome).unwrap()
    redacted = report.redacted
    if redacted is None:
        return value
    if redacted.mask is not None:
        value = _mask_value(value, redacted.mask)
    return value if redacted.hook is None else _redact_result(value, redacted.hook)


def mask_outcome(outcome: Any, mask: Mask) -> Any:
    """The outcome as it may be recorded: the error, or the value as JSON data, with the secrets of its call masked."""
    if type(outcome) is Failure:
        return Failure(mask.error(cast("Any", outcome).failure()))
    return Success(_mask_value(outcome.unwrap(), mask))


def _mask_value(value: object, mask: Mask) -> object:
    """The value of a success, as JSON data with the secrets of its call masked; "[redacted]" if it has no such form."""
    try:
        return mask.value(value if isinstance(value, str) else json.loads(as_json(value)))
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return REDACTED


def _redact_result(value: object, redact: Redact) -> object:
    """Redact the result as JSON data, so that the paths lead into models too."""
    from ...privacy.redaction import Redaction

    plain: object = value if isinstance(value, str) else json.loads(as_json(value))
    return Redaction(None, redact).redact_at((), plain, _RESULT)
