"""Make the JSON Schema that the model sees for a type: without titles, and identical in every process.

Where pydantic's own schema differs from the values that pydantic accepts, the schema is corrected.
"""

from __future__ import annotations

import json
from enum import Flag
from itertools import chain, repeat
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema, from_json, to_json

from .core_schema import is_undecided
from .formats import COMPLEX, DECIMAL, FRACTION, NAIVE_DATETIME, WHOLE
from .schema import Form, JsonObject, is_array, is_object, resolve_ref

_KEYS: Final = {"int": f"^{WHOLE}$", "float": DECIMAL, "decimal": DECIMAL}  # keys are text in JSON
_NAMED = ("properties", "$defs", "patternProperties")  # keywords whose keys are the author's names
_VALUES = ("enum", "const", "examples", "required", "discriminator")  # keywords that hold values, not schemas


class _Methods(dict[Any, Any]):
    """The method for each type of a core schema, found at its first use: of some sixty a tool uses five."""

    def __init__(self, generator: GenerateJsonSchema) -> None:
        super().__init__()
        self._generator = generator

    def __missing__(self, kind: str) -> Any:
        found = self[kind] = getattr(self._generator, f"{kind.replace('-', '_')}_schema")
        return found


class SchemaGenerator(GenerateJsonSchema):
    """Makes the JSON Schema of a function's parameters. The methods override pydantic's, one for each kind of type."""

    def build_schema_type_to_method(self) -> Any:
        """See `_Methods`."""
        return _Methods(self)

    def json_or_python_schema(self, schema: core_schema.JsonOrPythonSchema) -> JsonObject:
        """Mark ``Secret[…]``, recognized by its serializer, as secret; pydantic itself marks ``SecretStr`` only."""
        shown = super().json_or_python_schema(schema)
        return {**shown, "writeOnly": True} if is_secret(schema) else shown

    def field_is_present(self, field: Any) -> bool:
        """Leave out the fields of a dataclass that its ``__init__`` does not take: pydantic refuses them."""
        return field.get("init", True) and super().field_is_present(field)

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonObject:
        """State that a model accepts no other names."""
        return _close(schema, super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonObject:
        """State that a dataclass accepts no other names."""
        return _close(schema, super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonObject:
        """State that a TypedDict accepts no other names."""
        return _close(schema, super().typed_dict_schema(schema))

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonObject:
        """State which keys a dict accepts, if they must be numbers or match a pattern."""
        made = super().dict_schema(schema)
        if "patternProperties" in made:
            made["additionalProperties"] = False
        if (pattern := _KEYS.get(schema.get("keys_schema", {}).get("type", ""))) is not None:
            made["propertyNames"] = {"pattern": pattern}
        return made

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonObject:
        """State that the text must be a number."""
        made = super().decimal_schema(schema)
        return {**made, "anyOf": [_add_pattern(each, DECIMAL) for each in made["anyOf"]]}

    def fraction_schema(self, schema: Any) -> JsonObject:
        """State that the text must be a number or a fraction."""
        make: Any = getattr(super(), "fraction_schema")  # noqa: B009  # newer than the oldest pydantic that we take
        made = make(schema)
        return {**made, "anyOf": [_add_pattern(each, FRACTION) for each in made["anyOf"]]}

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonObject:
        """State that the text must be a number, or a complex number in Python's form."""
        return _add_pattern(super().complex_schema(schema), COMPLEX)

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonObject:
        """State that a naive datetime has no zone; the format ``date-time`` would require one."""
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "pattern": NAIVE_DATETIME} if naive else super().datetime_schema(schema)

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonObject:
        """State that the members of a Flag may be combined."""
        made = super().enum_schema(schema)
        cls: Any = schema["cls"]
        if issubclass(cls, Flag):
            del made["enum"]
            made |= {"type": "integer", "minimum": 0, "maximum": flag_mask(cls)}
        return made


def is_secret(node: Any) -> bool:
    """Whether a core schema of type ``json-or-python`` is that of a secret type of pydantic, such as ``SecretStr``."""
    serialise: Any = node.get("serialization", {}).get("function")
    return getattr(serialise, "__module__", "") == "pydantic.types" and "secret" in serialise.__name__


def flag_mask(cls: type[Flag]) -> int:
    """Return all bits of a Flag's members."""
    mask = 0
    for member in cls:
        mask |= member.value
    return mask


def _close(schema: object, made: JsonObject) -> JsonObject:
    return {**made, "additionalProperties": False} if "properties" in made and is_undecided(schema) else made


def _add_pattern(schema: JsonObject, pattern: str) -> JsonObject:
    return schema if schema.get("type") != "string" or "pattern" in schema else {**schema, "pattern": pattern}


def to_json_value(value: object) -> object:
    """Convert a Python value to JSON's types. Raises ValueError for a value that JSON cannot represent."""
    return from_json(to_json(value), allow_inf_nan=False)


def drop_titles(schema: JsonObject) -> JsonObject:
    """Leave out the titles that pydantic makes from names: they take 16 % of the bytes, and a model does not need them.

    Defaults and examples that are sets are sorted, since the order of a set differs between processes.
    """
    return _clean_object(schema, schema)


def show_default(default: object, entry: JsonObject, schema: Form) -> None:
    """Add the default to a parameter's schema, unless there is one, or JSON cannot represent it (a sentinel)."""
    try:
        value = to_json_value(default)
    except ValueError:
        return
    if isinstance(default, (set, frozenset)) and is_array(value):  # sort here: the schema need not say it is a set
        value = sorted(value, key=_sort_key)
    entry.setdefault("default", _sort_sets(value, entry, schema))


def _clean(node: Any, root: Form) -> Any:
    if is_array(node):
        return [_clean(item, root) for item in node]
    return _clean_object(node, root) if is_object(node) else node


def _clean_object(node: JsonObject, root: Form) -> JsonObject:
    kept: JsonObject = {}
    for key, value in node.items():
        if key in _NAMED and is_object(value):
            kept[key] = {name: _clean(inner, root) for name, inner in value.items()}
        elif key == "default":
            kept[key] = _sort_sets(value, node, root)
        elif key == "examples" and is_array(value):
            kept[key] = [_sort_sets(each, node, root) for each in value]
        elif key in _VALUES:
            kept[key] = value
        elif not (key == "title" and isinstance(value, str)):
            kept[key] = _clean(value, root)
    return kept


def _sort_sets(value: Any, node: Any, root: Form) -> Any:
    """Sort the arrays that are sets by the schema, so that a cached prompt stays valid."""
    form = resolve_ref(root, node)
    for branch in (*form.get("anyOf", ()), *form.get("oneOf", ())):
        value = _sort_sets(value, branch, root)
    if is_object(value):
        named, more = form.get("properties", {}), form.get("additionalProperties")
        return {name: _sort_sets(inner, named.get(name, more), root) for name, inner in value.items()}
    if not is_array(value):
        return value
    first, rest = form.get("prefixItems", []), form.get("items")
    forms = chain(first, repeat(rest))
    items = [_sort_sets(item, each, root) for item, each in zip(value, forms, strict=False)]
    return sorted(items, key=_sort_key) if form.get("uniqueItems") else items


def _sort_key(value: object) -> str:
    return json.dumps(value, sort_keys=True)
