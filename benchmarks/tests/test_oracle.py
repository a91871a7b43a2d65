"""benchmarks.corpus.oracle: what a call with mistakes was meant to say, for hand-written schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.corpus.oracle import canonical_text, find_intended
from benchmarks.corpus.repair_quality import find_invented

TEXTS = {"type": "array", "items": {"type": "string"}}
CHOICES = {"type": "array", "items": {"enum": ["opening hours", "Prices", "map"], "type": "string"}}
POINTS = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}


def schema_of(required: tuple[str, ...] = (), *, closed: bool = False, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        **({"additionalProperties": False} if closed else {}),
    }


def of(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


ONE = {
    "number as text": (of("integer"), "18", 18, "number_from_text"),
    "negative number as text": (of("number"), " -1.5 ", -1.5, "number_from_text"),
    "boolean as text": (of("boolean"), "False", False, "boolean_from_text"),
    "number for text": (of("string"), 35.5, "35.5", "number_as_text"),
    "boolean for text": (of("string"), True, "true", "boolean_as_text"),
    "an option in other letters": (
        of("string", enum=["Home Delivery", "map"]),
        "home-delivery",
        "Home Delivery",
        "option_in_other_letters",
    ),
    "JSON as text": (TEXTS, '["a", "b"]', ["a", "b"], "json_from_text"),
    "Python as text": (POINTS, "[(1, 2), (3, 4)]", [[1, 2], [3, 4]], "json_from_text"),
    "object as text": (of("object"), '{"a": 1}', {"a": 1}, "json_from_text"),
    "JSON in markup": (TEXTS, '<list>\n["a", "b"]</list>', ["a", "b"], "from_markup"),
    "fields in markup": (TEXTS, '<o><f n="0">a</f> <f n="1">b</f></o>', ["a", "b"], "from_markup"),
    "single text": (TEXTS, "Green Motion", ["Green Motion"], "single_item"),
    "single object": (
        of("array", items=schema_of(item=of("string"))),
        {"item": "a"},
        [{"item": "a"}],
        "single_item",
    ),
    "single list": (POINTS, [7, 8], None, ""),  # [[7, 8]] or [[7], [8]]
    "options in one text": (CHOICES, "Opening Hours, map", ["opening hours", "map"], "items_in_one_text"),
    "addresses in one text": (TEXTS, "a@b.org,c@d.org", ["a@b.org", "c@d.org"], "items_in_one_text"),
    "items in one text": (TEXTS, "Smith, John", None, ""),  # one or two
    "several lines": (TEXTS, "a\nb", None, ""),
    "broken JSON": (TEXTS, '["a", ', None, ""),
    "its own name": (POINTS, {"value": [[1, 2]]}, [[1, 2]], "under_its_own_name"),
    "the schema with values": (
        of("array", items=of("number")),
        [{"type": "float", "value": 1.5}, {"type": "list", "items": {"type": "float", "value": 2}}],
        [1.5, 2],
        "inside_the_schema",
    ),
    "a float for an integer": (of("integer"), 3.5, None, ""),
    "a float as text": (of("integer"), "5.2", None, ""),
    "a sum": (of("number"), "1/6", None, ""),
    "a boolean for a number": (of("integer"), True, None, ""),
    "a number for a boolean": (of("boolean"), 1, None, ""),
    "another word": (of("string", enum=["Restaurants", "Hotels"]), "restaurant", None, ""),
    "two options with the same letters": (of("string", enum=["a b", "a-b"]), "A_B", None, ""),
    "several values for one": (of("string"), ["Berlin", "Paris"], None, ""),
    "an object for a list": (of("array", items=of("number")), {"lat": 1, "long": 2}, None, ""),
    "text for an object": (of("object"), "deluxe", None, ""),
    "null": (of("string"), None, None, ""),
    "null among items": (of("array", items=of("integer")), [None], None, ""),
}


@pytest.mark.parametrize(("form", "sent", "expected", "interpretation"), ONE.values(), ids=ONE)
def test_a_value_has_the_one_meaning_that_fits(form: Any, sent: Any, expected: Any, interpretation: str) -> None:
    """All interpretations that fit the schema lead to one value, or the meaning is unknown."""
    found = find_intended({"value": sent}, schema_of(("value",), value=form))
    if interpretation:
        assert found is not None
        assert canonical_text(found.arguments) == canonical_text({"value": expected})
        assert interpretation in found.interpretations
    else:
        assert found is None


@pytest.mark.parametrize("nothing", [None, "", "null"], ids=repr)
def test_a_null_for_an_optional_parameter_is_omitted(nothing: object) -> None:
    """A null, or its text, means that an optional parameter has no value; for a required one it means nothing."""
    schema = schema_of(("city",), city=of("string"), days=of("integer"))
    found = find_intended({"city": "Oslo", "days": nothing}, schema)
    assert found is not None
    assert (found.arguments, found.interpretations) == ({"city": "Oslo"}, ("omitted",))
    assert find_intended({"city": "Oslo", "days": nothing}, {**schema, "required": ["city", "days"]}) is None


def test_in_a_union_the_alternative_that_fits_is_meant() -> None:
    """Every alternative of a union is tried, and references are followed."""
    form = {"anyOf": [{"$ref": "#/$defs/names"}, {"type": "null"}]}
    schema = {**schema_of(("value",), value=form), "$defs": {"names": TEXTS}}
    found = find_intended({"value": "['a']"}, schema)
    assert found is not None
    assert found.arguments == {"value": ["a"]}


CITY = schema_of(("city", "first_day"), city=of("string"), first_day=of("integer"), unit=of("string"))
POINT = schema_of(("point_a", "point_b"), point_a=of("integer"), point_b=of("integer"))
GOOD = {"city": "Oslo", "first_day": 2}
WHOLE: dict[str, tuple[Any, Any, Any, str]] = {
    "wrapped": (CITY, {"params": GOOD}, GOOD, "wrapped"),
    "wrapped in text": (CITY, {"input": '{"city": "Oslo", "first_day": "2"}'}, GOOD, "wrapped"),
    "wrapped, and incomplete": (CITY, {"params": {"city": "Oslo"}}, None, ""),
    "as a key": (CITY, {'"city": "Oslo", "first_day": 2': ""}, GOOD, "written_as_key"),
    "another case style": (CITY, {"city": "Oslo", "firstDay": 2}, GOOD, "same_name"),
    "markup behind the name": (CITY, {"city": "Oslo", 'first_day" mode="json': 2}, GOOD, "same_name"),
    "one letter more": (CITY, {"city": "Oslo", "first_days": 2}, GOOD, "near_name"),
    "one prefix for all": (CITY, {"params_city": "Oslo", "params_first_day": 2}, GOOD, "prefixed_name"),
    "a prefix for one": (CITY, {"params_city": "Oslo", "first_day": 2}, GOOD, "prefixed_name"),
    "a prefix, and incomplete": (CITY, {"params_city": "Oslo"}, None, ""),
    "another word": (CITY, {"town": "Oslo", "first_day": 2}, None, ""),
    "another letter": (POINT, {"point_a": 1, "point_c": 2}, None, ""),
    "two for one": (CITY, {"city": "Oslo", "firstDay": 2, "FirstDay": 3}, None, ""),
    "one for two": (POINT, {"point": 1}, None, ""),
    "a short name": (schema_of(("x",), x=of("integer")), {"xy": 1}, None, ""),
    "without a name, one": (schema_of(("city",), city=of("string")), {"__positional_0": "Oslo"}, {"city": "Oslo"}, "p"),
    "without a name, two": (POINT, {"__positional_0": 1, "__positional_1": 2}, None, ""),
    "names in the values": (
        POINT,
        {"__positional_0": "point_b=1", "__positional_1": "point_a=2"},
        {"point_a": 2, "point_b": 1},
        "p",
    ),
    "an undeclared name that is allowed": (
        CITY,
        {**GOOD, "first_day": "2", "x": 1},
        {**GOOD, "x": 1},
        "number_from_text",
    ),
    "an undeclared name that is not": ({**CITY, "additionalProperties": False}, {**GOOD, "x": 1}, None, ""),
    "an optional name in other letters": (
        {**CITY, "additionalProperties": False},
        {**GOOD, "Unit": "C"},
        {**GOOD, "unit": "C"},
        "same_name",
    ),
    "not an object": (CITY, [GOOD], None, ""),
    "text": (CITY, '{"city": "Os', None, ""),
}


@pytest.mark.parametrize(("schema", "sent", "expected", "interpretation"), WHOLE.values(), ids=WHOLE)
def test_a_name_has_the_one_meaning_that_is_possible(
    schema: Any, sent: Any, expected: Any, interpretation: str
) -> None:
    """A name means a parameter if it can mean no other, and a wrapper is opened if only that makes sense."""
    found = find_intended(sent, schema)
    assert (found is not None) == (expected is not None)
    if found is not None:
        assert canonical_text(found.arguments) == canonical_text(expected)
        assert any(each.startswith(interpretation) for each in found.interpretations)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first text that Hypothesis draws takes seconds
@given(sent=st.dictionaries(st.sampled_from(["city", "first_day", "days", "unit", "params"]), JSON, max_size=4))
def test_the_oracle_invents_nothing(sent: dict[str, Any]) -> None:
    """Whatever is sent, intended arguments are valid, stay as they are, and hold only values that were sent."""
    schema = schema_of(("city",), city=of("string"), first_day=of("integer"), days=TEXTS, unit=of("boolean"))
    found = find_intended(sent, schema)
    if found is None:
        return
    again = find_intended(found.arguments, schema)
    assert again is not None
    assert (again.arguments, again.interpretations) == (found.arguments, ())
    assert list(find_invented(sent, found.arguments)) == []
