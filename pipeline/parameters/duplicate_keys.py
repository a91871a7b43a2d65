"""JSON text where an object holds one name twice.

Parsers disagree on the value of such an object, so its meaning cannot be known, and it is refused. Source: RFC 8259,
section 4 (the behaviour is unpredictable). pydantic and json take the last value.
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
    """An object for the ``object_pairs_hook`` of a JSON decoder. Raises TwinError."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise TwinError
    return found


def refuse_twins(text: str) -> MalformedCall | None:
    """Refuse JSON text where an object, at any depth, has one name twice; None: none has, or the text is not JSON."""
    try:
        _DECODER.decode(text)
    except TwinError:
        return MalformedCall("an object has one name twice")
    except (ValueError, RecursionError):  # the reader of the text says why
        pass
    return None


_DECODER = json.JSONDecoder(object_pairs_hook=build_object, parse_int=len, parse_float=len, parse_constant=len)
