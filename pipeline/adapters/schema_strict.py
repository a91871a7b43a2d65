"""OpenAI's strict mode: what it has no schema for, and how large one may be.

Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..parameters.schema import JsonObject, is_array, is_object
from .schema_parts import LISTS, SCHEMAS, to_text

DEEPEST: Final = 10  # levels of objects
_MOST_PROPERTIES, _MOST_NAMES, _MOST_VALUES = 5_000, 120_000, 1_000  # of one schema; names in characters
_MANY_VALUES, _MOST_CHARACTERS = 250, 15_000  # of one enum


class CannotSayError(Exception):
    """Strict mode has no schema for this."""


def make_nullable(schema: JsonObject) -> JsonObject:
    """The schema, which null fits as well: so a model leaves a parameter out."""
    kinds: Any = schema.get("type")
    if is_array(kinds) and "null" in kinds:
        return schema
    if isinstance(kinds, str) and kinds not in ("object", "array", "null") and not {"enum", "const"} & schema.keys():
        return {**schema, "type": [kinds, "null"]}
    variants: list[JsonObject] = schema.get("anyOf") or []
    if kinds == "null" or any(each.get("type") == "null" for each in variants):
        return schema
    about: JsonObject = {key: schema[key] for key in ("description", "title") if key in schema}
    bare = {key: value for key, value in schema.items() if key not in about}
    inner = variants if bare.keys() == {"anyOf"} else [bare]
    return {**about, "anyOf": [*inner, {"type": "null"}]}


def check_sizes(schemas: list[JsonObject], names: Iterable[str]) -> None:
    """Refuse what is larger than strict mode takes."""
    properties = values = 0
    characters = sum(map(len, names))
    pending: list[Any] = [*schemas]
    while pending:
        here = pending.pop()
        if is_array(here):
            pending += here
        elif is_object(here):
            declared = here.get("properties", {})
            allowed: list[Any] = here.get("enum", [here["const"]] if "const" in here else [])
            own = sum(len(each) if isinstance(each, str) else len(to_text(each)) for each in allowed)
            if len(allowed) > _MANY_VALUES and own > _MOST_CHARACTERS:
                raise CannotSayError("it has an enum of too many characters")
            properties, values = properties + len(declared), values + len(allowed)
            characters += own + sum(map(len, declared))
            pending += declared.values()
            pending += [each for key, each in here.items() if key in SCHEMAS or key in LISTS]
    if properties > _MOST_PROPERTIES or values > _MOST_VALUES or characters > _MOST_NAMES:
        raise CannotSayError("it is too large")
