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
from .schema_forms import (
    Notes,
    SchemaChange,
    close_object,
    drop_never,
    finish,
    open_circles,
    reshape_limits,
    split_enum,
    split_types,
    tell,
    unpack_tuple,
    update_draft,
)
from .schema_parts import (
    KNOWN,
    LISTS,
    LOSABLE,
    MAPS,
    NARROWED,
    OLD,
    SCHEMAS,
    TOLD,
    is_kind,
    is_valid,
    is_well_formed,
    join_parts,
    join_variants,
    list_ids,
    types_of,
)
from .schema_rules import OPENAI, OPENAI_STRICT, RULES, SchemaRules
from .schema_strict import CannotSayError, check_sizes

_MAY_BE_BOOLEAN: Final = frozenset(("additionalProperties", "unevaluatedProperties", "unevaluatedItems"))
_NAMES: Final = frozenset((  # of places that references lead to, which are written anew, as the draft is
    "$defs", "definitions", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary",
    "$schema",
))  # fmt: skip
_UNSOUND: Final = OLD | {"pattern", "patternProperties"}  # a metaschema does not read patterns
_DEEP: Final = 120  # steps of a path to a schema, and references in each other
_MOST: Final = 10_000  # schemas that are written for one tool: references may make more than there are


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
        self.notes = Notes()
        self.definitions: dict[str, Any] = {}
        self.written = 0
        self._names: dict[int, str] = {}  # of definitions, by the id of what they define
        self._pending: list[tuple[str, JsonObject]] = []  # of these, not fitted yet
        self._inside: list[int] = [id(root)]  # of what is written in place of references
        self._declared: set[int] = set()  # ids of definitions
        self._ids = set[str]() if is_deep(root) else list_ids(root)
        self._kept: list[Any] = []  # `References` knows schemas by their ids
        self._objects = 0  # of strict mode, in each other
        self._references: References | None = None
        self._is_sound = is_object(root) and is_valid({key: each for key, each in root.items() if key != "$schema"})

    def fit(self) -> FittedSchema:
        if not is_object(self.root):
            self._close({}, None)
            self.notes.add("is no schema of an object: any arguments are taken")
            return FittedSchema({"type": "object", "properties": {}}, tuple(self.notes.changes))
        try:
            self._references = None if is_deep(self.root) else References(self.root)
        except SetupError:
            self.notes.add("has too many references")
        made = self._fit_top(self.root)
        while self._pending:
            name, target = self._pending.pop()
            self.notes.path = ["$defs", name]
            self.definitions[name] = self._write(target)
        self.notes.path = []
        if self._declared - self._names.keys():
            self.notes.add("definitions that nothing refers to are left out", lost=False)
        if not self.rules.recursion:
            open_circles(made, self.definitions, self.notes)
        if self.rules.strict:
            check_sizes([made, *self.definitions.values()], self.definitions)
        if not self.notes.changes:
            return FittedSchema(self.root)
        if self.definitions:
            made["$defs"] = {name: self.definitions[name] for name in sorted(self.definitions)}
        return FittedSchema(made, tuple(self.notes.changes))

    # --- The top ---
    def _fit_top(self, root: JsonObject) -> JsonObject:
        node = self._without_unions(root) if self.rules.top else root
        rules = self.rules
        if banned := [key for key in node if key in rules.top or (rules.top_only and key not in rules.top_only)]:
            self.notes.add(f"left out at the top: {', '.join(map(str, banned))}", lost=not KNOWN.isdisjoint(banned))
            node = {key: value for key, value in node.items() if key not in banned}
        if node.get("type") != "object":
            self.notes.add('says "type": "object"', lost=False)
            node = {**node, "type": "object"}
        if not is_object(node.get("properties")):
            node = {**node, "properties": {}}
            self.notes.add("says that it has no properties", lost=False)
        return self._write(node)

    def _without_unions(self, root: JsonObject) -> JsonObject:
        """The schema with the parameters of all its variants beside each other: most providers take no union there."""
        unions = [each for each in ("allOf", "anyOf", "oneOf") if each in root]
        if not unions and root.keys().isdisjoint(REFERENCES):
            return root
        if self.rules.strict:
            raise CannotSayError("it has a union at the top")
        self.notes.add(
            f"{' and '.join(unions) or 'the reference'} at the top is written as one object", lost=unions != []
        )
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
            self.notes.add("true is written as {}", lost=False)
        if not is_object(given) and given is not True:
            self.notes.add("is no schema, or one that nothing fits: left out")
        if not is_object(given) or not given:
            return self._close({}, given)
        if len(self.notes.path) > _DEEP or self.written > _MOST:
            self.notes.add("is too deep or too large: left out")
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
            before = self.notes.lost
            made[keyword] = self._write_below(keyword, value)
            if self.notes.lost > before and (keyword in NARROWED or keyword == "oneOf"):
                self._widen(made, keyword)
        finish(made, self.rules, self.notes)
        made = self._close(made, given)
        del self._inside[inside:]
        self._objects = objects
        return tell(made, told)

    def _widen(self, made: JsonObject, keyword: str) -> None:
        """Fewer values are valid where more are valid inside of these keywords."""
        self.notes.add(f"{keyword} takes more than it did: {'written as anyOf' if keyword == 'oneOf' else 'left out'}")
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
        self.notes.path += steps
        made = self._write(value)
        del self.notes.path[-len(steps) :]
        return made

    def _mend(self, given: JsonObject) -> JsonObject:
        """The schema without what JSON Schema 2020-12 refuses; what an older draft says otherwise is written anew."""
        node: JsonObject = {key: value for key, value in given.items() if key not in _NAMES}
        for keyword in ("$defs", "definitions"):
            held = given.get(keyword)
            self._declared |= {id(each) for each in held.values()} if is_object(held) else {id(held)} - {id(None)}
        if "$schema" in given and "json-schema.org/" not in str(given["$schema"]):
            self.notes.add("$schema is of no draft that is known: left out", lost=False)
        update_draft(node, self.notes)
        drop_never(node, self.notes)
        for keyword, value in [*node.items()]:
            if not (self._is_sound and keyword not in _UNSOUND) and not is_well_formed(keyword, value):
                self.notes.add(f"{keyword} is not as JSON Schema has it: left out")
                del node[keyword]
        return node

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
            self.notes.add(f"the reference {str(written[0])[:100]} leads nowhere: left out")
            return node
        is_plain = isinstance(written[0], str) and written[0].startswith("#") and "$ref" in given
        if not is_plain or (self.rules.keywords is not None and not str(written[0]).startswith("#/$defs/")):
            self.notes.add("the reference leads to $defs", lost=False)
        name = self._define(target, str(written[0]))
        reference = f"#/$defs/{name}" if name else "#"
        if self.rules.references == "free" or not node:
            return {**node, "$ref": reference}
        about = {key: value for key, value in node.items() if key in ("title", "description")}
        if beside := node.keys() & KNOWN:
            self.notes.add(f"{', '.join(sorted(beside))} beside a reference is left out")
        self.notes.add("the reference stands alone", lost=False)
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
            self.notes.add(f"the reference {str(written[0])[:100]} leads nowhere: left out")
            return node
        if id(target) in self._inside or len(self._inside) > _DEEP:
            self.notes.add("a type that holds itself is cut off")
            kinds = target.get("type")
            return {**({"type": kinds} if "type" in target and is_well_formed("type", kinds) else {}), **node}
        self.notes.add("the reference is replaced by what it leads to", lost=False)
        if both := {key for key in target.keys() & node.keys() & KNOWN if target[key] != node[key]}:
            self.notes.add(f"{', '.join(sorted(both))} beside a reference is left out")
        self._inside.append(id(target))
        return {**node, **target, **{key: node[key] for key in node.keys() - KNOWN}}

    # --- Other forms of the same ---
    def _reshape(self, node: JsonObject, told: JsonObject) -> JsonObject:
        """Say in keywords that the provider takes what the schema says in others."""
        while "allOf" in node and not self.rules.takes("allOf"):
            node = self._merge(node)
        if "const" in node and not self.rules.takes("const"):
            self.notes.add("const is written as enum", lost=False)
            node["enum"] = [node.pop("const")]
        if "oneOf" in node and not self.rules.takes("oneOf") and "anyOf" not in node:
            self.notes.add("oneOf is written as anyOf")
            node["anyOf"] = node.pop("oneOf")
        if "prefixItems" in node and not self.rules.takes("prefixItems"):
            unpack_tuple(node, self.notes)
        reshape_limits(node, told, self.rules, self.notes)
        if "enum" in node and not self.rules.enums:
            split_enum(node, self.notes)
        kinds = node.get("type")
        if is_array(kinds) and not self.rules.type_lists and len({*kinds} - {"null"}) > 1:
            split_types(node, kinds, self.notes)
        return node

    def _merge(self, node: JsonObject) -> JsonObject:
        """The schema with all of its ``allOf`` in itself."""
        parts: list[Any] = node.pop("allOf")
        self.notes.add("allOf is written as one schema", lost=len(parts) > 1)
        for part in parts:
            found: Any = part
            if is_object(part) and not part.keys().isdisjoint(REFERENCES):
                if len(parts) == 1 and node.keys().isdisjoint(KNOWN) and self.rules.references == "alone":
                    return self._refer(part, {**self._mend(part), **node})
                target = self._find_target(part)
                if target is None or id(target) in self._inside or len(self._inside) > _DEEP:
                    self.notes.add("a part of allOf leads nowhere, or to itself: left out")
                    continue
                rest = {key: value for key, value in part.items() if key not in REFERENCES}
                found = join_parts({**target}, rest)
                if not target.keys().isdisjoint(REFERENCES):
                    self.notes.add("a part of allOf leads to another one: left out")
                    found = {key: value for key, value in found.items() if key not in REFERENCES}
                self.written += 1
            if is_object(found) and self.written < _MOST:
                self.written += 1
                inner: Any = found.get("allOf")
                node = join_parts(node, self._mend(found))
                if is_array(inner):
                    node["allOf"] = [*(node.get("allOf") or ()), *inner][:100] if node.get("allOf") != inner else inner
        return node

    # --- What has no other form ---
    def _drop(self, node: JsonObject, told: JsonObject) -> None:
        for keyword in [*node]:
            if keyword not in node or self.rules.takes(keyword):
                continue
            if self.rules.strict and keyword in KNOWN - LOSABLE:
                raise CannotSayError(f"it has {keyword}")
            value = node.pop(keyword, None)
            if keyword == "patternProperties":
                node.pop("additionalProperties", None)  # it would refuse those names
            self.notes.add(f"{keyword} is left out", lost=keyword in KNOWN)
            if keyword in (TOLD - {"default"} if self.rules.strict else TOLD | {"additionalProperties"}):
                told[keyword] = value

    def _close(self, made: JsonObject, given: Any) -> JsonObject:
        return close_object(made, given, self._objects, self.notes) if self.rules.strict else made
