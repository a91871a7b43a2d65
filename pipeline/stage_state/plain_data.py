"""Values that a stage keeps: plain data as a hashable value, to compare params, and how much memory a value takes."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Hashable
from enum import Enum
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any, cast

from ..base.foreign_values import or_default

_AS_IS = frozenset((type(None), str, int, bytes))
_BY_REPR = frozenset((bool, float))  # by value True equals 1, and 0.0 equals -0.0
_MODULES_BY_REPR = frozenset(("datetime", "decimal", "pathlib", "uuid"))  # by name: pipeline imports none of them
_FLAT = frozenset((type(None), bool, int, float, complex, str, bytes, bytearray))
_HOLD_ITEMS = frozenset((list, tuple, set, frozenset, deque))
_OF_THE_PROGRAM = (type, ModuleType, FunctionType)  # these lead to all modules, and no copy holds them
_MOST_PARTS = 100_000  # about 20 ms; a value with more of them takes longer to copy
TOO_LARGE = sys.maxsize
_own_bytes = or_default(sys.getsizeof(object()))(sys.getsizeof)


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


def estimate_bytes(value: object) -> int:
    """Roughly how many bytes of memory a value takes with all that it holds: text and bytes exactly, objects less so.

    Returns:
        The bytes; `TOO_LARGE` for a value of more than 100,000 parts, at which the walk ends.
    """
    total, count = 0, 1
    parts = [value]
    seen: set[int] = set()
    while parts:
        part: Any = parts.pop()
        if isinstance(part, _OF_THE_PROGRAM):
            continue
        total += _own_bytes(part)
        if type(part) in _FLAT or id(part) in seen:
            continue
        seen.add(id(part))
        held = _held_by(part)
        count += len(held)
        if count > _MOST_PARTS:
            return TOO_LARGE
        parts.extend(held)
    return total


def _held_by(part: Any) -> list[Any]:
    kind = cast("type[Any]", type(part))
    if kind is dict:
        return [*islice(part.keys(), _MOST_PARTS), *islice(part.values(), _MOST_PARTS)]
    if kind in _HOLD_ITEMS:
        return list(islice(part, _MOST_PARTS))
    return gc.get_referents(part)
