"""Which wrong arguments still say what was meant: a second opinion that uses no code of ``pipeline.parameters``.

A mistake is repairable where the wanted value is in what was sent: somebody who has the schema only could write it
down, and need not choose, compute or complete anything. So every plain reading is tried, and those that fit have to
come to one and the same value; two are a choice, and then nobody knows. A call is repairable where each of its
mistakes is. The form is judged and not the sense: ``"unknown"`` is as good a text as any. What is no JSON object is
never repairable: it is told where its text breaks off. Nor is a name of another word (``radius`` for ``diameter``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import attrs
import jsonschema_rs

from benchmarks import readings
from benchmarks.readings import NOTHING, Object, Schema

Read: TypeAlias = tuple[Any, tuple[str, ...]]  # a value, and the readings that led to it

_DEEPEST = 6  # readings of readings


class Unclear(ValueError):  # noqa: N818  # no error of anybody's here
    """It does not say what was meant."""


@attrs.frozen
class Wanted:
    """What was meant, and how the call was read to find that."""

    arguments: Object
    readings: tuple[str, ...]


def wanted(arguments: object, schema: Schema) -> Wanted | None:
    """The arguments that were meant; None where what was sent does not say."""
    if not isinstance(arguments, dict):
        return None
    reader, whole = Reader(schema), cast("Object", arguments)
    found: dict[str, Wanted] = {}
    for first, candidate in (
        ("", whole),
        *readings.unwrapped(whole, schema),
        *readings.without_names(whole, schema),
    ):
        try:
            value, more = reader.meant(candidate, schema)
        except Unclear:
            continue
        names = (first, *more) if first else more
        found.setdefault(text_of(value), Wanted(value, tuple(dict.fromkeys(names))))
    return found.popitem()[1] if len(found) == 1 else None


def text_of(value: object) -> str:
    """By which values are compared: to Python, 1 is 1.0 is True."""
    return json.dumps(value, sort_keys=True)


@attrs.frozen
class Reader:
    """Reads the arguments of one tool."""

    root: Schema

    def fits(self, value: object, form: Schema) -> bool:
        """Whether a part of the arguments fits its part of the schema."""
        rooted = {**form, "$defs": self.root["$defs"]} if "$defs" in self.root else dict(form)
        return jsonschema_rs.validator_for(rooted, offline=True).is_valid(value)

    def meant(self, value: Any, form: Schema, name: str = "", deepest: int = _DEEPEST) -> Read:
        """The value that fits, as it is or as it was meant. Raises Unclear."""
        if self.fits(value, form):
            return value, ()
        found: dict[str, Read] = {}
        for each in self.forms(form) if deepest else ():
            for candidate, before in self._candidates(value, each, name, deepest):
                try:
                    fit, more = self.meant(candidate, each, name, deepest - 1)
                except Unclear:
                    continue
                found.setdefault(text_of(fit), (fit, (*before, *more)))
        if len(found) != 1:
            raise Unclear(name)
        return found.popitem()[1]

    def forms(self, form: Schema) -> Iterator[Schema]:
        """The subschema, or each of those that it lets one choose from."""
        if "$ref" in form:
            yield from self.forms(self.root.get("$defs", {}).get(form["$ref"].rpartition("/")[2], {}))
        elif branches := form.get("anyOf") or form.get("oneOf"):
            for branch in branches:
                yield from self.forms(branch)
        else:
            yield form

    def _candidates(self, value: Any, form: Schema, name: str, deepest: int) -> Iterator[Read]:
        kinds = [form["type"]] if isinstance(form.get("type"), str) else [*form.get("type", ())]
        if isinstance(value, str):
            plain = [*readings.of_text(value, kinds, form)]
        elif isinstance(value, dict):
            plain = [*readings.of_object(cast("Object", value), form, name)]
        else:
            plain = [*readings.of_scalar(value, kinds)]
        of_items: Schema = form.get("items", {})
        if "array" in kinds and isinstance(value, list):
            items = cast("list[Any]", value)
            yield from self._item_by_item(items, of_items, deepest)
            plain += [("lone", [items])] if self.fits(items, of_items) else []
        elif "array" in kinds:
            plain += readings.as_items(value, of_items)
        elif "object" in kinds and isinstance(value, dict):
            yield from self._by_parameter(cast("Object", value), form, deepest)
        yield from ((candidate, (reading,)) for reading, candidate in plain)

    def _item_by_item(self, value: list[Any], of_items: Schema, deepest: int) -> Iterator[Read]:
        try:
            read = [self.meant(item, of_items, "", deepest - 1) for item in value]
        except Unclear:
            return
        if names := tuple(each for _, more in read for each in more):
            yield [item for item, _ in read], names

    def _by_parameter(self, value: Object, form: Schema, deepest: int) -> Iterator[Read]:
        """Each parameter for itself, once those that are misnamed have their names."""
        properties: Schema = form.get("properties", {})
        renamed, reading = readings.renamed(value, form) or (value, "")
        names: tuple[str, ...] = (reading,) if reading else ()
        changed: Object = {}
        for name, inner in renamed.items():
            if name not in properties or self.fits(inner, properties[name]):
                changed[name] = inner
            elif inner in NOTHING and name not in form.get("required", ()):
                names = (*names, "left_out")
            else:
                try:
                    changed[name], more = self.meant(inner, properties[name], name, deepest - 1)
                except Unclear:
                    return
                names = (*names, *more)
        if names:
            yield changed, names
