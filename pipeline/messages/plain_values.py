"""Any value as JSON data, in the usual form of its type. Never raises, whatever a tool returned.

Tables, arrays and rows of other packages are recognised by their methods; none of the packages is imported. Methods are
looked up on the type: a proxy or a mock has every attribute, and an access may send a request.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite, isnan
from os import PathLike, fspath
from types import SimpleNamespace
from typing import Any, cast

import attrs

from ..privacy import get_logger
from .parts import PARTS, describe_bytes
from .text import shorten

_logger = get_logger()
_DEEPEST = 100  # levels; deeper than any data that a model reads
_MOST_BITS = 33_000  # about 10,000 digits: the time to write an integer grows with their square
_LONGEST_RANGE = 10_000
_MOST_REPEATED = 10_000  # parts of values that occur again: a few aliases of aliases make billions
_BY_STR = ("fractions", "zoneinfo", "numpy", "pandas")  # packages whose scalars are complete as text
_MISSING = frozenset(("NAType", "NaTType"))  # of pandas
_ITEMS = dict[Any, Any].items  # the built-in methods, which a subclass cannot override
_ITERATE = list[Any].__iter__
_CONTAINERS: tuple[Any, ...] = (list, dict)
_TEXT = frozenset((str,))
_BYTES = (bytes, bytearray, memoryview)


def to_plain(value: object) -> Any:
    """Convert a value to None, booleans, numbers, text, lists and dicts with text keys.

    A value without a usual form becomes a text with its type, never its ``repr``, and is logged as a warning.
    """
    walk = _Walk()
    plain = walk.convert(value)
    if walk.unknown and _logger.hasHandlers():
        types = ", ".join(sorted(walk.unknown))
        _logger.warning("A tool's result cannot be shown to the model as it is: %s", types)
    return plain


def not_shown(value: object) -> str:
    """Return the text that stands for a value without a usual form."""
    return f"(a value of type {type_name(value)}, which cannot be shown as text)"


def type_name(value: object) -> str:
    """Return the name of a value's type, on one line and not too long."""
    return shorten(type.__dict__["__name__"].__get__(type(value)))  # past a metaclass


@attrs.define
class _Walk:
    inside: set[int] = attrs.field(factory=set[int])  # the values that the current one is in
    unknown: set[str] = attrs.field(factory=set[str])  # types without a usual form
    parts: int = 0  # values converted so far, repeated ones included
    repeated: int = 0  # of these, the parts of values that occurred before
    ways: dict[Any, Callable[[Any, Any], Any]] = attrs.field(factory=lambda: {dict: _convert_dict, list: _convert_list})
    # By id, each list or object with its plain form and its parts; kept, so that no other value gets the id.
    known: dict[int, tuple[Any, Any, int]] = attrs.field(factory=dict[int, Any])

    def convert(self, value: Any) -> Any:
        self.parts += 1
        kind = cast("Any", type(value))  # `isinstance` would ask the value itself
        if kind is str or value is None or kind is bool:
            return value
        if kind is int:
            return _plain_integer(value)
        if kind is float:
            return _plain_float(value)
        if (again := self.known.get(id(value))) is not None:
            return self._repeat(again)
        if id(value) in self.inside or len(self.inside) >= _DEEPEST:
            self.unknown.add(f"{type_name(value)} (nested too deeply)")
            return "(nested too deeply)"
        self.inside.add(id(value))
        before = self.parts
        try:
            convert = self.ways.get(kind)  # its class is judged once
            plain: Any = self._convert(value, kind) if convert is None else convert(self, value)
            if isinstance(plain, _CONTAINERS):
                self.known[id(value)] = value, plain, self.parts - before
            return plain
        except Exception:  # noqa: BLE001  # a foreign value may raise anything when it is read
            return self._give_up(value)
        finally:
            self.inside.discard(id(value))

    def _repeat(self, known: tuple[Any, Any, int]) -> Any:
        """Write a value again that occurs again, unless that grows without end, as YAML's aliases of aliases do."""
        value, plain, parts = known
        self.parts += parts
        self.repeated += parts
        if self.repeated <= _MOST_REPEATED:
            return plain
        self.unknown.add(f"{type_name(value)} (repeated too often)")
        return "(repeated too often)"

    def _give_up(self, value: object) -> str:
        self.unknown.add(type_name(value))
        return not_shown(value)

    def _convert(self, value: Any, kind: Any) -> Any:  # noqa: C901, PLR0912  # one case for each form
        if issubclass(kind, str):
            return str.__str__(value)  # of a str enum, its value
        if issubclass(kind, int):
            return _plain_integer(int.__int__(value))
        if issubclass(kind, float):
            return _plain_float(float.__float__(value))
        if issubclass(kind, _BYTES):
            return _plain_bytes(value)
        if issubclass(kind, Enum):
            return self.convert(value.value)
        if issubclass(kind, PARTS):
            return str(value)
        if issubclass(kind, Iterator):  # reading it would run it, perhaps forever, and exhaust it
            return self._give_up(value)
        if kind.__name__ in _MISSING:
            return None
        if hasattr(kind, "__pydantic_serializer__"):
            return self._convert_by_pydantic(value)
        if issubclass(kind, tuple) and hasattr(value, "_asdict"):
            return self.convert_items(value._asdict().items())
        if issubclass(kind, dict):
            return self.convert_items(_ITEMS(value))
        if issubclass(kind, Mapping):
            return self.convert_items(value.items())
        if kind is range and len(value) > _LONGEST_RANGE:
            return repr(value)
        if issubclass(kind, list):
            return [self.convert(item) for item in _ITERATE(value)]
        if issubclass(kind, (AbstractSet, KeysView)):  # in an order that is the same in each process
            self.ways[kind] = lambda walk, each: [walk.convert(item) for item in _sort(each)]
            return self.ways[kind](self, value)
        if issubclass(kind, (Sequence, deque, ValuesView)) and not hasattr(value, "keys"):  # as a row of sqlite3 has
            return [self.convert(item) for item in value]
        return self._convert_object(value, kind)

    def _convert_object(self, value: Any, kind: Any) -> Any:
        if attrs.has(kind) or is_dataclass(kind):
            names = [each.name for each in _fields_of(kind)]
            self.ways[kind] = lambda walk, each: {name: walk.convert(getattr(each, name)) for name in names}
            return self.ways[kind](self, value)
        if kind is SimpleNamespace:
            return self.convert_items(value.__dict__.items())
        if isinstance(value, PathLike):
            return self.convert(fspath(cast("PathLike[str]", value)))
        if (found := as_table(value)) is not None:
            return self.convert(found)
        if kind.__module__.startswith(_BY_STR) and " at 0x" not in (text := str(value)):
            return text
        return self._convert_by_pydantic(value)

    def convert_items(self, items: Any) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, item in items:
            name = self._name(key)
            if name in plain:  # as with 1 and "1": JSON would keep only one
                name = f"{name} ({type_name(key)})"
            plain[name] = self.convert(item)
        return plain

    def _name(self, key: Any) -> str:
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, tuple):
            return ",".join(map(self._name, cast("tuple[Any, ...]", key)))
        plain = self.convert(key)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)

    def _convert_by_pydantic(self, value: Any) -> Any:
        """Convert models, dates, times, UUIDs, decimals, paths, addresses and the like."""
        from pydantic_core import PydanticSerializationError, to_jsonable_python

        try:
            plain = to_jsonable_python(value, fallback=self._convert_unknown, inf_nan_mode="strings")
        except (PydanticSerializationError, UnicodeDecodeError):
            if not hasattr(cast("Any", type(value)), "model_dump"):
                raise
            plain = value.model_dump(by_alias=True)  # it holds bytes that are not UTF-8
        return self.convert(plain)  # a number of too many digits may be in it

    def _convert_unknown(self, value: Any) -> Any:
        """Convert a value inside a model that pydantic does not know; alone, it has no usual form."""
        return self._give_up(value) if id(value) in self.inside else self.convert(value)


def _fields_of(kind: Any) -> tuple[Any, ...]:
    return tuple(attrs.fields(kind)) if attrs.has(kind) else fields(kind)


def _convert_dict(walk: _Walk, value: Any) -> Any:
    if set(map(type, value)) <= _TEXT:
        return {key: walk.convert(item) for key, item in value.items()}
    return walk.convert_items(value.items())


def _convert_list(walk: _Walk, value: Any) -> Any:
    return [walk.convert(item) for item in value]


def _plain_integer(number: int) -> int | str:
    if number.bit_length() <= _MOST_BITS // 10:  # what `json` writes
        return number
    if number.bit_length() > _MOST_BITS:
        return f"(an integer of about {round(number.bit_length() * 0.30103):,} digits)"
    from pydantic_core import to_json

    return to_json(number).decode()


def _plain_float(number: float) -> float | str:
    if isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"  # noqa: PLR0124


def _plain_bytes(value: bytes | bytearray | memoryview) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return describe_bytes(value)


def _sort(items: Any) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:  # of several types
        return sorted(items, key=lambda item: (type_name(item), json.dumps(to_plain(item))))


def as_table(value: object) -> Any:
    """Return the usual form of a value of a foreign type, or None if it has none of the known methods.

    A data frame is the list of its rows (pandas, polars, Arrow), with the index of pandas as columns unless it only
    counts the rows. A series or an array is a list (numpy, torch); a series with an index is a dict. A row of a
    database is a dict (sqlite3, asyncpg, SQLAlchemy). A missing cell is None. May raise any exception of the value.
    """
    kind = type(value)
    for name in ("to_dicts", "to_pylist"):  # polars, Arrow
        if _has(kind, name):
            return _checked(getattr(value, name)())
    foreign = cast("Any", value)
    if _has(kind, "to_dict"):
        return _checked(_read_pandas(foreign))
    if _has(kind, "tolist"):  # numpy, torch, array.array
        if getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M"):  # nanoseconds would be plain integers
            foreign = foreign.astype(str)
        return _checked(foreign.tolist())
    if _has(kind, "to_list"):  # a polars series
        return _checked(foreign.to_list())
    if _has(kind, "_asdict"):
        return _checked(foreign._asdict())
    if _has(kind, "keys") and _has(kind, "__getitem__"):
        return {key: foreign[key] for key in foreign.keys()}  # noqa: SIM118  # a row is iterated by its values
    if _has(kind, "to_json"):
        text = foreign.to_json()
        return _checked(json.loads(text) if isinstance(text, str) else text)
    return None


def _has(kind: type[Any], name: str) -> bool:
    return callable(getattr(kind, name, None))


def _checked(found: Any) -> Any:
    """Replace NaN by None. Refuse another foreign object: it might lead on forever."""
    if isinstance(found, dict):
        return {key: _cell(item) for key, item in cast("dict[Any, Any]", found).items()}
    if isinstance(found, list):
        return [
            {key: _cell(item) for key, item in cast("dict[Any, Any]", each).items()}
            if isinstance(each, dict)
            else _cell(each)
            for each in cast("list[Any]", found)
        ]
    if isinstance(found, (str, int, float)):
        return found
    raise TypeError("no plain data")


def _cell(item: Any) -> Any:
    return None if isinstance(item, float) and isnan(item) else item


def _read_pandas(value: Any) -> Any:
    index: Any = getattr(value, "index", None)
    is_numbered = index is None or _is_position(index)
    kind = cast("type[Any]", type(value))
    if not hasattr(value, "columns"):
        if index is None:  # not pandas, but with its word for the usual form
            return value.to_dict()
        if is_numbered and _has(kind, "tolist"):
            return value.tolist()
        return value.to_dict() if getattr(index, "is_unique", True) else value.reset_index().to_dict(orient="records")
    if not getattr(value.columns, "is_unique", True):  # a dict would keep the last column of a name
        rows = [list(row) for row in value.itertuples(index=False, name=None)]
        return {"index": [] if index is None else list(index), "columns": list(value.columns), "data": rows}
    if not is_numbered and _has(kind, "reset_index"):
        value = value.reset_index()
    return value.to_dict(orient="records")


def _is_position(index: Any) -> bool:
    """Whether an index of pandas only counts the rows from 0."""
    is_range = type(index).__name__ == "RangeIndex" and getattr(index, "name", None) is None
    return is_range and (getattr(index, "start", 0), getattr(index, "step", 1)) == (0, 1)
