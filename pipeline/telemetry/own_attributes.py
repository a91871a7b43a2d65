"""Attributes that an application adds to the spans of its calls: who asks, and what a function of its own says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from .. import semconv
from ..call import Call
from ..event_loops import is_interrupt
from ..outside_text import get_logger
from ..report import CallReport
from .attributes import to_wire_text

Describe: TypeAlias = Callable[[Call], Mapping[str, AttributeValue] | None]
_logger = get_logger()
_OURS = (
    "toolcall.",
    "gen_ai.tool.",
    semconv.OPERATION,
    semconv.ERROR_TYPE,
    semconv.EXCEPTION_TYPE,
)  # by how they begin
_MAX_INT = 2**63  # OTLP has 64 bits, and one larger number would lose the whole batch
_MAX_ATTRIBUTES = 64  # of one call: the SDK keeps 128 on a span, and of more the first ones go, which are ours
_MAX_TOLD = 1_000  # attributes to remember; their names may be made without end
_told: set[tuple[str, str]] = set()


def describe_call(span: Span, report: CallReport, describe: Describe) -> None:
    """Set what the function returns for the call, which it gets as it was sent and without its secrets.

    Attributes of ours stay, and what no attribute can hold is left out; the first of each name is logged, and so is one
    beyond 64. If the function raises, that is logged.
    """
    recorded = report.recorded
    try:
        given: Any = describe(report.call if recorded is None else recorded.call)
        items = [] if given is None else list(islice(cast("Mapping[Any, Any]", given).items(), _MAX_ATTRIBUTES + 1))
    except BaseException as exc:  # it is the application's, and may raise anything
        if is_interrupt(exc):
            raise
        _logger.exception("The attributes of a call could not be made")
        return
    if len(items) > _MAX_ATTRIBUTES:
        _tell(_name(items.pop()[0]), f"there are more than {_MAX_ATTRIBUTES}")
    for given_key, value in items:
        key = _name(given_key)
        if not isinstance(given_key, str) or not key:
            _tell(type(given_key).__name__, "its name is no text")
        elif key.startswith(_OURS):
            _tell(key, "this name is the library's")
        elif (plain := _read_value(value)) is None:
            _tell(key, f"an attribute holds no {type(value).__name__} like this")
        else:
            span.set_attribute(to_wire_text(key), plain)


def name_principal(span: Span, call: Call) -> None:
    """Set who asks, if that is known."""
    if call.principal:
        span.set_attribute(semconv.PRINCIPAL, to_wire_text(call.principal))


def _name(key: object) -> str:
    return str.__str__(key) if isinstance(key, str) else type(key).__name__


def _read_value(value: object) -> AttributeValue | None:
    """The value as an attribute: a text, a truth value, a number, or several of one type. None: it is none of these."""
    try:
        return _convert(value)
    except BaseException as exc:  # a foreign number or sequence may raise anything
        if is_interrupt(exc):
            raise
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


def _tell(key: str, reason: str) -> None:
    """Say once for each name that an attribute was left out."""
    if (key, reason) not in _told and len(_told) < _MAX_TOLD:
        _told.add((key, reason))
        _logger.warning("The attribute %r of Trace(attributes=…) is left out: %s", key, reason)
