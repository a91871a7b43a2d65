"""An error whose fields are of other types than it declares, made by a tool that is not type-checked, put right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast, get_args

import attrs

from ..errors import ERROR_TYPES, Crashed, FailureDetails, Landed, Problem, ToolError
from .values import as_text

T = TypeVar("T")


def put_right(error: object) -> ToolError:
    """A copy in which each field has its declared type: a number becomes text, and what cannot be read is left out.

    Anything but an error of the union is a crash: nothing of it is approved for the model.
    """
    return _put_fields_right(cast("ToolError", error)) if type(error) in ERROR_TYPES else Crashed()


def _put_fields_right(thing: T) -> T:
    fields = attrs.fields(cast("Any", type(thing)))
    return type(thing)(**{each.alias: _put_right(getattr(thing, each.name), str(each.type)) for each in fields})


def _put_right(value: Any, declared: str) -> Any:
    if value is None and "None" in declared:
        return None
    if declared.startswith(("str", "Public")):
        return _as_str(value)
    if declared.startswith("float"):
        return _as_float(value)
    if declared == "bool":
        return value is True
    if declared == "Landed":
        return value if value in get_args(Landed) else "maybe"
    if declared == "FailureDetails":
        return _put_fields_right(value) if type(value) is FailureDetails else FailureDetails()
    if declared.startswith("tuple[int"):
        return value if _is_pair(value) else None
    if declared.startswith("tuple"):
        each = list(cast("Iterable[Any]", value)) if isinstance(value, (list, tuple)) else []
        if "Problem" in declared:
            return tuple(_put_fields_right(item) for item in each if type(item) is Problem)
        return tuple(map(_as_str, each)) if "str" in declared else tuple(each)
    return None if declared.startswith("Mapping") and not isinstance(value, Mapping) else cast("Any", value)


def _as_str(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    return "" if value is None else as_text(value)


def _as_float(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return None


def _is_pair(value: Any) -> bool:
    return type(value) is tuple and [type(each) for each in cast("tuple[Any, ...]", value)] == [int, int]
