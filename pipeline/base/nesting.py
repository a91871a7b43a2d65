"""A bound of our own on how deep text and values are nested.

Python's own limit differs: 3.11 reads about 900 levels of JSON, less the frames around a call; 3.12 and later read ten
times as many with code in C, and as few as before with code in Python. What passes this bound passes all of them.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

MOST_LEVELS: Final = 200  # of objects and arrays; pydantic reads no more
_PASSES: Final = 12  # levels of brackets that a quick look removes; each costs deep text of 1 MB about 4 ms
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_OTHER: Final = bytes(set(range(256)) - set(b'[]{}"'))
_PARTS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)  # possessive, so in linear time


class TooDeepError(ValueError):
    """Text or a value has more than 200 levels."""

    def __init__(self) -> None:
        super().__init__("nested too deeply")


def is_shallow(text: str, most: int) -> bool:
    """Whether a quick look proves that text has at most so many levels of brackets outside of its strings.

    What is not proved may still be shallow: a string holds a bracket, a quote or a backslash that is escaped, or the
    brackets do not fit each other or have more than 12 levels. It goes through the text in C, a few times.
    """
    if text.count("[") + text.count("{") <= most:
        return True
    if "\\" in text and ('\\"' in text or "\\\\" in text):
        return False
    # Where all quotes stand in pairs without a bracket between them, no string holds a bracket.
    left = text.encode("utf-8", "surrogatepass").translate(_SQUARE, _OTHER).replace(b'""', b"")
    if b'"' in left:
        return False
    for _ in range(min(most, _PASSES)):
        inner, left = left, left.replace(b"[]", b"")  # the innermost level
        if not left or len(left) == len(inner):
            break
    return not left


def refuse_deep(text: str, start: int = 0) -> str:
    """Return JSON text as it is.

    Args:
        text: The text, JSON or not.
        start: Where the JSON begins. It ends with the bracket that closes the first one.

    Raises:
        TooDeepError: It has more than 200 levels.
    """
    # A count of the whole text for each of many values in it would be quadratic.
    if not start and is_shallow(text, MOST_LEVELS):
        return text
    depth = 0
    for part in _PARTS.finditer(text, start):
        first = text[part.start()]
        if first in "[{":
            depth += 1
            if depth > MOST_LEVELS:
                raise TooDeepError
        elif first != '"':
            depth -= 1
            if depth <= 0:
                break
    return text


def is_deep(value: Any) -> bool:
    """Whether dicts, lists and tuples stand in each other in more than 200 levels. Works without recursion."""
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += cast("dict[Any, Any]", each).values()
            elif isinstance(each, (list, tuple)):
                below += cast("list[Any]", each)
        if not below:
            return False
        level = below
    return True
