"""The digests of the release before, by which a ledger finds the rows that this one wrote.

They are coarse: 7, 7.0 and ``"7"`` are one, and so are True and ``"true"``, a text with and without blanks around it,
and a list and a tuple. So what is found by them is the same delivery, or is refused. Nothing is written by them but to
a row that is there. They go with the last such row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from ..base.foreign_values import FaultBarrier
from ..engine.call import make_uuid
from ..parameters import read_arguments
from .digests import NotPlainError, compose, join_digest
from .intents import DELIVERY

if TYPE_CHECKING:
    from ..engine.call import ValidCall

_MAX_DEPTH = 200
_LONGEST_NUMBER = 40  # characters of a text that may be a number in quotation marks
_LARGE = 10_000  # bits of an integer that is not written in decimal digits, which takes quadratic time
_WORDS = {"true": True, "false": False}
_NOT_STATE = frozenset(("__dict__", "__weakref__", "__pydantic_fields_set__", "__pydantic_private__"))
_NO_SCALAR: Any = object()
_write = json.JSONEncoder(separators=(",", ":")).encode


def find_old_digests(call: ValidCall, secret: bytes) -> tuple[str, str]:
    """The digests of the delivery that a call is, "" for one without an id, and of its intent."""
    who = call.principal, call.conversation
    written = _digest_arguments(call)
    delivery = call.id and join_digest(*who, call.reply, call.id, call.tool.name, written, secret=secret)
    if named := call.get_state(DELIVERY, ""):
        delivery = join_digest(*who, "approval", named, call.tool.name, secret=secret)
    asked = f"written:{written}"
    with FaultBarrier():  # an object of the tool's own may raise anything when it is read, or has nothing to read
        asked = _digest(_leave_out_defaults(call))
    return delivery, join_digest(*who, call.tool.name, asked, secret=secret)


def _digest_arguments(call: ValidCall) -> str:
    """Of the arguments as the model wrote them."""
    with FaultBarrier():
        read = read_arguments(call.arguments)
        return _digest(call.arguments if read is None else read)
    return make_uuid()  # it equals nothing


def _digest(value: object) -> str:
    return join_digest(_write(_canonical(value, _MAX_DEPTH)))


def _leave_out_defaults(call: ValidCall) -> dict[str, object]:
    declared: Any = call.tool.parameters.schema.get("properties")
    defaults: Mapping[str, Any] = cast("Mapping[str, Any]", declared) if isinstance(declared, Mapping) else {}
    kept: dict[str, object] = {}
    for name, value in call.params.items():
        described: Any = defaults.get(name)
        if isinstance(described, Mapping) and "default" in described:
            default: object = cast("Any", described)["default"]
            if _canonical(value, _MAX_DEPTH) == _canonical(default, _MAX_DEPTH):
                continue
        kept[name] = value
    return kept


def _canonical(value: object, depth: int) -> Any:
    kind = type(value)
    form = _NO_SCALAR if kind is dict or kind is list else _scalar(value)
    if form is not _NO_SCALAR:
        return form
    if not depth:
        raise NotPlainError("nested too deeply")
    inner = depth - 1
    if isinstance(value, Enum):
        return _canonical(value.value, inner)
    if isinstance(value, Mapping):
        return ["m", _pairs(cast("Mapping[object, object]", value), inner)]
    if isinstance(value, AbstractSet):
        return ["set", sorted((_canonical(each, inner) for each in cast("AbstractSet[object]", value)), key=json.dumps)]
    if isinstance(value, Sequence):
        return ["l", [_canonical(each, inner) for each in cast("Sequence[object]", value)]]
    return _object(value, inner)


def _pairs(value: Mapping[object, object], depth: int) -> list[list[Any]]:
    """The forms of names and values, in the order of what is written for them."""
    return sorted(([_canonical(key, depth), _canonical(each, depth)] for key, each in value.items()), key=json.dumps)


def _scalar(value: object) -> Any:
    """The form of a value without parts; else `_NO_SCALAR`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _NO_SCALAR
    if isinstance(value, str):
        return _text(str.__str__(value))  # a subclass may write itself as it likes
    if isinstance(value, (int, float, Decimal, Fraction)):
        return ["n", _number(value)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ["b", bytes(cast("bytes", value)).hex()]
    if isinstance(value, (UUID, PurePath)):
        return _text(str(value))
    if isinstance(value, datetime):
        return ["datetime", _instant(value)]
    if isinstance(value, (date, time)):
        return ["date" if isinstance(value, date) else "time", value.isoformat()]
    if isinstance(value, timedelta):
        return ["timedelta", [value.days, value.seconds, value.microseconds]]
    return _NO_SCALAR


def _object(value: object, depth: int) -> Any:
    kind = type(value)
    reveal = getattr(value, "get_secret_value", None)
    if callable(reveal):
        return _canonical(reveal(), depth)
    if isinstance(value, type) or callable(value):
        raise NotPlainError(kind.__name__)
    state = _state_of(value)
    if not state:
        raise NotPlainError(kind.__name__)
    fields = [[name, _canonical(state[name], depth)] for name in sorted(state)]
    return ["o", f"{kind.__module__}.{kind.__qualname__}", fields]


def _state_of(value: object) -> dict[str, object]:
    """The attributes of an object: of a model its fields and extra ones, of a dataclass and others all."""
    state: dict[str, object] = {}
    for kind in type(value).__mro__:
        slots: Any = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in _NOT_STATE and hasattr(value, name):
                state[name] = getattr(value, name)
    state.update(getattr(value, "__dict__", {}))
    return state


def _text(text: str) -> Any:
    stripped = compose(text).strip()
    if len(stripped) > _LONGEST_NUMBER:
        return stripped
    if (word := _WORDS.get(stripped.casefold())) is not None:
        return word
    return stripped if (number := _number_in(stripped)) is None else ["n", number]


def _number_in(text: str) -> Any:
    """The form of a number that is written as Python writes it; None: it is another text."""
    for kind in (int, float):
        try:
            found = kind(text)
        except ValueError:
            continue
        if str(found) == text and math.isfinite(found):
            return _number(found)
    return None


def _number(value: float | Decimal | Fraction) -> Any:
    """Sign, digits and exponent of ten. An exponent is never written out: 1e999999999 would take all memory."""
    if isinstance(value, Fraction):
        if value.denominator != 1:
            return [_number(value.numerator), _number(value.denominator)]
        value = value.numerator
    if isinstance(value, int):
        value = int(value)
        if value.bit_length() > _LARGE:
            return hex(value)
        sign, written, exponent = int(value < 0), str(abs(value)), 0
    else:
        if isinstance(value, float):
            value = Decimal(float.__repr__(value))
        if not value.is_finite():
            return "nan" if value.is_nan() else str(value).casefold()
        sign, digits, shift = value.as_tuple()
        exponent = cast("int", shift)
        written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    return [sign, kept, exponent + len(written) - len(kept)] if kept else 0


def _instant(value: datetime) -> str:
    if value.tzinfo is None or value.utcoffset() is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).isoformat()
    except OverflowError:  # at the ends of the calendar
        return value.isoformat()
