"""Two equalities of values, each as a digest that is the same in every process and release.

Strictly equal values are the same as a tool sees them: of one type, a text byte for byte, a moment by instant and
offset, a secret by its hidden value, a model by its class and all its own fields, a collection by its items in their
order (a set and a mapping without). No serializer is asked. A value that has no such form equals nothing.

Loosely equal values are strictly equal, or the same after this table, which is all: texts by NFC without blanks at the
ends; a number and its text, where the schema reads both; and 1 and 1.0, which reach a tool as two types only where the
schema reads both.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections import OrderedDict, deque
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, TypeAlias, cast
from unicodedata import combining, normalize
from uuid import UUID
from zoneinfo import ZoneInfo

from ..parameters.schema import Parts, forms_at

_MAX_DEPTH = 200
_LONGEST_NUMBER = 40  # characters of a text that may be the text of a number
_LONGEST_INTEGER = 400  # decimal digits that are written out
_LARGE = 10_000  # bits of an integer that is not written in decimal digits, which takes quadratic time
_MOST_MARKS = 30  # UAX 15, section 13
_BYTES = 20
_NUMBERS = frozenset(("integer", "number"))
_OPEN = frozenset(("type", "const", "enum", "anyOf", "oneOf", "allOf", "$ref"))
_IS_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?\Z", re.ASCII)
_URLS = ("pydantic.networks", "pydantic_core._pydantic_core")
# Their text says all that there is of them.
_SAID_BY_TEXT = (
    UUID,
    PurePath,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
)
Schema: TypeAlias = Mapping[str, Any]


class NotPlainError(TypeError):
    """A value has no form, so it equals nothing."""


def join_digest(*parts: str, secret: bytes = b"") -> str:
    """A digest of texts.

    Args:
        parts: The texts.
        secret: A key, at most 64 bytes: without it a text cannot be guessed from its digest. Default: none.
    """
    return digest_text(join(*parts), secret)


def digest_text(text: str, secret: bytes) -> str:
    """The digest of a text, as `join_digest` makes it of those that `join` has joined."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=secret).hexdigest()


def join(*parts: str) -> str:
    """Texts as one; their lengths, in bytes of UTF-8, keep ``("a", "bc")`` and ``("ab", "c")`` apart."""
    joined = ""
    for part in parts:
        size = len(part) if part.isascii() else len(part.encode("utf-8", "surrogatepass"))
        joined += f"{size}:{part}"
    return joined


def digest(value: object, secret: bytes = b"") -> str:
    """The digest of a value by strict equality.

    Raises:
        NotPlainError: It holds an object that has no form, or is nested too deeply.
    """
    return join_digest(write_strict(value), secret=secret)


def write_strict(value: object) -> str:
    """The form of a value as a text: equal for strictly equal values, and for no others.

    Raises:
        NotPlainError: As `digest`.
    """
    return _STRICT.write(value, (), _MAX_DEPTH)


def write_loose(value: object, schema: Schema, parts: Parts = ()) -> str:
    """The form of a value as a text: equal for loosely equal values, and for no others.

    Args:
        value: Any value.
        schema: The schema of the tool's parameters.
        parts: The place of the value in it. Default: all parameters.

    Raises:
        NotPlainError: As `digest`.
    """
    return _Form(schema).write(value, parts, _MAX_DEPTH)


def is_written_alike(value: object) -> bool:
    """Whether a value is a scalar whose two forms are one, wherever it stands. False: that is not known."""
    kind = type(value)
    if kind is int or kind is bool or value is None:
        return True
    if kind is not str:
        return False
    text = cast("str", value)
    return text.isascii() and text.strip() == text and not _IS_NUMBER.match(text[:_LONGEST_NUMBER])


class _Form:
    """Writes forms; strict without a schema, loose with one."""

    def __init__(self, schema: Schema | None) -> None:
        self._schema = schema

    def write(self, value: Any, parts: Parts, depth: int) -> str:
        kind = cast("type[Any]", type(value))
        if kind is str:  # before all others, for most are texts, integers and dicts
            return self._text(value, parts)
        if kind is int:
            return _integer(value)
        if value is None or kind is bool:
            return _WORDS[value]
        if kind is float or kind is Decimal or kind is Fraction:
            return self._number(value)
        if not depth:
            raise NotPlainError("nested too deeply")
        inner = depth - 1
        if kind is dict:
            return f"m{self._pairs(value.items(), parts, inner)}"
        if kind is list:
            return f"l{self._items(value, parts, inner)}"
        return f"({_name(kind)}){self._other(value, parts, inner)}"

    def _other(self, value: Any, parts: Parts, depth: int) -> str:
        """The form of a value that is no plain JSON, beside the name of its type."""
        if isinstance(value, Enum):
            named: Any = value.name  # None: a combination of flags
            return self.write(value.value, parts, depth) if named is None else f"e{len(named)}:{named}"
        if (said := _moment(value)) or (said := _said(value)):
            return said
        reveal = getattr(value, "get_secret_value", None)
        if callable(reveal):
            return self.write(reveal(), parts, depth)
        fields = _fields_of(value)
        if fields is not None:
            return f"o{self._pairs(fields.items(), parts, depth)}"
        if isinstance(value, type) or getattr(value, "__dict__", None):
            raise NotPlainError(type(value).__name__)
        return self._subclass(value, parts, depth)

    def _subclass(self, value: Any, parts: Parts, depth: int) -> str:
        """The form of a scalar or collection, by the methods of the built-in type, which a subclass may override."""
        if isinstance(value, str):
            return self._text(str.__str__(value), parts)
        if isinstance(value, int):
            return _integer(int.__pos__(value))
        if isinstance(value, (float, Decimal, Fraction)):
            return self._number(value)
        if isinstance(value, OrderedDict):
            pairs = [[key, each] for key, each in cast("OrderedDict[Any, Any]", value).items()]
            return f"l{self._items(pairs, (*parts, -1), depth)}"
        if isinstance(value, dict):
            return f"m{self._pairs(_DICT.items(value), parts, depth)}"
        if isinstance(value, (list, tuple, deque)):
            return f"l{self._items(cast('list[Any]', value), parts, depth)}"
        if isinstance(value, (set, frozenset)):
            return f"l{_count(sorted(self.write(each, (*parts, 0), depth) for each in cast('set[Any]', value)))}"
        if isinstance(value, complex):
            return f"c{value.real!r},{value.imag!r};"
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"b{bytes(cast('bytes', value)).hex()};"
        raise NotPlainError(type(value).__name__)

    def _items(self, items: Any, parts: Parts, depth: int) -> str:
        if self._schema is None:
            return _count([self.write(each, parts, depth) for each in items])
        return _count([self.write(each, (*parts, index), depth) for index, each in enumerate(items)])

    def _pairs(self, pairs: Any, parts: Parts, depth: int) -> str:
        """The forms of names and values, in the order of the names."""
        found: list[str] = []
        for key, each in pairs:
            name = f"s{len(key)}:{key}" if type(key) is str else _STRICT.write(key, (), depth)
            inner = parts if self._schema is None else (*parts, key if type(key) is str else "")
            found.append(name + self.write(each, inner, depth))
        found.sort()
        return _count(found)

    def _text(self, text: str, parts: Parts) -> str:
        if self._schema is not None:
            text = (text if text.isascii() else compose(text)).strip()
            if len(text) <= _LONGEST_NUMBER and _IS_NUMBER.match(text):
                number = _number_in(text, kinds_at(self._schema, parts))
                if number is not None:
                    return _amount(number)
        return f"s{len(text)}:{text}"

    def _number(self, value: Any) -> str:
        if self._schema is not None:
            return _amount(value)
        if isinstance(value, float):
            written = float.__repr__(value)
            return f"f{'nan' if value != value else written};"  # noqa: PLR0124  # NaN
        if isinstance(value, Decimal):
            return f"({_name(Decimal)})d{'NaN' if value.is_nan() else Decimal.__str__(value)};"
        return f"({_name(Fraction)})q{value.numerator:x}/{value.denominator:x};"


_STRICT = _Form(None)
_WORDS = {None: "N", True: "T", False: "F"}


def compose(text: str) -> str:
    """A text by NFC. One with a longer run of combining marks than Unicode's Stream-Safe Text has stays as it is."""
    run = 0
    for each in map(combining, text):  # to order a run takes quadratic time
        run = run + 1 if each else 0
        if run > _MOST_MARKS:
            return text
    return normalize("NFC", text)


def _count(forms: list[str]) -> str:
    return f"{len(forms)}:{''.join(forms)}"


_DICT: Any = dict  # its methods read a subclass as well, whatever that says itself


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _integer(value: int) -> str:
    return f"i{value};" if value.bit_length() <= _LARGE else f"h{value:x};"


def _moment(value: object) -> str:
    """A moment by instant and offset: how its zone is called makes no difference to it. "": it is none."""
    if isinstance(value, datetime):
        offset = value.utcoffset()
        if offset is None:
            return f"t{value.replace(tzinfo=None).isoformat()},{value.fold};"
        return f"t{value.replace(tzinfo=None, fold=0).isoformat()}{offset.total_seconds()!r};"
    if isinstance(value, time):
        offset = value.utcoffset()
        ahead = "" if offset is None else repr(offset.total_seconds())
        return f"t{value.replace(tzinfo=None, fold=0).isoformat()},{value.fold},{ahead};"
    if isinstance(value, date):
        return f"t{date.isoformat(value)};"
    if isinstance(value, timedelta):
        return f"t{value.days},{value.seconds},{value.microseconds};"
    if isinstance(value, timezone):
        return f"t{value.utcoffset(None)!r};"
    return ""


def _said(value: object) -> str:
    """The form of a value that its own text tells whole; "": there is none."""
    kind: Any = type(value)
    if isinstance(value, re.Pattern):
        pattern: re.Pattern[Any] = cast("Any", value)
        return f"p{pattern.flags},{_STRICT.write(pattern.pattern, (), 1)}"
    if isinstance(value, ZoneInfo):
        if value.key is None:  # pyright: ignore[reportUnnecessaryComparison]  # of one made of a file
            raise NotPlainError("ZoneInfo")
        return f"z{value.key};"
    if isinstance(value, _SAID_BY_TEXT) or (kind.__module__ in _URLS and kind.__name__.endswith(("Url", "Dsn"))):
        text = str(value)
        return f"s{len(text)}:{text}"
    return ""


def _fields_of(value: Any) -> dict[str, object] | None:
    """The own fields of a model, a dataclass, an attrs class or a named tuple; None: it is none of them."""
    kind: Any = cast("Any", type(value))
    declared: Any = getattr(kind, "__pydantic_fields__", None)
    names: list[str]
    if declared is not None and hasattr(kind, "__pydantic_extra__"):
        state: dict[str, object] = value.__dict__
        extra: Any = value.__pydantic_extra__
        return {name: state[name] for name in declared if name in state} | dict(extra or {})
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        if getattr(kind, "__pydantic_config__", {}).get("extra") == "allow":
            names += [name for name in value.__dict__ if name not in names]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__]
    elif tuple in kind.__mro__ and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, value, strict=True))
    elif _name(kind) == "pydantic.networks.NameEmail":
        names = ["name", "email"]
    else:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def kinds_at(schema: Schema, parts: Parts) -> frozenset[str]:
    """The JSON types that a schema reads at a place; all of them where it says nothing."""
    forms: Any = forms_at(cast("Any", schema), parts)
    kinds: set[str] = set()
    for form in forms:
        given = form.get("type")
        if isinstance(given, str):
            kinds.add(given)
        elif isinstance(given, list):
            kinds.update(each for each in cast("list[Any]", given) if isinstance(each, str))
        elif not _OPEN.isdisjoint(form):
            values: list[Any] = [form["const"]] if "const" in form else form.get("enum") or []
            kinds.update(_KINDS.get(cast("Any", type(each)), "") for each in values)
        else:
            return _ALL_KINDS
    return frozenset(kinds) if forms else _ALL_KINDS


_KINDS: dict[type[Any], str] = {str: "string", int: "integer", float: "number", Decimal: "number"}
_ALL_KINDS = frozenset(("string", "integer", "number"))


def _number_in(text: str, kinds: frozenset[str]) -> int | float | None:
    """The number whose text this is, if the schema reads both; else None."""
    if "string" not in kinds or kinds.isdisjoint(_NUMBERS):
        return None
    if text.removeprefix("-").isdigit():
        return int(text) if str(int(text)) == text else None
    return float(text) if "number" in kinds and repr(float(text)) == text else None


def _amount(value: Any) -> str:
    """The form of a number of any type by its value. A large exponent is never written out."""
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, Fraction):
        if value.denominator != 1:
            return f"q{value.numerator:x}/{value.denominator:x};"
        return _integer(value.numerator)
    if isinstance(value, float):
        value = Decimal(float.__repr__(value))
    if not value.is_finite():
        return f"f{'nan' if value.is_nan() else str(value).casefold()};"
    sign, digits, exponent = value.as_tuple()
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    exponent += len(written) - len(kept)
    minus = "-" if sign and kept else ""
    if not kept:
        return "i0;"
    if exponent >= 0 and len(kept) + exponent <= _LONGEST_INTEGER:
        return f"i{minus}{kept}{'0' * exponent};"
    return f"n{minus}{kept}e{exponent};"
