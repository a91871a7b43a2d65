"""Tables, arrays and rows of other packages as lists and dicts, by the methods that they have; none is imported.

Methods are looked up on the type: a proxy or a mock answers to any name on the instance, and may send a request.
"""

from __future__ import annotations

import json
from math import isnan
from typing import Any, cast


def as_table(value: object) -> Any:
    """The usual form of a value of a foreign type, or None if it has none of the known methods.

    A data frame is the list of its rows (pandas, polars, Arrow), with the index of pandas as columns if it says more
    than the position. A series or an array is a list (numpy, torch); a series with an index is a dict. A row of a
    database is a dict (sqlite3, asyncpg, SQLAlchemy). A missing cell is None. May raise what the value raises.
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
    """What came, with None for NaN. Another foreign object is refused: it might lead on forever."""
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
