"""The smallest arguments that a schema accepts, as an example for the model; none rather than wrong ones."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

import attrs

_DEEPEST = 12  # levels of objects and arrays
_MOST_NODES = 400  # of one example: a schema may ask for more than anybody reads
_MOST_ITEMS = 20
_FORMATS = {  # JSON Schema Validation 2020-12, section 7.3; the domain is RFC 2606's
    "date-time": "2026-01-31T09:00:00Z",
    "date": "2026-01-31",
    "time": "09:00:00Z",
    "duration": "P1D",
    "email": "name@example.com",
    "idn-email": "name@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri-reference": "a",
    "json-pointer": "/a",
    "regex": "a",
}
_TEXTS = ("text", "a", "A", "1", "abc", "ABC", "a1", "A1", "12", "123", "1234", "12345", "AB", "ABC-123", "2026-01-31")
_NONE: Any = object()


def example_of(schema: Mapping[str, Any] | None) -> str:
    """Valid arguments as JSON, with required parameters only; "" where none could be made that validates."""
    if not isinstance(schema, Mapping):
        return ""
    try:
        import jsonschema_rs

        validator = jsonschema_rs.validator_for(dict(schema), offline=True)
        for given in (True, False):  # the author's own values first; they may be out of date
            example = _Maker(schema, given=given).of(schema, 0)
            if isinstance(example, dict) and validator.is_valid(example):
                return json.dumps(example, ensure_ascii=False, allow_nan=False)
    except Exception:  # noqa: BLE001  # a schema may hold anything, and an example is a courtesy
        return ""
    return ""


@attrs.define
class _Maker:
    """Makes one value; the validator has the last word."""

    schema: Mapping[str, Any]
    given: bool  # take values that the schema gives as examples and defaults
    nodes: int = 0

    def of(self, node: Any, depth: int) -> Any:
        """A value for a node of the schema, or _NONE."""
        self.nodes += 1
        if node is True:
            return "text"
        if depth > _DEEPEST or self.nodes > _MOST_NODES or not isinstance(node, dict):
            return _NONE
        node = self._whole(cast("dict[str, Any]", node))
        return next((value for value in self._values(node, depth) if value is not _NONE), _NONE)

    def _values(self, node: dict[str, Any], depth: int) -> Iterator[Any]:
        if "const" in node:
            yield node["const"]
        if self.given:
            yield from node.get("examples", ())[:1]
            if "default" in node:
                yield node["default"]
        yield from node.get("enum", ())[:1]
        branches = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        for branch in sorted(branches, key=_is_null):
            inner = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}
            yield self.of(branch and {**inner, **self._whole({} if branch is True else branch)}, depth + 1)
        kinds = node.get("type") or (_implied(node) if depth else "object")
        for kind in sorted([kinds] if isinstance(kinds, str) else kinds, key=_is_null):
            yield self._typed(kind, node, depth)

    def _typed(self, kind: str, node: dict[str, Any], depth: int) -> Any:
        match kind:
            case "object":
                return self._object(node, depth)
            case "array":
                return self._array(node, depth)
            case "string":
                return _text(node)
            case "integer" | "number":
                return _number(node, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return _NONE

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        declared = node.get("properties", {})
        names = list(dict.fromkeys(node.get("required", ())))
        names += [name for name in declared if name not in names][: max(0, node.get("minProperties", 0) - len(names))]
        made = {name: self.of(declared.get(name, True), depth + 1) for name in names}
        return _NONE if _NONE in made.values() else made

    def _array(self, node: dict[str, Any], depth: int) -> Any:
        wanted = min(node.get("minItems", 0), _MOST_ITEMS)
        first = node.get("prefixItems", ())
        items = [self.of(each, depth + 1) for each in first[: max(wanted, 0)]]
        for place in range(len(items), wanted):
            value = self.of(node.get("items", True), depth + 1)
            items.append(_another(value, place) if node.get("uniqueItems") else value)
        return _NONE if _NONE in items else items

    def _whole(self, node: dict[str, Any]) -> dict[str, Any]:
        """A node with what it refers to, and with all of its allOf."""
        for _ in range(8):  # references to references; a ring of them ends here
            parts = [self._followed(node["$ref"])] if "$ref" in node else []
            parts += node.get("allOf", ())
            if not parts:
                break
            own = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
            node = {}
            for part in (*parts, own):
                node = _both(node, part)
        return node

    def _followed(self, reference: str) -> dict[str, Any]:
        here: Any = self.schema
        for step in reference.removeprefix("#").split("/")[1:]:
            here = here[unquote(step).replace("~1", "/").replace("~0", "~")]
        return cast("dict[str, Any]", here)


def _is_null(branch: Any) -> bool:
    """Whether that is only null, which shows the least of what is wanted."""
    return branch in ("null", {"type": "null"})


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    for key in ("required", "allOf"):
        if key in one and key in other:
            both[key] = [*one[key], *other[key]]
    return both


def _implied(node: dict[str, Any]) -> str:
    if "properties" in node or "required" in node:
        return "object"
    if "items" in node or "prefixItems" in node:
        return "array"
    if {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} & node.keys():
        return "number"
    return "string"


def _text(node: dict[str, Any]) -> Any:
    import re

    least, most = node.get("minLength", 0), node.get("maxLength", 1_000)
    if least > 1_000:  # noqa: PLR2004  # nobody reads more of an example
        return _NONE
    fits = [each for each in (_FORMATS.get(node.get("format", ""), "text"), *_TEXTS) if least <= len(each) <= most]
    if "pattern" in node:
        return next((each for each in fits if re.search(node["pattern"], each)), _NONE)
    return fits[0] if fits else ("text" * least)[: min(max(least, 0), most)]


def _number(node: dict[str, Any], *, whole: bool) -> Any:
    step = node.get("multipleOf", 1)
    low, high = node.get("minimum", -math.inf), node.get("maximum", math.inf)
    above, below = node.get("exclusiveMinimum", -math.inf), node.get("exclusiveMaximum", math.inf)
    start, end = max(low, above), min(high, below)
    tried: list[Any] = [step]
    if start > -math.inf:
        tried = [-(-start // step) * step, (start // step + 1) * step]
    if end < math.inf:
        tried += [end // step * step, (-(-end // step) - 1) * step]
    if not whole and -math.inf < start < end < math.inf:
        tried.append((start + end) / 2)
    fits = (each for each in tried if low <= each <= high and above < each < below)
    found = next(fits, _NONE)
    return int(found) if found is not _NONE and float(found).is_integer() else found


def _another(value: Any, place: int) -> Any:
    """A value that no other item has."""
    if isinstance(value, str):
        return value if place == 0 else f"{value}{place + 1}"
    return value + place if isinstance(value, (int, float)) and not isinstance(value, bool) else value
