"""Changes to what pydantic compiles: what it reads later, or never, is read when the call is validated.

They are made in pydantic's core schema, since they must also hold inside of dataclasses, TypedDicts and models.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, core_schema

_NAMED = ("fields", "choices")
_OPAQUE = frozenset(("metadata", "serialization", "expected", "default", "members", "cls", "config"))
_SCALARS = (str, int, float, type(None))


def make_validator(adapter: TypeAdapter[Any]) -> SchemaValidator:
    """The validator of a type. An iterable becomes a list, and a literal takes the value of an enum's member.

    Pydantic itself checks the items of an ``Iterable`` when the tool reads them, and accepts for ``Literal[Color.RED]``
    only the member itself, which JSON cannot hold.
    """
    schema: Any = adapter.core_schema
    fixed = _fix(schema)
    if fixed is schema:
        return cast("SchemaValidator", adapter.validator)
    make: Any = SchemaValidator
    # Models have a validator of their own, compiled before; without the option pydantic would take it as it is.
    return cast("SchemaValidator", make(fixed, _use_prebuilt=False))


def _fix(node: Any) -> Any:
    """The same object, if there is nothing to change in it."""
    if isinstance(node, dict):
        entries = cast("dict[str, Any]", node)
        fixed = {key: _fix_entry(key, value) for key, value in entries.items()}
        if entries.get("type") == "generator":
            return {**fixed, "type": "list"}
        if entries.get("type") == "literal" and any(isinstance(each, Enum) for each in entries["expected"]):
            return core_schema.no_info_before_validator_function(_find_member(entries["expected"]), cast("Any", node))
        return fixed if any(value is not entries[key] for key, value in fixed.items()) else node
    if isinstance(node, (list, tuple)):
        items = cast("list[Any]", node)
        made = [_fix(item) for item in items]
        return type(items)(made) if any(new is not old for new, old in zip(made, items, strict=True)) else node
    return node


def _fix_entry(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, dict):  # its keys are the author's names, and may be those of keywords
        inner = cast("dict[str, Any]", value)
        fixed = {name: _fix(each) for name, each in inner.items()}
        return fixed if any(each is not inner[name] for name, each in fixed.items()) else inner
    return value if key in _OPAQUE else _fix(value)


def _find_member(expected: list[Any]) -> Callable[[object], object]:
    plain = {(type(each), each) for each in expected if not isinstance(each, Enum)}  # choices of their own
    members = {
        (type(each.value), each.value): each
        for each in expected
        if isinstance(each, Enum) and isinstance(each.value, _SCALARS) and (type(each.value), each.value) not in plain
    }

    def find(value: object) -> object:
        return members.get((type(value), value), value) if isinstance(value, _SCALARS) else value

    return find
