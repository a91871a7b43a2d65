"""Changes to pydantic's core schema, so that every value is judged when the call is validated.

They are made in the core schema because they must also hold inside dataclasses, TypedDicts and models:

- Models, dataclasses and TypedDicts accept no undeclared field, as functions do, unless the class says otherwise.
  Pydantic drops such a field without a word.
- A value that pydantic reads as another one even in strict mode is refused: "2024" as a datetime (2,024 seconds after
  1970), "1_0" as a Decimal, 1e400 as an infinity, "2026-11-21" as a `ByteSize`, and digits below the microsecond.
- A `Decimal` gets the number as it was written, and not what a float leaves of it.
- Two names of an object that are one key once they are read ("1" and "01" for an integer) are refused: a value would
  be lost.
- The JSON in a text for pydantic's `Json` is judged as the arguments themselves are. Pydantic would take the last value
  of a repeated name, and NaN.
- Base64 and patterns on which pydantic drops characters or fails are refused: a regular expression of 1,500 brackets
  ends in a RecursionError.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeAlias, cast

from pydantic import Base64Encoder, ByteSize, EncodedBytes, EncodedStr, TypeAdapter
from pydantic.types import Base64UrlEncoder
from pydantic_core import PydanticCustomError, SchemaValidator, core_schema, to_json, to_jsonable_python

from .duplicate_keys import build_object
from .exact_numbers import find_token, loses_digits, read_exactly
from .number_tokens import refuse_constant

_NAMED = ("fields", "choices")
_OPAQUE = frozenset(("metadata", "serialization", "expected", "default", "members", "cls", "config"))
_SCALARS = (str, int, float, type(None))
_CLASSES: Final = ("model", "dataclass", "typed-dict")  # of pydantic's core schema
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
_EXPECTED: Final = "JSON in which no object has one name twice"
_Decode: TypeAlias = Callable[[Any, Any], Any]  # the value and pydantic's facts -> what it is decoded to

_PATTERNS: Final = ("pattern_str_validator", "pattern_bytes_validator", "pattern_either_validator")
_BASE64: Final = (Base64Encoder, Base64UrlEncoder)
# As of `ByteSize`, to its end, in ASCII, and with no more digits than a count of bytes needs.
_SIZE: Final = re.compile(r"\s*(?P<number>[0-9]{0,40}\.?[0-9]{1,40})\s*(?P<unit>[a-z]*)\s*", re.ASCII | re.IGNORECASE)
_MAX_PATTERN: Final = 2_000  # characters of a regular expression: to compile 300,000 takes a second
_SIZES: Final = "a number of bytes with or without a unit such as KiB or MB"
_DICTS = ("dict", "ordered-dict", "frozendict", "counter")
_CHANGING = ("strip_whitespace", "to_lower", "to_upper")  # options that change the text that was sent


def make_validator(adapter: TypeAdapter[Any], *, of_json: bool = True) -> SchemaValidator:
    """The validator of a type. An iterable becomes a list, and members of enums are found by the JSON of their values.

    Pydantic itself checks the items of an ``Iterable`` when the tool reads them. For ``Literal[Color.RED]`` it accepts
    only the member, and for a member whose value is a tuple or a date only that value: JSON can hold none of these.
    A value that pydantic would read as another one, such as a number for a date, is refused, and
    so are several names of one key, and texts that pydantic would cut. A
    ``Field(strict=False)`` changes nothing. A class of fields takes no other names (`closed_classes`).

    Args:
        adapter: Of the type.
        of_json: It validates what a model sent. False: it validates Python values, which stay what they are.
    """
    schema: Any = adapter.core_schema
    fixed = guard_schema(_fix(schema)) if of_json else _fix(schema)
    if fixed is schema:
        return cast("SchemaValidator", adapter.validator)
    make: Any = SchemaValidator
    try:
        # Models have a validator of their own, compiled before; without the option pydantic would take it as it is.
        made: SchemaValidator = make(fixed, None, _use_prebuilt=False)
    except TypeError:  # before 2.13 it never does
        made = make(fixed)
    return made


def _fix(node: Any) -> Any:
    """The same object, if there is nothing to change in it."""
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
        if (
            entries.get("type") in ("function-after", "function-plain")
            and (exact := decode_exactly(fixed)) is not fixed
        ):
            return exact
        if is_undecided(entries):
            return close(fixed)
        if entries.get("strict") is False:  # a mapping would be read by other rules than JSON text
            del fixed["strict"]
            return fixed
        return fixed if any(value is not entries[key] for key, value in fixed.items()) else entries
    if isinstance(node, (list, tuple)):
        items = cast("list[Any]", node)
        made = [_fix(item) for item in items]
        return type(items)(made) if any(new is not old for new, old in zip(made, items, strict=True)) else items
    return node


def _fix_entry(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, dict):  # its keys are the author's names, and may equal keywords
        inner = cast("dict[str, Any]", value)
        fixed = {name: _fix(each) for name, each in inner.items()}
        return fixed if any(each is not inner[name] for name, each in fixed.items()) else inner
    return value if key in _OPAQUE else _fix(value)


def _find_member(expected: list[Any]) -> Callable[[object], object]:
    own: set[Any] = {(type(each), each) for each in expected if not isinstance(each, Enum)}  # choices of their own
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
    """The members whose values are none of JSON's scalars, with the JSON of these values."""
    odd = [each for each in members if not isinstance(each.value, _SCALARS)]
    return [(to_jsonable_python(each.value, fallback=repr), each) for each in odd]


def _find_form(forms: list[tuple[Any, Enum]]) -> Callable[[object], object]:
    def find(value: object) -> object:
        return next((member for form, member in forms if form == value), value)

    return find


def is_undecided(node: Any) -> bool:
    """Whether a node of a core schema is a class of fields whose own configuration has no ``extra``.

    The configuration in the node itself may come from the class around it.
    """
    if node.get("type") not in _CLASSES or "extras_schema" in node:
        return False
    if node.get("root_model") or node.get("custom_init"):  # what an `__init__` of its own takes, only it knows
        return False
    cls = node.get("cls")
    own: Any = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    return own.get("extra") is None


def close(node: Any) -> Any:
    """Return the core schema of such a class, made to refuse other names."""
    if node["type"] == "typed-dict":
        return {**node, "extra_behavior": "forbid"}
    return {**node, "config": {**node.get("config", {}), "extra_fields_behavior": "forbid"}}


def guard_schema(core: Any) -> Any:
    """Return the core schema with a check before each place that needs one; the same object if none does.

    Numbers and numeric text are refused as date, datetime, time or timedelta, at any depth. The text of a Decimal or a
    complex number has ASCII digits and no underscore.
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
    # A function gets and returns Python values; the strict mode would refuse text for them, so it reads JSON itself. It
    # stands behind `any`, since a function alone would win over every other type of a union: "01" is text in
    # ``str | Decimal``.
    inner = {key: value for key, value in node.items() if key != "ref"}
    read = make_json_reader(inner) if kind == "json" else _make_reader(inner)
    guard: Any = core_schema.no_info_after_validator_function(read, core_schema.any_schema())
    return {**guard, "ref": node["ref"]} if "ref" in node else guard  # a reference to it must reach the check


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


def make_json_reader(node: Any) -> Callable[[object], object]:
    """Make a validator of a text that holds JSON.

    Args:
        node: The core schema: ``json``, with what the text holds.
    """
    read_text = partial(SchemaValidator(node).validate_json, strict=True)

    def read(value: object) -> object:
        if not isinstance(value, str):
            raise PydanticCustomError("json_type", "Input should be {expected}", {"expected": "a string"})
        try:
            _DECODER.decode(value)
        except (ValueError, RecursionError) as exc:
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


def decode_exactly(node: Any) -> Any:
    """Return the core schema of a type with a stricter decoder; the same object if it needs none.

    Args:
        node: A function alone, or after its inner schema, which is how pydantic builds these types.
    """
    function = node["function"]["function"]
    if getattr(function, "__name__", "") in _PATTERNS and function.__module__.startswith("pydantic."):
        return {**node, "function": {**node["function"], "function": _make_pattern_reader(function)}}
    owner = getattr(function, "__self__", None)
    decode: _Decode
    if isinstance(owner, (EncodedBytes, EncodedStr)) and owner.encoder in _BASE64:
        decode = _make_base64_decoder(owner.encoder, function)
    elif isinstance(owner, type) and issubclass(owner, ByteSize):
        decode = _make_size_reader(owner, function)
    else:
        return node
    return {**node, "function": {**node["function"], "function": decode}}


def _make_base64_decoder(encoder: type[Any], decode: _Decode) -> _Decode:
    """Nothing but the alphabet, blanks and line ends, and padding at the end (RFC 4648, sections 3.3 and 3.5)."""

    def read(sent: Any, info: Any) -> Any:
        try:
            decoded = decode(sent, info)
        except (ValueError, PydanticCustomError) as exc:
            raise _refuse("base64_decode", "text in base64") from exc
        written = sent.encode() if isinstance(sent, str) else sent
        held = decoded.encode() if isinstance(decoded, str) else decoded
        if encoder.encode(held) != b"".join(written.split()):
            raise _refuse("base64_decode", "text in base64")
        return decoded

    return read


def _make_size_reader(cls: type[ByteSize], make: _Decode) -> _Decode:
    def read(sent: Any, info: Any) -> Any:
        if not isinstance(sent, str):
            return make(sent, info)
        match = _SIZE.fullmatch(sent)
        unit = cls.byte_sizes.get(match["unit"].lower() or "b") if match else None
        if match is None or unit is None:
            raise _refuse("byte_size", _SIZES)
        size = Fraction(match["number"]) * Fraction(unit)  # a unit of bits is a whole number of eighths
        if size.denominator != 1:
            raise _refuse("byte_size", "a whole number of bytes")
        return make(int(size), info)

    return read


def _make_pattern_reader(compile_pattern: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(sent: Any) -> Any:
        if isinstance(sent, str) and len(sent) > _MAX_PATTERN:
            raise _refuse("pattern_regex", f"a regular expression of at most {_MAX_PATTERN} characters")
        try:
            return compile_pattern(sent)
        except (RecursionError, OverflowError) as exc:
            raise _refuse("pattern_regex", "a valid regular expression") from exc

    return read


def _refuse(kind: Any, expected: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "Input should be {expected}", {"expected": expected})


class _Key:
    """A key that equals no other one, so that a dict keeps the values of all of them."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _may_merge(node: Any) -> bool:
    """Whether a node of a core schema is a dict where two names may become one key. Plain text stays as it was sent."""
    if node.get("type") not in _DICTS or "keys_schema" not in node:
        return False
    keys = node["keys_schema"]
    return keys["type"] not in ("str", "any") or any(keys.get(option) for option in _CHANGING)


def _refuse_equal_keys(node: Any) -> Any:
    """Return the core schema of such a dict with a check that each name is a key of its own."""
    inner = {name: value for name, value in node.items() if name != "ref"}
    inner["keys_schema"] = core_schema.no_info_after_validator_function(_Key, node["keys_schema"])
    checked: Any = core_schema.no_info_after_validator_function(_take_out, inner)  # pyright: ignore[reportArgumentType]
    return {**checked, "ref": node["ref"]} if "ref" in node else checked


def _take_out(found: Any) -> Any:
    made: dict[Any, Any] = {key.value: value for key, value in found.items()}
    if len(made) != len(found):
        raise PydanticCustomError("equal_keys", "Input should be an object with one name for each key")
    return type(found)(made)
