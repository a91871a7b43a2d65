"""The JSON Schema that pydantic makes, as a model is shown it: without titles, and the same in every process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain, repeat
from typing import Any, cast

from pydantic_core import from_json, to_json

from .schema import Form, resolve_ref

_NAMED = ("properties", "$defs", "patternProperties")  # keywords whose keys are names of the author's
_VALUES = ("enum", "const", "examples", "required", "discriminator")  # keywords that hold values, not schemas


def to_json_value(value: object) -> object:
    """Convert a Python value to JSON's types. Raises ValueError for a value that JSON cannot hold."""
    return from_json(to_json(value), allow_inf_nan=False)


def drop_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out the titles that pydantic makes of names: 16 % of the bytes, and nothing that a model needs.

    Defaults and examples that are sets are sorted, since a set has another order in each process.
    """
    return cast("dict[str, Any]", _clean(schema, schema))


def show_default(default: object, entry: dict[str, Any], schema: Form) -> None:
    """Add the default to a parameter's schema, unless there is one, or JSON cannot hold it: a sentinel."""
    try:
        value = to_json_value(default)
    except ValueError:
        return
    if isinstance(default, (set, frozenset)):  # the schema need not say so: a default may be of another type
        value = sorted(cast("list[Any]", value), key=_sort_key)
    entry.setdefault("default", _sort_sets(value, entry, schema))


def _clean(node: Any, root: Form) -> Any:
    if isinstance(node, list):
        return [_clean(item, root) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    whole = cast("dict[str, Any]", node)
    kept: dict[str, Any] = {}
    for key, value in whole.items():
        if key in _NAMED and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            kept[key] = {name: _clean(inner, root) for name, inner in named.items()}
        elif key == "default":
            kept[key] = _sort_sets(value, whole, root)
        elif key == "examples" and isinstance(value, list):
            kept[key] = [_sort_sets(each, whole, root) for each in cast("list[Any]", value)]
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
    if isinstance(value, Mapping):
        named, more = form.get("properties", {}), form.get("additionalProperties")
        entries = cast("Mapping[str, Any]", value).items()
        return {name: _sort_sets(inner, named.get(name, more), root) for name, inner in entries}
    if not isinstance(value, list):
        return value
    first, rest = form.get("prefixItems", []), form.get("items")
    forms = chain(first, repeat(rest))
    items = [_sort_sets(item, each, root) for item, each in zip(cast("list[Any]", value), forms, strict=False)]
    return sorted(items, key=_sort_key) if form.get("uniqueItems") else items


def _sort_key(value: object) -> str:
    return json.dumps(value, sort_keys=True)
