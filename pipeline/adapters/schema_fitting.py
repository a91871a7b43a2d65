"""Fit the schema of a tool to what a provider takes: one definition that it refuses fails the whole request.

What has another form there is written in it. Anything else is left out, so that the provider takes more than the tool
does, and is told in the description where it is short. Calls are validated by the tool's own schema as before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from ..base.nesting import is_deep
from ..base.options import refuse
from ..base.setup_error import SetupError
from ..parameters import copy_containers
from ..parameters.references import REFERENCES, References
from ..parameters.schema import UNIONS, JsonObject, is_array, is_object
from .renamed_properties import name_properties
from .schema_parts import (
    LISTS,
    LONGEST,
    MAPS,
    OLD,
    SCHEMAS,
    TOGETHER,
    TYPES,
    as_types,
    is_about,
    is_count,
    is_kind,
    is_valid,
    is_well_formed,
    join_parts,
    join_variants,
    list_ids,
    list_references,
    name_of,
    reach,
    to_text,
    types_of,
)
from .schema_rules import OPENAI, OPENAI_STRICT, RULES, SchemaRules
from .schema_strict import DEEPEST, CannotSayError, check_sizes, make_nullable

_MAY_BE_BOOLEAN: Final = frozenset(("additionalProperties", "unevaluatedProperties", "unevaluatedItems"))
_NAMES: Final = frozenset((  # of places that references lead to, which are written anew, as the draft is
    "$defs", "definitions", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary",
    "$schema",
))  # fmt: skip
# Told in the description if a provider does not take them. Strict mode may be without them: only more is valid then.
_TOLD: Final = frozenset((
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "uniqueItems", "pattern", "format", "default",
))  # fmt: skip
_NARROWED: Final = {"not": ("not",), "if": TOGETHER[0], "contains": TOGETHER[1]}  # if more is valid in the first
_UNSOUND: Final = OLD | {"pattern", "patternProperties"}  # a metaschema does not read patterns
_KNOWN: Final = frozenset((  # say something about which values are valid; a validator passes over any other
    *MAPS, *LISTS, *SCHEMAS, *_TOLD, *OLD, *REFERENCES, "type", "enum", "const", "required", "dependentRequired",
    "minContains", "maxContains",
)) - {"default", "contentSchema"}  # fmt: skip
# Strict mode may be without these: only more is valid then.
_LOSABLE: Final = _TOLD | {"propertyNames", "contains", "minContains", "maxContains", "not"}
_DEEP: Final = 120  # steps of a path to a schema, and references in each other
_MOST: Final = 10_000  # schemas that are written for one tool: references may make more than there are
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


class FittedSchema(NamedTuple):
    """A schema as a provider takes it.

    Attributes:
        schema: The schema. It is the one that was given, if nothing was changed.
        changes: What is different.
        is_strict: Whether OpenAI may hold the model to it.
    """

    schema: JsonObject
    changes: tuple[SchemaChange, ...] = ()
    is_strict: bool = False


class _Written(JsonObject):
    """A schema that is as the provider takes it."""


def fit(schema: Mapping[str, Any], provider: str, *, strict: bool = False) -> FittedSchema:
    """Fit the schema of a tool's parameters to what a provider takes.

    Args:
        schema: The JSON Schema. It stays as it is, and may be wrong.
        provider: ``openai``, ``anthropic``, ``gemini``, ``bedrock``, ``mistral`` or ``ollama``.
        strict: For OpenAI's strict mode. A schema that it cannot say is fitted without. Default False.

    Raises:
        SetupError: There is no such provider, or no strict mode of it.
    """
    if provider not in RULES:
        refuse("fit", "provider", f"one of {', '.join(RULES)}", provider)
    rules = RULES[provider]
    if strict and rules is not OPENAI:
        raise SetupError(f"fit: strict=True is a mode of openai, not of {provider}")
    given = dict(schema) if isinstance(cast("object", schema), Mapping) and not is_object(schema) else schema
    if not strict:
        return _Fitting(rules, given).fit()
    try:
        return _Fitting(OPENAI_STRICT, given).fit()._replace(is_strict=True)
    except CannotSayError as exc:
        found = _Fitting(rules, given).fit()
        return found._replace(changes=(SchemaChange("", f"not strict: {exc}", lost=True), *found.changes))


@lru_cache(maxsize=1_000)
def _fit_once(text: str, provider: str, strict: bool) -> FittedSchema:  # noqa: FBT001  # the cache knows places
    return fit(json.loads(text), provider, strict=strict)


def fit_definitions(
    definitions: list[dict[str, Any]], key: str, provider: str, *, strict: bool = False
) -> list[dict[str, Any]]:
    """Fit the schemas in definitions of tools; one for strict mode says ``"strict": True`` beside it.

    An agent asks for the same ones at each turn: each is fitted once.

    Args:
        definitions: The definitions of `build_definitions`, which are changed.
        key: Where the schema stands in each.
        provider: As with `fit`.
        strict: As with `fit`.
    """
    for each in definitions:
        try:
            found = _fit_once(json.dumps(each[key]), provider, strict)
        except (TypeError, ValueError):  # it is not JSON
            found = fit(each[key], provider, strict=strict)
        each[key] = copy_containers(found.schema) if found.changes else each[key]
        if found.is_strict:
            each["strict"] = True
    return definitions


class _Fitting:
    """One schema on its way to a provider."""

    def __init__(self, rules: SchemaRules, root: Any) -> None:
        self.rules, self.root = rules, root
        self.changes: list[SchemaChange] = []
        self.definitions: dict[str, Any] = {}
        self.written = 0
        self._names: dict[int, str] = {}  # of definitions, by the id of what they define
        self._pending: list[tuple[str, JsonObject]] = []  # of these, not fitted yet
        self._inside: list[int] = [id(root)]  # of what is written in place of references
        self._declared: set[int] = set()  # ids of definitions
        self._ids = set[str]() if is_deep(root) else list_ids(root)
        self._kept: list[Any] = []  # `References` knows schemas by their ids
        self._path: list[str] = []
        self._objects = 0  # of strict mode, in each other
        self._references: References | None = None
        self._is_sound = is_object(root) and is_valid({key: each for key, each in root.items() if key != "$schema"})

    def fit(self) -> FittedSchema:
        if not is_object(self.root):
            self._close({}, None)
            self._note("is no schema of an object: any arguments are taken")
            return FittedSchema({"type": "object", "properties": {}}, tuple(self.changes))
        try:
            self._references = None if is_deep(self.root) else References(self.root)
        except SetupError:
            self._note("has too many references")
        made = self._fit_top(self.root)
        while self._pending:
            name, target = self._pending.pop()
            self._path = ["$defs", name]
            self.definitions[name] = self._write(target)
        self._path = []
        if self._declared - self._names.keys():
            self._note("definitions that nothing refers to are left out", lost=False)
        if not self.rules.recursion:
            self._open_circles(made)
        if self.rules.strict:
            check_sizes([made, *self.definitions.values()], self.definitions)
        if not self.changes:
            return FittedSchema(self.root)
        if self.definitions:
            made["$defs"] = {name: self.definitions[name] for name in sorted(self.definitions)}
        return FittedSchema(made, tuple(self.changes))

    def _note(self, what: str, *, lost: bool = True, at: str = "") -> None:
        self.changes.append(SchemaChange(".".join([*self._path, at] if at else self._path), what, lost))

    # --- The top ---
    def _fit_top(self, root: JsonObject) -> JsonObject:
        node = self._without_unions(root) if self.rules.top else root
        rules = self.rules
        if banned := [key for key in node if key in rules.top or (rules.top_only and key not in rules.top_only)]:
            self._note(f"left out at the top: {', '.join(map(str, banned))}", lost=not _KNOWN.isdisjoint(banned))
            node = {key: value for key, value in node.items() if key not in banned}
        if node.get("type") != "object":
            self._note('says "type": "object"', lost=False)
            node = {**node, "type": "object"}
        if not is_object(node.get("properties")):
            node = {**node, "properties": {}}
            self._note("says that it has no properties", lost=False)
        return self._write(node)

    def _without_unions(self, root: JsonObject) -> JsonObject:
        """The schema with the parameters of all its variants beside each other: most providers take no union there."""
        unions = [each for each in ("allOf", "anyOf", "oneOf") if each in root]
        if not unions and root.keys().isdisjoint(REFERENCES):
            return root
        if self.rules.strict:
            raise CannotSayError("it has a union at the top")
        self._note(f"{' and '.join(unions) or 'the reference'} at the top is written as one object", lost=unions != [])
        made: JsonObject = {**self._gather(root, frozenset())}
        return {key: value for key, value in made.items() if key not in REFERENCES}

    def _gather(self, node: Any, seen: frozenset[int]) -> JsonObject:
        """One object with the parameters of an object and of all its variants. Required is what all of them require."""
        target = self._find_target(node) if is_object(node) and not node.keys().isdisjoint(REFERENCES) else None
        if not is_object(node) or id(node) in seen or len(seen) > _DEEP:
            return {}
        seen = seen | {id(node)}
        self.written += 1
        own = {key: value for key, value in node.items() if key not in LISTS and key not in REFERENCES}
        if not is_object(own.get("properties", {})):
            del own["properties"]
        parts = [self._gather(target, seen)] if target is not None else []
        for keyword in UNIONS:
            variants = node.get(keyword)
            if is_array(variants) and self.written < _MOST:
                found = [self._gather(each, seen) for each in variants]
                fitting = [each for each in found if "object" in types_of(each, "object")]
                parts += found if keyword == "allOf" else [join_variants(fitting)]
        made = own
        if parts:
            made.pop("unevaluatedProperties", None)
        for part in parts:
            made = join_parts(made, part)
        return made

    # --- One schema ---
    def _write(self, given: Any) -> JsonObject:
        """A schema as the provider takes it, and all that stands in it."""
        if type(given) is _Written:
            return dict(given)
        self.written += 1
        if given is True:
            self._note("true is written as {}", lost=False)
        if not is_object(given) and given is not True:
            self._note("is no schema, or one that nothing fits: left out")
        if not is_object(given) or not given:
            return self._close({}, given)
        if len(self._path) > _DEEP or self.written > _MOST:
            self._note("is too deep or too large: left out")
            return self._close({}, given)
        told: JsonObject = {}
        inside, objects = len(self._inside), self._objects
        node = self._mend(given)
        while self.rules.references == "none" and not node.keys().isdisjoint(REFERENCES):
            given = self._inline(given, node)
            node = self._mend(given)
        if not node.keys().isdisjoint(REFERENCES):
            node = self._refer(given, node)
        node = self._reshape(node, told)
        self._drop(node, told)
        self._objects += is_kind(node, "object")
        made: JsonObject = {}
        for keyword, value in node.items():
            before = self._count_lost()
            made[keyword] = self._write_below(keyword, value)
            if self._count_lost() > before and (keyword in _NARROWED or keyword == "oneOf"):
                self._widen(made, keyword)
        self._finish(made)
        made = self._close(made, given)
        del self._inside[inside:]
        self._objects = objects
        return self._tell(made, told)

    def _count_lost(self) -> int:
        return sum(each.lost for each in self.changes)

    def _widen(self, made: JsonObject, keyword: str) -> None:
        """Fewer values are valid where more are valid inside of these keywords."""
        self._note(f"{keyword} takes more than it did: {'written as anyOf' if keyword == 'oneOf' else 'left out'}")
        if keyword == "oneOf" and "anyOf" not in made:
            made["anyOf"] = made.pop("oneOf")
        else:
            made[keyword] = None  # its partners may follow

    def _write_below(self, keyword: str, value: Any) -> Any:
        if keyword in MAPS:
            return {name: self._at((keyword, name), each) for name, each in value.items()}
        if keyword in LISTS:
            return [self._at((keyword, str(place)), each) for place, each in enumerate(value)]
        if keyword in SCHEMAS and not (keyword in _MAY_BE_BOOLEAN and isinstance(value, bool)):
            return self._at((keyword,), value)
        return value

    def _at(self, steps: tuple[str, ...], value: Any) -> JsonObject:
        self._path += steps
        made = self._write(value)
        del self._path[-len(steps) :]
        return made

    def _mend(self, given: JsonObject) -> JsonObject:
        """The schema without what JSON Schema 2020-12 refuses; what an older draft says otherwise is written anew."""
        node: JsonObject = {key: value for key, value in given.items() if key not in _NAMES}
        for keyword in ("$defs", "definitions"):
            held = given.get(keyword)
            self._declared |= {id(each) for each in held.values()} if is_object(held) else {id(held)} - {id(None)}
        if "$schema" in given and "json-schema.org/" not in str(given["$schema"]):
            self._note("$schema is of no draft that is known: left out", lost=False)
        self._update(node)
        self._drop_never(node)
        for keyword, value in [*node.items()]:
            if not (self._is_sound and keyword not in _UNSOUND) and not is_well_formed(keyword, value):
                self._note(f"{keyword} is not as JSON Schema has it: left out")
                del node[keyword]
        return node

    def _update(self, node: JsonObject) -> None:
        """Write what an older draft says otherwise as the present one does."""
        if is_array(node.get("items")):
            self._note("a list in items is written as prefixItems", lost=False)
            node["prefixItems"] = node.pop("items")
            if "additionalItems" in node:
                node["items"] = node.pop("additionalItems")
        for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(node.get(exclusive), bool):
                is_exclusive = node.pop(exclusive)
                self._note(f"{exclusive} is written as a number", lost=False)
                if is_exclusive and bound in node:
                    node[exclusive] = node.pop(bound)

    def _drop_never(self, node: JsonObject) -> None:
        """Say without ``false`` what is never valid: few providers take it."""
        properties = node.get("properties")
        if is_object(properties) and (never := [name for name, each in properties.items() if each is False]):
            self._note(f"parameters that are never valid are left out: {', '.join(map(str, never))}")
            node["properties"] = {name: each for name, each in properties.items() if each is not False}
        for keyword in ("anyOf", "oneOf"):
            variants = node.get(keyword)
            if is_array(variants) and False in [each for each in variants if isinstance(each, bool)]:
                self._note(f"variants of {keyword} that are never valid are left out", lost=False)
                node[keyword] = [each for each in variants if each is not False]
        if node.get("items") is False and is_array(first := node.get("prefixItems")):
            self._note("items: false is written as maxItems", lost=False)
            most: Any = node.get("maxItems")
            node |= {"maxItems": min(len(first), most) if is_count(most) else len(first), "items": {}}

    def _find_target(self, node: JsonObject) -> JsonObject | None:
        """Where the reference of a schema leads, also over other references; None: nowhere."""
        seen: set[int] = set()
        while self._references is not None:
            self._kept.append(node)
            found = self._references.find(node) if self._is_here(node) else []
            if len(found) != 1 or id(found[0]) in seen:
                return None
            node = found[0]
            seen.add(id(node))
            if node.keys().isdisjoint(REFERENCES) or len(node) > 1:
                return node
        return None

    def _is_here(self, node: JsonObject) -> bool:
        """Whether a reference leads into this schema. `References` lists all places that it may mean."""
        heads = [str(node[keyword]).partition("#")[0] for keyword in REFERENCES if keyword in node]
        return all(not head or head.rpartition("/")[2] in self._ids for head in heads)

    def _refer(self, given: JsonObject, node: JsonObject) -> JsonObject:
        written = [node.pop(keyword) for keyword in REFERENCES if keyword in node]
        target = self._find_target(given)
        if target is None:
            self._note(f"the reference {str(written[0])[:100]} leads nowhere: left out")
            return node
        is_plain = isinstance(written[0], str) and written[0].startswith("#") and "$ref" in given
        if not is_plain or (self.rules.keywords is not None and not str(written[0]).startswith("#/$defs/")):
            self._note("the reference leads to $defs", lost=False)
        name = self._define(target, str(written[0]))
        reference = f"#/$defs/{name}" if name else "#"
        if self.rules.references == "free" or not node:
            return {**node, "$ref": reference}
        about = {key: value for key, value in node.items() if key in ("title", "description")}
        if beside := node.keys() & _KNOWN:
            self._note(f"{', '.join(sorted(beside))} beside a reference is left out")
        self._note("the reference stands alone", lost=False)
        return {**about, "anyOf": [_Written({"$ref": reference})]} if about else {"$ref": reference}

    def _define(self, target: JsonObject, reference: str) -> str:
        """The name of a definition; "" for the whole schema."""
        if target is self.root:
            return ""
        if id(target) not in self._names:
            base = re.sub(r"[^a-zA-Z0-9_.-]", "_", reference.rpartition("/")[2])[:64] or "part"
            taken, name, number = set(self._names.values()), base, 2
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            self._names[id(target)] = name
            self._pending.append((name, target))
        return self._names[id(target)]

    def _inline(self, given: JsonObject, node: JsonObject) -> JsonObject:
        """The schema with what its reference leads to in itself; inside of itself only its type is said."""
        written = [node.pop(keyword) for keyword in REFERENCES if keyword in node]
        target = self._find_target(given)
        if target is None:
            self._note(f"the reference {str(written[0])[:100]} leads nowhere: left out")
            return node
        if id(target) in self._inside or len(self._inside) > _DEEP:
            self._note("a type that holds itself is cut off")
            kinds = target.get("type")
            return {**({"type": kinds} if "type" in target and is_well_formed("type", kinds) else {}), **node}
        self._note("the reference is replaced by what it leads to", lost=False)
        if both := {key for key in target.keys() & node.keys() & _KNOWN if target[key] != node[key]}:
            self._note(f"{', '.join(sorted(both))} beside a reference is left out")
        self._inside.append(id(target))
        return {**node, **target, **{key: node[key] for key in node.keys() - _KNOWN}}

    # --- Other forms of the same ---
    def _takes(self, keyword: str) -> bool:
        return self.rules.keywords is None or keyword in self.rules.keywords

    def _reshape(self, node: JsonObject, told: JsonObject) -> JsonObject:
        """Say in keywords that the provider takes what the schema says in others."""
        while "allOf" in node and not self._takes("allOf"):
            node = self._merge(node)
        if "const" in node and not self._takes("const"):
            self._note("const is written as enum", lost=False)
            node["enum"] = [node.pop("const")]
        if "oneOf" in node and not self._takes("oneOf") and "anyOf" not in node:
            self._note("oneOf is written as anyOf")
            node["anyOf"] = node.pop("oneOf")
        if "prefixItems" in node and not self._takes("prefixItems"):
            self._unpack_tuple(node)
        self._reshape_limits(node, told)
        if "enum" in node and not self.rules.enums:
            self._split_enum(node)
        kinds = node.get("type")
        if is_array(kinds) and not self.rules.type_lists and len({*kinds} - {"null"}) > 1:
            self._split_types(node, kinds)
        return node

    def _reshape_limits(self, node: JsonObject, told: JsonObject) -> None:
        for exclusive, bound, by in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if exclusive in node and not self._takes(exclusive) and self._takes(bound):
                value, other = node.pop(exclusive), node.get(bound)
                exact = node.get("type") == "integer" and type(value) is int
                self._note(f"{exclusive} is written as {bound}", lost=not exact)
                if not exact:
                    told[exclusive] = value
                value = value + by if exact else value
                node[bound] = value if other is None else max(value, other) if by > 0 else min(value, other)
        pattern = node.get("pattern")
        if pattern is not None and not self.rules.lookaround and _LOOKAROUND.search(pattern):
            self._note("a pattern that looks around is left out")
            told["pattern"] = node.pop("pattern")
        if not self.rules.lookaround and any(map(_LOOKAROUND.search, node.get("patternProperties", ()))):
            self._note("patternProperties with a pattern that looks around is left out")
            if self.rules.strict:
                raise CannotSayError("it has patterns of names")
            del node["patternProperties"]
            node.pop("additionalProperties", None)
        if "format" in node and self.rules.formats is not None and node["format"] not in self.rules.formats:
            self._note(f"the format {node['format']} is left out")
            told["format"] = node.pop("format")

    def _merge(self, node: JsonObject) -> JsonObject:
        """The schema with all of its ``allOf`` in itself."""
        parts: list[Any] = node.pop("allOf")
        self._note("allOf is written as one schema", lost=len(parts) > 1)
        for part in parts:
            found: Any = part
            if is_object(part) and not part.keys().isdisjoint(REFERENCES):
                if len(parts) == 1 and node.keys().isdisjoint(_KNOWN) and self.rules.references == "alone":
                    return self._refer(part, {**self._mend(part), **node})
                target = self._find_target(part)
                if target is None or id(target) in self._inside or len(self._inside) > _DEEP:
                    self._note("a part of allOf leads nowhere, or to itself: left out")
                    continue
                rest = {key: value for key, value in part.items() if key not in REFERENCES}
                found = join_parts({**target}, rest)
                if not target.keys().isdisjoint(REFERENCES):
                    self._note("a part of allOf leads to another one: left out")
                    found = {key: value for key, value in found.items() if key not in REFERENCES}
                self.written += 1
            if is_object(found) and self.written < _MOST:
                self.written += 1
                inner: Any = found.get("allOf")
                node = join_parts(node, self._mend(found))
                if is_array(inner):
                    node["allOf"] = [*(node.get("allOf") or ()), *inner][:100] if node.get("allOf") != inner else inner
        return node

    def _unpack_tuple(self, node: JsonObject) -> None:
        first: list[Any] = node.pop("prefixItems")
        most: Any = node.get("maxItems")
        self._note("prefixItems is written as items")
        if not is_count(most) or most > len(first):
            first = [*first, node.get("items", {})]
        kinds = [each for place, each in enumerate(first) if each not in first[:place]]
        node["items"] = kinds[0] if len(kinds) == 1 else {} if True in kinds or {} in kinds else {"anyOf": kinds}

    def _split_enum(self, node: JsonObject) -> None:
        """Write the values that are neither texts nor numbers as types beside them."""
        values: list[Any] = node["enum"]
        kept = [each for each in values if isinstance(each, (str, int, float)) and not isinstance(each, bool)]
        if len(kept) == len(values):
            return
        others = [each for each in values if each is None or isinstance(each, bool)]
        kinds = {"boolean" if isinstance(each, bool) else "null" for each in others}
        taken = set(types_of(node, *TYPES))
        if len(kept) + len(others) < len(values) or "anyOf" in node or not (kept or kinds & taken):
            self._note("an enum of other values than texts and numbers is left out")
            del node["enum"]
            return
        self._note("the values true, false and null of an enum are written as types", lost="boolean" in kinds)
        inner: JsonObject = {key: node.pop(key) for key in [*node] if key in _KNOWN}
        variants: list[Any] = [{**inner, "enum": kept, **as_types(taken - {"null", "boolean"})}] if kept else []
        node["anyOf"] = [*variants, *({"type": each} for each in sorted(kinds & taken))]

    def _split_types(self, node: JsonObject, kinds: list[str]) -> None:
        if "anyOf" in node:
            self._note("a list of types beside anyOf is left out")
            del node["type"]
            return
        self._note("a list of types is written as anyOf", lost=False)
        inner: JsonObject = {key: node.pop(key) for key in [*node] if key in _KNOWN}
        node["anyOf"] = [
            {**{key: value for key, value in inner.items() if is_about(key, kind)}, "type": kind} for kind in kinds
        ]

    # --- What has no other form ---
    def _drop(self, node: JsonObject, told: JsonObject) -> None:
        for keyword in [*node]:
            if keyword not in node or self._takes(keyword):
                continue
            if self.rules.strict and keyword in _KNOWN - _LOSABLE:
                raise CannotSayError(f"it has {keyword}")
            value = node.pop(keyword, None)
            if keyword == "patternProperties":
                node.pop("additionalProperties", None)  # it would refuse those names
            self._note(f"{keyword} is left out", lost=keyword in _KNOWN)
            if keyword in (_TOLD - {"default"} if self.rules.strict else _TOLD | {"additionalProperties"}):
                told[keyword] = value

    def _finish(self, made: JsonObject) -> None:
        """Add what the provider wants to be said, and name the properties as it takes them."""
        for keyword in [each for each in (*_NARROWED, "oneOf") if each in made and made[each] is None]:
            for each in _NARROWED.get(keyword, (keyword,)):
                made.pop(each, None)
        has_items = "prefixItems" in made or is_kind(made, "array")
        if self.rules.items and has_items and "items" not in made:
            if self.rules.strict:
                raise CannotSayError("it has an array of anything")
            self._note("items are said to be anything", lost=False)
            made["items"] = {}
        if self.rules.properties and is_kind(made, "object") and "properties" not in made:
            self._note("says that it has no properties", lost=False)
            made["properties"] = {}
        declared = made.get("properties", {})
        required = made.get("required")
        if self.rules.known_required and required and not declared.keys() >= {*required}:
            self._note("required names that are no properties are left out")
            made["required"] = required = [each for each in required if each in declared]
        names = name_properties(declared, self.rules.names)
        if odd := [name for name, sent in names.items() if name != sent]:
            self._note(f"names are sent in another form: {', '.join(odd)}", lost=False)
            made["properties"] = {names[name]: each for name, each in declared.items()}
            if required:
                made["required"] = [names.get(name, name) for name in required]
        variants: Any = made.get("anyOf")
        if self.rules.told and "type" not in made and variants and all("type" in each for each in variants):
            self._note("the types of anyOf are said beside it", lost=False)
            kinds = list(dict.fromkeys(kind for each in variants for kind in types_of(each)))
            made["type"] = kinds if len(kinds) > 1 else kinds[0]

    def _tell(self, made: JsonObject, told: JsonObject) -> JsonObject:
        words = [f"{key}: {text}" for key, value in told.items() if len(text := to_text(value)) <= LONGEST]
        if words and "$ref" not in made:
            said = f"{made['description']} " if made.get("description") else ""
            made["description"] = f"{said}({', '.join(words)})"
        return made

    # --- Strict mode ---
    def _close(self, made: JsonObject, given: Any) -> JsonObject:
        """Require each property, and allow no others; what may be left out may be null."""
        if not self.rules.strict:
            return made
        if made.get("type") != "object" and "properties" not in made:
            if made.keys().isdisjoint(("type", "enum", "const", "anyOf", "$ref")):
                raise CannotSayError(f"{'.'.join(self._path) or 'it'} may be anything")
            return made
        if is_array(made.get("type")):
            raise CannotSayError("it has an object beside other types")
        others = given.get("additionalProperties", made.get("additionalProperties"))
        properties: JsonObject = made.get("properties", {})
        if others is not False and (others is not None or not properties):
            raise CannotSayError(f"{'.'.join(self._path) or 'it'} is an object of any names")
        if self._objects > DEEPEST:
            raise CannotSayError(f"it has more than {DEEPEST} levels of objects")
        required = made.get("required", [])
        if optional := [name for name in properties if name not in required]:
            self._note(f"required, and null if left out: {', '.join(optional)}", lost=False)
        elif others is None or made.get("type") != "object" or not given.get("required"):
            self._note("takes no other names", lost=False)
        fitted = {name: each if name in required else make_nullable(each) for name, each in properties.items()}
        return {**made, "type": "object", "properties": fitted, "required": [*fitted], "additionalProperties": False}

    # --- Recursion ---
    def _open_circles(self, top: JsonObject) -> None:
        """Require no property whose type holds itself: the provider writes such a type out as far as it is required."""
        holders = {"": top, **self.definitions}
        ways = {name: {name_of(each["$ref"]) for each, *_ in list_references(held)} for name, held in holders.items()}
        for name, held in holders.items():
            self._path = ["$defs", name] if name else []
            for each, owner, key in list_references(held):
                if name not in reach(ways, name_of(each["$ref"])):
                    continue
                if owner is None:
                    self._note("a type that holds itself is cut off")
                    del each["$ref"]
                elif key in owner.get("required", ()):
                    self._note(f"{key} holds its own type, and is not required")
                    owner["required"] = [one for one in owner["required"] if one != key]
