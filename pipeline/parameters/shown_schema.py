"""The JSON Schema that pydantic makes, as a model is shown it: without titles, and the same in every process."""

from __future__ import annotations

import json
from itertools import chain, repeat
from typing import Any

from pydantic_core import from_json, to_json

from .schema import Form, JsonObject, is_array, is_object, resolve_ref

_NAMED = ("properties", "$defs", "patternProperties")  # keywords whose keys are names of the author's
_VALUES = ("enum", "const", "examples", "required", "discriminator")  # keywords that hold values, not schemas


def to_json_value(value: object) -> object:
    """Convert a Python value to JSON's types. Raises ValueError for a value that JSON cannot hold."""
    return from_json(to_json(value), allow_inf_nan=False)


def drop_titles(schema: JsonObject) -> JsonObject:
    """Leave out the titles that pydantic makes of names: 16 % of the bytes, and nothing that a model needs.

    Defaults and examples that are sets are sorted, since a set has another order in each process.
    """
    return _clean_object(schema, schema)


def show_default(default: object, entry: JsonObject, schema: Form) -> None:
    """Add the default to a parameter's schema, unless there is one, or JSON cannot hold it: a sentinel."""
    try:
        value = to_json_value(default)
    except ValueError:
        return
    if isinstance(default, (set, frozenset)) and is_array(value):  # which the schema need not say
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
    """Sort what the schema says is a set by its JSON, so that a cached prompt stays valid."""
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
