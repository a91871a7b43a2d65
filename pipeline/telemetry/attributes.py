"""The attributes of a call span: those known when the call starts, and those known when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from opentelemetry.trace import Span

from .. import semconv
from ..errors import Repair
from ..parameters.secrets.declared_paths import show_path
from ..report import CallReport, LiveReport

# The name and the attributes that a call span starts with. A sampler decides by both, so they are final. A plain tuple:
# to unpack a NamedTuple takes three times as long.
SpanStart: TypeAlias = tuple[str, Mapping[str, str | int]]

_MAX_REPAIRS = 20  # of one call
_OF_THE_NAME = frozenset(("alias", "canonical_name", "provider_name", "transport_noise"))  # rules for the tool's name
_MAX_DESCRIPTION = 1_000  # characters
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


@lru_cache(maxsize=1_000)  # to look them up takes a fifth of the time; the attempts of a tool differ in little
def make_attempt_start(  # the arguments are the key of the cache
    number: int, tool: str | None, effect: str | None, description: str, executor: str | None, landed: str | None
) -> SpanStart:
    """The name of the span of an attempt, and what that starts with.

    Args:
        number: Of the attempt.
        tool: The name of the tool that is tried. None: no tool is known.
        effect: Of that tool.
        description: Of that tool, as its author wrote it.
        executor: Where the attempt runs, as far as known. None: unknown.
        landed: Whether it took effect. None: unknown, it has not ended.
    """
    attributes: dict[str, str | int] = {semconv.ATTEMPT: number}
    if tool is not None and effect is not None:
        attributes[semconv.EFFECT] = effect
        attributes[semconv.TOOL_DESCRIPTION] = to_wire_text(description, _MAX_DESCRIPTION)
    if executor is not None:
        attributes[semconv.EXECUTOR] = executor
    if landed is not None:
        attributes[semconv.LANDED] = landed
    return "attempt" if tool is None else f"attempt {tool}", attributes


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
        span.set_attribute(semconv.REPAIRS, list_repairs(report))


def list_repairs(report: CallReport) -> list[str]:
    """``path: rule`` for each repair. A name that the model made up is content: it is ``*``, as in ``amounts.*``."""
    tool = report.tool
    schema = tool.schema if tool is not None else None
    lines = [f"{_show_place(repair, schema)}: {repair.rule}" for repair in report.repairs[:_MAX_REPAIRS]]
    more = len(report.repairs) - _MAX_REPAIRS
    return [*lines, f"and {more} more"] if more > 0 else lines


def _show_place(repair: Repair, schema: Mapping[str, Any] | None) -> str:
    path, before, after = repair.path, repair.before, repair.after
    if repair.rule in _OF_THE_NAME:
        return path
    if repair.rule == "parameter_name" and isinstance(before, str) and isinstance(after, str):
        path = path.removesuffix(before) + after  # the declared name, and not the one that was taken for it
    return show_path(schema, path)


def to_wire_text(value: object, max_length: int = _MAX_NAME) -> str:
    """The value as text that OTLP can carry: cut to a length, and lone surrogates replaced.

    An exporter drops an attribute with a lone surrogate in it.
    """
    return str(value)[:max_length].encode(errors="replace").decode()
