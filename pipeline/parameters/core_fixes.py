"""Changes to what pydantic compiles: what it reads later, or never, is read when the call is validated.

They are made in pydantic's core schema, since they must also hold inside of dataclasses, TypedDicts and models.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, core_schema, to_jsonable_python

from .closed_classes import close, is_undecided
from .decoded_texts import decode_exactly
from .equal_keys import may_merge, refuse_equal_keys
from .pydantic_strictness import guard_schema

_NAMED = ("fields", "choices")
_OPAQUE = frozenset(("metadata", "serialization", "expected", "default", "members", "cls", "config"))
_SCALARS = (str, int, float, type(None))


def make_validator(adapter: TypeAdapter[Any], *, of_json: bool = True) -> SchemaValidator:
    """The validator of a type. An iterable becomes a list, and members of enums are found by the JSON of their values.

    Pydantic itself checks the items of an ``Iterable`` when the tool reads them. For ``Literal[Color.RED]`` it accepts
    only the member, and for a member whose value is a tuple or a date only that value: JSON can hold none of these.
    What pydantic would read in JSON as another value, as a number for a date, is refused (`pydantic_strictness`), and
    so are several names of one key (`equal_keys`) and texts of which a part would be left out (`decoded_texts`). A
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
        if may_merge(entries):
            return refuse_equal_keys(fixed)
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
    if key in _NAMED and isinstance(value, dict):  # its keys are the author's names, and may be those of keywords
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
