"""Shortens a result to so many characters: JSON stays JSON, text keeps head and tail, and each cut says its size."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, cast
from uuid import uuid4

from ..base.nesting import refuse_deep
from .parts import Part, join_parts
from .result_parts import find_parts
from .values import elide_middle, to_data

_MARK = f"float-{uuid4().hex[:8]}:"  # no text begins with it
_TOKEN = re.compile(f'"{_MARK}([-+.0-9eE]*)"')
_LONGEST_TOKEN = 40
_LEAST = 60  # characters: a shorter piece of a value says nothing
_DEEPEST = 20  # levels; deeper values are shortened as text, because each level measures everything inside it
_LEAST_ENTRY = 5  # characters of a key with its value and its comma
_write = json.JSONEncoder(ensure_ascii=False).encode
_FRACTION = 3  # one item takes at most this part of the room of its list


def shorten_result(value: object, room: int, way: str = "") -> Any:
    """Return the value itself if its text fits, else a shorter one with notes on what is left out.

    Text keeps its head and tail. Text that is JSON stays JSON, and so does any other value, as data: a list keeps its
    first items, an object its keys and its short values. Images and other parts are kept.
    """
    parts = None if isinstance(value, str) else find_parts(value, with_bytes=True)
    if parts is not None:
        return shorten_parts(parts, room, way, value)
    if isinstance(value, str):
        return value if len(value) <= room else _fit_text(value, room, way)
    data, text = to_data(value)
    return value if len(text) <= room else shorten_data(data, room, way)


def elide(text: str, room: int, way: str = "") -> str:
    """As `elide_middle`, with a note that says how to get the rest."""
    more = f"of {len(text):,} characters left out{_tell(way, room)}"
    return elide_middle(text, room, lambda count: f"\n… ({count:,} {more}) …\n")


def shorten_parts(parts: list[Part], room: int, way: str, value: object) -> object:
    """Shorten the texts among the parts of a value, as `shorten_result` does."""
    sizes = [len(part) if isinstance(part, str) else 0 for part in parts]
    if sum(sizes) <= room:
        return value
    if (number := sum(size > 0 for size in sizes)) * _LEAST > room:
        return _keep_first(parts, number, room, way)
    shares = _share(sizes, room)
    return [
        _fit_text(part, share, way) if isinstance(part, str) else part
        for part, share in zip(parts, shares, strict=True)
    ]


def _keep_first(parts: list[Part], number: int, room: int, way: str) -> object:
    """Keep the first texts, and all parts that are no text. A piece of each text would say nothing.

    Returns:
        The parts; one text if they are all texts.
    """
    kept: list[Part] = []
    at, shown, left = 0, 0, room - len(_note(number, number, "texts", way, room))
    for part in parts:
        if not isinstance(part, str):
            kept.append(part)
        elif (left := left - len(part) - 1) >= 0:
            kept.append(part)
            at, shown = len(kept), shown + bool(part)
    kept.insert(at, _note(number - shown, number, "texts", way, room))
    return join_parts(kept) if all(isinstance(part, str) for part in kept) else kept


def _fit_text(text: str, room: int, way: str) -> str:
    """Shorten a text, which may be JSON."""
    if len(text) > room and text.lstrip()[:1] in ("{", "["):
        try:
            fitted = shorten_data(json.loads(refuse_deep(text), parse_float=_keep_token), room, way)
            return _TOKEN.sub(r"\1", json.dumps(fitted, ensure_ascii=False))
        except ValueError:  # it is not JSON
            pass
    return elide(text, room, way)


def _keep_token(token: str) -> str | float:
    """Keep a number as it was written: as a float, 3.10 and 1e400 would change."""
    return f"{_MARK}{token}" if len(token) <= _LONGEST_TOKEN else float(token)


def shorten_data(data: Any, room: int, way: str = "", depth: int = 0) -> Any:
    """Shorten JSON data whose text is too long, as `shorten_result` does; ``depth``: the levels around it."""
    if isinstance(data, (list, dict)) and depth >= _DEEPEST:
        data = _TOKEN.sub(r"\1", json.dumps(data, ensure_ascii=False))
    if isinstance(data, str):
        return _fit_string(data, room, way)
    if isinstance(data, list):
        return _fit_list(cast("list[Any]", data), room, way, depth)
    return _fit_object(cast("dict[str, Any]", data), room, way, depth) if isinstance(data, dict) else data


def _fit_string(text: str, room: int, way: str) -> str:
    """Shorten a text so that its JSON fits: an escape takes two characters, or six."""
    limit = room - 2
    while limit > _LEAST and (size := _size(shorter := elide(text, limit, way))) > room:
        limit = min(limit - 1, limit * room // size)
        if limit <= _LEAST:
            return shorter
    return elide(text, limit, way)


def _fit_list(items: list[Any], room: int, way: str, depth: int) -> list[Any]:
    note = _note(len(items), len(items), "items", way, room)
    left = room - len(note) - 6
    kept: list[Any] = []
    for item in items:
        most = max(_LEAST, room // _FRACTION)
        fitted = item if _size(item) <= most else shorten_data(item, most, "", depth + 1)
        left -= _size(fitted) + 2
        if left < 0:
            break
        kept.append(fitted)
    missing = len(items) - len(kept)
    return [*kept, _note(missing, len(items), "items", way, room)] if missing else kept


def _fit_object(data: dict[str, Any], room: int, way: str, depth: int) -> dict[str, Any]:
    shown = data
    if len(data) * _LEAST_ENTRY > room:  # the keys alone take more than the room, so no more than these can stay
        shown = dict(islice(data.items(), room // _LEAST_ENTRY + 1))
    keys = sum(_size(key) + 4 for key in shown)
    shares = _share([_size(value) for value in shown.values()], max(0, room - keys - 2) if shown is data else 0)
    fitted = {
        key: value if _size(value) <= share else shorten_data(value, share, way, depth + 1)
        for (key, value), share in zip(shown.items(), shares, strict=True)
    }
    if shown is data and _size(fitted) <= room:
        return fitted
    left = room - len(_note(len(data), len(data), "keys", way, room)) - 12
    kept: dict[str, Any] = {}
    for key, value in fitted.items():
        left -= _size(key) + _size(value) + 4
        if left < 0:
            break
        kept[key] = value
    missing = len(data) - len(kept)
    return {**kept, "…": _note(missing, len(data), "keys", way, room)} if missing else kept


def _share(sizes: list[int], room: int) -> list[int]:
    """Divide the room: values that need less than an equal share leave the rest to the others."""
    shares = [0] * len(sizes)
    left = room
    for rank, place in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[place] = min(sizes[place], left // (len(sizes) - rank))
        left -= shares[place]
    return shares


def _note(missing: int, number: int, noun: str, way: str, room: int) -> str:
    return f"… ({missing:,} of {number:,} {noun} left out{_tell(way, room)})"


def _tell(way: str, room: int) -> str:
    """Say how to get the rest, unless that takes more of the room than the rest of the text."""
    return f". {way}" if way and len(way) < room // 2 else ""


def _size(data: Any) -> int:
    return len(_write(data))
