"""Ways through a JSON Schema and through arguments, which validators and repairs take alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

Parts: TypeAlias = Sequence[int | str]  # a path, not yet spelt
Form: TypeAlias = Mapping[str, Any]  # one subschema that holds at a place: the node there, or a branch of its union
_INDEX = re.compile(r"\[(\d+)\]\.?")
_DEEPEST = 8  # unions in unions, and references to references


def followed(schema: Mapping[str, Any], here: Any) -> dict[str, Any]:
    """A subschema, or the one that it refers to in this same schema; empty where there is none."""
    for _ in range(_DEEPEST):  # references to references; a ring of them ends here
        if not isinstance(here, dict):
            break
        node = cast("dict[str, Any]", here)
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return node
        here = schema
        for step in reference.split("/")[1:]:
            here = cast("dict[str, Any]", here).get(step) if isinstance(here, dict) else None
    return {}


def forms_at(schema: Form, parts: Parts) -> list[Form]:
    """Every subschema that holds at a place, those of unions included."""
    forms = _branches(schema, schema, _DEEPEST)
    for part in parts:
        forms = [form for each in forms for form in _branches(schema, _child(each, part), _DEEPEST)]
    return forms


def _branches(schema: Form, node: Any, deepest: int) -> list[Form]:
    here = followed(schema, node)
    if not here or not deepest:
        return []
    kinds = ("anyOf", "oneOf", "allOf")
    inner = [branch for kind in kinds for branch in cast("list[Any]", here.get(kind) or ())]
    return [here, *(form for branch in inner for form in _branches(schema, branch, deepest - 1))]


def _child(form: Form, part: int | str) -> Any:
    if isinstance(part, int):
        first = form.get("prefixItems") or ()
        return first[part] if part < len(first) else form.get("items")
    return form.get("properties", {}).get(part, form.get("additionalProperties"))


def names_at(schema: Form, parts: Parts) -> set[str]:
    """The names that an object at a place may have."""
    return {name for form in forms_at(schema, parts) for name in form.get("properties", ())}


def located(value: Any, path: str) -> tuple[list[int | str], str]:
    """The parts of a path, as far as it leads through a value, and the rest of it."""
    parts: list[int | str] = []
    while path:
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            texts = (key for key in entries if type(key) is str and path.startswith(key))
            heads = (key for key in texts if path[len(key) : len(key) + 1] in ("", ".", "["))
            name = max(heads, key=len, default=None)  # a name may hold a dot itself
            if name is None:
                break
            parts.append(name)
            value, path = entries[name], path[len(name) :].removeprefix(".")
        elif (
            isinstance(value, list) and (index := _INDEX.match(path)) and int(index[1]) < len(cast("list[Any]", value))
        ):
            parts.append(int(index[1]))
            value, path = cast("list[Any]", value)[int(index[1])], path[index.end() :]
        else:
            break
    return parts, path
