"""The oracle: which wrong arguments still say what was meant. It shares no code with the pipeline's repairs.

A mistake is repairable if the intended value is in the arguments as sent: a person who has only the schema could write
it
down without choosing, computing or completing anything. So the oracle tries every plain interpretation; those that
fit the schema must lead to one and the same value. Two values are a choice that cannot be made. A call is repairable
if each of its mistakes is. The oracle judges the form and not the sense: ``"unknown"`` is as good a text as any.
Arguments that are not a JSON object are repairable only if Python reads all of them, and a name that is another word
(``radius`` for ``diameter``) never is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import attrs
import jsonschema_rs

from benchmarks.corpus import interpretations
from benchmarks.corpus.interpretations import NOTHING, Object, Schema

Interpreted: TypeAlias = tuple[Any, tuple[str, ...]]  # a value, and the names of the interpretations that led to it
_DEEPEST = 6  # interpretations of interpretations


class Ambiguous(ValueError):  # noqa: N818  # it never leaves this module
    """The value does not say what was meant."""


@attrs.frozen
class Intended:
    """The intended arguments.

    Args:
        arguments: the intended ones.
        interpretations: the names of those that led there; empty if the call is valid as it is.
    """

    arguments: Object
    interpretations: tuple[str, ...]


def find_intended(arguments: object, schema: Schema) -> Intended | None:
    """Return the intended arguments; None if what was sent does not determine them."""
    if not isinstance(arguments, dict):
        return None
    interpreter, whole = Interpreter(schema), cast("Object", arguments)
    found: dict[str, Intended] = {}
    for first, candidate in (
        ("", whole),
        *interpretations.unwrap(whole, schema),
        *interpretations.name_positionals(whole, schema),
    ):
        try:
            value, more = interpreter.interpret(candidate, schema)
        except Ambiguous:
            continue
        names = (first, *more) if first else more
        found.setdefault(canonical_text(value), Intended(value, tuple(dict.fromkeys(names))))
    return found.popitem()[1] if len(found) == 1 else None


def canonical_text(value: object) -> str:
    """JSON text, to compare values: in Python 1 equals 1.0 and True."""
    return json.dumps(value, sort_keys=True)


@attrs.frozen
class Interpreter:
    """Interprets the arguments of one tool, by its schema."""

    root: Schema

    def fits(self, value: object, schema: Schema) -> bool:
        """Whether a part of the arguments fits its part of the schema."""
        rooted = {**schema, "$defs": self.root["$defs"]} if "$defs" in self.root else dict(schema)
        return jsonschema_rs.validator_for(rooted, offline=True).is_valid(value)

    def interpret(self, value: Any, schema: Schema, name: str = "", deepest: int = _DEEPEST) -> Interpreted:
        """Return the value that fits: the one that was sent, or the intended one. Raises Ambiguous."""
        if self.fits(value, schema):
            return value, ()
        found: dict[str, Interpreted] = {}
        for branch in self.branches(schema) if deepest else ():
            for candidate, before in self._candidates(value, branch, name, deepest):
                try:
                    fitting, more = self.interpret(candidate, branch, name, deepest - 1)
                except Ambiguous:
                    continue
                found.setdefault(canonical_text(fitting), (fitting, (*before, *more)))
        if len(found) != 1:
            raise Ambiguous(name)
        return found.popitem()[1]

    def branches(self, schema: Schema) -> Iterator[Schema]:
        """The schema itself, or each alternative that it offers; references are followed."""
        if "$ref" in schema:
            yield from self.branches(self.root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {}))
        elif alternatives := schema.get("anyOf") or schema.get("oneOf"):
            for each in alternatives:
                yield from self.branches(each)
        else:
            yield schema

    def _candidates(self, value: Any, schema: Schema, name: str, deepest: int) -> Iterator[Interpreted]:
        types = [schema["type"]] if isinstance(schema.get("type"), str) else [*schema.get("type", ())]
        if isinstance(value, str):
            plain = [*interpretations.interpret_text(value, types, schema)]
        elif isinstance(value, dict):
            plain = [*interpretations.interpret_object(cast("Object", value), schema, name)]
        else:
            plain = [*interpretations.interpret_scalar(value, types)]
        of_items: Schema = schema.get("items", {})
        if "array" in types and isinstance(value, list):
            items = cast("list[Any]", value)
            yield from self._item_by_item(items, of_items, deepest)
            plain += [("single_item", [items])] if self.fits(items, of_items) else []
        elif "array" in types:
            plain += interpretations.interpret_as_array(value, of_items)
        elif "object" in types and isinstance(value, dict):
            yield from self._by_parameter(cast("Object", value), schema, deepest)
        yield from ((candidate, (interpretation,)) for interpretation, candidate in plain)

    def _item_by_item(self, value: list[Any], of_items: Schema, deepest: int) -> Iterator[Interpreted]:
        try:
            items = [self.interpret(item, of_items, "", deepest - 1) for item in value]
        except Ambiguous:
            return
        if names := tuple(each for _, more in items for each in more):
            yield [item for item, _ in items], names

    def _by_parameter(self, value: Object, schema: Schema, deepest: int) -> Iterator[Interpreted]:
        """Interpret each parameter by itself, after the wrong names were replaced."""
        properties: Schema = schema.get("properties", {})
        renamed, interpretation = interpretations.rename(value, schema) or (value, "")
        names: tuple[str, ...] = (interpretation,) if interpretation else ()
        changed: Object = {}
        for name, inner in renamed.items():
            if name not in properties or self.fits(inner, properties[name]):
                changed[name] = inner
            elif inner in NOTHING and name not in schema.get("required", ()):
                names = (*names, "omitted")
            else:
                try:
                    changed[name], more = self.interpret(inner, properties[name], name, deepest - 1)
                except Ambiguous:
                    return
                names = (*names, *more)
        if names:
            yield changed, names
