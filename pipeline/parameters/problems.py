"""What is wrong with bad arguments, in words that two validators share: path, JSON Schema keyword, expected, got."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sized
from typing import Any, cast

from ..errors import InvalidParams, MalformedCall, Problem
from ..privacy import PublicText
from .schema import Parts, followed

_NOUNS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_NONE: dict[str, Any] = {}
_AT = re.compile(r"(?P<reason>.*?) at line (?P<line>\d+) column (?P<column>\d+)$", re.DOTALL)
LIMITS = {
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
_OF_ANOTHER_FORM = frozenset(("type", "enum", "const", "format", "anyOf", "oneOf"))


def not_json(message: str) -> MalformedCall:
    """A parser's complaint; text that ends too early is the evidence that it was cut off."""
    found = _AT.match(message)
    reason = found["reason"] if found else message
    position = (int(found["line"]), max(1, int(found["column"]))) if found else None
    if reason == "recursion limit exceeded":
        reason = "they are nested too deeply"
    return MalformedCall(PublicText(reason), position, truncated=reason.startswith("EOF while parsing"))


def not_unicode() -> MalformedCall:
    """A lone surrogate: no text that could be encoded."""
    return MalformedCall("they hold a character that is no Unicode")


def not_an_object(value: object) -> MalformedCall:
    """Good JSON of another type, or no JSON value at all."""
    return MalformedCall(PublicText(f"they are {_NOUNS.get(json_type(value), 'no JSON value')}"))


def not_plain() -> InvalidParams:
    """Values that JSON cannot hold, somewhere in the arguments."""
    return InvalidParams((Problem("", "type", "plain JSON values: text, numbers, booleans, null, arrays, objects"),))


def one_of(parts: Parts, branches: list[list[Problem]], value: object) -> list[Problem]:
    """What the branches of a union at one place have against a value: told as one problem.

    The branch that has the value's type speaks for all; of several the one with the least to say, if there is one.
    """
    if len(branches) == 1:
        return branches[0]
    path = spelt(parts)
    branches = _of_its_tag(path, branches, value)
    if len(branches) == 1:
        return branches[0]
    nearer = [b for b in branches if not any(p.path == path and p.rule in _OF_ANOTHER_FORM for p in b)]
    nearer.sort(key=len)
    if nearer and (len(nearer) == 1 or len(nearer[0]) < len(nearer[1])):
        return nearer[0]
    here = [problem for branch in branches for problem in branch if problem.path == path]
    if nearer or not here:
        return [Problem(path, "anyOf", "one of the forms that its schema allows", got(value))]
    rules = {problem.rule for problem in here}
    words = PublicText(" or ".join(dict.fromkeys(problem.expected for problem in here)))
    return [Problem(path, rules.pop() if len(rules) == 1 else "anyOf", words, got(value))]


def _of_its_tag(path: str, branches: list[list[Problem]], value: object) -> list[list[Problem]]:
    """The branches whose tag the value has, where they are told apart by a constant in one and the same field.

    Where it has the tag of none, only that is told: the rest cannot be judged.
    """
    if not isinstance(value, Mapping):
        return branches
    fields = {f"{path}.{name}" if path else str(name) for name in cast("Mapping[Any, Any]", value)}
    tags = [[p for p in branch if p.path in fields and p.rule in ("const", "enum")] for branch in branches]
    if not all(tags):
        without = [branch for branch, wrong in zip(branches, tags, strict=True) if not wrong]
        return without if len(without) < len(branches) else branches
    if len({p.path for wrong in tags for p in wrong}) > 1:
        return branches
    first = tags[0][0]
    words = PublicText(" or ".join(dict.fromkeys(wrong[0].expected for wrong in tags)))
    return [[Problem(first.path, "enum", words, first.got)]]


def spelt(parts: Parts) -> str:
    """A path as a model reads it: ``filter.tags[1]``."""
    text = ""
    if len(parts) == 1:
        return str(parts[0])
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def at(value: object, parts: Parts) -> object:
    """What stands at a path, as far as it leads."""
    here: Any = value
    for part in parts:
        try:
            here = here[part]
        except (IndexError, KeyError, TypeError):
            return None
    return here


def json_type(value: object) -> str:
    """The JSON Schema type of a value; "" for what JSON cannot hold."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((int, "integer"), (float, "number"), (str, "string"), (list, "array"), (tuple, "array")):
        if isinstance(value, kind):
            return name
    return "object" if isinstance(value, Mapping) else ""


def got(value: object) -> str:
    """What came: its type, and for a number or boolean itself. Text may be anybody's secret and is not repeated."""
    name = json_type(value)
    if name == "boolean":
        return str(value).lower()
    if isinstance(value, int) and abs(value) < 10**20:
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else _NOUNS.get(name, "another value")


def limit(rule: str, bound: Any) -> PublicText:
    """A limit in words: "at least 1 character long"."""
    bound = int(bound) if isinstance(bound, float) and bound.is_integer() else bound
    one = bound == 1
    return PublicText(LIMITS[rule].format(bound, s="" if one else "s", ies="y" if one else "ies"))


def size(value: object) -> str:
    """How long it is, for a limit on that."""
    return str(len(value)) if isinstance(value, Sized) else got(value)


def nouns(types: Iterable[str]) -> PublicText:
    """Type names as words: "a string or null"."""
    return PublicText(" or ".join(_NOUNS.get(name, name) for name in types))


def options(values: Iterable[Any]) -> PublicText:
    """Values to choose from: "'a', 'b' or null"."""
    words = [repr(value) if isinstance(value, str) else json.dumps(value, default=str) for value in values]
    return PublicText(" or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words))


def wanted(schema: Mapping[str, Any], parts: Parts) -> PublicText:
    """What a missing parameter should hold, in the words of its schema."""
    node = entry(schema, parts)
    words = _form(schema, node) or "a value"
    about = node.get("description")
    return PublicText(f"{words} ({str(about).strip().rstrip('.')})" if about else words)


def _form(schema: Mapping[str, Any], node: Mapping[str, Any], *, branched: bool = True) -> str:
    if "enum" in node:
        return options(node["enum"])
    if "const" in node:
        return options([node["const"]])
    if kinds := node.get("type"):
        return nouns((kinds,) if isinstance(kinds, str) else kinds)
    branches = (node.get("anyOf") or node.get("oneOf") or ()) if branched else ()
    forms = [_form(schema, followed(schema, branch), branched=False) for branch in branches]
    return " or ".join(dict.fromkeys(forms)) if all(forms) else ""


def declared(schema: Mapping[str, Any], parts: Parts) -> PublicText:
    """The names that an object may have, or "" where none are declared."""
    return PublicText(", ".join(entry(schema, parts).get("properties", {})))


def entry(schema: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """The subschema at a path, as far as it can be followed through properties, items and local references."""
    here: Any = schema
    for part in parts:
        here = followed(schema, here)
        if isinstance(part, int):
            here = here.get("items")
        else:
            here = here.get("properties", _NONE).get(part, here.get("additionalProperties"))
    return followed(schema, here)
