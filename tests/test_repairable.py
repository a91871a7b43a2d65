"""benchmarks.repairable: what a call with mistakes says, by schemas written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.repairable import text_of, wanted
from benchmarks.repairs import invented

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
    "number as text": (of("integer"), "18", 18, "spelt_number"),
    "negative number as text": (of("number"), " -1.5 ", -1.5, "spelt_number"),
    "boolean as text": (of("boolean"), "False", False, "spelt_boolean"),
    "number for text": (of("string"), 35.5, "35.5", "number_as_text"),
    "boolean for text": (of("string"), True, "true", "boolean_as_text"),
    "other case": (of("string", enum=["Home Delivery", "map"]), "home-delivery", "Home Delivery", "same_letters"),
    "JSON as text": (TEXTS, '["a", "b"]', ["a", "b"], "spelt_json"),
    "Python as text": (POINTS, "[(1, 2), (3, 4)]", [[1, 2], [3, 4]], "spelt_json"),
    "object as text": (of("object"), '{"a": 1}', {"a": 1}, "spelt_json"),
    "JSON in markup": (TEXTS, '<list>\n["a", "b"]</list>', ["a", "b"], "in_markup"),
    "fields in markup": (TEXTS, '<o><f n="0">a</f> <f n="1">b</f></o>', ["a", "b"], "in_markup"),
    "lone text": (TEXTS, "Green Motion", ["Green Motion"], "lone"),
    "lone object": (
        of("array", items=schema_of(item=of("string"))),
        {"item": "a"},
        [{"item": "a"}],
        "lone",
    ),
    "lone list": (POINTS, [7, 8], None, ""),  # [[7, 8]] or [[7], [8]]
    "listed choices": (CHOICES, "Opening Hours, map", ["opening hours", "map"], "listed"),
    "listed addresses": (TEXTS, "a@b.org,c@d.org", ["a@b.org", "c@d.org"], "listed"),
    "listed text": (TEXTS, "Smith, John", None, ""),  # one or two
    "several lines": (TEXTS, "a\nb", None, ""),
    "broken JSON": (TEXTS, '["a", ', None, ""),
    "its own name": (POINTS, {"value": [[1, 2]]}, [[1, 2]], "own_name"),
    "the schema with values": (
        of("array", items=of("number")),
        [{"type": "float", "value": 1.5}, {"type": "list", "items": {"type": "float", "value": 2}}],
        [1.5, 2],
        "described",
    ),
    "a cut float": (of("integer"), 3.5, None, ""),
    "a float as text": (of("integer"), "5.2", None, ""),
    "a sum": (of("number"), "1/6", None, ""),
    "a boolean for a number": (of("integer"), True, None, ""),
    "a number for a boolean": (of("boolean"), 1, None, ""),
    "another word": (of("string", enum=["Restaurants", "Hotels"]), "restaurant", None, ""),
    "two choices alike": (of("string", enum=["a b", "a-b"]), "A_B", None, ""),
    "several for one": (of("string"), ["Berlin", "Paris"], None, ""),
    "names for order": (of("array", items=of("number")), {"lat": 1, "long": 2}, None, ""),
    "text for an object": (of("object"), "deluxe", None, ""),
    "null": (of("string"), None, None, ""),
    "null among items": (of("array", items=of("integer")), [None], None, ""),
}


@pytest.mark.parametrize(("form", "sent", "expected", "reading"), ONE.values(), ids=ONE)
def test_a_required_value_is_what_it_says(form: Any, sent: Any, expected: Any, reading: str) -> None:
    """It is one value by every plain reading that fits, or nobody knows."""
    found = wanted({"value": sent}, schema_of(("value",), value=form))
    if reading:
        assert found is not None
        assert text_of(found.arguments) == text_of({"value": expected})
        assert reading in found.readings
    else:
        assert found is None


@pytest.mark.parametrize("nothing", [None, "", "null"], ids=repr)
def test_nothing_is_left_out_where_it_may_be(nothing: object) -> None:
    """Nothing at all, for an optional parameter, says that there is no value; for a required one it says nothing."""
    schema = schema_of(("city",), city=of("string"), days=of("integer"))
    found = wanted({"city": "Oslo", "days": nothing}, schema)
    assert found is not None
    assert (found.arguments, found.readings) == ({"city": "Oslo"}, ("left_out",))
    assert wanted({"city": "Oslo", "days": nothing}, {**schema, "required": ["city", "days"]}) is None


def test_of_two_forms_the_one_that_fits_is_meant() -> None:
    """A union is read branch by branch, and a reference followed."""
    form = {"anyOf": [{"$ref": "#/$defs/names"}, {"type": "null"}]}
    schema = {**schema_of(("value",), value=form), "$defs": {"names": TEXTS}}
    found = wanted({"value": "['a']"}, schema)
    assert found is not None
    assert found.arguments == {"value": ["a"]}


CITY = schema_of(("city", "first_day"), city=of("string"), first_day=of("integer"), unit=of("string"))
POINT = schema_of(("point_a", "point_b"), point_a=of("integer"), point_b=of("integer"))
GOOD = {"city": "Oslo", "first_day": 2}
WHOLE: dict[str, tuple[Any, Any, Any, str]] = {
    "wrapped": (CITY, {"params": GOOD}, GOOD, "wrapped"),
    "wrapped in text": (CITY, {"input": '{"city": "Oslo", "first_day": "2"}'}, GOOD, "wrapped"),
    "wrapped, and lacking": (CITY, {"params": {"city": "Oslo"}}, None, ""),
    "as a key": (CITY, {'"city": "Oslo", "first_day": 2': ""}, GOOD, "as_key"),
    "another case style": (CITY, {"city": "Oslo", "firstDay": 2}, GOOD, "same_name"),
    "markup that came along": (CITY, {"city": "Oslo", 'first_day" mode="json': 2}, GOOD, "same_name"),
    "one letter more": (CITY, {"city": "Oslo", "first_days": 2}, GOOD, "near_name"),
    "one prefix for all": (CITY, {"params_city": "Oslo", "params_first_day": 2}, GOOD, "prefixed"),
    "a prefix for one": (CITY, {"params_city": "Oslo", "first_day": 2}, GOOD, "prefixed"),
    "a prefix, and lacking": (CITY, {"params_city": "Oslo"}, None, ""),
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
    "a stranger that may stay": (CITY, {**GOOD, "first_day": "2", "x": 1}, {**GOOD, "x": 1}, "spelt_number"),
    "a stranger that may not": ({**CITY, "additionalProperties": False}, {**GOOD, "x": 1}, None, ""),
    "an optional name, where no other is allowed": (
        {**CITY, "additionalProperties": False},
        {**GOOD, "Unit": "C"},
        {**GOOD, "unit": "C"},
        "same_name",
    ),
    "no object": (CITY, [GOOD], None, ""),
    "text": (CITY, '{"city": "Os', None, ""),
}


@pytest.mark.parametrize(("schema", "sent", "expected", "reading"), WHOLE.values(), ids=WHOLE)
def test_names_are_read_where_they_leave_no_choice(schema: Any, sent: Any, expected: Any, reading: str) -> None:
    """A parameter is meant by a name that can mean no other, and the whole by what it is wrapped in."""
    found = wanted(sent, schema)
    assert (found is not None) == (expected is not None)
    if found is not None:
        assert text_of(found.arguments) == text_of(expected)
        assert any(each.startswith(reading) for each in found.readings)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(sent=st.dictionaries(st.sampled_from(["city", "first_day", "days", "unit", "params"]), JSON, max_size=4))
def test_nothing_is_made_up(sent: dict[str, Any]) -> None:
    """Whatever was sent: what was meant is valid, read as it is if it was valid before, and in what was sent."""
    schema = schema_of(("city",), city=of("string"), first_day=of("integer"), days=TEXTS, unit=of("boolean"))
    found = wanted(sent, schema)
    if found is None:
        return
    again = wanted(found.arguments, schema)
    assert again is not None
    assert (again.arguments, again.readings) == (found.arguments, ())
    assert list(invented(sent, found.arguments)) == []
