"""Mask the declared secrets of one call in what its tool says, and withhold what others say.

A value that the tool returns is masked where it is a secret: each scalar and each key, also where a number stands for
its text. In a text a secret of six characters or more is masked as it is written, and as Python, JSON, a URL, base64
and hex write it. No other code is looked for: a text that neither this library nor the tool's author wrote, such as
that of an exception, may hold a secret in any code, so it is not recorded at all.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cached_property
from math import inf
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast
from urllib.parse import quote, quote_plus

import attrs

from ..base.foreign_values import or_default, safe_str
from ..engine.error_kind import evolve
from ..parameters.reading import read_literal
from .escaping import CUT
from .public_text import REDACTED

# "withhold": texts of others, such as exceptions, are not recorded. "mask": they are, masked as the tool's own.
ForeignText: TypeAlias = Literal["withhold", "mask"]
WITHHELD: Final = "[withheld]"  # stands for a text of others
E = TypeVar("E")
_MAX_TEXTS = 100  # of one call that are looked for in texts
_MAX_VALUES = 2_000  # that are looked at for secrets
_IN_TEXT: Final = 6  # characters of a secret, to be looked for inside of a text: a shorter one may be part of any word
_TWO_DIGITS: Final = 10  # from here on a number has two
_LONGEST_NUMBER: Final = 400  # characters of a text that is read as a number

_DIGITS: Final = frozenset("0123456789")
_NUMBER_BEGINS: Final = _DIGITS | frozenset("+-.")
_MAX_ERROR_TEXT = 100_000  # characters of a text in an error; a model is shown less
_MAX_TEXT = 1_000_000  # characters of arguments sent as text
_QUOTES = frozenset("\"'")
_OPENING = ("{", "[")  # text that begins so may hold values, as JSON
_PLAIN = (str, int, float, list, tuple, set, frozenset, Mapping)
# The packages of types that a value of JSON becomes, and whose text is what a tool would write: a UUID, a URL, a path.
_WRITTEN: Final = frozenset((
    "uuid", "pydantic", "pydantic_core", "pathlib", "decimal", "fractions", "datetime", "ipaddress",
))  # fmt: skip
_ITEMS = (list, tuple, set, frozenset)


@attrs.define(eq=False, repr=False)
class SecretValues:
    """The secrets of one call."""

    texts: set[str] = attrs.field(factory=set[str])
    numbers: set[object] = attrs.field(factory=set[object])  # none of one digit: it would be found everywhere
    is_full: bool = False  # more than are looked for, or one that cannot be read: nothing may be recorded

    def add(self, value: object, names: Iterable[str] = (), *, declared: bool = True) -> None:
        """Add each text, number and key in a value.

        Args:
            value: Any value.
            names: Names that a schema declares. Such a name is not a secret as a key.
            declared: Whether it is declared as secret. False: its name is not declared, so only texts of six characters
                or more are added. Any short word and any number may stand there.
        """
        pending: list[Any] = [value]
        for _ in range(_MAX_VALUES):
            if not pending:
                self.is_full |= len(self.texts) > _MAX_TEXTS
                return
            each = _open(pending.pop())
            if isinstance(each, str):
                self._add_text(each, 1 if declared else _IN_TEXT)
                held = read_literal(each) if each.lstrip().startswith(("{", "[")) else None
                pending += [held] if isinstance(held, (dict, list)) else []
            elif isinstance(each, (int, float)):
                if declared and not isinstance(each, bool):
                    self._add_number(each)
            elif isinstance(each, Mapping):
                held_ = cast("Mapping[Any, Any]", each)
                pending += [*(key for key in held_ if key not in names), *held_.values()]
            elif isinstance(each, _ITEMS):
                pending += cast("Iterable[Any]", each)
            elif each is _UNREADABLE:
                break
        self.is_full = True

    def _add_text(self, text: str, least: int) -> None:
        text = text.strip()
        if len(text) >= least and not (len(text) == 1 and text.isdigit()):
            self.texts.add(text)
            self.numbers.update(_read_numbers(text))

    def _add_number(self, number: float) -> None:
        if _counts(number):
            self.numbers |= {number, *_read_numbers(text := safe_str(number))}
            self.texts.add(text)


class Mask:
    """Masks the secrets of one call. The one place that decides whether a text about a call may be recorded.

    Args:
        collect: Returns the secrets. It is called at the first value or text.
        foreign: Whether texts of others are recorded.
    """

    def __init__(self, collect: Callable[[], SecretValues], foreign: ForeignText = "withhold") -> None:
        self._collect, self._foreign = collect, foreign
        self._codes: dict[str, set[str]] = {}  # the ways to write each secret, once a text is as long

    def foreign(self, text: str) -> str:
        """Return what may be recorded of a text that neither this library nor the tool's author wrote."""
        return self(text) if self._foreign == "mask" else WITHHELD

    def __call__(self, text: str) -> str:
        """Return a text of the tool's author with "[redacted]" in place of each secret."""
        if not text:
            return text
        if self._secrets.is_full or self._is_secret(text):
            return REDACTED
        shown: list[str] = []
        end = 0
        for first, last in sorted(self._find(text)):
            if first >= end:
                shown += (text[end:first], REDACTED)
            end = max(end, last)
        return "".join([*shown, text[end:]])

    def value(self, value: Any) -> Any:
        """Return a value of JSON with its scalars, keys and texts masked."""
        try:
            return self._mask(value)
        except RecursionError:
            return REDACTED

    def arguments(self, arguments: object) -> object:
        """Mask arguments, which may repeat a secret where none is declared; a text that holds some by its values, too.

        It comes back as text, which is masked as such as well.
        """
        if not isinstance(arguments, str):
            return self.value(arguments)
        held = read_literal(arguments) if len(arguments) <= _MAX_TEXT else None
        if not isinstance(held, (dict, list)):
            return self(arguments)
        shown: Any = self.value(held)
        return self(arguments if shown == held else json.dumps(shown, ensure_ascii=False, default=str))

    def error(self, error: E) -> E:
        """Return the error with its texts and values masked: a tool may repeat a secret in a text that it approves."""
        changed: dict[str, Any] = {}
        for field in attrs.fields(cast("Any", type(error))):
            held: Any = getattr(error, field.name)
            if field.metadata or field.name == "landed":  # private; one of three words
                continue
            if isinstance(held, str):
                shown: Any = self(held if len(held) <= _MAX_ERROR_TEXT else held[:_MAX_ERROR_TEXT] + CUT)
            elif attrs.has(cast("Any", type(held))):
                shown = self.error(held)
            elif isinstance(held, tuple):
                items = cast("tuple[Any, ...]", held)
                shown = tuple(
                    self.error(each) if attrs.has(cast("Any", type(each))) else self.value(each) for each in items
                )
            elif field.name in ("value", "more"):  # of the details: what the author gave
                shown = self.value(held)
            else:
                continue
            if shown != held:
                changed[field.name] = shown
        return evolve(error, changed)

    @cached_property
    def _secrets(self) -> SecretValues:
        return self._collect()

    @cached_property
    def _floats(self) -> set[float]:
        return set(map(_as_float, self._secrets.numbers))

    @cached_property
    def _looked_for(self) -> list[str]:
        return sorted((text for text in self._secrets.texts if len(text) >= _IN_TEXT), key=len)

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        for secret in self._looked_for:
            if len(secret) > len(text):  # nor is any of its codes shorter
                return
            if (needles := self._codes.get(secret)) is None:
                needles = self._codes[secret] = set(_write(secret))
            for needle in needles:
                at = text.find(needle)
                while at >= 0:
                    yield at, at + len(needle)
                    at = text.find(needle, at + len(needle))

    def _may_hold(self, text: str) -> bool:
        """Whether the values in a text may be secrets: it has an escape, or a secret as it is written, or a number."""
        if "\\" in text or (self._secrets.numbers and not _DIGITS.isdisjoint(text)):
            return True
        return self._secrets.is_full or any(secret in text for secret in self._secrets.texts)

    def _is_secret(self, text: str) -> bool:
        text = text.strip()
        if text[:1] in _QUOTES and text[-1:] == text[:1]:  # as JSON and Python write a text by itself
            text = text[1:-1]
        if text in self._secrets.texts:
            return True
        if not self._floats or text[:1] not in _NUMBER_BEGINS or len(text) > _LONGEST_NUMBER:
            return False
        try:
            near = float(text) in self._floats  # equal numbers are equal as floats, and few others are
        except ValueError:
            return False
        return near and not self._secrets.numbers.isdisjoint(_read_numbers(text))

    def _mask(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            opens = value.lstrip().startswith(_OPENING) and self._may_hold(value)
            return self.arguments(value) if opens else self(value)
        if isinstance(value, Mapping):
            shown: dict[Any, Any] = {}
            for name, each in cast("Mapping[Any, Any]", value).items():
                numbered = f"{REDACTED} {len(shown) + 1}"  # a place in the object, also where a secret is that digit
                named = name if name == numbered else self._mask(name)
                shown[named if named not in shown else f"{named} {len(shown) + 1}"] = self._mask(each)
            return shown
        if isinstance(value, (list, tuple)):
            return [self._mask(each) for each in cast("list[Any]", value)]
        if isinstance(value, (int, float)):
            return REDACTED if self._secrets.is_full or value in self._secrets.numbers else value
        text = safe_str(cast("object", value))
        return value if self(text) == text else REDACTED


_UNREADABLE: Final = object()


@or_default(_UNREADABLE)
def _open(value: Any) -> object:
    """Return the content of a secret type, a model or bytes; any other value as it is."""
    if callable(reveal := getattr(value, "get_secret_value", None)):
        value = reveal()
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", value)).decode(errors="surrogateescape")
    kind = cast("type[Any]", type(value))
    if kind.__module__.partition(".")[0] in _WRITTEN:
        return [str(value), *(getattr(value, name) for name in ("hex",) if hasattr(value, name)), *_write_time(value)]
    fields: Any = getattr(kind, "__attrs_attrs__", None)
    if fields:
        return [getattr(value, field.name) for field in fields]
    is_model = hasattr(value, "__dict__") and not isinstance(value, _PLAIN)
    return [*vars(value).values()] if is_model else cast("object", value)


def _write_time(value: Any) -> list[str]:
    return [value.isoformat()] if hasattr(value, "isoformat") else []


def _counts(number: float | Decimal) -> bool:
    """Whether a number can be a secret: it is finite, and more than one digit."""
    size: Any = abs(number)
    return bool(size < inf and (size >= _TWO_DIGITS or size != int(size)))


def _read_numbers(text: str) -> list[object]:
    """The number that a text is, exactly and as a float; none for any other text, and for a single digit."""
    if len(text) > _LONGEST_NUMBER or text[:1] not in _NUMBER_BEGINS:
        return []
    try:
        number = Decimal(text)
        return [number, float(number)] if _counts(number) else []
    except (InvalidOperation, OverflowError, ValueError):
        return []


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # of an integer; a text with its digits is read as infinity
        return inf if number > 0 else -inf


def _write(text: str) -> Iterator[str]:
    """Yield a secret as it is written, and as Python, JSON, a URL, base64 and hex write it."""
    data = text.encode(errors="surrogatepass")
    yield from (text, repr(text)[1:-1], ascii(text)[1:-1], json.dumps(text)[1:-1])
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield from (quote(data), quote(data, safe=""), quote_plus(data), data.hex(), data.hex().upper())
    for offset in range(3):  # three offsets of a byte in base64 give three different parts
        written = b64encode(bytes(offset) + data).decode()
        part = written[-(-8 * offset // 6) : 8 * (offset + len(data)) // 6]
        yield from (part, part.replace("+", "-").replace("/", "_"))
