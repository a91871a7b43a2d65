"""The repairs of one value: rules that read what was sent as the value that was meant.

A rule never invents a value and never rounds one: what it gives is in what was sent, and can be read in one way only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias, cast, get_args

import attrs

from .reading import read_literal
from .schema import Form, is_array, json_type

Rule: TypeAlias = Literal[
    "json_text",  # JSON text where an object or array is expected, and no text
    "null_optional",  # null, "null" or "" for an optional parameter that may not be null: left out
    "number_text",  # "5" for 5
    "boolean_text",  # "True" for true
    "text_of_number",  # 5 for "5"
    "text_of_boolean",  # true for "true"
    "whole_float",  # 3.0 for 3
    "lone_scalar",  # "a" for ["a"]
    "separated_text",  # "a, b" for ["a", "b"], where both are values to choose from
    "enum_spelling",  # "Home Delivery" for "home-delivery"
    "parameter_name",  # filePath for file_path, params_path, files for file; or any name where there is one parameter
    "wrapped",  # {"arguments": {…}} for {…}, {"type": "number", "value": 5} for 5
]
RULES: tuple[Rule, ...] = get_args(Rule)
Coercion: TypeAlias = Callable[[Any, "Expected"], Any]  # the value that was meant; None where the rule does not apply

LEAVE_OUT: Any = object()  # in place of a value: the parameter is left out
_NULL: Any = object()  # null, where None would say that a rule does not apply
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,40})(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?")  # RFC 8259, section 6; bounded
_BOOLEANS = {"true": True, "false": False}
_NO_LETTERS = re.compile(r"[\W_]+")
_MAX_CHOICE = 2_000  # characters of a value, or several, to choose from
_MAX_PIECES = 50  # values in one text
_MAX_EXACT = 2**53  # up to here a float is exactly the integer that was written
_OPENING = ("[", "{", "(", "<")  # text that begins so may hold several values


@attrs.frozen(eq=False)
class Expected:
    """What the schema expects at one place."""

    forms: tuple[Form, ...]
    types: frozenset[str]  # JSON Schema types that are allowed; empty: not known
    items: Callable[[], Expected]  # what it expects of the items, if the place holds an array
    name: str | None  # of the parameter or property; None for an item of an array
    optional: bool  # a parameter or property that may be left out
    # The rules that may apply to a value, by the value's type; filled when first needed.
    coercions: dict[type, tuple[tuple[Rule, Coercion], ...]] = attrs.field(init=False, factory=dict[Any, Any])

    @classmethod
    def of(cls, forms: Iterable[Form], items: Callable[[], Expected], name: str | None, *, optional: bool) -> Expected:
        """Read the subschemas that apply. Never raises; anything that is not a schema has no known types."""
        forms = tuple(forms)
        return cls(forms, frozenset(kind for form in forms for kind in _list_types(form)), items, name, optional)

    def values(self) -> list[Any]:
        """List the values to choose from; empty where the schema names none."""
        return [value for form in self.forms for value in _list_values(form)]


def _list_values(form: Form) -> list[Any]:
    enum = form.get("enum")
    values = [*enum] if is_array(enum) else []
    return [*values, form["const"]] if "const" in form else values


def _list_types(form: Form) -> Iterable[str]:
    declared = form.get("type")
    if isinstance(declared, str):
        return (declared,)
    return declared if is_array(declared) else map(json_type, _list_values(form))


def fold(text: str) -> str:
    """Reduce a name or a value to its letters and digits, in lower case."""
    return _NO_LETTERS.sub("", text).casefold()


def find_spelling(folded: str, among: Iterable[str]) -> str | None:
    """Return the only text that folds to this; None where there is none, or more than one."""
    same = {each for each in among if fold(each) == folded} if folded else set[str]()
    return same.pop() if len(same) == 1 else None


def null_optional(value: Any, expected: Expected) -> Any:
    """Null, or text that stands for it, where the parameter may be left out and may not be null."""
    text = "" if value is None else value.strip().lower()
    if text not in ("", "null"):
        return None
    if text and "null" in expected.types:
        return _NULL
    return LEAVE_OUT if expected.optional else None


def json_text(value: Any, expected: Expected) -> Any:
    """An object or array written as text, in JSON or as Python writes it; never where text is allowed."""
    text = value.strip()
    if not text.startswith(("[", "{")):
        return None
    found = read_literal(text)
    return found if json_type(found) in expected.types else None


def boolean_text(value: Any, _expected: Expected) -> Any:
    """``"true"`` or ``"False"`` for a boolean."""
    return _BOOLEANS.get(value.strip().lower())


def number_text(value: Any, expected: Expected) -> Any:
    """A number written as text; for an integer only a whole one."""
    text = value.strip()
    if not _NUMBER.fullmatch(text):
        return None
    found: Any = json.loads(text)
    if type(found) is float:
        if not math.isfinite(found):
            return None
        if "number" not in expected.types:
            return whole_float(found, expected)
    return found


def text_of_number(value: Any, _expected: Expected) -> Any:
    """A number or a boolean where text is expected."""
    return json.dumps(value)


def unwrap_value(value: Any, expected: Expected) -> Any:
    """A value under the parameter's own name once more, or in the form of a schema: ``{"type", "value"}``."""
    if len(value) == 1 and expected.name in value:
        return value[expected.name]
    for key in ("value", "items"):
        if key in value and value.keys() <= {key, "type", "description"}:
            return value[key]
    return None


def whole_float(value: Any, _expected: Expected) -> Any:
    """``3.0`` for an integer; never ``3.5``, nor a float too large to be exact."""
    return int(value) if value.is_integer() and abs(value) < _MAX_EXACT else None


def enum_spelling(value: Any, expected: Expected) -> Any:
    """One of the values to choose from in another case or with other separators, if it can be only one."""
    if len(value) > _MAX_CHOICE:
        return None
    return find_spelling(fold(value), (each for each in expected.values() if isinstance(each, str)))


def lone_scalar(value: Any, expected: Expected) -> Any:
    """A scalar where an array of such scalars is expected. Not text that looks like a list: it may be several."""
    kind, items = json_type(value), expected.items()
    if kind not in items.types and not (kind == "integer" and "number" in items.types):
        number = isinstance(value, str) and not items.types.isdisjoint(("integer", "number"))
        return [value] if number and number_text(value, items) is not None else None
    if isinstance(value, str) and value not in items.values():
        text = value.strip()
        if not text or text.startswith(_OPENING) or not {",", ";", "\n"}.isdisjoint(text):
            return None
    return [value]


def separated_text(value: Any, expected: Expected) -> Any:
    """Several values to choose from, separated by commas."""
    choice = [each for each in expected.items().values() if isinstance(each, str)]
    if not choice or len(value) > _MAX_CHOICE or value.count(",") > _MAX_PIECES:
        return None
    found = [find_spelling(fold(piece), choice) for piece in value.split(",")]
    return found if len(found) > 1 and None not in found else None


def coerce(value: Any, expected: Expected, rules: frozenset[Rule]) -> tuple[Rule, Any] | None:
    """Try the given rules on a value. Returns the first that applies and its value, or `LEAVE_OUT`; None if none."""
    kind = cast("type[Any]", type(value))
    if (possible := expected.coercions.get(kind)) is None:
        possible = expected.coercions[kind] = tuple(_list_coercions(expected, kind))
    for rule, coercion in possible:
        if rule in rules and (found := coercion(value, expected)) is not None:
            return rule, None if found is _NULL else found
    return None


def _list_coercions(expected: Expected, kind: type) -> Iterator[tuple[Rule, Coercion]]:  # noqa: C901  # a case a rule
    """Yield the rules that may apply to a value of this type, in the order in which they are tried."""
    types = expected.types
    if kind in (str, type(None)) and (expected.optional or "null" in types):
        yield "null_optional", null_optional
    if kind is str:
        if "string" not in types and not types.isdisjoint(("array", "object")):
            yield "json_text", json_text
        if "boolean" in types:
            yield "boolean_text", boolean_text
        if not types.isdisjoint(("integer", "number")):
            yield "number_text", number_text
        if expected.values():
            yield "enum_spelling", enum_spelling
    elif kind is float and "integer" in types:
        yield "whole_float", whole_float
    if kind in (int, float) and "string" in types:
        yield "text_of_number", text_of_number
    if kind is bool and "string" in types:
        yield "text_of_boolean", text_of_number
    if kind is dict and "object" not in types:
        yield "wrapped", unwrap_value
    # Not for an item of an array: [1, 3] where [[1, 3]] is expected is not [[1], [3]].
    if "array" in types and expected.name is not None and kind in (str, int, float, bool):
        if kind is str:
            yield "separated_text", separated_text
        yield "lone_scalar", lone_scalar
