"""A bound of our own on how deep text and values are nested.

Python's own limit differs: 3.11 reads about 900 levels of JSON, less the frames around a call; 3.12 and later read ten
times as many with code in C, and as few as before with code in Python. What passes this bound passes all of them.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

MOST_LEVELS: Final = 200  # of objects and arrays; pydantic reads no more
_PARTS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)  # possessive, so in linear time


class TooDeepError(ValueError):
    """Text or a value has more than 200 levels."""

    def __init__(self) -> None:
        super().__init__("nested too deeply")


def refuse_deep(text: str, start: int = 0) -> str:
    """Return JSON text as it is.

    Args:
        text: The text, JSON or not.
        start: Where the JSON begins. It ends with the bracket that closes the first one.

    Raises:
        TooDeepError: It has more than 200 levels.
    """
    # A count of the whole text for each of many values in it would be quadratic.
    if not start and text.count("[") + text.count("{") <= MOST_LEVELS:
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
