"""The rules that repair one value: each reads the value that the model sent as the value that it meant.

A rule never invents a value and never rounds one. Its result is contained in the sent value, and no other reading of
that value is possible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, get_args

from .exact_json import NUMBER, is_exact, read_whole
from .expectations import Expected, Sent
from .reading import read_literal
from .schema import class_of, json_type

Rule: TypeAlias = Literal[
    "json_text",  # JSON text where an object or array is expected and text is not allowed
    "null_optional",  # null, "null" or "" for an optional parameter that may not be null: left out
    "number_text",  # "5" for 5
    "boolean_text",  # "True" for true
    "text_of_number",  # 5 for "5"
    "text_of_boolean",  # true for "true"
    "whole_float",  # 3.0 for 3
    "lone_scalar",  # "a" for ["a"]
    "separated_text",  # "a, b" for ["a", "b"], where both are allowed values; "1, 2" for [1, 2]
    "enum_spelling",  # "Home Delivery" for "home-delivery"
    "parameter_name",  # filePath for file_path, params_path, files for file; "radius=5" under a positional name
    "wrapped",  # {"arguments": {…}} for {…}, {"type": "number", "value": 5} for 5
]
RULES: tuple[Rule, ...] = get_args(Rule)

LEAVE_OUT: Any = object()  # in place of a value: the parameter is left out
_NULL: Any = object()  # the value null; None means that the rule does not apply
_TWO: Any = object()  # the value has two readings, so that no other rule may decide either
_BOOLEANS = {"true": True, "false": False}
_MAX_CHOICE = 2_000  # characters of text that is compared with the allowed values
_MAX_PIECES = 50  # values in one text
_MAX_EXACT = 2**53  # up to here a float is exactly the integer that was written
_MAX_BITS = 1_000  # of an integer that was meant as text
_QUOTES = "\"'`"
_OPENING = ("[", "{", "(", "<")  # text that begins with one of these may hold several values
_SEVERAL = re.compile(  # separators, arrows, a bullet, quoted pieces: such text may hold several values
    r"[,;|\n\r\t\u060c\u3001\uff0c\uff1b\u2022\u2192\u00b7\u2026\u201a\uff5c]|\\[nrt]|->|=>|\.\.\.|\S\s{2,}\S"
    r"|\s(?:and|or|then|plus|und|oder|et|ou|vs\.?|[&+/<>])\s"
    r"|^(?:[-*+]|[0-9]+[.)])\s",
    re.IGNORECASE,
)
# In a path, an address or an option: two such words are two values.
_SPECIAL = re.compile(r"^[-+#$%~]|[/\\@=]|\w[.:]\w|\d-\d")
_THOUSANDS = re.compile(r"-?[0-9]{1,3}(?:[.,][0-9]{3})+")  # 1.000 or 1,000 may be one or a thousand
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+")
_PLAIN_FRACTION = re.compile(r"-?[0-9]+\.[0-9]+")
_NULLS = ("", "null")
_WORDS_FOR_NOTHING = frozenset(("", "null", "none", "nil"))
_NOTHING = _WORDS_FOR_NOTHING | {"n/a", "na", "unknown", "undefined", "nothing", "empty"}
_VAGUE = frozenset((  # words for nothing or for all, folded by `_fold_words`; they may also be a value of their own
    "n.a", "blank", "void", "missing", "unspecified", "tbd", "tba", "tbc", "no", "default", "any", "all", "anything",
    "everything", "whatever", "every", "optional", "skip", "omitted", "nan", "to be determined", "to be announced",
    "no value", "no preference", "not applicable", "not available", "not specified", "not provided", "not given",
    "not set", "not known", "not sure", "none given", "none specified", "none provided",
))  # fmt: skip
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_JOINTS = re.compile(r"[\s_-]+")
_MAX_WORDS = 50  # characters; no word for nothing is longer
_NUMERIC = frozenset(("integer", "number"))
_VALUE_KEYS = ("value", "items")  # keys that hold the value in ``{"type": …, "value": …}``
_TYPE_NAMES = frozenset((  # of JSON Schema and of programming languages; "percent", a unit, is not one
    "string", "str", "text", "integer", "int", "number", "float", "double", "boolean", "bool", "array", "list", "tuple",
    "object", "dict", "any",
))  # fmt: skip


# Returns the value that was meant; None if the rule does not apply.
Coercion: TypeAlias = Callable[[Any, Expected, Sent], Any]


def null_optional(value: Any, expected: Expected, _sent: Sent) -> Any:
    """Read null, or text for null, as a parameter that is left out, if it may be left out and may not be null.

    Where "none" is one of the allowed values, null may mean it (the default may be "all"): there are two readings.
    """
    text = "" if value is None else value.strip().lower()
    if text not in _NULLS:
        return None
    if any(isinstance(each, str) and each.strip().lower() in _WORDS_FOR_NOTHING for each in expected.values()):
        return _TWO
    if "null" in expected.types:
        if text:
            return _NULL
        if any(form.get("default") is not None for form in expected.forms):  # the default, or null
            return _TWO
    return LEAVE_OUT if expected.optional else None


def json_text(value: Any, expected: Expected, sent: Sent) -> Any:
    """Read text as the object or array that it holds, in JSON or in Python's spelling; never where text is allowed."""
    text = value.strip()
    if not text.startswith(("[", "{")):
        return None
    found = read_literal(text, sent.written)
    return found if json_type(found) in expected.types else None


def boolean_text(value: Any, _expected: Expected, _sent: Sent) -> Any:
    """Read ``"true"`` or ``"False"`` as a boolean."""
    return _BOOLEANS.get(value.strip().lower())


def number_text(value: Any, expected: Expected, _sent: Sent) -> Any:
    """Read text as a number, for an integer only as a whole one. Never round; never read 1.000, maybe a thousand."""
    text = value.strip()
    if not NUMBER.fullmatch(text):
        return None
    if "number" not in expected.types:
        return _TWO if _THOUSANDS.fullmatch(text) else read_whole(text)
    if text.lstrip("-").isdigit() and ("integer" in expected.types or is_exact(text)):
        return int(text)
    return float(text) if is_exact(text) else None


def text_of_number(value: Any, expected: Expected, sent: Sent) -> Any:
    """Read a number as text, exactly as it was written.

    A float that came in a mapping has lost its spelling: 5.0 may have been written as 5, and 1e22 in many ways.
    """
    if type(value) is int:
        lost = value.bit_length() > _MAX_BITS or (value == 0 and sent.written.negative_zero)
        return None if lost else str(value)
    token = sent.written.find(value)
    if token is not None:
        return token
    text = repr(value)
    if value.is_integer() or not _PLAIN_FRACTION.fullmatch(text):
        return None
    alike = [each for each in expected.values() if isinstance(each, str) and each.rstrip("0") == text]
    return None if len(alike) > 1 else text  # 3.1 and 3.10 are the same float


def text_of_boolean(value: Any, expected: Expected, _sent: Sent) -> Any:
    """Read ``true`` as text; where only certain values are allowed, "true" must be one of them, not "True"."""
    text = "true" if value else "false"
    return text if expected.takes_any_text or text in expected.values() else None


def doubt(_value: Any, _expected: Expected, _sent: Sent) -> Any:
    """Refuse to choose: the scalar may be text, or the item of an array."""
    return _TWO


def unwrap_value(value: Any, expected: Expected, _sent: Sent) -> Any:
    """Take a value out of an object: ``{"days": 5}`` for the parameter ``days``, or ``{"type": …, "value": 5}``."""
    if len(value) == 1 and expected.name is not None and expected.name in value:
        return value[expected.name]
    for key in _VALUE_KEYS:
        if key in value and value.keys() <= {key, "type"}:
            kind = value.get("type", "any")
            return value[key] if isinstance(kind, str) and kind.lower() in _TYPE_NAMES else None
    return None


def whole_float(value: Any, _expected: Expected, sent: Sent) -> Any:
    """Read ``3.0`` as an integer; never ``3.5``, nor a float too large to be exact."""
    token = sent.written.find(value)
    if token is not None:
        return read_whole(token)
    return int(value) if value.is_integer() and abs(value) < _MAX_EXACT else None


def enum_spelling(value: Any, expected: Expected, sent: Sent) -> Any:
    """Find the only allowed value that differs from the sent one in case or separators alone."""
    found = None if len(value) > _MAX_CHOICE else sent.read_choice(expected).find(value)
    return None if found == value else found


def lone_scalar(value: Any, expected: Expected, sent: Sent) -> Any:
    """Read a scalar as an array with that one item. Text that looks like a list may be several items: not repaired."""
    kind, items = json_type(value), expected.items()
    if kind not in items.types and not (kind == "integer" and "number" in items.types):
        number = isinstance(value, str) and not items.types.isdisjoint(_NUMERIC)
        return [value] if number and NUMBER.fullmatch(value.strip()) else None
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in _NULLS:
            return None
        if len(text) <= _MAX_CHOICE and sent.read_choice(items).find(text) is not None:
            return [value]
        if _fold_words(text) in _VAGUE:
            return _TWO
        if not is_one_item(text):
            return None
    return [value]


def is_one_item(text: str) -> bool:
    """Whether a text can only be one value: it says neither nothing nor all, and is not several values."""
    words = _fold_words(text)
    return words not in _NOTHING and words not in _VAGUE and any(map(str.isalnum, text)) and not _may_be_several(text)


def _fold_words(text: str) -> str:
    return _JOINTS.sub(" ", _EDGES.sub("", text.lower())) if len(text) <= _MAX_WORDS else text


def _may_be_several(text: str) -> bool:
    if text.startswith(_OPENING) or _SEVERAL.search(text):
        return True
    if text[0] in _QUOTES and text[-1] in _QUOTES and sum(map(text.count, _QUOTES)) > 2:  # noqa: PLR2004  # one pair
        return True
    words = text.split()
    special = sum(_SPECIAL.search(word) is not None for word in words)
    return len(words) > 1 and 2 * special >= len(words)


def separated_text(value: Any, expected: Expected, sent: Sent) -> Any:
    """Split text at commas into an array of allowed values, numbers or booleans."""
    if len(value) > _MAX_CHOICE or not 0 < value.count(",") <= _MAX_PIECES:
        return None
    items = expected.items()
    if items.takes_any_text:
        return None
    pieces = value.split(",")
    if any(isinstance(each, str) for each in items.values()):
        choice = sent.read_choice(items)
        found: list[Any] = [
            piece.strip() if piece.strip() in items.values() else choice.find(piece) for piece in pieces
        ]
    elif not items.types.isdisjoint(_NUMERIC):
        if _may_be_one_number(value, pieces, items):
            return _TWO
        found = [number_text(piece, items, sent) for piece in pieces]
    elif "boolean" in items.types:
        found = [boolean_text(piece, items, sent) for piece in pieces]
    else:
        return None
    return None if any(each is None or each is _TWO for each in found) else found


def _may_be_one_number(value: str, pieces: list[str], items: Expected) -> bool:
    """Whether a comma may be part of a number: 1,234 or 1,5. With a blank after every comma none is."""
    glued = [not piece[:1].isspace() for piece in pieces[1:]]
    if not any(glued):
        return False
    text = value.strip()
    comma = "number" in items.types and _DECIMAL_COMMA.fullmatch(text) is not None
    return not all(glued) or comma or _THOUSANDS.fullmatch(text) is not None


def coerce(value: Any, expected: Expected, rules: frozenset[Rule], sent: Sent) -> tuple[Rule, Any] | None:
    """Try every rule on a value, and return the result if exactly one rule has one.

    Rules that may not be used are tried too: a second reading makes the first one uncertain.

    Args:
        value: The value that failed.
        expected: The kind of value that the schema expects.
        rules: The rules that may be used.
        sent: Facts about the arguments as they were sent.

    Returns:
        The rule and the value that was meant, or `LEAVE_OUT`; None without such a value, with two of them, or if
        the rule may not be used.
    """
    kind = class_of(value)
    if (possible := expected.coercions.get(kind)) is None:
        possible = expected.coercions[kind] = tuple(_list_coercions(expected, kind))
    meant: tuple[Rule, Any] | None = None
    for rule, coercion in possible:
        if (found := coercion(value, expected, sent)) is _TWO:
            return None
        if found is not None:
            if meant is not None:
                return None
            meant = rule, None if found is _NULL else found
            if rule == "null_optional":  # no value was sent, so other rules have nothing to read
                break
    return meant if meant is not None and meant[0] in rules else None


def _list_coercions(expected: Expected, kind: type) -> Iterator[tuple[Rule, Coercion]]:  # noqa: C901, PLR0912  # a case a rule
    """Yield the rules that may apply to a value of this type."""
    types = expected.types
    any_text = expected.takes_any_text
    if kind in (str, type(None)) and (expected.optional or "null" in types):
        yield "null_optional", null_optional
    if kind is str:
        if "string" not in types and not types.isdisjoint(("array", "object")):
            yield "json_text", json_text
        if "boolean" in types and not any_text:  # where text is allowed, the text itself breaks a rule, not its type
            yield "boolean_text", boolean_text
        if not types.isdisjoint(_NUMERIC) and not any_text:
            yield "number_text", number_text
        if expected.values():
            yield "enum_spelling", enum_spelling
    elif kind is float and "integer" in types and "number" not in types:
        yield "whole_float", whole_float
    if "string" in types and not expected.has_format:  # where numbers are allowed, the number itself breaks a rule
        if kind in (int, float) and types.isdisjoint(_NUMERIC):
            yield "text_of_number", doubt if "array" in types else text_of_number
        if kind is bool and "boolean" not in types:
            yield "text_of_boolean", doubt if "array" in types else text_of_boolean
    if kind is dict and "object" not in types:
        yield "wrapped", unwrap_value
    # Not for an item of an array: [1, 3] where [[1, 3]] is expected is not [[1], [3]].
    if "array" in types and expected.name is not None and kind in (str, int, float, bool):
        if kind is str:
            yield "separated_text", separated_text
        yield "lone_scalar", lone_scalar
