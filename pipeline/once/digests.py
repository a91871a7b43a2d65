"""The canonical digest of a value: equal in each process and release for what means the same, and injective else.

One reading has one form: 7, 7.0 and ``"7"``; True and ``"true"``; a text with and without blanks around it, composed
(NFC) or not; -0.0 and 0.0; a list and a tuple; an enum and its value; an instant in any time zone. A union such as
``int | str`` lets a model write each of these in two ways. ``"007"`` stays a text, and 1 differs from True.
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
from hashlib import blake2b
from json.encoder import encode_basestring_ascii
from pathlib import PurePath
from typing import Any, cast
from unicodedata import is_normalized, normalize
from uuid import UUID

_MAX_DEPTH = 200
_LONGEST_NUMBER = 40  # characters of a text that may be a number in quotation marks
_LARGE = 10_000  # bits of an integer that is not written in decimal digits, which takes quadratic time
_WORDS = {"true": True, "false": False}
_FIRST_OF_WORDS = "tTfF"
_NOT_STATE = frozenset(("__dict__", "__weakref__", "__pydantic_fields_set__", "__pydantic_private__"))
_BYTES = 20
_NO_SCALAR: Any = object()
_write = json.JSONEncoder(separators=(",", ":")).encode


class NotPlainError(TypeError):
    """A value shows nothing to compare."""


def join_digest(*parts: str, secret: bytes = b"") -> str:
    """A digest of texts; their lengths keep ``("a", "bc")`` and ``("ab", "c")`` apart.

    Args:
        parts: The texts.
        secret: A key, at most 64 bytes: without it a text cannot be guessed from its digest. Default: none.
    """
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    data = b"".join([b"%d:%b" % (len(each), each) for each in encoded])
    return blake2b(data, digest_size=_BYTES, key=secret).hexdigest()


def digest(value: object, secret: bytes = b"") -> str:
    """The digest of the canonical form of a value.

    Raises:
        NotPlainError: It holds an object that shows nothing to compare, or is nested too deeply.
    """
    return join_digest(_write(canonical(value)), secret=secret)


def canonical(value: object, depth: int = _MAX_DEPTH) -> Any:
    """The canonical form: JSON, and equal only for values that mean the same.

    Args:
        value: Any value.
        depth: How deeply it may be nested.

    Raises:
        NotPlainError: As `digest`.
    """
    kind = type(value)
    if kind is str:  # before all others, for most are texts, integers and dicts
        return _text(cast("str", value))
    if kind is int:
        return ["n", _number(cast("int", value))]
    form = _NO_SCALAR if kind is dict or kind is list else _scalar(value)
    if form is not _NO_SCALAR:
        return form
    if depth <= 0:
        raise NotPlainError("nested too deeply")
    inner = depth - 1
    if isinstance(value, Enum):
        return canonical(value.value, inner)
    if isinstance(value, Mapping):
        return ["m", _pairs(cast("Mapping[object, object]", value), inner)]
    if isinstance(value, AbstractSet):
        return ["set", sorted((canonical(each, inner) for each in cast("AbstractSet[object]", value)), key=json.dumps)]
    if isinstance(value, Sequence):
        return ["l", [canonical(each, inner) for each in cast("Sequence[object]", value)]]
    return _object(value, inner)


def _pairs(value: Mapping[object, object], depth: int) -> list[list[Any]]:
    """The forms of names and values, in the order of what is written for them."""
    pairs = [[canonical(key, depth), canonical(each, depth)] for key, each in value.items()]
    if len(pairs) > 1:
        names = {name for name, _ in pairs if type(name) is str}
        # Names that differ decide the order alone, and no value need be written for it.
        pairs.sort(key=_write_name if len(names) == len(pairs) else json.dumps)
    return pairs


def _write_name(pair: list[Any]) -> str:
    return encode_basestring_ascii(pair[0])


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
        return canonical(reveal(), depth)
    if isinstance(value, type) or callable(value):
        raise NotPlainError(kind.__name__)
    state = _state_of(value)
    if not state:
        raise NotPlainError(kind.__name__)
    fields = [[name, canonical(state[name], depth)] for name in sorted(state)]
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
    text = text if text.isascii() or is_normalized("NFC", text) else normalize("NFC", text)
    stripped = text.strip()
    if len(stripped) <= _LONGEST_NUMBER:
        first = stripped[:1]
        if first in _FIRST_OF_WORDS and (word := _WORDS.get(stripped.casefold())) is not None:
            return word
        if first.isdigit() or first == "-":
            return ["n", number] if (number := _number_in(stripped)) is not None else stripped
    return stripped


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
