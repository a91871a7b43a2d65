"""One wrong value -> the value that was meant, where it is in what was sent. Nothing is invented, nothing rounded."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

import attrs

from . import problems
from .schema import Form

DROPPED: Any = object()  # in place of a value: leave the parameter out
_NULL: Any = object()  # null, where None would say that a rule does not fit
Rule: TypeAlias = Callable[[Any, "Place"], Any]  # the value that was meant; None where it does not fit
_NUMBER = re.compile(
    r"-?(?:0|[1-9]\d{0,40})(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?"
)  # JSON's, RFC 8259 section 6, in bounds
_BOOLEANS = {"true": True, "false": False}
_NOT_LETTERS = re.compile(r"[\W_]+")
_EXACT = 2**53  # up to here a float is the integer that was written
_LONGEST = 10_000  # characters of text that is taken for a Python literal; its parser is slow and recursive
_OPENING = ("[", "{", "(", "<")


@attrs.frozen(eq=False)
class Place:
    """What the schema says of one place."""

    forms: tuple[Form, ...]
    types: frozenset[str]  # JSON Schema types that it admits; empty: not known
    items: Callable[[], Place]  # that of the items of an array there
    name: str | None  # of a parameter of an object; None: an item of an array
    may_miss: bool  # an optional one
    # By the type of a value, the rules that may make another of it; filled when first wanted.
    rules: dict[type, tuple[tuple[str, Rule], ...]] = attrs.field(init=False, factory=dict[Any, Any])

    @classmethod
    def of(cls, forms: Iterable[Form], items: Callable[[], Place], name: str | None, *, may_miss: bool) -> Place:
        """Raises nothing: what is no schema admits nothing that is known."""
        forms = tuple(forms)
        return cls(forms, frozenset(kind for form in forms for kind in _types(form)), items, name, may_miss)

    def values(self) -> list[Any]:
        """The values to choose from, where it names them."""
        return [value for form in self.forms for value in (*form.get("enum", ()), *_const(form))]


def _const(form: Form) -> tuple[Any, ...]:
    return (form["const"],) if "const" in form else ()


def _types(form: Form) -> Iterable[str]:
    given = form.get("type")
    if isinstance(given, str):
        yield given
    elif isinstance(given, list):
        yield from cast("list[str]", given)
    elif isinstance(options := form.get("enum", _const(form)), (list, tuple)):
        yield from map(problems.json_type, cast("Iterable[Any]", options))


def folded(text: str) -> str:
    """A name or a value without case and separators."""
    return _NOT_LETTERS.sub("", text).casefold()


def only(folding: str, among: Iterable[str]) -> str | None:
    """The one of these that is the same but for case and separators, if it is one."""
    same = {each for each in among if folded(each) == folding} if folding else set[str]()
    return same.pop() if len(same) == 1 else None


def null_optional(value: Any, place: Place) -> Any:
    """Null, or text that stands for it, for a parameter that may be left out and may not be null."""
    text = "" if value is None else value.strip().lower()
    if text not in ("", "null"):
        return None
    if text and "null" in place.types:
        return _NULL
    return DROPPED if place.may_miss else None


def json_text(value: Any, place: Place) -> Any:
    """An object or array written as text, in JSON or as Python writes it; never where text is admitted."""
    text = value.strip()
    if not text.startswith(("[", "{")):
        return None
    found = literal(text)
    return found if problems.json_type(found) in place.types else None


def literal(text: str) -> Any:
    """What a text holds as JSON, or else as a Python literal of JSON's types; None where it holds neither."""
    try:
        return json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        pass
    try:
        found: Any = ast.literal_eval(text) if len(text) <= _LONGEST else None
        return json.loads(json.dumps(found, allow_nan=False)) if _is_plain(found) else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def boolean_text(value: Any, _place: Place) -> Any:
    """``"true"`` or ``"False"`` for a boolean."""
    return _BOOLEANS.get(value.strip().lower())


def number_text(value: Any, place: Place) -> Any:
    """A number written as text; for an integer a whole one."""
    text = value.strip()
    if not _NUMBER.fullmatch(text):
        return None
    found: Any = json.loads(text)
    if type(found) is float:
        if not math.isfinite(found):
            return None
        if "number" not in place.types:
            return _whole(found)
    return found


def text_of_number(value: Any, _place: Place) -> Any:
    """A number or a boolean where text is wanted."""
    return json.dumps(value)


def wrapped(value: Any, place: Place) -> Any:
    """What stands under the parameter's own name again, or is described as in a schema: ``{"type", "value"}``."""
    if len(value) == 1 and place.name in value:
        return value[place.name]
    for key in ("value", "items"):
        if key in value and value.keys() <= {key, "type", "description"}:
            return value[key]
    return None


def whole_float(value: Any, _place: Place) -> Any:
    """``3.0`` for an integer; never ``3.5``."""
    return _whole(value)


def enum_spelling(value: Any, place: Place) -> Any:
    """A value to choose in another case or with other separators, if only one is meant by that."""
    return only(folded(value), (each for each in place.values() if isinstance(each, str)))


def lone_scalar(value: Any, place: Place) -> Any:
    """A scalar where an array of such is wanted. Not text that is itself a list of a kind: it may mean several."""
    kind, items = problems.json_type(value), place.items()
    if kind not in items.types and not (kind == "integer" and "number" in items.types):
        number = isinstance(value, str) and not items.types.isdisjoint(("integer", "number"))
        return [value] if number and number_text(value, items) is not None else None
    if isinstance(value, str) and value not in items.values():
        text = value.strip()
        if not text or text.startswith(_OPENING) or not {",", ";", "\n"}.isdisjoint(text):
            return None
    return [value]


def separated_text(value: Any, place: Place) -> Any:
    """Several values to choose from, with commas between."""
    choice = [each for each in place.items().values() if isinstance(each, str)]
    found = [only(folded(piece), choice) for piece in value.split(",")]
    return found if len(found) > 1 and None not in found else None


def coerced(value: Any, place: Place, rules: frozenset[str]) -> tuple[str, Any] | None:
    """The rule that fits and the value by it, or `DROPPED`; None where none fits. Of ``rules`` only."""
    kind = cast("type[Any]", type(value))
    if (possible := place.rules.get(kind)) is None:
        possible = place.rules[kind] = tuple(_possible(place, kind))
    for name, rule in possible:
        if name in rules and (found := rule(value, place)) is not None:
            return name, None if found is _NULL else found
    return None


def _possible(place: Place, kind: type) -> Iterator[tuple[str, Rule]]:  # noqa: C901  # a case a rule
    """The rules that may fit a value of that type there, in the order in which they are tried."""
    types = place.types
    if kind in (str, type(None)) and (place.may_miss or "null" in types):
        yield "null_optional", null_optional
    if kind is str:
        if "string" not in types and not types.isdisjoint(("array", "object")):
            yield "json_text", json_text
        if "boolean" in types:
            yield "boolean_text", boolean_text
        if not types.isdisjoint(("integer", "number")):
            yield "number_text", number_text
        if place.values():
            yield "enum_spelling", enum_spelling
    elif kind is float and "integer" in types:
        yield "whole_float", whole_float
    if kind in (int, float) and "string" in types:
        yield "text_of_number", text_of_number
    if kind is bool and "string" in types:
        yield "text_of_boolean", text_of_number
    if kind is dict and "object" not in types:
        yield "wrapped", wrapped
    # Of a parameter only: [1, 3] for [[1, 3]] is not [[1], [3]].
    if "array" in types and place.name is not None and kind in (str, int, float, bool):
        if kind is str:
            yield "separated_text", separated_text
        yield "lone_scalar", lone_scalar


def _refused(constant: str) -> None:
    raise ValueError(constant)  # NaN and infinities are no JSON


def _whole(value: float) -> int | None:
    return int(value) if value.is_integer() and abs(value) < _EXACT else None


def _is_plain(value: Any) -> bool:
    """Whether it is made of JSON's types; a tuple counts as an array."""
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value).items()
        return all(isinstance(key, str) and _is_plain(each) for key, each in entries)
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, cast("Iterable[Any]", value)))
    return value is None or isinstance(value, (str, int, float))
