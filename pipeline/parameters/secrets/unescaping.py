"""A text without its escapes: those of a string in Python or JSON, written any number of times, and those of a URL.

To look for a secret in it takes one pass. To spell out every way in which a secret may be written takes a pattern whose
compilation holds the loop for seconds.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

_URL: Final = re.compile(r"(?P<url>(?:%(?:25)*[0-9a-fA-F]{2})+)|\+")
_PERCENT: Final = re.compile("%(?:25)*(?=[0-9a-fA-F]{2})")
# A backslash that escapes nothing, as before a quote, is an escape too.
_BACKSLASH: Final = re.compile(
    r"\\+u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\+u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\+(?:u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|x(?P<two>[0-9a-fA-F]{2})|(?P<letter>[nrtbfva]))?"
)
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "a": "\a"}


class Unescaped:
    """A text without its escapes, and where each part of it came from.

    Args:
        text: Any text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._layers: list[_Layer] = []
        for pattern, read in ((_URL, _read_url), (_BACKSLASH, _read_backslash)):  # a URL quotes a text as it is written
            layer = _Layer()
            self.text = layer.read(self.text, pattern, read)
            self._layers.append(layer)

    def find_origin(self, first: int, last: int) -> tuple[int, int]:
        """From where to where a part of this text stood in the one with escapes. A part of an escape is all of it."""
        for layer in reversed(self._layers):
            first, last = layer.find_origin(first, last)
        return first, last


class _Layer:
    """Where the pieces of a text without escapes of one kind came from."""

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
    """The text without its escapes."""
    return _BACKSLASH.sub(_read_backslash, _URL.sub(_read_url, text))


def _read_url(match: re.Match[str]) -> str:
    if not (found := match["url"]):
        return " "  # what "+" is in a URL
    read = bytes.fromhex(_PERCENT.sub("", found)).decode(errors="replace")
    return read.replace("+", " ")  # as above, so that a "+" is the same however it is written


def _read_backslash(match: re.Match[str]) -> str:
    found = match.groupdict()
    if found["high"]:
        return chr(0x10000 + ((int(found["high"], 16) - 0xD800) << 10 | int(found["low"], 16) - 0xDC00))
    if digits := found["four"] or found["eight"] or found["two"]:
        number = int(digits, 16)
        return chr(number) if number <= sys.maxunicode else ""
    return _LETTERS[found["letter"]] if found["letter"] else ""
