"""The words for each keyword of JSON Schema that a value can violate: "must be …".

Keywords of draft 4 to 2020-12, as jsonschema-rs names them. Bounds are in `problems.LIMITS`: pydantic has them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .formats import describe_format
from .problems import LIMITS, describe_form, describe_limit, describe_options, describe_types, join_names
from .schema import NOUNS, Form, is_array, is_object, resolve_ref

SEVERAL_FORMS = "of one form only: it fits more than one of the forms that its schema allows"
_FORBIDDEN = "of another form: its schema forbids this one"
_MAX_DEPTH = 3  # subschemas that are described inside of each other


def describe_keyword(  # noqa: C901, PLR0912  # a case a keyword
    rule: str, facts: Mapping[str, Any], place: Sequence[Any], schema: Form, value: object
) -> str:
    """Describe what a keyword expects.

    Args:
        rule: The keyword.
        facts: Facts about it from jsonschema-rs.
        place: The path of the keyword through the schema.
        schema: The schema.
        value: The value that violates it.
    """
    match rule:
        case "type":
            return describe_types(facts["types"])
        case "enum":
            return describe_options(facts["options"])
        case "const":
            return describe_options([facts["expected_value"]])
        case "format":
            return describe_format(str(facts.get("format", "text")))
        case "pattern" if "pattern" in facts:  # it is absent if matching took too many steps
            return f"text that matches {facts['pattern']}"
        case "multipleOf":
            return f"a multiple of {facts['multiple_of']}"
        case "uniqueItems":
            return "an array without repeats"
        case "additionalItems":
            return describe_limit("maxItems", facts["limit"])
        case "unevaluatedItems" if isinstance(value, (list, tuple)):
            return describe_limit("maxItems", max(0, len(value) - len(facts["unexpected"])))  # pyright: ignore[reportUnknownArgumentType]
        case "contains":
            return _describe_contains(_find_node(schema, place[:-1]), schema)
        case "propertyNames":
            return f"an object in which each name is {_describe_name(facts.get('error'), schema)}"
        case "contentEncoding":
            return f"text in {facts['content_encoding']}"
        case "contentMediaType":
            return f"text that holds valid {facts['content_media_type']}"
        case "not":
            return _describe_not(facts.get("schema"), schema)
        case "falseSchema":
            return _describe_false(place)
        case _:
            return f"as its schema says ({rule})"


def says_what_was_sent(rule: str) -> bool:
    """Whether the words of a keyword are about the type of the value, so that the text may name the type that came."""
    return rule not in ("not", "contains", "propertyNames", "additionalItems", "unevaluatedItems")


def _describe_contains(node: Form, schema: Form) -> str:
    wanted = node.get("contains")
    words = _describe(wanted, schema)
    words = words or "of the form that its schema names"
    least, most = node.get("minContains", 1), node.get("maxContains")
    if most is None or least == most:
        number = f"{'at least ' if most is None else 'exactly '}{_count(least)}"
        return f"an array in which {number} {'is' if least == 1 else 'are each'} {words}"
    between = f"at most {most}" if not least else f"{least} to {most}"
    return f"an array in which {between} items are each {words}"


def _count(number: Any) -> str:
    return f"{number} item" if number == 1 else f"{number} items"


def _describe_name(error: Any, schema: Form) -> str:
    """Describe what a name must be, from the error of the name itself."""
    if error is None:
        return "one that its schema allows"
    rule, facts = error.kind.name, error.kind.as_dict()
    if rule in LIMITS:
        return describe_limit(rule, facts["limit"])
    return describe_keyword(rule, facts, list(error.schema_path), schema, None)


def _describe_false(place: Sequence[Any]) -> str:
    """Say where the schema ``false`` stands: it forbids a value, all names of an object, or a combination of values."""
    last = place[-1] if place else ""
    before = place[-2] if len(place) > 1 else ""
    if last == "propertyNames":
        return "an object without entries"
    if last in ("then", "else", "dependentSchemas") or before in ("allOf", "anyOf", "oneOf", "dependentSchemas"):
        return "another combination of values: its schema forbids this one"
    return "left out"


def _describe_not(node: Any, schema: Form) -> str:
    """Describe all that a ``not`` leaves."""
    if node is True or node == {}:
        return "left out"
    if not is_object(node):
        return _FORBIDDEN
    here = resolve_ref(schema, node)
    if is_array(names := here.get("required")) and names and here.keys() <= {"required", "type"}:
        return f"sent without {join_names(names)}" if len(names) == 1 else f"sent without all of {join_names(names)}"
    words = _describe(here, schema)
    return f"anything but {words}" if words else _FORBIDDEN


def _describe(node: Any, schema: Form, depth: int = 0) -> str:
    """Describe a subschema as a noun: "an integer of at least 5"; "" if it has no words."""
    if not is_object(node) or depth > _MAX_DEPTH:
        return ""
    here = resolve_ref(schema, node)
    noun = describe_form(schema, here)
    if is_array(branches := here.get("anyOf") or here.get("oneOf")):
        forms = [_describe(each, schema, depth + 1) for each in branches]
        return " or ".join(dict.fromkeys(forms)) if all(forms) else ""
    parts: list[str] = []
    if not noun and isinstance(pattern := here.get("pattern"), str):  # a noun for text has it already
        parts.append(f"that matches {pattern}")
        noun = "text"
    for keyword in LIMITS:
        if isinstance(here.get(keyword), (int, float)):
            words = describe_limit(keyword, here[keyword]).removeprefix("an array ").removeprefix("an object ")
            parts.append(words if words.startswith("of ") else f"that is {words}")
    if is_array(names := here.get("required")) and names:
        parts.append(f"with {join_names(names)}")
        noun = noun or NOUNS["object"]
    if parts and not noun:
        noun = "a value"
    return f"{noun} {' and '.join(parts)}" if parts else noun


def _find_node(schema: Form, place: Sequence[Any]) -> Form:
    here: Any = schema
    for part in place:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            return {}
    return here if is_object(here) else {}
