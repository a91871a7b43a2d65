"""Find where the references of a JSON Schema lead: by pointer, anchor or id, in every draft of JSON Schema.

A bound on time and the mask of secrets need all targets that a reference may have, so this module lists more where it
cannot know: both bases of a node with an id (drafts differ in which one applies), an anchor in any resource, and every
resource for a URI that is written in another way. Nothing is fetched. JSON Schema 2020-12, section 8.2.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import Any, Final

from ..base.setup_error import SetupError
from .schema import Form, JsonObject, find_target, is_array, is_object

REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_REFERENCE: Final = re.compile(r'"\$(?:ref|dynamicRef|recursiveRef)"')
# In a text of a schema: what gives a name to a part of it, or a reference by such a name.
_NAMED: Final = re.compile(r'"(?:\$?id|\$(?:dynamic|recursive)?[aA]nchor)": ["t]|"\$ref": "(?!#["/])|"\$[dr]\w+Ref"')
_BASE: Final = "json-schema:///"  # of a schema without an id, as jsonschema-rs has it
_BASES: Final = 3  # of one node that are tried
_MAX_TARGETS: Final = 100_000  # of one schema that are looked for
_META: Final = "json-schema.org/"  # schemas that jsonschema-rs has itself
_ANYWHERE: Final[JsonObject] = {"$recursiveRef": "#"}
_UNKNOWN: Final[JsonObject] = {"additionalProperties": _ANYWHERE, "items": _ANYWHERE}


class References:
    """The targets of the references in one schema.

    Args:
        schema: The whole schema; it must not change afterwards.

    Attributes:
        count: References in the schema.
        objects: Objects in the schema.
        named: Whether a part of it has a name, or a reference is by a name.

    Raises:
        SetupError: References lead to more than 100,000 places.
    """

    def __init__(self, schema: Form) -> None:
        self._schema: JsonObject = schema if is_object(schema) else dict(schema)
        try:
            text = json.dumps(self._schema)
        except (TypeError, ValueError, RecursionError):
            text = '"$ref": "?"'
        self.count, self.objects = len(_REFERENCE.findall(text)), text.count("{")
        self.named = _NAMED.search(text) is not None
        self._resources: dict[str, list[JsonObject]] = {}  # by their URI, and by its last part
        self._anchors: dict[str, list[JsonObject]] = {}  # by their name
        self._dynamic: list[JsonObject] = []  # what a dynamic reference may lead to
        self._bases: dict[int, tuple[str, ...]] = {}  # by the id of a node with a reference
        self._found: dict[int, list[JsonObject]] = {}  # by the id of a node
        self._looked_for = 0
        if self.named:
            for node in self._name_parts():  # now, so that no mask of a call is the first to find too many
                self.find(node)

    def find(self, node: JsonObject) -> list[JsonObject]:
        """List the targets of the references in a node, each once; empty if there are none."""
        if not self.named:
            reference = node.get("$ref")
            target = find_target(self._schema, reference) if isinstance(reference, str) else None
            return [target] if is_object(target) else []
        known = self._found.get(id(node))
        if known is None:
            references = ((key, node.get(key)) for key in REFERENCES)
            held = [each for key, to in references if isinstance(to, str) for each in self._follow(key, to, node)]
            known = self._found[id(node)] = list({id(each): each for each in held}.values())
        return known

    def _follow(self, key: str, reference: str, node: JsonObject) -> list[JsonObject]:
        if key == "$recursiveRef":
            return self._count([*self._resources[_BASE], *self._dynamic])
        found: list[Any] = []
        part = ""
        for base in self._bases.get(id(node), (_BASE,)):
            head, part = _join(base, reference)
            if part and not part.startswith("/"):
                return self._count(self._anchors.get(part, []))
            resources = self._resources.get(head) or self._resources.get(_last(head)) or []
            found += [find_target(each, f"#{part}") for each in self._count(resources)]
        if not any(map(is_object, found)):
            if _META in reference:
                return [_UNKNOWN] if self._dynamic else []
            found = [find_target(each, f"#{part}") for each in self._count(self._every_resource)]
        return [each for each in found if is_object(each)]

    def _count(self, places: list[JsonObject]) -> list[JsonObject]:
        self._looked_for += len(places)
        if self._looked_for > _MAX_TARGETS:
            raise SetupError(f"references by id or anchor lead to more than {_MAX_TARGETS} places")
        return places

    @cached_property
    def _every_resource(self) -> list[JsonObject]:
        return list({id(each): each for held in self._resources.values() for each in held}.values())

    def _name_parts(self) -> list[JsonObject]:
        """Note what has a name, and return the nodes with a reference."""
        self._add_resource(_BASE, self._schema)
        pending: list[tuple[Any, tuple[str, ...]]] = [(self._schema, (_BASE,))]
        referring: list[JsonObject] = []
        while pending:
            node, outer = pending.pop()
            bases: tuple[str, ...] = outer
            if is_array(node):
                pending += [(each, bases) for each in node]
            if not is_object(node):
                continue
            for own in (node.get("$id"), node.get("id")):  # the second in draft 4
                if isinstance(own, str):
                    head, name = _join(outer[0], own)
                    self._anchors.setdefault(name, []).append(node)  # drafts before 2019-09 have anchors so
                    self._add_resource(head, node)
                    bases = (head, *outer[: _BASES - 1])
            for anchor in map(node.get, _ANCHORS):
                if isinstance(anchor, str):
                    self._anchors.setdefault(anchor, []).append(node)
            if "$dynamicAnchor" in node or "$recursiveAnchor" in node:
                self._dynamic.append(node)
            if not node.keys().isdisjoint(REFERENCES):
                self._bases[id(node)] = bases
                referring.append(node)
            pending += [(each, bases) for each in node.values()]
        return referring

    def _add_resource(self, uri: str, node: JsonObject) -> None:
        for key in {uri, _last(uri)}:
            self._resources.setdefault(key, []).append(node)


def _join(base: str, uri: str) -> tuple[str, str]:
    """Return a URI as seen from a base, in one spelling, and its fragment."""
    from urllib.parse import unquote, urljoin  # takes 3 ms, and few schemas need it

    head, _, part = uri.partition("#")
    return unquote(urljoin(base, head)).lower() if head else base, part


def _last(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2]
