"""The words for a keyword whose value is a schema: which values it asks for, or leaves."""

from __future__ import annotations

from typing import Any

import pytest

from toolcall_pipeline.parameters.keyword_words import describe_keyword

INTEGER = {"type": "integer"}
DEEP = {"anyOf": [{"anyOf": [{"anyOf": [INTEGER]}]}]}
FORBIDDEN = "of another form: its schema forbids this one"
# The subschema, what it asks of a value, and what its `not` leaves where that is another sentence; "": no words.
DESCRIBED: list[tuple[Any, str, str]] = [
    (INTEGER, "an integer", ""),
    ({**INTEGER, "minimum": 5}, "an integer that is at least 5", ""),
    ({"maximum": 3, "minimum": 1}, "a value that is at least 1 and that is at most 3", ""),
    ({"minLength": 2}, "a value that is at least 2 characters long", ""),
    ({"minItems": 2}, "a value of at least 2 items", ""),
    ({"pattern": "^a"}, "text that matches ^a", ""),
    ({"type": "string", "pattern": "^a"}, "a string that matches ^a", ""),
    ({"enum": [1, 2]}, "1 or 2", ""),
    ({"required": ["a"]}, "an object with a", "sent without a"),
    ({"required": ["a", "b"]}, "an object with a and b", "sent without all of a and b"),
    ({"type": "object", "required": ["a", "b"]}, "an object with a and b", "sent without all of a and b"),
    ({"required": ["a"], "maxProperties": 2}, "an object of at most 2 entries and with a", ""),
    ({"required": []}, "", FORBIDDEN),
    ({"required": "a"}, "", FORBIDDEN),
    ({"anyOf": [INTEGER, {"type": "string"}]}, "an integer or a string", ""),
    ({"oneOf": [INTEGER, INTEGER]}, "an integer", ""),
    ({"anyOf": [INTEGER, {}]}, "", FORBIDDEN),
    (DEEP, "an integer", ""),
    ({"anyOf": [DEEP]}, "", FORBIDDEN),
    ({"$ref": "#/$defs/number"}, "an integer", ""),
    ({}, "", "left out"),
    (True, "", "left out"),
    (False, "", FORBIDDEN),
]


@pytest.mark.parametrize(("form", "words", "left"), DESCRIBED, ids=str)
def test_a_subschema_is_described_as_a_noun(form: Any, words: str, left: str) -> None:
    """In a list and behind a `not`; three levels deep, and by a fixed text where it has no words."""
    schema = {"$defs": {"number": INTEGER}, "contains": form}
    item = words or "of the form that its schema names"
    assert describe_keyword("contains", {}, ["contains"], schema, []) == f"an array in which at least 1 item is {item}"
    assert describe_keyword("not", {"schema": form}, ["not"], schema, 1) == (left or f"anything but {words}")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"minContains": 1}, "at least 1 item is an integer"),
        ({"minContains": 2}, "at least 2 items are each an integer"),
        ({"maxContains": 1}, "exactly 1 item is an integer"),
        ({"minContains": 2, "maxContains": 2}, "exactly 2 items are each an integer"),
        ({"minContains": 0, "maxContains": 2}, "at most 2 items are each an integer"),
        ({"maxContains": 3}, "1 to 3 items are each an integer"),
    ],
    ids=str,
)
def test_how_many_items_are_asked_for(counts: dict[str, int], words: str) -> None:
    """At least one without a number."""
    schema = {"properties": {"a": [0, {"contains": INTEGER, **counts}]}}
    place = ["properties", "a", 1, "contains"]
    assert describe_keyword("contains", {}, place, schema, []) == f"an array in which {words}"


@pytest.mark.parametrize("place", [["a", "contains"], ["b", 0, "contains"], ["c", "d", "contains"], ["e", "contains"]])
def test_a_place_that_is_not_there_has_fixed_words(place: list[Any]) -> None:
    """A schema may be left out in part: no name, no item, no container, or a value that is no schema."""
    schema: dict[str, Any] = {"b": [], "c": None, "e": 5}
    words = "an array in which at least 1 item is of the form that its schema names"
    assert describe_keyword("contains", {}, place, schema, []) == words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ([], "left out"),
        (["a"], "left out"),
        (["properties", "a"], "left out"),
        (["propertyNames"], "an object without entries"),
        *((place, "another combination of values: its schema forbids this one") for place in (
            ["then"], ["a", "else"], ["dependentSchemas"], ["dependentSchemas", "a"], ["allOf", 0], ["oneOf", 1],
        )),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_schema_that_allows_nothing_says(place: list[Any], words: str) -> None:
    """By the place where it stands: it forbids a value, all names, or a combination of values."""
    assert describe_keyword("falseSchema", {}, place, {}, 1) == words
