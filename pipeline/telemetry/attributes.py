"""What a call's span tells of it when it ends, as attributes; of arguments and results only what was asked for."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import Span
from returns.result import Success

from .. import semconv
from ..messages import render
from ..report import LiveReport

_LONGEST_NAME = 128  # characters of a name or an id: what a model or a provider sent may be of any size
_LONGEST_CONTENT = 10_000  # of arguments and results, where they are recorded


def tell_of(span: Span, report: LiveReport) -> None:
    """Put on the span what is known of a call at its end. Neither arguments nor results."""
    call = report.call
    if (attempts := len(report.attempt_rows)) != 1:
        span.set_attribute(semconv.ATTEMPTS, attempts)
    if call.id:
        span.set_attribute(semconv.CALL_ID, wire_text(call.id))
    asked: Any = call.name
    if report.tool is None or asked != report.tool.name:
        requested = wire_text(asked) if isinstance(asked, str) else type(asked).__name__
        span.set_attribute(semconv.REQUESTED_NAME, requested)
    if report.repairs:
        told = [f"{repair.path}: {repair.rule}" for repair in report.repairs]
        span.set_attribute(semconv.REPAIRS, told)


def content_of(report: LiveReport) -> dict[str, str]:
    """Arguments and result as texts; a failed call has no result (GenAI spans, execute_tool)."""
    sent = report.call.arguments
    told = {semconv.CALL_ARGUMENTS: sent if isinstance(sent, str) else render(Success(sent))}
    if type(report.outcome) is Success:
        told[semconv.CALL_RESULT] = render(report.outcome)
    return {key: wire_text(text, _LONGEST_CONTENT) for key, text in told.items()}


def wire_text(value: object, longest: int = _LONGEST_NAME) -> str:
    """The beginning of it, as the wire can carry it: a lone surrogate makes an exporter drop the attribute."""
    return str(value)[:longest].encode(errors="replace").decode()
