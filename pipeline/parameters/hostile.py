"""Bounds on a JSON Schema: one that comes from a remote server may be made to hold the process that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..errors import SetupError
from .limits import MAX_FLAT
from .schema import Form, resolve_ref

_MAX_DEPTH = 100  # levels of objects and arrays in the schema itself
_MAX_NODES = 100_000  # objects, arrays and values
_NO_TEXT = frozenset(("integer", "number", "boolean", "null"))
_MAX_PATTERN = 2_000  # characters of a regular expression
_IN_PLACE = frozenset(("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"))


def check_schema(schema: object, name: str) -> None:
    """Refuse a schema that is too large to be walked; without recursion.

    Args:
        schema: The schema, which nobody has read yet.
        name: The tool's name, for the error.

    Raises:
        SetupError: It has more than 100 levels or 100,000 values, or a pattern of more than 2,000 characters.
    """
    level: list[Any] = [schema]
    nodes = depth = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > _MAX_DEPTH:
            raise SetupError(
                f"{name}: `parameters` must have at most {_MAX_DEPTH} levels, and has more, or holds itself"
            )
        if nodes > _MAX_NODES:
            raise SetupError(f"{name}: `parameters` must hold at most {_MAX_NODES} values, and holds more")
        below: list[Any] = []
        for node in level:
            if isinstance(node, Mapping):
                held = cast("Mapping[Any, Any]", node)
                below += held.values()
                patterns = [held.get("pattern"), *_list_names(held.get("patternProperties"))]
                if any(isinstance(each, str) and len(each) > _MAX_PATTERN for each in patterns):
                    raise SetupError(f"{name}: a pattern must have at most {_MAX_PATTERN} characters, and one has more")
            elif isinstance(node, (list, tuple)):
                below += cast("list[Any]", node)
        level = below


def is_flat(schema: Form) -> bool:
    """Whether valid arguments have one level and at most 32 names, as far as is easily seen in their schema."""
    if schema.get("additionalProperties") is not False or not _IN_PLACE.isdisjoint(schema):
        return False
    properties = schema.get("properties", {})
    return len(properties) <= MAX_FLAT and all(_is_scalar(schema, each) for each in properties.values())


def _is_scalar(schema: Form, node: Any) -> bool:
    form = resolve_ref(schema, node)
    branches = form.get("anyOf")
    if branches:
        return all("anyOf" not in resolve_ref(schema, each) and _is_scalar(schema, each) for each in branches)
    kinds = form.get("type")
    named = {kinds} if isinstance(kinds, str) else set(kinds or ())
    return bool(named) and named.isdisjoint(("array", "object"))


def list_texts(schema: Form) -> tuple[str, ...]:
    """Of the parameters of a flat schema the names of those that may be text."""
    kinds = {name: resolve_ref(schema, node).get("type") for name, node in schema.get("properties", {}).items()}
    return tuple(name for name, kind in kinds.items() if not isinstance(kind, str) or kind not in _NO_TEXT)


def _list_names(node: object) -> list[Any]:
    return list(cast("Mapping[Any, Any]", node)) if isinstance(node, Mapping) else []
