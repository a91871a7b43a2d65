"""Coerces the fields of an error to their declared types, for code that is not type-checked."""

from __future__ import annotations

from typing import Any, cast

import attrs

from ..base.foreign_values import safe_str
from ..engine.errors import ERROR_TYPES, NO_DETAILS, Crashed, FailureDetails, OutcomeUnknown, Problem, ToolError

_MAX_ITEMS = 1_000


def coerce_error_fields(error: object) -> ToolError:
    """Return a copy of the error whose fields have their declared types: converted to text, left out, or empty.

    An object that is not an error of the union becomes a `Crashed`: nothing of it is approved for the model.
    """
    return cast("ToolError", _coerce(error)) if type(error) in ERROR_TYPES else Crashed()


def _coerce(holder: Any) -> Any:
    cls = cast("type[Any]", type(holder))
    return cls(**{field.name: _fit(getattr(holder, field.name), field) for field in attrs.fields(cls)})


def _fit(value: object, field: Any) -> Any:  # noqa: C901, PLR0912  # a table of types
    declared = str(field.type)
    optional = "None" in declared
    if value is None and optional:
        return None
    match declared.partition(" | ")[0]:
        case "str" | "Public":
            return safe_str(value)
        case "float":
            return value if type(value) in (int, float) else None
        case "bool":
            return value is True
        case "Landed":
            return value if type(value) is str and value in ("no", "yes") else "maybe"
        case "FailureDetails":
            return _coerce(value) if isinstance(value, FailureDetails) else NO_DETAILS
        case "tuple[Problem, ...]":
            return tuple(_coerce(each) for each in _as_items(value) if isinstance(each, Problem))
        case "tuple[str, ...]":
            return tuple(map(safe_str, _as_items(value)))
        case "tuple[int, int]":
            items = _as_items(value)
            return items if len(items) == 2 and all(type(each) is int for each in items) else None  # noqa: PLR2004
        case "tuple[Repair, ...]":
            return ()
        case "Mapping[str, object]":
            return {safe_str(name): each for name, each in cast("Any", value).items()} if type(value) is dict else {}
        case "TimedOut":  # of `OutcomeUnknown`
            return None if isinstance(value, OutcomeUnknown) or not attrs.has(type(value)) else _coerce(value)
        case "Mapping[str, Any]":  # a schema: what it may hold is read with care
            return cast("Any", value) if type(value) is dict else None
        case _:
            return value


def _as_items(value: object) -> tuple[Any, ...]:
    return tuple(cast("Any", value)[:_MAX_ITEMS]) if type(value) in (tuple, list) else ()
