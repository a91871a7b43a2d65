"""A value as text for the model: text as it is, all else as JSON. Never raises, whatever a tool returned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, cast

import attrs

NOTHING = "(no output)"  # an empty tool result is an error of its own with most providers
_UNTELLABLE = "(the result cannot be shown as text)"
_LEFT_OUT = "\n… ({:,} characters left out) …\n"


def as_text(value: object) -> str:
    """The value as text; never empty."""
    return _told(value) or NOTHING


def as_json_value(value: object) -> str:
    """The value as JSON, text and what cannot be shown included."""
    if value is None:
        return "null"
    text = _told(value)
    is_text = isinstance(value, (str, bytes, bytearray)) or text == _UNTELLABLE
    if is_text and not (isinstance(value, (bytes, bytearray)) and text.startswith('"')):
        return json.dumps(text, ensure_ascii=False)
    return text


def shortened(text: str, limit: int | None) -> str:
    """Head and tail of a long text, and how much is missing between; not longer than ``limit``, if that can be."""
    if limit is None or len(text) <= limit:
        return text
    room = max(0, limit - len(_LEFT_OUT.format(len(text))))
    marker = _LEFT_OUT.format(len(text) - room)
    head = room - room // 3
    tail = room - head
    told = f"{text[:head]}{marker}{text[len(text) - tail :]}"
    return told if len(told) < len(text) else text


def _told(value: object) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, Iterator):  # looking at it would run it, perhaps for ever, and leave nothing for the next look
        return _UNTELLABLE
    if isinstance(value, str):
        return str.__str__(value)  # a text of the author's own type: an Enum's is its value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except Exception:  # noqa: BLE001, S110  # a value may raise anything on being looked at
        pass
    try:
        from pydantic_core import to_json  # it knows dataclasses, models, dates, UUIDs, enums, paths, bytes of text

        text = to_json(value, fallback=_plain, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  # as above
        text = _piecemeal(value)
    return _UNTELLABLE if text == f'"{_UNTELLABLE}"' else text


def _piecemeal(value: object) -> str:
    """Of a dict or list with something in it that spoils the whole, all the rest."""
    if isinstance(value, (bytes, bytearray)):
        return f"({len(value)} bytes of binary data)"
    try:
        return json.dumps(value, ensure_ascii=False, default=_described)
    except Exception:  # noqa: BLE001  # as in _told
        return _UNTELLABLE


def _described(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return f"({len(value)} bytes of binary data)"
    cls = cast("type[Any]", type(value))
    if attrs.has(cls):
        return attrs.asdict(value, recurse=False)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    try:
        from pydantic_core import to_jsonable_python

        return to_jsonable_python(value, fallback=_plain, inf_nan_mode="strings")
    except Exception:  # noqa: BLE001  # as in _told
        return _UNTELLABLE


def _plain(value: Any) -> Any:
    cls = cast("type[Any]", type(value))
    if attrs.has(cls):
        return attrs.asdict(value, recurse=False)
    return _UNTELLABLE  # one such value in a large result is no reason to lose the rest
