"""Refuse JSON text with an object that has one name twice.

Parsers disagree on the value of such an object (RFC 8259, section 4: "unpredictable"), so its meaning is unknown.
pydantic and json take the last value.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import MalformedCall
from .schema import JsonObject


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


def refuse_twins(text: str) -> MalformedCall | None:
    """Refuse JSON text with one name twice in an object, at any depth. Returns None for other text, JSON or not."""
    try:
        _DECODER.decode(text)
    except TwinError:
        return MalformedCall("an object has one name twice")
    except (ValueError, RecursionError):  # the parser that reads the text next reports why
        pass
    return None


_DECODER = json.JSONDecoder(object_pairs_hook=build_object, parse_int=len, parse_float=len, parse_constant=len)
