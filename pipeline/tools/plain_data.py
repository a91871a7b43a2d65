"""freeze: plain data as a hashable value, for a cache that compares params."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import Any, cast

_AS_IS = frozenset((type(None), str, int, bytes))
_BY_REPR = frozenset((bool, float))  # by value True equals 1, and 0.0 equals -0.0
_MODULES_BY_REPR = frozenset(("datetime", "decimal", "pathlib", "uuid"))  # by name: pipeline imports none of them


def freeze(value: Any) -> Hashable:
    """A hashable value that is equal for data of equal value and type, in any order of the names in a dict.

    Plain data is None, numbers, text, bytes, dates, times, UUIDs, paths, enums of these, and lists, tuples, dicts and
    sets of these. Subclasses of these types are not plain.

    Raises:
        TypeError: The value holds something else.
        RecursionError: It is nested too deeply, or holds itself.
    """
    kind = cast("type[Any]", type(value))
    if kind in _AS_IS:
        return cast("Hashable", value)
    if kind in _BY_REPR or kind.__module__.partition(".")[0] in _MODULES_BY_REPR:
        return kind, repr(value)
    if kind is dict:
        return kind, frozenset((freeze(name), freeze(each)) for name, each in value.items())
    if kind is set or kind is frozenset:
        return kind, frozenset(map(freeze, value))
    if kind is list or kind is tuple:
        return kind, tuple(map(freeze, value))
    if isinstance(value, Enum):
        return kind, freeze(value.value)
    raise TypeError(f"not plain data: {kind.__name__}")
