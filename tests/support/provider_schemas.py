"""The documented rules of providers for schemas, as a validator, and schemas that were made to break them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
from hypothesis import strategies as st

from toolcall_pipeline.parameters.schema import is_array, is_object

Json = dict[str, Any]
_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
# "While the full JSON Schema may be sent, not all features are supported. Specifically, only …"
GEMINI = frozenset((
    "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
    "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required",
    "propertyOrdering",
))  # fmt: skip
STRICT = frozenset((
    "type", "enum", "const", "title", "description", "properties", "required", "additionalProperties", "items",
    "anyOf", "$ref", "$defs", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems",
))  # fmt: skip
FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
LOOKAROUND = re.compile(r"\(\?<?[=!]")


def list_schemas(schema: Any) -> Iterator[Json]:
    """Each schema in a schema, with itself."""
    if not is_object(schema):
        return
    yield schema
    for key, value in schema.items():
        inner: Any = value
        each = inner.values() if key in _MAPS else inner if key in _LISTS else [inner] if key in _SCHEMAS else []
        for one in each:
            yield from list_schemas(one)


def refusals(schema: Json, provider: str) -> list[str]:
    """Why a provider refuses a schema: ``strict`` is OpenAI's strict mode."""
    found = [] if jsonschema_rs.meta.is_valid(schema) else ["it is not JSON Schema 2020-12"]
    if schema.get("type") != "object" or not is_object(schema.get("properties")):
        found.append("it is no object with properties")
    every = list(list_schemas(schema))
    for each in every:
        reference = each.get("$ref")
        if reference is not None and not _resolves(schema, reference):
            found.append(f"{reference} cannot be resolved")
    return found + [f"{provider}: {each}" for each in _CHECKS[provider](schema, every)]


def _resolves(schema: Json, reference: Any) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    here: Any = schema
    for step in reference[1:].split("/")[1:]:
        here = here.get(step) if is_object(here) else None
    return is_object(here)


def _kinds(each: Json) -> list[str]:
    kinds: Any = each.get("type", [])
    return kinds if is_array(kinds) else [kinds]


def _openai(schema: Json, every: list[Json]) -> Iterator[str]:
    if banned := {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys():
        yield f"{banned} at the top level"
    for each in every:
        if "array" in _kinds(each) and not is_object(each.get("items")):
            yield "array schema missing items"
        if "object" in _kinds(each) and "properties" not in each:
            yield "object schema missing properties"
        if LOOKAROUND.search(str(each.get("pattern", ""))):
            yield "regex lookaround is not supported"


def _strict(schema: Json, every: list[Json]) -> Iterator[str]:
    yield from _openai(schema, every)
    for each in every:
        if strange := each.keys() - STRICT:
            yield f"{strange} is not permitted"
        if "properties" in each and (each.get("type") != "object" or each.get("additionalProperties") is not False):
            yield "additionalProperties is required to be supplied and to be false"
        if "properties" in each and [*each["properties"]] != each.get("required"):
            yield "required has to list every property"
        if "$ref" in each and len(each) > 1 + ("$defs" in each):
            yield "$ref cannot have keywords beside it"
        if each.keys() & {"type", "enum", "const", "anyOf", "$ref"} == set():
            yield "schema must have a type key"
        if each.get("format", "uuid") not in FORMATS:
            yield "format is not supported"


def _anthropic(schema: Json, every: list[Json]) -> Iterator[str]:
    if schema.keys() & {"oneOf", "allOf", "anyOf"}:
        yield "input_schema does not support oneOf, allOf, or anyOf at the top level"
    for name in schema.get("properties", ()):
        if not re.fullmatch("[a-zA-Z0-9_.-]{1,64}", name):
            yield "Property keys should match pattern"


def _gemini(schema: Json, every: list[Json]) -> Iterator[str]:  # noqa: C901  # one for each rule
    for each in every:
        if strange := each.keys() - GEMINI:
            yield f"Unknown name {strange}"
        if "$ref" in each and any(not key.startswith("$") for key in each):
            yield "$ref with other properties"
        if not all(type(one) in (str, int, float) for one in each.get("enum", ())):
            yield "enum of other values"
        if len({*_kinds(each)} - {"null"}) > 1:
            yield "type is not one type"
        if "array" in _kinds(each) and "items" not in each:
            yield "items: missing field"
        if not {*each.get("required", ())} <= each.get("properties", {}).keys():
            yield "property is not defined"
        for name in each.get("properties", ()):
            if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]{0,63}", name):
                yield "parameter name"
    if _must_unroll(schema, schema, ()):
        yield "cyclic reference in a required property"


def _must_unroll(root: Json, node: Any, seen: tuple[str, ...]) -> bool:
    """Whether a type holds itself without a way out over a property that is not required."""
    if not is_object(node):
        return False
    if (reference := node.get("$ref")) is not None:
        here: Any = root
        for step in reference[1:].split("/")[1:]:
            here = here[step]
        return reference in seen or _must_unroll(root, here, (*seen, reference))
    required = {name: each for name, each in node.get("properties", {}).items() if name in node.get("required", ())}
    inner = [*required.values(), *(node[key] for key in ("items", "additionalProperties") if key in node)]
    return any(
        _must_unroll(root, each, seen) for each in [*inner, *node.get("anyOf", ()), *node.get("prefixItems", ())]
    )


def _bedrock(schema: Json, every: list[Json]) -> Iterator[str]:
    yield from _anthropic(schema, every)
    if strange := schema.keys() - {"type", "properties", "required"}:
        yield f"{strange} in the top-level object"


def _mistral(schema: Json, every: list[Json]) -> Iterator[str]:
    yield from ()


def _ollama(schema: Json, every: list[Json]) -> Iterator[str]:
    """As Go reads ``ToolFunctionParameters`` and ``ToolProperty``; what these lack the model is not told."""
    for each in every:
        if strange := each.keys() - {"type", "description", "enum", "items", "anyOf", "properties", "required"}:
            yield f"{strange} is dropped"
        kinds = each.get("type", "")
        if not isinstance(kinds, str) and not all(isinstance(kind, str) for kind in kinds):
            yield "cannot unmarshal into field type"
        if not all(is_object(one) for one in [*each.get("properties", {}).values(), *each.get("anyOf", ())]):
            yield "cannot unmarshal into ToolProperty"


_CHECKS: Any = {
    "openai": _openai,
    "strict": _strict,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
    "mistral": _mistral,
    "ollama": _ollama,
}

# --- Schemas that break them --------------------------------------------------------------------------------------
_NAMES = st.sampled_from(["a", "b", "node", "filter[id]", "@type", "ünï", "x" * 70, "$ref", "1st", "pattern", ""])
_REFERENCES = st.sampled_from([
    "#", "#/$defs/A", "#/$defs/B", "#/definitions/A", "#/properties/a", "#/properties/a/items", "#/$defs/nope",
    "other.json#/x", "#anchor", "#/properties/node/anyOf/0",
])  # fmt: skip
_SCALARS: Any = {
    "type": st.sampled_from([
        "string", "integer", "number", "boolean", "array", "object", "null", ["string", "null"], ["string", "array"],
        ["integer", "string", "null"], "any", [], ["string", "string"], None, 7,
    ]),
    "enum": st.sampled_from([["a", "b"], [1, 2], ["a", None], [True, "a"], [[1]], [], "a", ["a", "a"]]),
    "const": st.sampled_from(["a", 1, None, True, {"x": 1}]),
    "pattern": st.sampled_from(["^a+$", "^(?=.*[A-Z]).+$", r"(?<!\d)x", r"(a)\1", "(", "[a-", 7]),
    "format": st.sampled_from(["date-time", "uri", "uuid", "my-own", 7]),
    "minimum": st.sampled_from([0, 1.5, "1", True]),
    "exclusiveMinimum": st.sampled_from([0, 1.5, True, False]),
    "exclusiveMaximum": st.sampled_from([10, True]),
    "maxItems": st.sampled_from([2, 0, -1]),
    "minLength": st.sampled_from([2, 1.0, "2"]),
    "uniqueItems": st.booleans(),
    "required": st.sampled_from([["a"], ["a", "b", "zz"], ["a", "a"], True, "a"]),
    "description": st.sampled_from(["It is.", 7, None, ""]),
    "default": st.sampled_from([None, 1, "a", []]),
    "title": st.just("T"),
    "$ref": _REFERENCES,
    "$dynamicRef": _REFERENCES,
    "$anchor": st.just("anchor"),
    "$id": st.sampled_from(["https://a.example/x.json", "part"]),
    "$schema": st.sampled_from(["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]),
    "nullable": st.booleans(),
    "x-order": st.just(1),
    "readOnly": st.booleans(),
}  # fmt: skip


def _schemas(inner: Any) -> Any:
    many = st.lists(inner, max_size=3)
    named = st.dictionaries(_NAMES, inner, max_size=3)
    keywords: Any = {
        **_SCALARS,
        "properties": named | many,
        "$defs": st.dictionaries(st.sampled_from("AB"), inner, max_size=2),
        "definitions": st.dictionaries(st.just("A"), inner, max_size=1),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "^(?!b)", "("]), inner, max_size=2),
        "items": inner | many,
        "prefixItems": many,
        "anyOf": many,
        "oneOf": many,
        "allOf": many,
        **dict.fromkeys(("not", "if", "then", "else", "contains", "propertyNames"), inner),
        "additionalProperties": inner | st.booleans(),
        "additionalItems": inner,
        "unevaluatedProperties": st.booleans(),
        "dependentSchemas": named,
        "dependencies": st.just({"a": ["b"]}),
    }
    return st.fixed_dictionaries({}, optional=keywords).map(dict) | st.lists(
        st.sampled_from([*keywords]), min_size=1, max_size=5, unique=True
    ).flatmap(lambda chosen: st.fixed_dictionaries({key: keywords[key] for key in chosen}))


ODD_SCHEMAS: Any = st.recursive(
    st.sampled_from([{}, True, False, {"type": "string"}, {"type": "integer"}, {"$ref": "#/$defs/A"}, 7, None]),
    _schemas,
    max_leaves=12,
)
