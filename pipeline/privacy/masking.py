"""Mask the known secrets of a call in other texts, such as the text of an exception.

A secret is also found where it is escaped: as in a string of Python or JSON, any number of times, or as in a URL. The
text is searched a second time without its escapes. A pattern of every way to write a secret would take seconds to
compile.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, Final, cast

import attrs

from ..foreign_values import or_default
from ..parameters.reading import read_literal
from .public_text import REDACTED

_MAX_TEXTS = 100  # of one call
_MAX_VALUES = 2_000  # that are looked at
_SHORT: Final = (
    4  # characters: a shorter secret is masked only where it stands alone, because it may be a part of any word
)
_SHORT_NUMBER: Final = 8  # digits, as above
_LIKE_A_SECRET: Final = 6  # characters of a text under a name that is not declared, for it to be taken for a secret
_LINE: Final = 12  # characters of a line of a longer secret, such as a key in PEM
_MAX_LOOKED_FOR: Final = 100  # characters of a secret to look for; the rest of the word is masked with them
# A URL as clients quote it in their errors: its password alone, and what follows the host without the host.
_URL: Final = re.compile(
    r"[a-z][a-z0-9+.-]{0,20}://(?:[^/?#@\s:]*:(?P<password>[^/?#\s]*)@)?[^/?#\s]*"
    r"(?P<target>(?:/[^?#\s]*)?(?:\?(?P<query>[^#\s]*))?)",
    re.IGNORECASE,
)
_BRANCHINGS: Final = 4  # characters at the start of secrets that are compared once for all of them
_ESCAPED: Final = re.compile(r"[\\%+]")
_PLAIN = (str, int, float, list, tuple, set, frozenset, Mapping)
# The packages of types that a value of JSON becomes, and whose text is what a tool would write: a UUID, a URL, a path.
_WRITTEN: Final = frozenset((
    "uuid", "pydantic", "pydantic_core", "pathlib", "decimal", "fractions", "datetime", "ipaddress",
))  # fmt: skip
_URL_ESCAPE: Final = re.compile(r"(?P<url>(?:%(?:25)*[0-9a-fA-F]{2})+)|\+")
_PERCENT_SIGN: Final = re.compile("%(?:25)*(?=[0-9a-fA-F]{2})")
# A backslash that escapes nothing, as before a quote, is an escape too.
_BACKSLASH: Final = re.compile(
    r"\\+u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\+u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\+(?:u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|x(?P<two>[0-9a-fA-F]{2})|(?P<letter>[nrtbfva]))?"
)
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "a": "\a"}


@attrs.define(eq=False)
class TextCollector:
    """Collects the texts of withheld values."""

    texts: set[str] = attrs.field(factory=set[str])

    @property
    def is_full(self) -> bool:
        """Whether it is full."""
        return len(self.texts) >= _MAX_TEXTS

    def add(self, value: object, *, declared: bool = True) -> None:
        """Add every text and number in a value.

        Args:
            value: Any value.
            declared: Whether it is declared as secret. False: its name is not declared, so only texts that are long
                enough for a secret are added.
        """
        least = 1 if declared else _LIKE_A_SECRET
        pending: list[Any] = [value]
        for _ in range(_MAX_VALUES):
            if not pending or self.is_full:
                return
            each = _open(pending.pop())
            if isinstance(each, str):
                if len(each.strip()) >= least:
                    self._add_text(each)
                    held = read_literal(each) if each.lstrip().startswith(("{", "[")) else None
                    pending += [held] if isinstance(held, (dict, list)) else []
            elif isinstance(each, (int, float)):
                if not isinstance(each, bool) and len(str(each)) >= least:
                    self.texts.add(str(each))
            elif isinstance(each, Mapping):
                pending += cast("Mapping[Any, Any]", each).values()
            elif isinstance(each, (list, tuple, set, frozenset)):
                pending += cast("Iterable[Any]", each)

    def make_mask(self) -> Callable[[str], str]:
        """Make a function that replaces these texts in another one, also where they are written with escapes."""
        return _Mask(tuple(sorted(self.texts, key=len, reverse=True))) if self.texts else _keep

    def _add_text(self, text: str) -> None:
        stripped = text.strip()
        self.texts.add(stripped)
        if len(inner := stripped.strip("\"'`").strip()) >= _LIKE_A_SECRET:  # a model may send it in quotes
            self.texts.add(inner)
        self.texts.update(line for each in stripped.splitlines()[:50] if len(line := each.strip()) >= _LINE)
        if (url := _URL.match(stripped)) is not None:
            values = [each.partition("=")[2] for each in (url["query"] or "").split("&", 20)[:20]]
            parts = (url["password"], url["target"], *values)
            self.texts.update(each for each in parts if each and len(each) >= _LIKE_A_SECRET)


def _keep(text: str) -> str:
    return text


@or_default(None)
def _open(value: Any) -> object:
    """Return the content of a secret type, a model or bytes; any other value as it is."""
    if callable(reveal := getattr(value, "get_secret_value", None)):
        value = reveal()
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="replace")
    package = cast("type[Any]", type(value)).__module__.partition(".")[0]
    if package in _WRITTEN:
        return [str(value), value.hex] if package == "uuid" else str(value)
    fields: Any = getattr(cast("type[Any]", type(value)), "__attrs_attrs__", None)
    if fields:
        return {field.name: getattr(value, field.name) for field in fields}
    is_model = hasattr(value, "__dict__") and not isinstance(value, _PLAIN)
    return cast("object", vars(value) if is_model else value)


@attrs.frozen(slots=False, eq=False)
class _Mask:
    """Replaces texts in another one, both as they are and where they are written with escapes."""

    texts: tuple[str, ...]  # the longest first

    def __call__(self, text: str) -> str:
        found = [match.span() for match in self._as_it_is.finditer(text)]
        if self._unescaped is not None and _ESCAPED.search(text):
            unescaped = Unescaped(text)
            found += [unescaped.find_origin(*match.span()) for match in self._unescaped.finditer(unescaped.text)]
        if not found:
            return text
        shown: list[str] = []
        end = 0
        for first, last in sorted(found):
            if first >= end:
                shown += (text[end:first], REDACTED)
            end = max(end, last)
        return "".join([*shown, text[end:]])

    @cached_property
    def _as_it_is(self) -> re.Pattern[str]:
        return _match_any(self.texts)

    @cached_property
    def _unescaped(self) -> re.Pattern[str] | None:
        plain = [unescape(text) for text in self.texts]
        return _match_any([*filter(None, plain)]) if any(plain) else None


def _match_any(texts: Sequence[str]) -> re.Pattern[str]:
    """Make a pattern that finds any of these texts, the longest first, in little more time than one of them."""
    wholes: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    for text in texts:
        rest = r"[^\s\"']*" if len(text) > _MAX_LOOKED_FOR else ""
        alone = len(text) < (_SHORT_NUMBER if text.isdigit() else _SHORT)
        wholes[alone].append((text[:_MAX_LOOKED_FOR], rest))
    inside = [_match_branches(wholes[False], _BRANCHINGS)] if wholes[False] else []
    alone_ones = [rf"(?<!\w)(?:{_match_branches(wholes[True], _BRANCHINGS)})(?!\w)"] if wholes[True] else []
    return re.compile("|".join(inside + alone_ones))


def _match_branches(texts: list[tuple[str, str]], branchings: int) -> str:
    """Make a pattern of texts, each with the pattern after it, that compares their first characters once."""
    if len(texts) == 1 or not branchings:
        return "|".join(re.escape(text) + rest for text, rest in texts)
    groups: dict[str, list[tuple[str, str]]] = {}
    for text, rest in texts:
        groups.setdefault(text[:1], []).append((text[1:], rest))
    return "|".join(
        f"{re.escape(first)}(?:{_match_branches(group, branchings - 1 if first else 0)})"
        for first, group in groups.items()
    )


class Unescaped:
    """A text without its escapes, and the origin of each part.

    Args:
        text: Any text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._layers: list[_Layer] = []
        for pattern, read in (
            (_URL_ESCAPE, _read_url),
            (_BACKSLASH, _read_backslash),
        ):  # a URL quotes a text as it is written
            layer = _Layer()
            self.text = layer.read(self.text, pattern, read)
            self._layers.append(layer)

    def find_origin(self, first: int, last: int) -> tuple[int, int]:
        """Return begin and end of a part in the original text. A part of an escape counts as the whole escape."""
        for layer in reversed(self._layers):
            first, last = layer.find_origin(first, last)
        return first, last


class _Layer:
    """The origins of the pieces of a text, without escapes of one kind."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._origins: list[tuple[int, int, bool]] = []  # from where to where, and whether it was escaped

    def read(self, text: str, pattern: re.Pattern[str], read: Callable[[re.Match[str]], str]) -> str:
        pieces: list[str] = []
        size = end = 0

        def add(piece: str, first: int, last: int, *, escaped: bool) -> None:
            nonlocal size
            if piece:
                pieces.append(piece)
                self._starts.append(size)
                self._origins.append((first, last, escaped))
                size += len(piece)

        for match in pattern.finditer(text):
            add(text[end : match.start()], end, match.start(), escaped=False)
            add(read(match), *match.span(), escaped=True)
            end = match.end()
        add(text[end:], end, len(text), escaped=False)
        return "".join(pieces)

    def find_origin(self, first: int, last: int) -> tuple[int, int]:
        begin, (start, _, escaped) = self._find_piece(first)
        start = start if escaped else start + first - begin
        begin, (from_, to, escaped) = self._find_piece(last - 1)
        return start, to if escaped else from_ + last - begin

    def _find_piece(self, place: int) -> tuple[int, tuple[int, int, bool]]:
        number = bisect_right(self._starts, place) - 1
        return self._starts[number], self._origins[number]


def unescape(text: str) -> str:
    """Return the text without its escapes."""
    return _BACKSLASH.sub(_read_backslash, _URL_ESCAPE.sub(_read_url, text))


def _read_url(match: re.Match[str]) -> str:
    if not (found := match["url"]):
        return " "  # "+" is a blank in a URL
    read = bytes.fromhex(_PERCENT_SIGN.sub("", found)).decode(errors="replace")
    return read.replace("+", " ")  # as above, so that a "+" is the same however it is written


def _read_backslash(match: re.Match[str]) -> str:
    found = match.groupdict()
    if found["high"]:
        return chr(0x10000 + ((int(found["high"], 16) - 0xD800) << 10 | int(found["low"], 16) - 0xDC00))
    if digits := found["four"] or found["eight"] or found["two"]:
        number = int(digits, 16)
        return chr(number) if number <= sys.maxunicode else ""
    return _LETTERS[found["letter"]] if found["letter"] else ""
