"""Read text that a model wrote as a value: JSON, or a Python literal such as ``['a', True]``.

A Python literal is translated only if JSON has an equivalent, and if every text in it means the same in both: one
escape that JSON refuses or reads otherwise, and the whole is refused. Adjacent texts (which Python would join), a set,
``0x10``, ``1_000`` and ``b""`` have none.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from .exact_json import NUMBER, Written, refuse_constant
from .limits import Limits
from .schema import JsonObject, is_object

_decode = json.JSONDecoder(parse_constant=refuse_constant).decode  # `json.loads` makes a decoder for each text
_BOUNDS = Limits()  # for text that is read a second time, for a repair or for advice
_MAX_LITERAL = 10_000  # characters of text in Python's spelling
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<open>[\[{(])|(?P<close>[\]})])|(?P<comma>,(?P<last>(?=\s*[\])}]))?)"""
    rf"""|(?P<plain>{NUMBER.pattern}(?![\w.])|:|\s+)"""
)
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_NO_ITEM: Final = ("", ",", ":", "[", "{", "(")  # before a comma they mean that an item is missing
# The escapes that mean the same in both grammars; half of a character's ``\ud83d\ude00`` is two to Python alone.
_ESCAPE = re.compile(r"\\(?:[\\\"nrtbf]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})|(?P<unknown>\\)")


def read_literal(text: str, written: Written | None = None) -> Any:
    """Read a text as JSON, or else as a Python literal of JSON's types.

    Args:
        text: The text.
        written: Stores how the numbers were written. It also makes the reading lossless: text with a number that a
            float rounds, or with an object that has one name twice, is refused. None: neither.

    Returns:
        The value; None if the text is neither, is refused, or is too long.
    """
    if _BOUNDS.check(text) is not None:
        return None
    try:
        return _read_json(text, written)
    except ValueError:
        pass
    try:
        translated = write_as_json(text) if len(text) <= _MAX_LITERAL else None
        return None if translated is None else _read_json(translated, written)
    except ValueError:
        return None


def _read_json(text: str, written: Written | None) -> Any:
    return _decode(text) if written is None else written.read(text)


def read_arguments(arguments: object) -> JsonObject | None:
    """Read the arguments of a call in any form that a model sends, without validation.

    Returns:
        A dict as it is; another mapping as a dict; text as the object that it holds; ``{}`` for None and empty text.
        None if the arguments are not an object.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        arguments = read_literal(arguments) if arguments.strip() else {}
    if is_object(arguments):
        return arguments
    return dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else None


def write_as_json(text: str) -> str | None:
    """Translate a Python literal to JSON; None if a part has no equivalent. The result may still be invalid JSON."""
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
    """Translates a Python literal to JSON piece by piece, and keeps the translated pieces."""

    found: list[str] = attrs.field(factory=list[str])
    _levels: list[tuple[str, int]] = attrs.field(factory=list[tuple[str, int]])  # open brackets and their commas so far
    _before: str = ""  # the last piece that was not blank

    def add(self, match: re.Match[str]) -> bool:
        """Add a piece. Returns whether it has an equivalent in JSON."""
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
        return "]" if commas or self._before == "(" else ""  # (5) is a number in brackets, not a tuple

    def _separate(self, *, is_last: bool) -> bool:
        if not self._levels or self._before in _NO_ITEM:
            return False
        opened, commas = self._levels[-1]
        self._levels[-1] = (opened, commas + 1)
        self.found.append("" if is_last else ",")
        self._before = ","
        return True


def _write_text(piece: str) -> str:
    """Write a Python string as a JSON string; "" if it has an escape that JSON does not have or reads otherwise."""
    if "\\" not in piece:
        return json.dumps(piece[1:-1])
    return "" if any(each["unknown"] for each in _ESCAPE.finditer(piece)) else json.dumps(ast.literal_eval(piece))
