"""Escape text from outside, so that it is safe to print in a terminal, in a log and in a row of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

CUT: Final = "…"  # ends a text that is cut
_LINES = frozenset("\n\t")
_MAX_KNOWN = 10_000  # characters that one table remembers
# Characters that Python calls printable although they are invisible: fillers, the braille blank, and the variation
# selectors; a sequence of these carries any number of hidden bytes (Unicode 16, sections 23.4 and 23.2).
_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_HIDDEN = re.compile(f"[{_UNSEEN}]")


def neutralise(text: str, *, keep_lines: bool = False, limit: int | None = None) -> str:
    r"""Escape each character that a terminal obeys, that forges a line, or that is invisible.

    They are control characters (C0, DEL, C1, and so ESC, CSI and OSC), line and paragraph separators, directional and
    other format characters, Unicode tags, variation selectors, fillers and lone surrogates. Each becomes what Python
    writes in a string: ``\n``, ``\x1b``, ``\u202e``, ``\U000e0041``. A space of another kind becomes a blank.

    Args:
        text: Any text.
        keep_lines: Whether line ends and tabs stay. Default False: the result is one line. A carriage return right
            before a line end is dropped.
        limit: Characters of the text that are kept; a final "…" shows that it is cut. Default None: no limit.

    Returns:
        The same text where there is nothing to change.
    """
    if limit is not None and len(text) > limit:
        text = text[:limit] + CUT
    if text.isprintable() and (text.isascii() or _HIDDEN.search(text) is None):
        return text
    return text.replace("\r\n", "\n").translate(_KEEPING_LINES) if keep_lines else text.translate(_ONE_LINE)


def dump_neutral_json(value: object, *, indent: int | None = None) -> str:
    r"""Write a value as JSON that is safe to print. It uses JSON's own escapes, so a reader gets the same value back.

    Args:
        value: Anything that `json.dumps` takes.
        indent: As for `json.dumps`. Default None: one line.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable() and (text.isascii() or _HIDDEN.search(text) is None):
        return text
    return text.translate(_JSON if indent is None else _JSON_LINES)


class _Table(dict[int, str]):
    """The replacement of each character for `str.translate`: itself if it is safe. Filled as characters occur."""

    def __init__(self, escape: Callable[[str], str], kept: frozenset[str], *, spaces: bool) -> None:
        super().__init__({ord(char): char for char in kept})
        self._escape, self._spaces = escape, spaces

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char.isprintable() and _HIDDEN.match(char) is None:
            found = char
        else:
            found = " " if self._spaces and _is_space(char) else self._escape(char)
        if len(self) < _MAX_KNOWN:
            self[code] = found
        return found


def _is_space(char: str) -> bool:
    """Whether it is a space other than a blank, such as U+00A0, but neither a control character nor a line end."""
    return char.isspace() and ord(char) > 0x9F and char not in "\u2028\u2029"  # noqa: PLR2004  # the last C1 control


def _escape(char: str) -> str:
    written = char.encode("unicode_escape").decode()
    return written if written != char else f"\\u{ord(char):04x}"


def _escape_as_json(char: str) -> str:
    return json.dumps(char)[1:-1]


_ONE_LINE = _Table(_escape, frozenset(), spaces=True)
_KEEPING_LINES = _Table(_escape, _LINES, spaces=True)
_JSON = _Table(_escape_as_json, frozenset(), spaces=False)
_JSON_LINES = _Table(_escape_as_json, _LINES, spaces=False)
