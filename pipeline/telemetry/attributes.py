"""The attributes of a call span: those known when the call starts, and those known when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from opentelemetry.trace import Span

from .. import semconv
from ..report import LiveReport

# The name and the attributes that a call span starts with. A sampler decides by both, so they are final. A plain tuple:
# to unpack a NamedTuple takes three times as long.
SpanStart: TypeAlias = tuple[str, Mapping[str, str | int]]

_MAX_NAME = 128  # characters of a name or an id: a model or a provider may send any number


def make_span_start(tool: str) -> SpanStart:
    """The `SpanStart` of the tool of that name."""
    return f"{semconv.EXECUTE_TOOL} {tool}", _start_attributes(tool)


def _start_attributes(tool: str) -> dict[str, str | int]:
    # Nearly every call has one attempt. To say so at the start, and to correct it at the end of the others, costs a
    # tenth of a span less than to set it at the end of every call.
    return {
        semconv.OPERATION: semconv.EXECUTE_TOOL,
        semconv.TOOL_NAME: tool,
        semconv.TOOL_TYPE: semconv.FUNCTION,
        semconv.ATTEMPTS: 1,
    }


UNKNOWN_TOOL: SpanStart = (semconv.EXECUTE_TOOL, _start_attributes(semconv.OTHER))


def set_call_attributes(span: Span, report: LiveReport) -> None:
    """Set on a call span what is known when the call ends. Neither arguments nor results are among it."""
    call = report.call
    if (attempts := len(report.attempt_rows)) != 1:
        span.set_attribute(semconv.ATTEMPTS, attempts)
    if call.id:
        span.set_attribute(semconv.CALL_ID, to_wire_text(call.id))
    requested: Any = call.name
    if report.tool is None or requested != report.tool.name:
        text = to_wire_text(requested) if isinstance(requested, str) else type(requested).__name__
        span.set_attribute(semconv.REQUESTED_NAME, text)
    if report.repairs:
        span.set_attribute(semconv.REPAIRS, [f"{repair.path}: {repair.rule}" for repair in report.repairs])


def to_wire_text(value: object, max_length: int = _MAX_NAME) -> str:
    """The value as text that OTLP can carry: cut to a length, and lone surrogates replaced.

    An exporter drops an attribute with a lone surrogate in it.
    """
    return str(value)[:max_length].encode(errors="replace").decode()
