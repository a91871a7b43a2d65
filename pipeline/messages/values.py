"""A value as text for the model: text as it is, parts one after the other, anything else as JSON. Never raises."""

from __future__ import annotations

import json
from typing import Any, cast

NOTHING = "(no output)"  # most providers refuse an empty tool result
_LEFT_OUT = "\n… ({:,} characters left out) …\n"
_SCALARS = frozenset((str, int, bool, float, type(None)))
_KEYS = frozenset((str,))


def as_text(value: object) -> str:
    """Return the value as text; never empty."""
    if type(value) is str:
        return value or NOTHING
    if value is None:
        return NOTHING
    from .parts import join_parts
    from .result_parts import find_parts  # 10 ms, and many tools return text alone

    if type(value) not in _SCALARS and (parts := find_parts(value)) is not None:
        text = join_parts(parts)
        return text if text.strip() else NOTHING
    text = _dump(value)
    return (json.loads(text) or NOTHING) if _is_bare(value, text) else text


def as_json(value: object) -> str:
    """Return the value as JSON. Text, parts, and values without a usual form become a JSON string."""
    from .parts import join_parts
    from .result_parts import find_parts, read_mcp

    if type(value) in _SCALARS or (parts := find_parts(value)) is None:
        return _dump(value)
    result = read_mcp(value)
    return _dump(join_parts(parts) if result is None or result.structured is None else result.structured)


def elide_middle(text: str, limit: int | None) -> str:
    """Return head and tail of a long text, with a note of the length between them.

    Args:
        text: Any text.
        limit: Characters of the result; more only if they cannot hold the note. None: no limit.
    """
    if limit is None or len(text) <= limit:
        return text
    room = max(0, limit - len(_LEFT_OUT.format(len(text))))
    marker = _LEFT_OUT.format(len(text) - room)
    head = room - room // 3
    tail = room - head
    shorter = f"{text[:head]}{marker}{text[len(text) - tail :]}"
    return shorter if len(shorter) < len(text) else text


def _is_bare(value: object, text: str) -> bool:
    """Whether the JSON string is text in place of the value, and not the value in quotes."""
    if not text.startswith('"') or issubclass(type(value), (str, int)):  # a number of too many digits for `json`
        return text.startswith('"')
    from .parts import describe_bytes
    from .plain_values import not_shown

    if issubclass(type(value), (bytes, bytearray)):
        return text == json.dumps(describe_bytes(cast("bytes", value)))
    return text == json.dumps(not_shown(value), ensure_ascii=False)


def to_data(value: object) -> tuple[Any, str]:
    """Return the value as JSON data, which is the value itself if possible, and its JSON."""
    try:
        if _is_json_data(value, set()):
            return value, json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):  # NaN, a number of too many digits, a value that holds itself
        pass
    from .plain_values import to_plain

    plain = to_plain(value)
    return plain, json.dumps(plain, ensure_ascii=False)


def _dump(value: object) -> str:
    return to_data(value)[1]


def _is_json_data(value: Any, seen: set[int]) -> bool:
    """Whether `json` alone writes the value as it writes the result of `to_plain`, as it does for most results.

    Args:
        value: Any value.
        seen: The ids of its lists and dicts so far. One that occurs again needs `to_plain`, which counts repetitions.
    """
    kind = cast("type[Any]", type(value))
    if kind in _SCALARS:
        return True
    if (kind is not dict and kind is not list) or id(value) in seen:
        return False
    seen.add(id(value))
    if kind is list:
        return _are_json_data(value, seen)
    items = cast("dict[Any, Any]", value)
    return set(map(type, items)) <= _KEYS and _are_json_data(items.values(), seen)


def _are_json_data(values: Any, seen: set[int]) -> bool:
    return set(map(type, values)) <= _SCALARS or all(_is_json_data(each, seen) for each in values)
