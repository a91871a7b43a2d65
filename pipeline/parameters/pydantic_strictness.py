"""What pydantic reads as another value even in its strict mode; here it is refused before pydantic reads it.

To pydantic the text "2024" is a datetime, 2,024 seconds after 1970; "86400" is a date; "1_0" and Arabic digits are a
Decimal; and 1e400 is a complex infinity. A Decimal gets what a float leaves of a number; here it gets what was written.
Digits below the microsecond are cut or rounded; here they are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pydantic_core import PydanticCustomError, SchemaValidator, core_schema, to_json

from .lost_digits import loses_digits
from .nested_json import make_json_reader
from .rounded import find_token

_NUMERIC: Final = re.compile(r"\s*[+-]?[\d._]+(?:[eE][+-]?[\d._]*)?\s*")
# To Python "-1 day, 2:00:00" is 22 hours before, as it writes them itself; to pydantic the sign is of both, so 26.
_SIGNED_DAYS: Final = re.compile(r"\s*-\s*\d+\s*d.*:.*", re.IGNORECASE | re.DOTALL)
_NOUNS: Final = {
    "date": "a valid date",
    "datetime": "a valid datetime",
    "time": "a valid time",
    "timedelta": "a valid duration",
    "decimal": "a valid decimal",
    "fraction": "a number or a fraction",
    "complex": "a complex number",
}
_TEMPORAL: Final = ("datetime", "time", "timedelta")
_EXACT: Final = ("decimal", "fraction")  # they get what was written, and not what a float leaves of it
# The keys of a core schema (`pydantic_core.core_schema`) that hold schemas: one, a list, or a mapping of names to them.
_INNER: Final = (
    "schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema", "json_schema",
    "python_schema", "lax_schema", "strict_schema", "arguments_schema", "var_args_schema", "var_kwargs_schema",
    "choices", "steps", "fields", "definitions",
)  # fmt: skip


def guard_schema(core: Any) -> Any:
    """Return the core schema with a check before each place that needs one; the same object if none does.

    Numbers and numeric text are no date, datetime, time or timedelta, at any depth. The text of a Decimal or a complex
    number has ASCII digits and no underscore.
    """
    return _guard(core)


def _guard(node: Any) -> Any:
    """Put a check before each place that needs one. Returns the same object where none does."""
    changed: dict[str, Any] = {}
    for key in _INNER:
        if key in node:
            held = node[key]
            guarded = _guard_all(held)
            if guarded is not held:
                changed[key] = guarded
    node = {**node, **changed} if changed else node
    kind = node.get("type")
    if kind not in _REFUSED and kind != "json":
        return node
    # A function gets and gives Python values, of which the strict mode would refuse text: so it reads JSON itself. It
    # stands behind `any`, since a function alone would win over every other type of a union: "01" is text in
    # ``str | Decimal``.
    inner = {key: value for key, value in node.items() if key != "ref"}
    read = make_json_reader(inner) if kind == "json" else _make_reader(inner)
    guard: Any = core_schema.no_info_after_validator_function(read, core_schema.any_schema())
    return {**guard, "ref": node["ref"]} if "ref" in node else guard  # whoever refers to it must come to the check


def _guard_all(held: Any) -> Any:
    if isinstance(held, dict):
        schemas = cast("dict[str, Any]", held)
        if isinstance(schemas.get("type"), str):
            return _guard(schemas)
        named = {key: _guard_all(each) for key, each in schemas.items()}
        return named if any(named[key] is not each for key, each in schemas.items()) else schemas
    if isinstance(held, (list, tuple)):  # a tuple is a choice of a union with its label
        items = cast("list[Any]", held)
        found = [_guard_all(each) for each in items]
        if all(new is old for new, old in zip(found, items, strict=True)):
            return items
        return found if isinstance(held, list) else tuple(found)
    return held


def _make_reader(node: Any) -> Callable[[object], object]:
    """Make a validator of one type that refuses first what the type's own would read as something else."""
    validator, is_refused, expected = SchemaValidator(node), _REFUSED[node["type"]], _NOUNS[node["type"]]
    is_temporal, is_exact = node["type"] in _TEMPORAL, node["type"] in _EXACT

    def read(value: object) -> object:
        value = find_token(value) if is_exact and isinstance(value, float) else value
        if is_temporal and isinstance(value, str) and loses_digits(value):
            facts = {"expected": f"{expected} without a fraction of a microsecond"}
            raise PydanticCustomError("lost_digits", "Input should be {expected}", facts)
        if is_refused(value):
            raise PydanticCustomError("strict_type", "Input should be {expected}", {"expected": expected})
        if value is None or isinstance(value, (str, int, float, list, dict)):
            return validator.validate_json(to_json(value), strict=True)
        return validator.validate_python(value, strict=True)

    return read


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return _NUMERIC.fullmatch(value) is not None
    return isinstance(value, (int, float))


def _is_no_duration(value: object) -> bool:
    return _is_number(value) or (isinstance(value, str) and _SIGNED_DAYS.fullmatch(value) is not None)


def _is_no_plain_number(value: object) -> bool:
    if isinstance(value, str):
        return not value.isascii() or "_" in value or "n" in value.lower()  # inf, nan
    return isinstance(value, float) and not math.isfinite(value)


_REFUSED: Final[Mapping[Any, Callable[[object], bool]]] = {
    "date": _is_number,
    "datetime": _is_number,
    "time": _is_number,
    "timedelta": _is_no_duration,
    "decimal": _is_no_plain_number,
    "fraction": _is_no_plain_number,
    "complex": _is_no_plain_number,
}
