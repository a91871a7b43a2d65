"""The texts of a tool's definition that came from a server, made safe to show to a model and in a terminal.

A description or a schema can carry text that people do not see and a model reads: escape sequences, Unicode tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from ..errors import SetupError
from ..outside_text import neutralise

_PROSE: Final = frozenset(("description", "title", "$comment"))  # what they say is told, and means nothing to a parser
_MAX_TEXT: Final = 20_000  # characters of a description
_MAX_DEPTH: Final = 100  # levels of a schema
# Controls, overrides of direction, tags, and the variation selectors that can carry a hidden text: those of the second
# block, and several in a row (Unicode 16, sections 23.1, 23.2, 23.4 and 23.9). Other format characters are part of
# ordinary words and emoji.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2060-\u2064\u2066-\u2069\U000e0000-\U000e01ef]|[\ufe00-\ufe0f]{2}"
)


def escape_description(description: object) -> str:
    """A description with what nobody sees escaped; "" for what is no text."""
    return neutralise(description, keep_lines=True, limit=_MAX_TEXT) if isinstance(description, str) else ""


def escape_name(name: str) -> str:
    """A name with what nobody sees escaped."""
    return neutralise(name)


def escape_schema(schema: Any, depth: int = 0) -> Any:
    """A copy of a schema with its descriptions and titles escaped.

    Args:
        schema: The schema, or a part of it.
        depth: How deep the part lies.

    Raises:
        SetupError: A name or a value in it holds a character that nobody sees, which cannot be escaped without
            changing what the schema means; or it is too deep.
    """
    if depth > _MAX_DEPTH:
        raise SetupError(f"the schema has more than {_MAX_DEPTH} levels")
    if isinstance(schema, Mapping):
        entries = cast("Mapping[Any, Any]", schema).items()
        return {
            _check(key): escape_description(value)
            if key in _PROSE and isinstance(value, str)
            else escape_schema(value, depth + 1)
            for key, value in entries
        }
    if isinstance(schema, (list, tuple)):
        return [escape_schema(each, depth + 1) for each in cast("list[Any]", schema)]
    return _check(schema)


def _check(value: Any) -> Any:
    if isinstance(value, str) and (found := _HIDDEN.search(value)):
        raise SetupError(f"the schema holds the character {neutralise(found.group())} in a name or a value")
    return value
