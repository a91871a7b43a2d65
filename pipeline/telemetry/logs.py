"""A failure in the developer's log: the only home of a private cause."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

from ..errors import Crashed, InvalidParams, ToolError
from ..report import CallReport, kind_of
from ..semconv import SCOPE

if TYPE_CHECKING:
    from ..call import Call

logger = logging.getLogger(SCOPE)
flow = logging.getLogger(f"{SCOPE}.flow")  # of its own: one record a call, at debug, beside those of failures
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_LONGEST = 200  # characters of a name or a cause: what a model or a backend sent may be of any size
_KINDS_OF_CRASH = 1000  # and then no more are told: they may be made without end
_MOST = 20  # problems of one call
_told: set[tuple[str, str]] = set()


def log_failure(call: Call, tool: str | None, error: ToolError) -> None:
    """Log one failed call at the level of its kind; a crash with its stack.

    Where logging is not configured at all nothing is logged, as with a NullHandler, but for crashes: the first of
    each kind of each tool goes the way of Python's last resort, to stderr, or a developer would never hear of it.
    """
    level = _LEVELS[error.log]
    if not logger.isEnabledFor(level):
        return
    if not logger.hasHandlers():
        if not isinstance(error, Crashed) or len(_told) > _KINDS_OF_CRASH:
            return
        crash = (tool or "", type(error.cause).__name__)
        if crash in _told:
            return
        _told.add(crash)
    stack = error.cause if isinstance(error, Crashed) else None
    logger.log(
        level,
        "Tool %s%s: %s%s (call %s)",
        _safe(call.name),
        f" (resolved to {_safe(tool)})" if tool is not None and tool != call.name else "",
        error.kind,
        _what(error),
        _safe(call.id),
        exc_info=(type(stack), stack, stack.__traceback__) if stack is not None else None,
        extra={"tool": tool, "error_type": error.kind, "call_id": call.id, **_where()},
    )


def log_flow(report: CallReport) -> None:
    """Log one call in detail, at debug: its stages with their times and verdicts, and what was decided between."""
    stages = ", ".join(
        f"{row.name} {row.seconds * 1000:.3f} ms{f' {row.verdict}' if row.verdict else ''}" for row in report.stages
    )
    decisions = "".join(f"; attempt {each.attempt}: {each.reason}" for each in report.decisions)
    repairs = "".join(f"; {_safe(each.path)} repaired ({each.rule})" for each in report.repairs)
    tool = report.tool.name if report.tool is not None else None
    flow.debug(
        "Tool %s: %s in %.3f ms (%s)%s%s (call %s)",
        _safe(report.call.name),
        "cancelled" if report.outcome is None else kind_of(report.outcome) or "success",
        report.seconds * 1000,
        stages,
        decisions,
        repairs,
        _safe(report.call.id),
        extra={"tool": tool, "call_id": report.call.id, **_where()},
    )


def _where() -> dict[str, str]:
    """The trace that a record belongs to, as W3C Trace Context writes it; empty where there is none."""
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}


def _what(error: ToolError) -> str:
    if isinstance(error, InvalidParams):  # where and which rule, never the values
        told = [
            f"{_safe(problem.path) if problem.path else 'arguments'} ({problem.rule})" for problem in error.problems
        ]
        more = f" and {len(told) - _MOST} more" if len(told) > _MOST else ""
        return f": {', '.join(told[:_MOST])}{more}"
    cause: object = getattr(error, "cause", None)
    cause = getattr(cause, "cause", None) or cause  # of an OutcomeUnknown, that of the error behind it
    if isinstance(error, Crashed) or not isinstance(cause, BaseException):
        return f": {error.reason}" if error.kind == "unavailable" else ""
    return f": {type(cause).__name__}: {_safe(cause)}"


def _safe(value: object) -> str:
    """One line, quoted, of bounded length: nothing that came in can forge a line of the log."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything
        text = f"<{type(value).__name__}>"
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")
