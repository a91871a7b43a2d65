"""Find the places of a JSON Schema that hold secrets, and write paths to places without names that a model made up.

A place is secret if its subschema says ``"writeOnly": true`` or ``"format": "password"``. ``Annotated[…, Secret]`` and
pydantic's secret types become that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import attrs

from ..parameters.references import References
from ..parameters.schema import MAX_FORMS, Form, JsonObject, is_array, is_object

_SAME_PLACE: Final = ("allOf", "anyOf", "oneOf")  # lists of further subschemas of the same place
_SAME_PLACE_ONE: Final = ("if", "then", "else", "not")
_OF_ITEMS: Final = ("items", "contains", "unevaluatedItems", "additionalItems")
_OF_OTHERS: Final = ("additionalProperties", "unevaluatedProperties")
_MAX_STEPS = 1_000  # of one schema that are kept
_MAX_PATH = 128  # characters of a path that is shown
_MAX_READ = 1_000  # characters of a path that is read
_MAX_ENDS = 10  # places at which a made-up name may end, as it may itself contain a dot
_MAX_DEPTH = 16  # levels
_INDEX = re.compile(r"\[(\d{1,9})\]\.?")
_SEPARATOR = re.compile(r"[.\[]")
_Read = tuple[list[str], "Sequence[Form] | None"]  # the steps to show, and the subschemas there; None: unknown


class Facts(NamedTuple):
    """The facts about a place that are needed for each value there."""

    forms: Sequence[Form]  # the subschemas that apply there
    secret: bool  # the value is secret as a whole
    holds: bool  # it is secret, or may hold a secret
    types: frozenset[str]  # JSON types that the schema names there; empty: none
    secret_names: bool  # the names in an object are secret
    names: frozenset[str]  # that are declared for an object


@attrs.define(eq=False)
class SecretSchema:
    """Answers which places of a schema are secret, or hold a secret."""

    schema: Form
    _holding: dict[int, bool] = attrs.field(init=False, factory=dict[int, bool])  # by the id of a node
    # The subschemas of a place, by the ids of the nodes that lead there.
    _steps: dict[tuple[Any, ...], list[Form]] = attrs.field(init=False, factory=dict[Any, Any])
    _facts: dict[int, Facts] = attrs.field(init=False, factory=dict[int, Facts])  # by the id of the forms, which stay

    @cached_property
    def _references(self) -> References:
        return References(self.schema)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of secret parameters, wherever they stand."""
        return frozenset(
            name
            for node in _every_node(self.schema)
            for name, inner in _mapping(node.get("properties")).items()
            if self.is_secret(self.expand([inner]))
        )

    @cached_property
    def all_names(self) -> frozenset[str]:
        """The names of all parameters, wherever they stand."""
        return frozenset(name for node in _every_node(self.schema) for name in _mapping(node.get("properties")))

    @classmethod
    def find(cls, schema: Form) -> SecretSchema | None:
        """Return the schema as a SecretSchema; None if it declares no secret."""
        return cls(schema) if any(map(_is_marked, _every_node(schema))) else None

    def root(self) -> list[Form]:
        """Return the subschemas of the arguments as a whole."""
        return self._step([self.schema])

    def nodes(self) -> list[JsonObject]:
        """Every object in the schema."""
        return list(_every_node(self.schema))

    def expand(self, nodes: Iterable[Any]) -> list[Form]:
        """List these subschemas with all that apply at the same place: what they refer to, and branches."""
        found: dict[int, Form] = {}
        pending = list(nodes)
        while pending and len(found) < MAX_FORMS:
            node = pending.pop()
            if not is_object(node) or id(node) in found:
                continue
            found[id(node)] = node
            pending += self._references.find(node)
            for keyword in _SAME_PLACE:
                pending += _items(node.get(keyword))
            pending += [node.get(keyword) for keyword in _SAME_PLACE_ONE]
            pending += _mapping(node.get("dependentSchemas")).values()
        return list(found.values())

    def is_secret(self, forms: Sequence[Form]) -> bool:
        """Whether the value at a place is secret as a whole."""
        return any(map(_is_marked, forms))

    def holds_secret(self, forms: Sequence[Form]) -> bool:
        """Whether the value at a place is secret, or may hold a secret somewhere inside."""
        return any(self._is_holding(form) for form in forms)

    def declares_names(self, forms: Sequence[Form]) -> bool:
        """Whether the object at a place has declared names."""
        return any(_mapping(form.get("properties")) for form in forms)

    def names_of(self, forms: Sequence[Form]) -> list[str]:
        """The declared names of the object at a place, the longest first."""
        return sorted({name for form in forms for name in _mapping(form.get("properties"))}, key=len, reverse=True)

    def child(self, forms: Sequence[Form], name: str) -> list[Form] | None:
        """Return the subschemas of a declared name in the object at a place; None if the name is not declared."""
        nodes = [node for form in forms if (node := _mapping(form.get("properties")).get(name)) is not None]
        return self._step(nodes) if nodes else None

    def free_child(self, forms: Sequence[Form]) -> list[Form]:
        """Return the subschemas of a name that is not declared."""
        nodes: list[Any] = [form.get(keyword) for form in forms for keyword in _OF_OTHERS]
        nodes += [node for form in forms for node in _mapping(form.get("patternProperties")).values()]
        return self._step(nodes)

    def has_items(self, forms: Sequence[Form]) -> bool:
        """Whether an array may stand at a place."""
        return any("array" in _types(form) or "items" in form or "prefixItems" in form for form in forms)

    def facts(self, forms: Sequence[Form]) -> Facts:
        """Return the facts about a place; they are computed once."""
        known = self._facts.get(id(forms))
        if known is not None:
            return known
        types = {each for form in forms for each in _types(form)}
        if any("properties" in form for form in forms):
            types.add("object")
        if any("prefixItems" in form or "items" in form for form in forms):
            types.add("array")
        if "number" in types:
            types.add("integer")
        made = Facts(
            forms,
            self.is_secret(forms),
            self.holds_secret(forms),
            frozenset(types),
            any(self.is_secret(self.expand([form.get("propertyNames")])) for form in forms),
            frozenset(name for form in forms for name in _mapping(form.get("properties"))),
        )
        if len(self._facts) < _MAX_STEPS:
            self._facts[id(forms)] = made
        return made

    def count_first(self, forms: Sequence[Form]) -> int:
        """Count the items of the array at a place that may have subschemas of their own."""
        return max((len(_items(form.get("prefixItems"))) for form in forms), default=0)

    def item(self, forms: Sequence[Form], index: int) -> list[Form]:
        """Return the subschemas of an item of the array at a place."""
        nodes: list[Any] = []
        for form in forms:
            first = _items(form.get("prefixItems"))
            nodes += [first[index]] if index < len(first) else [form.get(keyword) for keyword in _OF_ITEMS]
            nodes += _items(form.get("items"))  # as drafts before 2020-12 had it
        return self._step(nodes)

    def _step(self, nodes: list[Any]) -> list[Form]:
        """As `expand`, with a cache. It is for nodes of the schema: these stay alive, so their ids are unique."""
        key = tuple(map(id, nodes))
        known = self._steps.get(key)
        if known is None:
            known = self.expand(nodes)
            if len(self._steps) < _MAX_STEPS:
                self._steps[key] = known
        return known

    def _is_holding(self, form: Form) -> bool:
        """Whether it or anything below it is marked; a schema that holds itself ends the search."""
        known = self._holding.get(id(form))
        if known is None:
            known = self._holding[id(form)] = any(map(_is_marked, _every_node(form, self._references)))
        return known


def _is_marked(node: Form) -> bool:
    return node.get("writeOnly") is True or node.get("format") == "password"


def _every_node(start: Any, references: References | None = None) -> Iterator[JsonObject]:
    """Every object in a schema, subschema or not; with ``references`` also what they lead to."""
    pending: list[Any] = [start if is_object(start) else dict(start)]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if is_array(node):
            pending += node
        elif is_object(node) and id(node) not in seen:
            seen.add(id(node))
            yield node
            pending += node.values()
            pending += references.find(node) if references is not None else ()


def _mapping(node: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", node) if isinstance(node, Mapping) else {}


def _types(form: Form) -> Sequence[str]:
    declared = form.get("type")
    return (declared,) if isinstance(declared, str) else _items(declared)


def _items(node: Any) -> list[Any]:
    return node if is_array(node) else []


def show_paths(schema: Form | None, paths: Iterable[str]) -> list[str]:
    """Write paths with the names that the schema declares.

    Args:
        schema: The tool's schema. None: it is unknown, so any name may be made up.
        paths: As in `Problem.path` and `Repair.path`.

    Returns:
        For each of them a text such as ``filter.tags[1]`` or ``amounts.*``; at most 128 characters. "" for the
        arguments as a whole.
    """
    if schema is None:
        return ["*" if path else "" for path in paths]
    read, declared = SecretSchema(schema), _mapping(schema.get("properties"))
    shown = (path if not path or path in declared else _join(read_path(read, path)[0]) for path in paths)
    return [each[:_MAX_PATH] for each in shown]


def read_path(schema: SecretSchema, path: str) -> _Read:
    """Read a path that was written as text, by the names that the schema declares."""
    return _read(schema, schema.root(), path[:_MAX_READ], _MAX_DEPTH) or (["*"], None)


def _read(schema: SecretSchema, forms: Sequence[Form], rest: str, depth: int) -> _Read | None:
    """Read the rest of a path; None if declared names do not lead to its end."""
    if not rest:
        return [], forms
    if depth == 0:
        return None
    if (index := _INDEX.match(rest)) and schema.has_items(forms):
        found = _read(schema, schema.item(forms, int(index[1])), rest[index.end() :], depth - 1)
        return (["[" + index[1] + "]", *found[0]], found[1]) if found else (["[" + index[1] + "]", "*"], None)
    for name in schema.names_of(forms):
        if rest == name or (rest.startswith(name) and rest[len(name)] in ".["):
            child = schema.child(forms, name) or ()
            found = _read(schema, child, rest[len(name) :].removeprefix("."), depth - 1)
            return ([name, *found[0]], found[1]) if found else ([name, "*"], None)
    if schema.declares_names(forms):
        return ["*"], None
    child = schema.free_child(forms)
    ends = [each.start() for each in islice(_SEPARATOR.finditer(rest, 1), _MAX_ENDS)]
    for end in ends if child else ():
        found = _read(schema, child, rest[end:].removeprefix("."), depth - 1)
        if found and "*" not in found[0]:
            return ["*", *found[0]], found[1]
    return ["*"], child


def _join(steps: Sequence[str]) -> str:
    text = ""
    for step in steps:
        text += step if not text or step.startswith("[") else f".{step}"
    return text
