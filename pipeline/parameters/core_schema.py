"""Change pydantic's core schema, so that validation refuses every value that pydantic would read as another one.

The core schema is the right place because the rules must also hold inside dataclasses, TypedDicts and models:

- Models, dataclasses and TypedDicts refuse undeclared fields, as functions do, unless the class itself decides.
  Pydantic silently drops such a field.
- A value that pydantic reads as another one even in strict mode is refused: "2024" as a datetime (2,024 seconds after
  1970), "1_0" as a Decimal, 1e400 as an infinity, and digits below the microsecond.
- A `Decimal` is made from the number as it was written, not from a float.
- Two names of an object that become the same key ("1" and "01" for an integer) are refused: a value would be lost.
- The JSON in a text for pydantic's `Json` follows the rules for the arguments themselves. Pydantic would accept NaN,
  and use the last value of a repeated name.
- A regular expression is refused if it is long, which takes long to compile, or if pydantic fails on it: one of 1,500
  brackets ends in a RecursionError.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError, SchemaValidator, core_schema, to_json, to_jsonable_python

from ..base.nesting import refuse_deep
from .exact_json import build_object, find_token, loses_digits, read_exactly, refuse_constant
from .formats import describe_format

# --- The schema and its types of nodes ---
_NAMED = ("fields", "choices")
_OPAQUE = frozenset(("metadata", "serialization", "expected", "default", "members", "cls", "config"))
_SCALARS = (str, int, float, type(None))
_CLASSES: Final = ("model", "dataclass", "typed-dict")
_DICTS = ("dict", "ordered-dict", "frozendict", "counter")
_CHANGING = ("strip_whitespace", "to_lower", "to_upper")  # options that change text
# The keys of a core schema (`pydantic_core.core_schema`) that hold schemas: one, a list, or a mapping of names to them.
_INNER: Final = (
    "schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema", "json_schema",
    "python_schema", "lax_schema", "strict_schema", "arguments_schema", "var_args_schema", "var_kwargs_schema",
    "choices", "steps", "fields", "definitions",
)  # fmt: skip

# --- Numbers and times ---
_NUMERIC: Final = re.compile(r"\s*[+-]?[\d._]+(?:[eE][+-]?[\d._]*)?\s*")
_NOUNS: Final = {
    "date": describe_format("date"),
    "datetime": describe_format("date-time"),
    "time": describe_format("time"),
    "timedelta": describe_format("duration"),
    "decimal": "a decimal number such as 12.50",
    "fraction": "a number or a fraction",
    "complex": "a complex number",
}
_TEMPORAL: Final = ("datetime", "time", "timedelta")
_EXACT: Final = ("decimal", "fraction")  # made from the number as it was written, not from a float

# --- Texts that are decoded ---
_EXPECTED: Final = "JSON in which no object has one name twice"
_PATTERNS: Final = ("pattern_str_validator", "pattern_bytes_validator", "pattern_either_validator")
_MAX_PATTERN: Final = 2_000  # characters of a regular expression; 300,000 take a second to compile


def make_validator(adapter: TypeAdapter[Any], *, of_json: bool = True) -> SchemaValidator:
    """Make the validator of a type with all rules of this module.

    It also reads an iterable as a list: pydantic would check the items of an ``Iterable`` only when the tool reads
    them. It finds members of enums by the JSON of their values: for ``Literal[Color.RED]`` pydantic accepts only the
    member, and for a member whose value is a tuple or a date only that value, and JSON has none of these. It ignores
    ``Field(strict=False)``.

    Args:
        adapter: Pydantic's adapter of the type.
        of_json: Whether the validator reads arguments from a model. False: it reads Python values and keeps them.
    """
    schema: Any = adapter.core_schema
    fixed = guard_schema(_fix(schema)) if of_json else _fix(schema)
    if fixed is schema:
        return cast("SchemaValidator", adapter.validator)
    make: Any = SchemaValidator
    try:
        # Without the option pydantic would use the validator that each model has already, without our changes.
        made: SchemaValidator = make(fixed, None, _use_prebuilt=False)
    except TypeError:  # pydantic before 2.13, which never uses it
        made = make(fixed)
    return made


def _fix(node: Any) -> Any:
    """Fix all nodes of a core schema but for the checks of `guard_schema`. Returns an unchanged node itself."""
    if isinstance(node, dict):
        entries = cast("dict[str, Any]", node)
        fixed = {key: _fix_entry(key, value) for key, value in entries.items()}
        if entries.get("type") == "generator":
            return {**fixed, "type": "list"}
        if entries.get("type") == "literal" and any(isinstance(each, Enum) for each in entries["expected"]):
            return core_schema.no_info_before_validator_function(_find_member(entries["expected"]), cast("Any", node))
        if entries.get("type") == "enum" and (forms := _list_forms(entries["members"])):
            return core_schema.no_info_before_validator_function(_find_form(forms), cast("Any", node))
        if _may_merge(entries):
            return _refuse_equal_keys(fixed)
        if entries.get("type") == "function-plain" and _is_pattern(entries["function"]["function"]):
            decode = fixed["function"]
            return {**fixed, "function": {**decode, "function": _read_pattern(decode["function"])}}
        if is_undecided(entries):
            return close(fixed)
        if entries.get("strict") is False:  # it would give mappings other rules than JSON text
            del fixed["strict"]
            return fixed
        return fixed if any(value is not entries[key] for key, value in fixed.items()) else entries
    if isinstance(node, (list, tuple)):
        items = cast("list[Any]", node)
        made = [_fix(item) for item in items]
        return type(items)(made) if any(new is not old for new, old in zip(made, items, strict=True)) else items
    return node


def _fix_entry(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, dict):  # its keys are the author's names, and may look like keywords
        inner = cast("dict[str, Any]", value)
        fixed = {name: _fix(each) for name, each in inner.items()}
        return fixed if any(each is not inner[name] for name, each in fixed.items()) else inner
    return value if key in _OPAQUE else _fix(value)


def _find_member(expected: list[Any]) -> Callable[[object], object]:
    own: set[Any] = {(type(each), each) for each in expected if not isinstance(each, Enum)}  # plain literals
    members = [each for each in expected if isinstance(each, Enum)]
    scalars = {(type(each.value), each.value): each for each in members if isinstance(each.value, _SCALARS)}
    find_form = _find_form(_list_forms(members))

    def find(value: object) -> object:
        if not isinstance(value, _SCALARS):
            return find_form(value)
        key = (type(value), value)
        return value if key in own else scalars[key] if key in scalars else find_form(value)

    return find


def _list_forms(members: list[Enum]) -> list[tuple[Any, Enum]]:
    """List the members whose values are not JSON scalars, each with the JSON form of its value."""
    odd = [each for each in members if not isinstance(each.value, _SCALARS)]
    return [(to_jsonable_python(each.value, fallback=repr), each) for each in odd]


def _find_form(forms: list[tuple[Any, Enum]]) -> Callable[[object], object]:
    def find(value: object) -> object:
        return next((member for form, member in forms if form == value), value)

    return find


# --- Classes with fields ---


def is_undecided(node: Any) -> bool:
    """Whether a node is a class with fields whose own configuration does not set ``extra``.

    The configuration in the node does not count: it may belong to the class around it.
    """
    if node.get("type") not in _CLASSES or "extras_schema" in node:
        return False
    if node.get("root_model") or node.get("custom_init"):  # only a custom `__init__` knows its parameters
        return False
    cls = node.get("cls")
    own: Any = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    return own.get("extra") is None


def close(node: Any) -> Any:
    """Return the core schema of such a class with other names refused."""
    if node["type"] == "typed-dict":
        return {**node, "extra_behavior": "forbid"}
    return {**node, "config": {**node.get("config", {}), "extra_fields_behavior": "forbid"}}


# --- Numbers and times ---


def guard_schema(node: Any) -> Any:
    """Return the core schema with a check before each place that needs one; the same object if none does.

    At any depth, numbers and numeric text are refused as a date, datetime, time or timedelta, and the text of a Decimal
    or a complex number must have ASCII digits and no underscore.
    """
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
    # A validator function works on Python values, and for these strict mode refuses text, so the function reads JSON
    # itself. It follows an `any` schema: a plain function would win over every other type of a union, and "01" has to
    # stay text in ``str | Decimal``.
    inner = {key: value for key, value in node.items() if key != "ref"}
    read = make_json_reader(inner) if kind == "json" else _make_reader(inner)
    guard: Any = core_schema.no_info_after_validator_function(read, core_schema.any_schema())
    return {**guard, "ref": node["ref"]} if "ref" in node else guard  # a reference must lead to the check


def _guard_all(held: Any) -> Any:
    if isinstance(held, dict):
        schemas = cast("dict[str, Any]", held)
        if isinstance(schemas.get("type"), str):
            return guard_schema(schemas)
        named = {key: _guard_all(each) for key, each in schemas.items()}
        return named if any(named[key] is not each for key, each in schemas.items()) else schemas
    if isinstance(held, (list, tuple)):  # a tuple is one choice of a union and its label
        items = cast("list[Any]", held)
        found = [_guard_all(each) for each in items]
        if all(new is old for new, old in zip(found, items, strict=True)):
            return items
        return found if isinstance(held, list) else tuple(found)
    return held


def _make_reader(node: Any) -> Callable[[object], object]:
    """Make the validator of one type, with a check for the values that pydantic's own would read as another value."""
    validator, is_refused, expected = SchemaValidator(node), _REFUSED[node["type"]], _NOUNS[node["type"]]
    is_temporal, is_exact = node["type"] in _TEMPORAL, node["type"] in _EXACT

    def read(value: object) -> object:
        value = find_token(value) if is_exact and isinstance(value, float) else value
        if is_temporal and isinstance(value, str) and loses_digits(value):
            facts = {"expected": f"{' '.join(expected.split()[:2])} without a fraction of a microsecond"}
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


def _is_no_plain_number(value: object) -> bool:
    if isinstance(value, str):
        return not value.isascii() or "_" in value or "n" in value.lower()  # inf, nan
    return isinstance(value, float) and not math.isfinite(value)


_REFUSED: Final[Mapping[Any, Callable[[object], bool]]] = {
    "date": _is_number,
    "datetime": _is_number,
    "time": _is_number,
    "timedelta": _is_number,
    "decimal": _is_no_plain_number,
    "fraction": _is_no_plain_number,
    "complex": _is_no_plain_number,
}


# --- Texts that are decoded: JSON and patterns ---


def make_json_reader(node: Any) -> Callable[[object], object]:
    """Make the validator of a text that holds JSON.

    Args:
        node: The core schema of type ``json``, with the schema of the value in the text.
    """
    read_text = partial(SchemaValidator(node).validate_json, strict=True)

    def read(value: object) -> object:
        if not isinstance(value, str):
            raise PydanticCustomError("json_type", "Input should be {expected}", {"expected": "a string"})
        try:
            _DECODER.decode(refuse_deep(value))
        except ValueError as exc:
            raise PydanticCustomError("json_text", "Input should be {expected}", {"expected": _EXPECTED}) from exc
        return read_exactly(value, lambda _: read_text(to_json(value)))

    return read


def _read_float(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        raise ValueError(token)
    return number


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=build_object, parse_int=len, parse_float=_read_float, parse_constant=refuse_constant
)


def _is_pattern(function: Any) -> bool:
    return getattr(function, "__name__", "") in _PATTERNS and function.__module__.startswith("pydantic.")


def _read_pattern(compile_pattern: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(sent: Any) -> Any:
        if isinstance(sent, str) and len(sent) > _MAX_PATTERN:
            raise _refuse_pattern(f"a regular expression of at most {_MAX_PATTERN} characters")
        try:
            return compile_pattern(sent)
        except (RecursionError, OverflowError) as exc:
            raise _refuse_pattern("a valid regular expression") from exc

    return read


def _refuse_pattern(expected: str) -> PydanticCustomError:
    return PydanticCustomError("pattern_regex", "Input should be {expected}", {"expected": expected})


# --- Names that become the same key ---


class _Key:
    """A key that equals only itself, so that a dict keeps every value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _may_merge(node: Any) -> bool:
    """Whether a node is a dict that may read two names as the same key. Plain text keys are never changed."""
    if node.get("type") not in _DICTS or "keys_schema" not in node:
        return False
    keys = node["keys_schema"]
    return keys["type"] not in ("str", "any") or any(keys.get(option) for option in _CHANGING)


def _refuse_equal_keys(node: Any) -> Any:
    """Return the core schema of such a dict with a check that no two names become the same key."""
    inner = {name: value for name, value in node.items() if name != "ref"}
    inner["keys_schema"] = core_schema.no_info_after_validator_function(_Key, node["keys_schema"])
    checked: Any = core_schema.no_info_after_validator_function(_take_out, inner)  # pyright: ignore[reportArgumentType]
    return {**checked, "ref": node["ref"]} if "ref" in node else checked


def _take_out(found: Any) -> Any:
    made: dict[Any, Any] = {key.value: value for key, value in found.items()}
    if len(made) != len(found):
        raise PydanticCustomError("equal_keys", "Input should be an object with one name for each key")
    return type(found)(made)
