"""What a schema wants and what was sent, in the words that both validators use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sized
from typing import Any, Final

from ..privacy import PublicText
from .schema import UNIONS, Form, Parts, forms_at, json_type, resolve_ref, schema_at

ANY_FORM: Final = "one of the forms that its schema allows"
FAILED_CHECK: Final = "it does not pass the tool's own check"
LIMITS = {  # by JSON Schema keyword
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "greater than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} character{s} long",
    "maxLength": "at most {} character{s} long",
    "minItems": "an array of at least {} item{s}",
    "maxItems": "an array of at most {} item{s}",
    "minProperties": "an object of at least {} entr{ies}",
    "maxProperties": "an object of at most {} entr{ies}",
}
NOUNS: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_MAX_SHOWN = 10**20  # a larger integer is described by its type


def describe_type(value: object) -> str:
    """Name the JSON type of a value: "an array", or "no JSON value"."""
    return NOUNS.get(json_type(value), "no JSON value")


def describe_value(value: object) -> str:
    """Say what was sent: its type, or a number or boolean itself. Text may be secret and is never repeated."""
    name = json_type(value)
    if name == "boolean":
        return str(value).lower()
    if isinstance(value, int) and abs(value) < _MAX_SHOWN:
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else NOUNS.get(name, "another value")


def describe_size(value: object) -> str:
    """Say how long a value is, for a limit on its length."""
    return str(len(value)) if isinstance(value, Sized) else describe_value(value)


def describe_limit(keyword: str, bound: Any) -> PublicText:
    """Say what a limit of `LIMITS` wants: "at least 1 character long"."""
    bound = int(bound) if isinstance(bound, float) and bound.is_integer() else bound
    one = bound == 1
    return PublicText(LIMITS[keyword].format(bound, s="" if one else "s", ies="y" if one else "ies"))


def describe_types(types: Iterable[str]) -> PublicText:
    """Say which JSON types are allowed: "a string or null"."""
    return PublicText(" or ".join(NOUNS.get(name, name) for name in types))


def describe_options(values: Iterable[Any]) -> PublicText:
    """List values to choose from: "'a', 'b' or null"."""
    words = [repr(value) if isinstance(value, str) else json.dumps(value, default=str) for value in values]
    return PublicText(" or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words))


def describe_names(schema: Form, parts: Parts) -> PublicText:
    """List the names that the object at a path may have; "" where the schema declares none."""
    node = schema_at(schema, parts)
    if node.keys().isdisjoint(UNIONS):
        return PublicText(", ".join(node.get("properties", {})))
    names = (name for form in forms_at(schema, parts) for name in form.get("properties", ()))
    return PublicText(", ".join(dict.fromkeys(names)))


def describe_expected(schema: Form, parts: Parts) -> PublicText:
    """Say what the schema expects at a path: its type or values, and its description."""
    node = schema_at(schema, parts)
    words = _describe_form(schema, node) or "a value"
    description = node.get("description")
    return PublicText(f"{words} ({str(description).strip().rstrip('.')})" if description else words)


def describe_hole(schema: Form, parts: Parts) -> PublicText:
    """Say what the schema expects at a path, for a form to fill in: "integer: The number of days"."""
    node = schema_at(schema, parts)
    words = _describe_form(schema, node) or "value"
    if "'" not in words:  # an option may begin with an article
        words = " or ".join(each.removeprefix("an ").removeprefix("a ") for each in words.split(" or "))
    description = node.get("description")
    return PublicText(f"{words}: {str(description).strip().rstrip('.')}" if description else words)


def join_expected(expected: Iterable[str]) -> PublicText:
    """Say that any one of several things is expected."""
    return PublicText(" or ".join(dict.fromkeys(expected)))


def _describe_form(schema: Form, node: Mapping[str, Any], *, unions: bool = True) -> str:
    if "enum" in node:
        return describe_options(node["enum"])
    if "const" in node:
        return describe_options([node["const"]])
    if types := node.get("type"):
        return describe_types((types,) if isinstance(types, str) else types)
    branches = (node.get("anyOf") or node.get("oneOf") or ()) if unions else ()
    forms = [_describe_form(schema, resolve_ref(schema, branch), unions=False) for branch in branches]
    return join_expected(forms) if all(forms) else ""
