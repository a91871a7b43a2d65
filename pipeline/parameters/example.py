"""Make an example for the model: the smallest arguments that a schema accepts, or none rather than wrong ones."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ..base.foreign_values import or_default
from .schema import Form, JsonObject, find_target, is_object

_MAX_DEPTH = 12  # levels of objects and arrays
_MAX_NODES = 400  # of one example: a schema may require more than is worth reading
_MAX_ITEMS = 20  # of one array
_MAX_LENGTH = 1_000  # characters of one text
_MAX_REFERENCES = 8  # references to references; stops a circle
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
    "iri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri-reference": "a",
    "json-pointer": "/a",
    "relative-json-pointer": "0",
    "regex": "a",
}
_TEXTS = (
    "text",
    "a",
    "A",
    "1",
    "abc",
    "ABC",
    "a1",
    "A1",
    "12",
    "123",
    "1234",
    "12345",
    "AB",
    "ABC-123",
    "2026-01-31",
    "2026-01-31T09:00:00",
)
NO_VALUE: Any = object()


@or_default("")
def make_example(schema: Form | None) -> str:
    """Write valid arguments as JSON, with required parameters only; "" if no valid ones were found."""
    if not isinstance(schema, Mapping):
        return ""
    from .jsonschema_errors import compile_validator

    validator = compile_validator(schema)
    for use_given in (True, False):  # first with the author's examples and defaults, which may be out of date
        example = ExampleMaker(schema, use_given=use_given).make(schema, 0)
        if isinstance(example, dict) and validator.is_valid(example):
            return json.dumps(example, ensure_ascii=False, allow_nan=False)
    return ""


@attrs.define
class ExampleMaker:
    """Makes one example by guessing; the caller validates it."""

    schema: Form
    use_given: bool  # whether to use the examples and defaults in the schema
    nodes: int = 0  # made so far

    def make(self, node: Any, depth: int) -> Any:
        """Make a value for a node of the schema; `NO_VALUE` where that fails."""
        self.nodes += 1
        if node is True:
            return "text"
        if depth > _MAX_DEPTH or self.nodes > _MAX_NODES or not is_object(node):
            return NO_VALUE
        node = self.merge(node)
        return next((value for value in self._list_values(node, depth) if value is not NO_VALUE), NO_VALUE)

    def _list_values(self, node: JsonObject, depth: int) -> Iterator[Any]:
        if "const" in node:
            yield node["const"]
        if self.use_given:
            yield from node.get("examples", ())[:1]
            if node.get("default") is not None:  # a default of null is a poor example
                yield node["default"]
        yield from node.get("enum", ())[:1]
        branches = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        for branch in sorted(branches, key=is_null):
            inner = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}
            yield self.make(branch and {**inner, **self.merge({} if branch is True else branch)}, depth + 1)
        kinds = node.get("type") or (imply_type(node) if depth else "object")
        for kind in sorted([kinds] if isinstance(kinds, str) else kinds, key=is_null):
            yield self._make_typed(kind, node, depth)

    def _make_typed(self, kind: str, node: JsonObject, depth: int) -> Any:
        match kind:
            case "object":
                return self._make_object(node, depth)
            case "array":
                return self._make_array(node, depth)
            case "string":
                return _make_text(node)
            case "integer" | "number":
                return _make_number(node, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return NO_VALUE

    def _make_object(self, node: JsonObject, depth: int) -> Any:
        declared = node.get("properties", {})
        names = list(dict.fromkeys(node.get("required", ())))
        names += [name for name in declared if name not in names][: max(0, node.get("minProperties", 0) - len(names))]
        made = {name: self.make(declared.get(name, True), depth + 1) for name in names}
        return NO_VALUE if NO_VALUE in made.values() else made

    def _make_array(self, node: JsonObject, depth: int) -> Any:
        least = min(node.get("minItems", 0), _MAX_ITEMS)
        first = node.get("prefixItems", ())
        items = [self.make(each, depth + 1) for each in first[: max(least, 0)]]
        for index in range(len(items), least):
            value = self.make(node.get("items", True), depth + 1)
            items.append(vary(value, index) if node.get("uniqueItems") else value)
        return NO_VALUE if NO_VALUE in items else items

    def merge(self, node: JsonObject) -> JsonObject:
        """Merge a node with the target of its ``$ref`` and with its ``allOf``."""
        for _ in range(_MAX_REFERENCES):
            parts = [find_target(self.schema, node["$ref"])] if "$ref" in node else []
            parts += node.get("allOf", ())
            if not parts:
                break
            own = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
            node = {}
            self.nodes += len(parts)
            if self.nodes > _MAX_NODES:
                break
            for part in (*parts, own):
                node = merge_schemas(node, part)
        return node


def is_null(branch: Any) -> bool:
    """Whether a branch allows only null, the poorest example of all."""
    return branch in ("null", {"type": "null"})


def merge_schemas(one: JsonObject, other: JsonObject) -> JsonObject:
    """Merge two subschemas that apply to one value."""
    both = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    for key in ("required", "allOf"):
        if key in one and key in other:
            both[key] = [*one[key], *other[key]]
    return both


def imply_type(node: JsonObject) -> str:
    """Return the type that the keywords of a subschema without ``type`` are about."""
    if "properties" in node or "required" in node:
        return "object"
    if "items" in node or "prefixItems" in node:
        return "array"
    if {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} & node.keys():
        return "number"
    return "string"


def _make_text(node: JsonObject) -> Any:
    least, most = node.get("minLength", 0), node.get("maxLength", _MAX_LENGTH)
    if least > _MAX_LENGTH:
        return NO_VALUE
    candidates = (_FORMATS.get(node.get("format", ""), "text"), *_TEXTS)
    fits = [each for each in candidates if least <= len(each) <= most]
    if "pattern" in node:
        import jsonschema_rs  # it matches patterns as the validator does, in bounded time

        from .jsonschema_errors import PATTERNS

        matches = jsonschema_rs.validator_for({"pattern": node["pattern"]}, pattern_options=PATTERNS).is_valid
        return next((each for each in fits if matches(each)), NO_VALUE)
    return fits[0] if fits else ("text" * least)[: min(max(least, 0), most)]


def _make_number(node: JsonObject, *, whole: bool) -> Any:
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
    found = next(fits, NO_VALUE)
    return int(found) if found is not NO_VALUE and float(found).is_integer() else found


def vary(value: Any, index: int) -> Any:
    """Make a value differ from the items before it; a boolean and null stay as they are."""
    if index == 0 or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"{value}{index + 1}"
    if isinstance(value, (int, float)):
        return value + index
    if is_object(value):
        name = next((name for name, each in value.items() if vary(each, index) != each), None)
        return value if name is None else {**value, name: vary(value[name], index)}
    return value
