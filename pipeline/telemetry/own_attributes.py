"""Attributes of the application on the spans of its calls: the result of its own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from ..base import semconv
from ..base.foreign_values import FaultBarrier
from ..engine.call import Call
from ..engine.report import CallReport
from ..privacy import get_logger
from .attributes import to_wire_text

Describe: TypeAlias = Callable[[Call], Mapping[str, AttributeValue] | None]
_logger = get_logger()
_SILENTLY = FaultBarrier(stops=BaseException)
_OURS = (
    "toolcall.",
    "gen_ai.tool.",
    semconv.OPERATION,
    semconv.ERROR_TYPE,
    semconv.EXCEPTION_TYPE,
)  # by how they begin
_MAX_INT = 2**63  # OTLP has 64 bits; one larger number would lose the whole batch
_MAX_ATTRIBUTES = 64  # per call: beyond 128 on a span the SDK drops the first ones, which are ours
_MAX_WARNED = 1_000  # attributes to remember; an application may make new names without end
_warned: set[tuple[str, str]] = set()


def describe_call(span: Span, report: CallReport, describe: Describe) -> None:
    """Set the attributes that ``describe`` returns for the call, which it gets as sent but without its secrets.

    Our own attributes stay, and values that no attribute can hold are left out. The first of each name is logged, and
    so is an attribute beyond 64. An exception of the function is logged.
    """
    redacted = report.redacted
    items: list[tuple[Any, Any]] = []
    with FaultBarrier(_logger, "The attributes of a call could not be made", BaseException):
        given: Any = describe(report.call if redacted is None else redacted.call)
        if given is not None:
            items = list(islice(cast("Mapping[Any, Any]", given).items(), _MAX_ATTRIBUTES + 1))
    if len(items) > _MAX_ATTRIBUTES:
        _warn_once(_name(items.pop()[0]), f"there are more than {_MAX_ATTRIBUTES}")
    for given_key, value in items:
        key = _name(given_key)
        if not isinstance(given_key, str) or not key:
            _warn_once(type(given_key).__name__, "its name is no text")
        elif key.startswith(_OURS):
            _warn_once(key, "this name is the library's")
        elif (plain := _read_value(value)) is None:
            _warn_once(key, f"an attribute holds no {type(value).__name__} like this")
        else:
            span.set_attribute(to_wire_text(key), plain)


def _name(key: object) -> str:
    return str.__str__(key) if isinstance(key, str) else type(key).__name__


def _read_value(value: object) -> AttributeValue | None:
    """Return the value as an attribute: a text, a bool, a number, or several of one type; None for anything else."""
    with _SILENTLY:  # a foreign number or sequence may raise anything
        return _convert(value)
    return None


def _convert(value: object) -> AttributeValue | None:
    if isinstance(value, str):
        return str.__str__(value).encode(errors="replace").decode()
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_MAX_INT <= value < _MAX_INT else None
    if isinstance(value, float):
        return float(value)
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        return None
    items = cast("Sequence[object]", value)
    each = [None if isinstance(one, Sequence) and not isinstance(one, str) else _convert(one) for one in items]
    return cast("AttributeValue", each) if None not in each and len(set(map(type, each))) <= 1 else None


def _warn_once(key: str, reason: str) -> None:
    """Log that an attribute was left out, once per name and reason."""
    if (key, reason) not in _warned and len(_warned) < _MAX_WARNED:
        _warned.add((key, reason))
        _logger.warning("The attribute %r of Trace(attributes=…) is left out: %s", key, reason)
