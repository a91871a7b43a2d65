"""Parts of a JSON Schema: whether they are sound, how two are one, and where references lead."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from ..parameters.references import REFERENCES
from ..parameters.schema import JsonObject, is_array, is_object

MAPS: Final = frozenset(("properties", "patternProperties", "dependentSchemas"))
LISTS: Final = frozenset(("anyOf", "oneOf", "allOf", "prefixItems"))
SCHEMAS: Final = frozenset((
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
))  # fmt: skip
TOGETHER: Final = (("if", "then", "else"), ("contains", "minContains", "maxContains"))
OLD: Final = frozenset(("dependencies", "additionalItems"))  # of older drafts
TYPES: Final = frozenset(("string", "integer", "number", "boolean", "array", "object", "null"))
LONGEST: Final = 200  # characters of a value that is told in a description
# Told in the description if a provider does not take them. Strict mode may be without them: only more is valid then.
TOLD: Final = frozenset((
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "uniqueItems", "pattern", "format", "default",
))  # fmt: skip
NARROWED: Final = {"not": ("not",), "if": TOGETHER[0], "contains": TOGETHER[1]}  # if more is valid in the first
KNOWN: Final = frozenset((  # say something about which values are valid; a validator passes over any other
    *MAPS, *LISTS, *SCHEMAS, *TOLD, *OLD, *REFERENCES, "type", "enum", "const", "required", "dependentRequired",
    "minContains", "maxContains",
)) - {"default", "contentSchema"}  # fmt: skip
# Strict mode may be without these: only more is valid then.
LOSABLE: Final = TOLD | {"propertyNames", "contains", "minContains", "maxContains", "not"}


def list_ids(root: Any) -> set[str]:
    """The last parts of the ids of schemas in a schema."""
    found: set[str] = set()
    pending: list[Any] = [root]
    while pending:
        here = pending.pop()
        if is_array(here):
            pending += here
        elif is_object(here):
            found |= {str(here[key]).rstrip("#").rpartition("/")[2] for key in ("$id", "id") if key in here}
            pending += here.values()
    return found


def list_references(node: Any, owner: Any = None, key: str = "") -> Iterator[tuple[JsonObject, Any, str]]:
    """Each schema with a reference, with the next object around it and the property of that."""
    if is_array(node):
        for each in node:
            yield from list_references(each, owner, key)
    elif is_object(node):
        if "$ref" in node:
            yield node, owner, key
        for keyword, inner in node.items():
            if keyword == "properties":
                for name, each in inner.items():
                    yield from list_references(each, node, name)
            elif keyword in SCHEMAS or keyword in LISTS:
                yield from list_references(inner, owner, key)


def name_of(reference: str) -> str:
    """The name of the definition that a reference leads to; "" for the whole schema."""
    return reference.removeprefix("#").removeprefix("/$defs/")


def reach(ways: Mapping[str, set[str]], start: str) -> set[str]:
    """All definitions that one leads to, itself included."""
    found, pending = {start}, [start]
    while pending:
        new = ways.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def join_variants(variants: list[JsonObject]) -> JsonObject:
    """One object with the properties of all; it requires what each of them requires."""
    if not variants:
        return {}
    made: JsonObject = {"properties": {}}
    for each in variants:
        for name, inner in each.get("properties", {}).items():
            known = made["properties"].get(name)
            if known is None or known == inner:
                made["properties"][name] = inner
            else:
                before = known["anyOf"] if is_object(known) and known.keys() == {"anyOf"} else [known]
                made["properties"][name] = known if inner in before else {"anyOf": [*before, inner]}
    required: list[list[Any]] = [each["required"] if is_array(each.get("required")) else [] for each in variants]
    if common := [name for name in required[0] if all(name in each for each in required)]:
        made["required"] = common
    if all(each.get("additionalProperties") is False for each in variants):
        made["additionalProperties"] = False
    return made


def join_parts(made: JsonObject, part: JsonObject) -> JsonObject:
    """A schema that takes what both take; where they cannot be joined, the first one counts."""
    for head, *rest in TOGETHER:
        if head in made or head not in part:
            part = {key: value for key, value in part.items() if key != head and key not in rest}
    joined = {**part, **made}
    for key in part.keys() & made.keys():
        first, second = made[key], part[key]
        if key == "properties" and is_object(first) and is_object(second):
            both = {name: {"allOf": [first[name], second[name]]} for name in first.keys() & second.keys()}
            same = {name: first[name] for name in both if first[name] == second[name]}
            joined[key] = {**first, **second, **both, **same}
        elif key == "required" and is_array(first) and is_array(second):
            joined[key] = [*first, *(name for name in second if name not in first)]
        elif key in ("minimum", "maximum") and is_number(first) and is_number(second):
            joined[key] = max(first, second) if key == "minimum" else min(first, second)
        elif key == "type":
            common = [kind for kind in types_of(made) if kind in types_of(part)]
            joined[key] = first if not common else common[0] if len(common) == 1 else common
    return joined


def is_well_formed(keyword: str, value: Any) -> bool:
    """Whether JSON Schema 2020-12 takes the value of a keyword, whatever stands in the schemas in it."""
    if keyword in OLD:
        return False
    shell = value
    if keyword in MAPS and is_object(value):
        shell = dict.fromkeys(value, True)
    elif keyword in LISTS and is_array(value):
        shell = [True for _ in value]
    elif keyword in SCHEMAS and is_object(value):
        shell = True
    patterns: Iterable[Any] = value if keyword == "patternProperties" else [value] if keyword == "pattern" else ()
    return is_valid({keyword: shell}) and all(map(is_pattern, patterns))


def is_valid(schema: JsonObject) -> bool:
    """Whether a schema, all that stands in it included, is JSON Schema 2020-12."""
    try:
        return jsonschema_rs.meta.is_valid(schema)
    except (TypeError, ValueError, RecursionError):  # it is not JSON
        return False


def is_pattern(text: str) -> bool:
    """Whether a text is a regular expression."""
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text})
    except ValueError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from 0 on."""
    return type(value) is int and value >= 0


ABOUT: Final = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "object": ("properties", "required", "additionalProperties", "propertyOrdering"),
}


def is_about(keyword: str, kind: str) -> bool:
    """Whether a keyword says something about values of a type."""
    named = [each for each, keywords in ABOUT.items() if keyword in keywords]
    return keyword != "type" and (not named or kind in named)


def types_of(node: Mapping[str, Any], *default: str) -> list[str]:
    """The types that a schema names; `default` if it names none."""
    kinds = node.get("type")
    return [*default] if kinds is None else kinds if is_array(kinds) else [kinds]


def as_types(kinds: Iterable[str]) -> JsonObject:
    """The keyword of these types; none if they are nearly all."""
    every = sorted(kinds)
    return {} if not every or len(every) >= len(TYPES) - 2 else {"type": every[0] if len(every) == 1 else every}


def is_kind(node: Mapping[str, Any], kind: str) -> bool:
    """Whether a schema names a type."""
    return kind in types_of(node)


def to_text(value: object) -> str:
    """A value as JSON text; one that is too long to be told if it is not JSON."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return " " * (LONGEST + 1)
