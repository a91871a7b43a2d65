"""A value as text for the model: text as it is, anything else as JSON. Never raises, whatever a tool returned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, cast

import attrs

NOTHING = "(no output)"  # most providers refuse an empty tool result
_NOT_SHOWABLE = "(the result cannot be shown as text)"
_LEFT_OUT = "\n… ({:,} characters left out) …\n"


def as_text(value: object) -> str:
    """The value as text; never empty."""
    return _serialise(value) or NOTHING


def as_json(value: object) -> str:
    """The value as JSON. Text, and what cannot be shown, becomes a JSON string."""
    if value is None:
        return "null"
    text = _serialise(value)
    is_text = isinstance(value, (str, bytes, bytearray)) or text == _NOT_SHOWABLE
    if is_text and not (isinstance(value, (bytes, bytearray)) and text.startswith('"')):
        return json.dumps(text, ensure_ascii=False)
    return text


def elide_middle(text: str, limit: int | None) -> str:
    """The head and tail of a long text, and between them how much is left out.

    Args:
        text: Any text.
        limit: Characters of the result; more only if they do not hold the line between head and tail. None: no limit.
    """
    if limit is None or len(text) <= limit:
        return text
    room = max(0, limit - len(_LEFT_OUT.format(len(text))))
    marker = _LEFT_OUT.format(len(text) - room)
    head = room - room // 3
    tail = room - head
    shorter = f"{text[:head]}{marker}{text[len(text) - tail :]}"
    return shorter if len(shorter) < len(text) else text


def _serialise(value: object) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, Iterator):  # to read it would run it, perhaps forever, and leave nothing for the next reader
        return _NOT_SHOWABLE
    if isinstance(value, str):
        return str.__str__(value)  # of a str enum, its value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except Exception:  # noqa: BLE001, S110  # a foreign value may raise anything when it is read
        pass
    try:
        from pydantic_core import to_json  # for dataclasses, models, dates, UUIDs, enums, paths, bytes of text

        text = to_json(value, fallback=_replace_unknown, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  # as above
        text = _serialise_parts(value)
    return _NOT_SHOWABLE if text == f'"{_NOT_SHOWABLE}"' else text


def _serialise_parts(value: object) -> str:
    """A dict or list item by item, because one bad item makes the serialiser refuse the whole."""
    if isinstance(value, (bytes, bytearray)):
        return f"({len(value)} bytes of binary data)"
    try:
        return json.dumps(value, ensure_ascii=False, default=_replace_item)
    except Exception:  # noqa: BLE001  # as in _serialise
        return _NOT_SHOWABLE


def _replace_item(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return f"({len(value)} bytes of binary data)"
    cls = cast("type[Any]", type(value))
    if attrs.has(cls):
        return attrs.asdict(value, recurse=False)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    try:
        from pydantic_core import to_jsonable_python

        return to_jsonable_python(value, fallback=_replace_unknown, inf_nan_mode="strings")
    except Exception:  # noqa: BLE001  # as in _serialise
        return _NOT_SHOWABLE


def _replace_unknown(value: Any) -> Any:
    cls = cast("type[Any]", type(value))
    if attrs.has(cls):
        return attrs.asdict(value, recurse=False)
    return _NOT_SHOWABLE  # one such value in a large result is no reason to lose the rest
