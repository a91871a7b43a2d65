"""The plain ways to interpret a wrong value or name. Each gives one thing it might mean; none is believed alone.

An interpretation is a pair: its name, under which it is counted, and the value that it makes.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

Schema: TypeAlias = Mapping[str, Any]
Object: TypeAlias = dict[str, Any]
Interpretations: TypeAlias = Iterator[tuple[str, Any]]

NOTHING = (None, "", "null")
NO_ITEMS = frozenset(("none", "n/a", "na", "nil", "unknown", "undefined", "nothing", "empty"))  # no item of an array
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_ADDRESS = re.compile(r"[^@,;\s]+@[^@,;\s]+")
_MARKUP = re.compile(r"\s*<(\w[\w-]*)[^<>]*>.*</\1>\s*", re.DOTALL)
_POSITIONAL = "__positional_"  # how the recordings call an argument that the model gave without a name
_SHORTEST = 4  # letters: a shorter name with one of them missing could be any other


def interpret_text(value: str, types: list[str], schema: Schema) -> Interpretations:
    """Text where another type is wanted, or an option in other letters."""
    if "string" in types:
        same = [each for each in schema.get("enum", ()) if isinstance(each, str) and fold(each) == fold(value)]
        yield from (("option_in_other_letters", each) for each in same)
        return
    word = value.strip()
    if "boolean" in types and word.lower() in ("true", "false"):
        yield "boolean_from_text", word.lower() == "true"
    if ("integer" in types or "number" in types) and _NUMBER.fullmatch(word):
        yield "number_from_text", json.loads(word) if word.lstrip("-").isdigit() else float(word)
    if "array" in types or "object" in types:
        parsed = parse_literal(value)
        if isinstance(parsed, (list, dict)):
            yield "json_from_text", parsed
        elif _MARKUP.fullmatch(value):
            contents = [each.strip() for each in re.findall(r">([^<>]+)<", value) if each.strip()]
            inside = parse_literal(contents[0]) if len(contents) == 1 else None
            yield "from_markup", inside if isinstance(inside, (list, dict)) else contents


def interpret_object(value: Object, schema: Schema, name: str) -> Interpretations:
    """An object where one of the values in it is wanted."""
    if [*value] == [name]:
        yield "under_its_own_name", value[name]
    if "type" not in schema.get("properties", {}):  # the schema sent back, with values in it
        keys = [key for key in ("value", "items", "properties") if {*value} == {"type", key}]
        yield from (("inside_the_schema", value[key]) for key in keys)


def interpret_scalar(value: object, types: list[str]) -> Interpretations:
    """A number or boolean where text is wanted, or a number in another form."""
    if "string" in types and isinstance(value, (bool, int, float)):
        yield "boolean_as_text" if isinstance(value, bool) else "number_as_text", json.dumps(value)
    if "integer" in types and isinstance(value, float) and value.is_integer():
        yield "whole_number", int(value)


def interpret_as_array(value: Any, items: Schema) -> Interpretations:
    """A value that is not an array where one is wanted: its only item, or several items in one text."""
    if isinstance(value, str):
        parts = [part.strip() for part in re.split(r"[,;\n]", value) if part.strip()]
        if not parts or parts[0][0] in "[{<(":  # meant as more than text
            return
        if len(parts) > 1:
            yield "items_in_one_text", parts
        if value.strip().lower() in NO_ITEMS:
            return
        if len(parts) == 1 or not all(map(_ADDRESS.fullmatch, parts)):
            yield "single_item", [value]
    elif isinstance(value, dict):
        if value and {*cast("Object", value)} <= {*items.get("properties", {})}:
            yield "single_item", [value]
    elif value is not None:
        yield "single_item", [value]


def unwrap(whole: Object, schema: Schema) -> Interpretations:
    """All arguments under one undeclared key, or written as that key."""
    if len(whole) == 1 and (key := next(iter(whole))) not in schema.get("properties", {}):
        inner = parse_literal(whole[key]) if isinstance(whole[key], str) else whole[key]
        from_key = parse_literal(key) or parse_literal(f"{{{key}}}")
        if isinstance(inner, dict):
            yield "wrapped", inner
        if isinstance(from_key, dict) and whole[key] in NOTHING:
            yield "written_as_key", from_key


def name_positionals(whole: Object, schema: Schema) -> Interpretations:
    """Arguments without names that leave no choice: one for the only parameter, or ``"radius=5.6"``."""
    properties: Schema = schema.get("properties", {})
    if not whole or not all(key.startswith(_POSITIONAL) for key in whole):
        return
    if len(whole) == len(properties) == 1:
        yield "positional", dict(zip(properties, whole.values(), strict=True))
    halves = [str(value).partition("=") for value in whole.values()]
    if all(name in properties for name, _, _ in halves):
        yield "positional", {name: value for name, _, value in halves}


def rename(value: Object, schema: Schema) -> tuple[Object, str] | None:
    """Give undeclared names the only declared name that each can mean; None without such a name."""
    properties: Schema = schema.get("properties", {})
    wanted = properties if schema.get("additionalProperties") is False else schema.get("required", ())
    undeclared = [name for name in value if name not in properties]
    unsent = [name for name in wanted if name not in value]
    names: dict[str, str] = {}
    interpretation = ""
    for kind, alike in (("same_name", _same), ("near_name", _near)):
        for name in undeclared:
            meant = [each for each in unsent if alike(name, each)]
            rivals = [other for other in undeclared if len(meant) == 1 and alike(other, meant[0])]
            if len(meant) == len(rivals) == 1 and name not in names and meant[0] not in names.values():
                names[name], interpretation = meant[0], kind
    if not names:
        names = _without_prefix(undeclared, unsent, [name for name in properties if name not in value])
        interpretation = "prefixed_name"
    return ({names.get(name, name): inner for name, inner in value.items()}, interpretation) if names else None


def fold(text: str) -> str:
    """The text without case, blanks and punctuation."""
    return "".join(each for each in text.casefold() if each.isalnum())


def parse_literal(text: str) -> Any:
    """Parse the text as JSON or as a Python literal; None if it is neither."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return json.loads(json.dumps(parse(text.strip())))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return None


def _same(sent: str, name: str) -> bool:
    return fold(sent.partition('"')[0]) == fold(name)  # ``floors" mode="json`` has markup behind the name


def _near(sent: str, name: str) -> bool:
    """One letter more or less. With a letter replaced it is another word."""
    short, long = sorted((fold(sent), fold(name)), key=len)
    return len(short) >= _SHORTEST and any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def _without_prefix(undeclared: list[str], unsent: list[str], declared: list[str]) -> dict[str, str]:
    """``params_city`` and ``params_days``: all undeclared names share a prefix and cover all that is missing."""
    prefixes = {name.partition("_")[0] + "_" for name in undeclared}
    rest = {name: name.removeprefix(*prefixes) for name in undeclared} if len(prefixes) == 1 else {}
    return rest if unsent and {*unsent} <= {*rest.values()} <= {*declared} else {}
