"""Schemas for OpenAI's strict mode: a subset of JSON Schema, to which the provider holds the model as it writes.

There each property is required and none may be added. One that may be left out is made nullable. Constraints that the
subset does not have are dropped, since `Validate` looks at all of them anyway.

Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Schema = dict[str, Any]

_KEPT = frozenset((
    "type", "enum", "const", "description", "title", "pattern", "format", "multipleOf", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "$ref",
))  # fmt: skip
# Dropped: the subset does not have them, and without them only more is allowed, which `Validate` refuses.
_DROPPED = frozenset((
    "default", "examples", "$comment", "$schema", "$id", "deprecated", "readOnly", "writeOnly", "contentEncoding",
    "contentMediaType", "minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties", "required",
    "propertyNames", "contains", "minContains", "maxContains", "discriminator",
))  # fmt: skip
_CONVERTED = frozenset(("anyOf", "oneOf", "items", "properties", "additionalProperties"))
_SAY_WHAT = frozenset(("type", "enum", "const", "anyOf", "$ref"))  # a schema with none of them takes any value
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
_MOST_PROPERTIES = 5000  # of one schema; the provider refuses more
_DEEPEST = 10  # levels of objects


_MOST_VALUES = 1_000  # of all enums; https://platform.openai.com/docs/guides/structured-outputs, "Limitations"
_MANY_VALUES, _MOST_CHARACTERS = 250, 15_000


class _CannotSayError(Exception):
    """The subset has no schema for this."""


def make_strict(parameters: Schema) -> Schema | None:
    """The parameters of a tool for strict mode; None if the subset cannot say them, such as an object of any names.

    Args:
        parameters: The JSON Schema of an object. It stays as it is.
    """
    try:
        definitions: Schema = {
            key: {name: _convert(each, 1) for name, each in _as_mapping(parameters[key]).items()}
            for key in ("$defs", "definitions")
            if key in parameters
        }
        converted = _convert({key: value for key, value in parameters.items() if key not in definitions}, 1)
    except _CannotSayError:
        return None
    if not _has_few_values([converted, *definitions.values()]):
        return None
    if converted.get("type") != "object" or _count_properties([converted, *definitions.values()]) > _MOST_PROPERTIES:
        return None
    return {**converted, **definitions}


def _convert(schema: object, depth: int) -> Schema:
    given = _merge_only(_as_mapping(schema))
    made = {key: value for key, value in given.items() if key in _KEPT}
    if not given.keys() <= _KEPT | _DROPPED | _CONVERTED or depth > _DEEPEST:
        raise _CannotSayError
    for key in ("anyOf", "oneOf"):
        if key in given:
            made["anyOf"] = [_convert(each, depth) for each in _as_list(given[key])]
    if "items" in given:
        made["items"] = _convert(given["items"], depth)
    if made.get("format") not in _FORMATS:
        made.pop("format", None)
    if "properties" in given or given.get("type") == "object":
        made.update(_convert_object(given, depth))
    if not _SAY_WHAT & made.keys() or (made.get("type") == "array" and "items" not in made):
        raise _CannotSayError  # any value at all
    return _set_apart(made) if "$ref" in made and len(made) > 1 else made


def _merge_only(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with the only one of its ``allOf`` in itself; the subset has no ``allOf``."""
    if "allOf" not in given:
        return given
    each = _as_list(given["allOf"])
    if len(each) != 1:
        raise _CannotSayError
    return {**_as_mapping(each[0]), **{key: value for key, value in given.items() if key != "allOf"}}


def _convert_object(given: Mapping[str, Any], depth: int) -> Schema:
    properties = _as_mapping(given.get("properties", {}))
    others = given.get("additionalProperties")
    if others is not False and (others is not None or not properties):
        raise _CannotSayError  # an object of any names
    required = _as_list(given.get("required") or [])
    made = {name: _convert(each, depth + 1) for name, each in properties.items()}
    fitted = {name: each if name in required else _make_nullable(each) for name, each in made.items()}
    return {"type": "object", "properties": fitted, "required": list(fitted), "additionalProperties": False}


def _make_nullable(schema: Schema) -> Schema:
    kinds: Any = schema.get("type")
    if isinstance(kinds, list) and "null" in kinds:
        return schema
    if isinstance(kinds, str) and kinds not in ("object", "array", "null") and not {"enum", "const"} & schema.keys():
        return {**schema, "type": [kinds, "null"]}
    variants = cast("list[Schema]", schema.get("anyOf") or [])
    if kinds == "null" or any(each.get("type") == "null" for each in variants):
        return schema
    about: Schema = {key: schema[key] for key in ("description", "title") if key in schema}
    bare = {key: value for key, value in schema.items() if key not in about}
    inner = variants if bare.keys() == {"anyOf"} else [bare]
    return {**about, "anyOf": [*inner, {"type": "null"}]}


def _set_apart(schema: Schema) -> Schema:
    """A reference with words beside it: the subset wants it alone."""
    about: Schema = {key: schema[key] for key in ("description", "title") if key in schema}
    return {**about, "anyOf": [{"$ref": schema["$ref"]}]}


def _has_few_values(schemas: list[Any]) -> bool:
    """Whether the provider takes all allowed values: 1,000 in all, and 15,000 characters in one long list."""
    total = 0
    pending: list[Any] = [*schemas]
    while pending:
        here = pending.pop()
        if isinstance(here, list):
            pending += cast("list[Any]", here)
        elif isinstance(here, Mapping):
            held = cast("Mapping[str, Any]", here)
            values = held.get("enum")
            if isinstance(values, list):
                allowed = cast("list[Any]", values)
                total += len(allowed)
                if len(allowed) > _MANY_VALUES and sum(len(str(each)) for each in allowed) > _MOST_CHARACTERS:
                    return False
            pending += (value for key, value in held.items() if key != "enum")
    return total <= _MOST_VALUES


def _count_properties(schemas: Any) -> int:
    if isinstance(schemas, dict):
        found = cast("Schema", schemas)
        own = len(_as_mapping(found["properties"])) if isinstance(found.get("properties"), dict) else 0
        return own + sum(_count_properties(each) for each in found.values())
    inside = cast("list[Any]", schemas) if isinstance(schemas, list) else []
    return sum(_count_properties(each) for each in inside)


def _as_mapping(schema: object) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        raise _CannotSayError
    return cast("Mapping[str, Any]", schema)


def _as_list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _CannotSayError
    return cast("list[Any]", value)
