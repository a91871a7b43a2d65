"""Strategies for JSON values: those that a schema accepts, and small changes of them.

hypothesis-jsonschema makes the scalars. It draws objects by a method that newer versions of hypothesis do not have, and
follows no recursive reference, so objects, arrays, unions and references are drawn here.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

import hypothesis_jsonschema
from hypothesis import strategies as st

from_schema: Any = vars(hypothesis_jsonschema)["from_schema"]  # it is not typed
WORDS = (
    "", "a", "ab", "abc", "r", "red", "cat", " a ", "A", "1", "1.0", "+1", "1e2", "123", "1_0", "0x1", "NaN",
    "Infinity", "٣٣٣", "2026-01-01", "20260101", "2026-1-1", "2026-02-30", "2026-01-01T00:00:00",
    "2026-01-01 00:00:00Z", "2026-01-01T00:00:00Z", "1735689600", "12:30", "10:00:00Z", "23:59:60Z", "P1D",
    "P2D", "-P1D", "P1Y", "1 day", "PT1.5S", "1/2", "1+2j", "http://a.b", "::1", "1.2.3.4", "1.2.3.0/24",
    "1kB", "YQ==", "[1]", "00000000-0000-0000-0000-000000000007", "{00000000-0000-0000-0000-000000000007}",
    "0000000000000000000000000000000a",
)  # fmt: skip
_NAMES = ("a", "x", "y", "zz", "title", "kind", "from", "start", "year", "count", "1", "2026-01-01", "red")
_MOST = 3  # further items or names

_names: st.SearchStrategy[Any] = st.sampled_from(_NAMES)
leaves: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-4, 4),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(WORDS),
    st.text(max_size=4),
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def accepted(draw: st.DrawFn, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that the schema accepts, nearly always: keywords that few schemas have are not all obeyed."""
    node: Any = schema
    while "$ref" in node:
        node = root["$defs"][node["$ref"].removeprefix("#/$defs/")]
    for union in ("anyOf", "oneOf"):
        if union in node:
            branches = sorted(node[union], key=lambda each: "$ref" in each or "items" in each)
            branch = draw(st.sampled_from(branches if depth < _MOST else branches[:1]))
            return draw(accepted(branch, root, depth + 1))
    if node.get("type") == "object":
        return draw(_objects(node, root, depth))
    if node.get("type") == "array":
        return draw(_arrays(node, root, depth))
    if not {"type", "enum", "const"} & set(node):
        return draw(values)
    kept = {key: value for key, value in node.items() if key not in ("default", "description", "contentSchema")}
    return draw(from_schema(deepcopy(kept)))  # which changes the schema that it is given


def _text(schema: Mapping[str, Any], root: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    return accepted(schema, root)


@st.composite
def _objects(draw: st.DrawFn, node: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, inner in node.get("properties", {}).items():
        if name in node.get("required", ()) or (depth < _MOST and draw(st.booleans())):
            made[name] = draw(accepted(inner, root, depth + 1))
    more = node.get("additionalProperties", True)
    names = _names
    for pattern, inner in node.get("patternProperties", {}).items():
        names, more = st.from_regex(str(pattern)), inner
    if "propertyNames" in node:
        names = _text({"type": "string", **node["propertyNames"]}, root)
    least = node.get("minProperties", 0)
    if more is not False:
        extra = st.dictionaries(
            names,
            values if more is True else accepted(more, root, depth + 1),
            min_size=max(0, least - len(made)),
            max_size=max(least, node.get("maxProperties", _MOST if depth < _MOST else 0)),
        )
        made = draw(extra) | made
    return made


@st.composite
def _arrays(draw: st.DrawFn, node: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> list[Any]:
    first = [draw(accepted(each, root, depth + 1)) for each in node.get("prefixItems", ())]
    least, most = node.get("minItems", 0), node.get("maxItems", len(first) + _MOST if depth < _MOST else len(first))
    if "items" not in node:
        return first
    rest: st.SearchStrategy[list[Any]] = st.lists(
        accepted(node["items"], root, depth + 1),
        min_size=max(0, least - len(first)),
        max_size=max(0, max(least, most) - len(first)),
        unique_by=repr if node.get("uniqueItems") else None,
    )
    return first + draw(rest)


@st.composite
def perturbed(draw: st.DrawFn, value: Any) -> Any:
    """A value that differs from this one in one place."""
    if isinstance(value, list) and value and draw(st.booleans()):
        items = list(cast("list[Any]", value))
        place = draw(st.integers(0, len(items) - 1))
        how = draw(st.sampled_from(("change", "remove", "repeat", "add")))
        if how == "remove":
            del items[place]
        elif how == "change":
            items[place] = draw(perturbed(items[place]))
        else:
            items.append(items[place] if how == "repeat" else draw(values))
        return items
    if isinstance(value, dict) and value and draw(st.booleans()):
        held = dict(cast("dict[str, Any]", value))
        name = draw(st.sampled_from(sorted(held)))
        how = draw(st.sampled_from(("change", "remove", "add")))
        if how == "remove":
            del held[name]
        elif how == "change":
            held[name] = draw(perturbed(held[name]))
        else:
            held[draw(st.sampled_from(_NAMES))] = draw(values)
        return held
    if isinstance(value, str) and draw(st.booleans()):
        text = str(cast("object", value))
        return draw(st.sampled_from((f"{text}\n", f" {text}", text.upper(), f"{text}x", text[:-1])))
    if isinstance(value, int) and draw(st.booleans()):
        number = int(value)
        return draw(st.sampled_from((str(number), number + 1, -number, number * 1000)))
    return draw(values)
