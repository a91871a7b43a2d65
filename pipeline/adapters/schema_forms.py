"""One schema in other words: what an older draft says, what a provider does not take, what strict mode wants.

`schema_fitting` goes through a schema and all that stands in it; here each is written as the provider takes it.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from ..parameters.schema import JsonObject, is_array, is_object
from .renamed_properties import name_properties
from .schema_parts import (
    KNOWN,
    LONGEST,
    NARROWED,
    TYPES,
    as_types,
    is_about,
    is_count,
    is_kind,
    list_references,
    name_of,
    reach,
    to_text,
    types_of,
)
from .schema_rules import SchemaRules
from .schema_strict import DEEPEST, CannotSayError, make_nullable

_LOOKAROUND: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[=!]|<[=!])|\\(?:[1-9]|k<))")


class SchemaChange(NamedTuple):
    """What is different in the schema that a provider is sent.

    Attributes:
        path: Where, as ``properties.tags.items``. "": at the top.
        what: What was done, in words.
        lost: Whether the provider is told less than the tool's own schema says.
    """

    path: str
    what: str
    lost: bool


class Notes:
    """What was changed so far, and the path to the schema that is written now."""

    def __init__(self) -> None:
        self.changes: list[SchemaChange] = []
        self.path: list[str] = []
        self.lost = 0  # changes by which the provider is told less

    def add(self, what: str, *, lost: bool = True) -> None:
        """Note a change at the present path; see `SchemaChange`."""
        self.changes.append(SchemaChange(".".join(self.path), what, lost))
        self.lost += lost


def update_draft(node: JsonObject, notes: Notes) -> None:
    """Write what an older draft says otherwise as the present one does."""
    if is_array(node.get("items")):
        notes.add("a list in items is written as prefixItems", lost=False)
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node.pop("additionalItems")
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(exclusive), bool):
            is_exclusive = node.pop(exclusive)
            notes.add(f"{exclusive} is written as a number", lost=False)
            if is_exclusive and bound in node:
                node[exclusive] = node.pop(bound)


def drop_never(node: JsonObject, notes: Notes) -> None:
    """Say without ``false`` what is never valid: few providers take it."""
    properties = node.get("properties")
    if is_object(properties) and (never := [name for name, each in properties.items() if each is False]):
        notes.add(f"parameters that are never valid are left out: {', '.join(map(str, never))}")
        node["properties"] = {name: each for name, each in properties.items() if each is not False}
    for keyword in ("anyOf", "oneOf"):
        variants = node.get(keyword)
        if is_array(variants) and False in [each for each in variants if isinstance(each, bool)]:
            valid = [each for each in variants if each is not False]
            notes.add(f"variants of {keyword} that are never valid are left out", lost=not valid)
            node |= {keyword: valid}
            if not valid:  # an empty list is no JSON Schema
                del node[keyword]
    if node.get("items") is False and is_array(first := node.get("prefixItems")):
        notes.add("items: false is written as maxItems", lost=False)
        most: Any = node.get("maxItems")
        node |= {"maxItems": min(len(first), most) if is_count(most) else len(first), "items": {}}


def reshape_limits(node: JsonObject, told: JsonObject, rules: SchemaRules, notes: Notes) -> None:
    """Write limits, patterns and formats as the provider takes them; what it does not take is added to ``told``."""
    for exclusive, bound, by in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        if exclusive in node and not rules.takes(exclusive) and rules.takes(bound):
            value, other = node.pop(exclusive), node.get(bound)
            exact = node.get("type") == "integer" and type(value) is int
            notes.add(f"{exclusive} is written as {bound}", lost=not exact)
            if not exact:
                told[exclusive] = value
            value = value + by if exact else value
            node[bound] = value if other is None else max(value, other) if by > 0 else min(value, other)
    pattern = node.get("pattern")
    if pattern is not None and not rules.lookaround and _LOOKAROUND.search(pattern):
        notes.add("a pattern that looks around is left out")
        told["pattern"] = node.pop("pattern")
    if not rules.lookaround and any(map(_LOOKAROUND.search, node.get("patternProperties", ()))):
        notes.add("patternProperties with a pattern that looks around is left out")
        if rules.strict:
            raise CannotSayError("it has patterns of names")
        del node["patternProperties"]
        node.pop("additionalProperties", None)
    if "format" in node and rules.formats is not None and node["format"] not in rules.formats:
        notes.add(f"the format {node['format']} is left out")
        told["format"] = node.pop("format")


def unpack_tuple(node: JsonObject, notes: Notes) -> None:
    """Write a tuple as an array of any of its items."""
    first: list[Any] = node.pop("prefixItems")
    most: Any = node.get("maxItems")
    notes.add("prefixItems is written as items")
    if not is_count(most) or most > len(first):
        first = [*first, node.get("items", {})]
    kinds = [each for place, each in enumerate(first) if each not in first[:place]]
    node["items"] = kinds[0] if len(kinds) == 1 else {} if True in kinds or {} in kinds else {"anyOf": kinds}


def split_enum(node: JsonObject, notes: Notes) -> None:
    """Write the values that are neither texts nor numbers as types beside them."""
    values: list[Any] = node["enum"]
    kept = [each for each in values if isinstance(each, (str, int, float)) and not isinstance(each, bool)]
    if len(kept) == len(values):
        return
    others = [each for each in values if each is None or isinstance(each, bool)]
    kinds = {"boolean" if isinstance(each, bool) else "null" for each in others}
    taken = set(types_of(node, *TYPES))
    if len(kept) + len(others) < len(values) or "anyOf" in node or not (kept or kinds & taken):
        notes.add("an enum of other values than texts and numbers is left out")
        del node["enum"]
        return
    notes.add("the values true, false and null of an enum are written as types", lost="boolean" in kinds)
    inner: JsonObject = {key: node.pop(key) for key in [*node] if key in KNOWN}
    variants: list[Any] = [{**inner, "enum": kept, **as_types(taken - {"null", "boolean"})}] if kept else []
    node["anyOf"] = [*variants, *({"type": each} for each in sorted(kinds & taken))]


def split_types(node: JsonObject, kinds: list[str], notes: Notes) -> None:
    """Write a list of types as one schema for each."""
    if "anyOf" in node:
        notes.add("a list of types beside anyOf is left out")
        del node["type"]
        return
    notes.add("a list of types is written as anyOf", lost=False)
    inner: JsonObject = {key: node.pop(key) for key in [*node] if key in KNOWN}
    node["anyOf"] = [
        {**{key: value for key, value in inner.items() if is_about(key, kind)}, "type": kind} for kind in kinds
    ]


def finish(made: JsonObject, rules: SchemaRules, notes: Notes) -> None:
    """Add what the provider wants to be said, and name the properties as it takes them."""
    for keyword in [each for each in (*NARROWED, "oneOf") if each in made and made[each] is None]:
        for each in NARROWED.get(keyword, (keyword,)):
            made.pop(each, None)
    has_items = "prefixItems" in made or is_kind(made, "array")
    if rules.items and has_items and "items" not in made:
        if rules.strict:
            raise CannotSayError("it has an array of anything")
        notes.add("items are said to be anything", lost=False)
        made["items"] = {}
    if rules.properties and is_kind(made, "object") and "properties" not in made:
        notes.add("says that it has no properties", lost=False)
        made["properties"] = {}
    declared = made.get("properties", {})
    required = made.get("required")
    if rules.known_required and required and not declared.keys() >= {*required}:
        notes.add("required names that are no properties are left out")
        made["required"] = required = [each for each in required if each in declared]
    names = name_properties(declared, rules.names)
    if odd := [name for name, sent in names.items() if name != sent]:
        notes.add(f"names are sent in another form: {', '.join(odd)}", lost=False)
        made["properties"] = {names[name]: each for name, each in declared.items()}
        if required:
            made["required"] = [names.get(name, name) for name in required]
    variants: Any = made.get("anyOf")
    if rules.told and "type" not in made and variants and all("type" in each for each in variants):
        notes.add("the types of anyOf are said beside it", lost=False)
        kinds = list(dict.fromkeys(kind for each in variants for kind in types_of(each)))
        made["type"] = kinds if len(kinds) > 1 else kinds[0]


def close_object(made: JsonObject, given: Any, objects: int, notes: Notes) -> JsonObject:
    """Require each property, and allow no others, as strict mode wants it; what may be left out may be null.

    Raises:
        CannotSayError: Strict mode has no schema for it.
    """
    if made.get("type") != "object" and "properties" not in made:
        if made.keys().isdisjoint(("type", "enum", "const", "anyOf", "$ref")):
            raise CannotSayError(f"{'.'.join(notes.path) or 'it'} may be anything")
        return made
    if is_array(made.get("type")):
        raise CannotSayError("it has an object beside other types")
    others = given.get("additionalProperties", made.get("additionalProperties"))
    properties: JsonObject = made.get("properties", {})
    if others is not False and (others is not None or not properties):
        raise CannotSayError(f"{'.'.join(notes.path) or 'it'} is an object of any names")
    if objects > DEEPEST:
        raise CannotSayError(f"it has more than {DEEPEST} levels of objects")
    required = made.get("required", [])
    if optional := [name for name in properties if name not in required]:
        notes.add(f"required, and null if left out: {', '.join(optional)}", lost=False)
    elif others is None or made.get("type") != "object" or not given.get("required"):
        notes.add("takes no other names", lost=False)
    fitted = {name: each if name in required else make_nullable(each) for name, each in properties.items()}
    return {**made, "type": "object", "properties": fitted, "required": [*fitted], "additionalProperties": False}


def open_circles(top: JsonObject, definitions: JsonObject, notes: Notes) -> None:
    """Require no property whose type holds itself: the provider writes such a type out as far as it is required."""
    holders = {"": top, **definitions}
    ways = {name: {name_of(each["$ref"]) for each, *_ in list_references(held)} for name, held in holders.items()}
    for name, held in holders.items():
        notes.path = ["$defs", name] if name else []
        for each, owner, key in list_references(held):
            if name not in reach(ways, name_of(each["$ref"])):
                continue
            if owner is None:
                notes.add("a type that holds itself is cut off")
                del each["$ref"]
            elif key in owner.get("required", ()):
                notes.add(f"{key} holds its own type, and is not required")
                owner["required"] = [one for one in owner["required"] if one != key]


def tell(made: JsonObject, told: JsonObject) -> JsonObject:
    """Say in the description of a schema what it is told without."""
    words = [f"{key}: {text}" for key, value in told.items() if len(text := to_text(value)) <= LONGEST]
    if words and "$ref" not in made:
        said = f"{made['description']} " if made.get("description") else ""
        made["description"] = f"{said}({', '.join(words)})"
    return made
