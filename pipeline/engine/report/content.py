"""A call's arguments and result as text, as far as they may be recorded. No other module of this room reads either."""

from __future__ import annotations

import json
from typing import Any, cast

from returns.result import Success

from ...messages import render
from ...messages.values import as_json
from ...privacy import Redact
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

    Args:
        report: The report of an ended call.
        limit: See `render`; for the value of a success. Default None: no limit.

    Returns:
        "" for a cancelled call.
    """
    outcome, redacted = report.outcome, report.redacted
    if outcome is None:
        return ""
    if redacted is None:
        return render(outcome, call=report.call, limit=limit)
    if type(outcome) is not Success:
        return redacted.show(render(outcome, call=report.call), _ERROR)
    if redacted.hook is not None:
        outcome = Success(find_value(report))
    return redacted.hide(render(outcome, call=report.call, limit=limit))


def find_value(report: CallReport) -> object:
    """The value of a success, as the application's `redact` returned it; the secrets of the call are still in it."""
    value: object = cast("Any", report.outcome).unwrap()
    redacted = report.redacted
    return value if redacted is None or redacted.hook is None else _redact_result(value, redacted.hook)


def _redact_result(value: object, redact: Redact) -> object:
    """Redact the result as JSON data, so that the paths lead into models too."""
    from ...privacy.redaction import Redaction

    plain: object = value if isinstance(value, str) else json.loads(as_json(value))
    return Redaction(None, redact).redact_at((), plain, _RESULT)
