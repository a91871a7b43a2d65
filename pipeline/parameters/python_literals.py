"""A Python literal written as JSON: ``['a', True]``.

Only what has an equal in JSON is translated. Texts side by side (which Python would join), a set, ``0x10``, ``1_000``
and ``b""`` have none.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Final

import attrs

from .written import NUMBER

_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<open>[\[{(])|(?P<close>[\]})])|(?P<comma>,(?P<last>(?=\s*[\])}]))?)"""
    rf"""|(?P<plain>{NUMBER.pattern}(?![\w.])|:|\s+)"""
)
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_NO_ITEM: Final = ("", ",", ":", "[", "{", "(")  # before a comma
_ESCAPE = re.compile(r"\\(?:[\\'\"nrtbf]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|(?P<unknown>\\)")


def write_as_json(text: str) -> str | None:
    """Write a Python literal as JSON; None where it holds something else. The result may still be no JSON."""
    writer = _Writer()
    end = 0
    while end < len(text):
        match = _TOKEN.match(text, end)
        if match is None or not writer.add(match):
            return None
        end = match.end()
    return "".join(writer.found)


@attrs.define
class _Writer:
    """What was translated so far."""

    found: list[str] = attrs.field(factory=list[str])
    _levels: list[tuple[str, int]] = attrs.field(factory=list[tuple[str, int]])  # of each open bracket, and its commas
    _before: str = ""  # the last piece but blanks

    def add(self, match: re.Match[str]) -> bool:
        """Add a piece. Returns whether it has an equal in JSON."""
        piece = match[0]
        if match["text"]:
            written = _write_text(piece)
        elif match["word"]:
            written = _WORDS.get(piece, "")
        elif match["open"]:
            self._levels.append((piece, 0))
            written = "[" if piece == "(" else piece
        elif match["close"]:
            written = self._close(piece)
        elif match["comma"]:
            return self._separate(is_last=match["last"] is not None)
        else:
            written = piece
        self.found.append(written)
        self._before = self._before if piece.isspace() else piece
        return bool(written)

    def _close(self, piece: str) -> str:
        opened, commas = self._levels.pop() if self._levels else ("", 0)
        if _CLOSING.get(opened) != piece:
            return ""
        if piece != ")":
            return piece
        return "]" if commas or self._before == "(" else ""  # (5) is no tuple

    def _separate(self, *, is_last: bool) -> bool:
        if not self._levels or self._before in _NO_ITEM:
            return False
        opened, commas = self._levels[-1]
        self._levels[-1] = (opened, commas + 1)
        self.found.append("" if is_last else ",")
        self._before = ","
        return True


def _write_text(piece: str) -> str:
    """Write a Python string as a JSON string; "" where it has an escape that the two do not share."""
    if "\\" not in piece:
        return json.dumps(piece[1:-1])
    return "" if any(each["unknown"] for each in _ESCAPE.finditer(piece)) else json.dumps(ast.literal_eval(piece))
