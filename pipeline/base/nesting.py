"""A bound of our own on how deep text and values are nested.

Python's own limit differs: 3.11 reads about 900 levels of JSON, less the frames around a call; 3.12 and later read ten
times as many with code in C, and as few as before with code in Python. What passes this bound passes all of them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, cast

MOST_LEVELS: Final = 200  # of objects and arrays; pydantic reads no more
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # +1 and -1 in the signed bytes of an array
_OTHER: Final = bytes(set(range(256)) - set(b'[]{}"'))
_PAIR: Final = b"\x01\xff"  # of brackets that hold no others
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # possessive, so in linear time
_PARTS = re.compile(rf"{_STRING.pattern}|[\[\]{{}}]", re.DOTALL)


class TooDeepError(ValueError):
    """Text or a value has more than 200 levels."""

    def __init__(self) -> None:
        super().__init__("nested too deeply")


def empty_strings(text: str) -> str:
    """Return JSON text with an empty string in place of each string, so that all other marks are JSON's own."""
    if "\\" in text and ('\\"' in text or "\\\\" in text):
        return _STRING.sub('""', text)
    return '""'.join(text.split('"')[::2])  # each quote begins or ends a string


def is_shallow(text: str, most: int) -> bool:
    """Whether text, JSON or not, has at most so many levels of brackets outside of its strings.

    It is not read, and each step goes through it in C: 1 MB of brackets takes 25 ms.
    """
    if text.count("[") + text.count("{") <= most:
        return True
    steps = _list_steps(text)
    # Of brackets that stand in each other, only the innermost hold no others.
    return steps.count(1) - steps.count(_PAIR) < most or most + 1 not in accumulate(array("b", steps))


def _list_steps(text: str) -> bytes:
    """Return a byte for each bracket outside of strings: see `_STEPS`."""
    if "\\" not in text or not ('\\"' in text or "\\\\" in text):
        # Where quotes stand in pairs without a bracket between them, no string holds a bracket.
        steps = text.encode("utf-8", "surrogatepass").translate(_STEPS, _OTHER).replace(b'""', b"")
        if b'"' not in steps:
            return steps
    return empty_strings(text).encode("utf-8", "surrogatepass").translate(_STEPS, _OTHER + b'"')


def refuse_deep(text: str, start: int = 0) -> str:
    """Return JSON text as it is.

    Args:
        text: The text, JSON or not.
        start: Where the JSON begins. It ends with the bracket that closes the first one.

    Raises:
        TooDeepError: It has more than 200 levels.
    """
    # A look at the whole text for each of many values in it would be quadratic.
    if not start and is_shallow(text, MOST_LEVELS):
        return text
    for depth in accumulate(_find_steps(text, start) if start else array("b", _list_steps(text))):
        if depth > MOST_LEVELS:
            raise TooDeepError
        if depth <= 0:
            break
    return text


def _find_steps(text: str, start: int) -> Iterator[int]:
    for part in _PARTS.finditer(text, start):
        first = text[part.start()]
        if first != '"':
            yield 1 if first in "[{" else -1


def is_deep(value: Any) -> bool:
    """Whether dicts, lists and tuples stand in each other in more than 200 levels. Works without recursion."""
    level = [value]
    for _ in range(MOST_LEVELS):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += cast("dict[Any, Any]", each).values()
            elif isinstance(each, (list, tuple)):
                below += cast("list[Any]", each)
        if not below:
            return False
        level = below
    return any(isinstance(each, (dict, list, tuple)) for each in level)
