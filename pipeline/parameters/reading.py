"""What a model wrote as text, read as the value that the text holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from .limits import Limits
from .python_literals import write_as_json
from .schema import JsonObject, is_object
from .written import Written, refuse_constant

_BOUNDS = Limits()  # of text that is read a second time, for a repair or for advice
_MAX_LITERAL = 10_000  # characters of text in Python's spelling


def read_literal(text: str, written: Written | None = None) -> Any:
    """Read a text as JSON, or else as a Python literal of JSON's types.

    Args:
        text: The text.
        written: Where to keep how its numbers were written; with it, a text that would lose something is refused: a
            number that a float rounds, an object with one name twice. None: nowhere.

    Returns:
        The value; None where it is neither, or too long.
    """
    if _BOUNDS.check(text) is not None:
        return None
    try:
        return _read_json(text, written)
    except (ValueError, RecursionError):
        pass
    try:
        translated = write_as_json(text) if len(text) <= _MAX_LITERAL else None
        return None if translated is None else _read_json(translated, written)
    except (ValueError, RecursionError):
        return None


def _read_json(text: str, written: Written | None) -> Any:
    return json.loads(text, parse_constant=refuse_constant) if written is None else written.read(text)


def read_arguments(arguments: object) -> JsonObject | None:
    """Read the arguments of a call, in any form that a model sends them, without judging them by a schema.

    Returns:
        A dict as it is, another mapping as a dict, a text as the object that it holds; None and empty text are no
        arguments, ``{}``. None where the arguments are no object.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        arguments = read_literal(arguments) if arguments.strip() else {}
    if is_object(arguments):
        return arguments
    return dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else None
