"""What a model wrote as text, read as the value that the text holds."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from .limits import Limits
from .schema import JsonObject, is_object

_BOUNDS = Limits()  # of text that is read a second time, for a repair or for advice
_MAX_LITERAL = 10_000  # characters of text that is read as a Python literal: its parser is slow and recursive


def read_literal(text: str) -> Any:
    """Read a text as JSON, or else as a Python literal of JSON's types; None where it is neither, or too long."""
    if _BOUNDS.check(text) is not None:
        return None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        pass
    try:
        found: Any = ast.literal_eval(text) if len(text) <= _MAX_LITERAL else None
        return json.loads(json.dumps(found, allow_nan=False)) if _is_plain(found) else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


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


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)  # NaN and the infinities are not JSON


def _is_plain(value: Any) -> bool:
    """Whether a value consists of JSON's types; a tuple counts as an array."""
    if is_object(value):
        return all(isinstance(cast("object", key), str) and _is_plain(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, cast("Iterable[Any]", value)))
    return value is None or isinstance(value, (str, int, float))
