"""A value as text for the model: text as it is, parts one after the other, anything else as JSON. Never raises."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from typing import Any, cast

from ..base.nesting import MOST_LEVELS

NOTHING = "(no output)"  # most providers refuse an empty tool result
_SMALL = 10**15
_LEFT_OUT = "\n… ({:,} characters left out) …\n"
SCALARS = frozenset((str, int, bool, float, type(None)))
_DATA = SCALARS | {list, dict}
_KEYS = frozenset((str,))
_write = json.JSONEncoder(ensure_ascii=False).encode
_write_finite = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_VALUES = dict[Any, Any].values


def as_text(value: object) -> str:
    """Return the value as text; never empty."""
    if type(value) not in SCALARS:
        from .parts import join_parts
        from .result_parts import find_parts  # 10 ms, and many tools return text alone

        if (parts := find_parts(value)) is not None:
            text = join_parts(parts)
            return text if text.strip() else NOTHING
    return write_data(value)


def write_data(value: object) -> str:
    """`as_text` for a value that has no parts."""
    if type(value) is int and -_SMALL < value < _SMALL:  # `json` takes three times as long to say the same
        return str(value)
    if type(value) is str:
        return value or NOTHING
    if value is None:
        return NOTHING
    return read_dump(value, _dump(value))


def read_dump(value: object, dumped: str) -> str:
    """Return the text of a value, given its JSON: a JSON string may be text in place of the value."""
    return (json.loads(dumped) or NOTHING) if _is_bare(value, dumped) else dumped


def as_json(value: object) -> str:
    """Return the value as JSON. Text, parts, and values without a usual form become a JSON string."""
    from .parts import join_parts
    from .result_parts import find_parts, read_mcp

    if type(value) in SCALARS or (parts := find_parts(value)) is None:
        return _dump(value)
    result = read_mcp(value)
    return _dump(join_parts(parts) if result is None or result.structured is None else result.structured)


def elide_middle(text: str, limit: int | None, describe: Callable[[int], str] = _LEFT_OUT.format) -> str:
    """Return head (two thirds) and tail of a long text, with a note of the length between them."""
    if limit is None or len(text) <= limit:
        return text
    room = max(0, limit - len(describe(len(text))))
    tail = room // 3
    shorter = f"{text[: room - tail]}{describe(len(text) - room)}{text[len(text) - tail :]}"
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
        if _is_json_data(value):
            return value, _write_finite(value)
    except ValueError:  # NaN, a number of too many digits, a value that holds itself
        pass
    from .plain_values import to_plain

    plain = to_plain(value)
    return plain, _write(plain)


def _dump(value: object) -> str:
    return to_data(value)[1]


def _is_json_data(value: Any) -> bool:
    """Whether `json` alone writes the value as it writes the result of `to_plain`, as it does for most results.

    It does not if a list or dict occurs again: `to_plain` counts repetitions. All values of one level are looked at
    together, in a few calls of C.
    """
    level: list[Any] = [value]
    seen = set[int]()
    levels = 0
    while not (kinds := set(map(type, level))) <= SCALARS:
        levels += 1
        if not kinds <= _DATA or levels > MOST_LEVELS:
            return False
        lists: list[Any] = [each for each in level if type(each) is list] if list in kinds else []
        dicts: list[Any] = [each for each in level if type(each) is dict] if dict in kinds else []
        before = len(seen)
        seen.update(map(id, lists), map(id, dicts))
        if len(seen) < before + len(lists) + len(dicts) or not set(map(type, chain.from_iterable(dicts))) <= _KEYS:
            return False
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(_VALUES, dicts))]
    return True
