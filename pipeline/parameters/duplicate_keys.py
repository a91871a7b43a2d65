"""Refuse JSON text with an object that has one name twice.

Parsers disagree on the value of such an object (RFC 8259, section 4: "unpredictable"), so its meaning is unknown.
pydantic and json take the last value.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import MalformedCall
from .schema import JsonObject, is_object


class TwinError(ValueError):
    """An object has one name twice. The name is not repeated: it may be private."""

    def __init__(self) -> None:
        super().__init__("an object has one name twice")


def build_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Build an object, as the ``object_pairs_hook`` of a JSON decoder. Raises TwinError if a name comes twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise TwinError
    return found


def refuse_twins(text: str, read: object = None) -> MalformedCall | None:
    """Refuse JSON text with one name twice in an object, at any depth. Returns None for other text, JSON or not.

    Args:
        text: The text.
        read: The object that a parser read from it; one with a name for each colon has none twice. None: not known.
    """
    if is_object(read) and (text.count(":") <= len(read) or count_names(text) <= len(read)):
        return None
    try:
        _DECODER.decode(text)
    except TwinError:
        return MalformedCall("an object has one name twice")
    except (ValueError, RecursionError):  # the parser that reads the text next reports why
        pass
    return None


def count_names(text: str) -> int:
    """Count the names in JSON text, or more than there are: a colon may also stand in a string."""
    # Where no backslash stands for itself, a quote after one is part of a string, and so is a colon after that.
    return text.count(":") - (text.count('\\":') if "\\\\" not in text else 0)


_DECODER = json.JSONDecoder(object_pairs_hook=build_object, parse_int=len, parse_float=len, parse_constant=len)
