"""Stand-ins for values of packages that are not installed here, with the same attributes and methods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


class RangeIndex(list[int]):
    """The default index of pandas."""

    is_unique = True
    start = 0


class Index(list[Any]):
    """Any other index."""

    @property
    def is_unique(self) -> bool:
        return len(set(self)) == len(self)


def counted_from_1() -> DataFrame:
    """A data frame whose index counts, and not from 0."""
    frame = DataFrame([{"a": 1}], index=[1])
    frame.index = RangeIndex([1])
    frame.index.start = 1
    return frame


class NAType:
    """The missing value of pandas, which refuses to be compared."""

    def __eq__(self, other: object) -> Any:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


class DataFrame:
    """A data frame of pandas."""

    def __init__(
        self, rows: list[dict[str, Any]], index: list[Any] | None = None, columns: list[str] | None = None
    ) -> None:
        self._rows = rows
        self.columns = Index(columns or list(rows[0]))
        self.index: Any = RangeIndex(range(len(rows))) if index is None else Index(index)

    def reset_index(self) -> DataFrame:
        return DataFrame([{"index": key, **row} for key, row in zip(self.index, self._rows, strict=True)])

    def to_dict(self, orient: str = "dict") -> Any:
        if orient == "records":
            return [dict(row) for row in self._rows]
        raise AssertionError(orient)

    def itertuples(self, *, index: bool, name: str | None) -> Iterator[tuple[Any, ...]]:
        assert (index, name) == (False, None)
        return (tuple(row.values()) for row in self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Series:
    """A series of pandas."""

    def __init__(self, values: list[Any], index: list[Any] | None = None) -> None:
        self._values = values
        self.index: Any = RangeIndex(range(len(values))) if index is None else Index(index)

    def tolist(self) -> list[Any]:
        return self._values

    def to_dict(self) -> dict[Any, Any]:
        return dict(zip(self.index, self._values, strict=True))

    def reset_index(self) -> DataFrame:
        pairs = zip(self.index, self._values, strict=True)
        return DataFrame([{"index": key, "0": value} for key, value in pairs])


class PolarsFrame:
    """A data frame of polars."""

    columns = ("a",)

    def to_dicts(self) -> list[dict[str, Any]]:
        return [{"a": 1}, {"a": None}, {"a": math.nan}]


class Table:
    """A table of Arrow."""

    def to_pylist(self) -> list[dict[str, Any]]:
        return [{"a": 1}]


class Array:
    """An array of numpy."""

    def __init__(self, values: Any, kind: str = "i") -> None:
        self._values = values
        self.dtype = SimpleNamespace(kind=kind)

    def astype(self, kind: type) -> Array:
        return Array([f"2026-11-{value:02}" for value in self._values], "U" if kind is str else "?")

    def tolist(self) -> Any:
        return self._values


class Row:
    """A row of asyncpg: iterated by its values."""

    def keys(self) -> list[str]:
        return ["id", "name"]

    def __getitem__(self, key: str) -> Any:
        return {"id": 7, "name": "lamp"}[key]

    def __iter__(self) -> Iterator[Any]:
        return iter((7, "lamp"))


class Proxy:
    """Answers to any name, and would send a request."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)
