"""The plain ways to read one wrong value or name: each gives what it might have meant, and none is believed alone."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

Schema: TypeAlias = Mapping[str, Any]
Object: TypeAlias = dict[str, Any]
Readings: TypeAlias = Iterator[tuple[str, Any]]  # by what name it is counted, and what it makes of the value

NOTHING = (None, "", "null")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_ADDRESS = re.compile(r"[^@,;\s]+@[^@,;\s]+")
_MARKUP = re.compile(r"\s*<(\w[\w-]*)[^<>]*>.*</\1>\s*", re.DOTALL)
_POSITIONAL = "__positional_"  # how the recordings name an argument that the model gave without a name
_SHORTEST = 4  # letters of a name that still says something with one of them missing


def of_text(value: str, kinds: list[str], form: Schema) -> Readings:
    """Text where something else is wanted, or a value to choose from in other letters."""
    if "string" in kinds:
        same = [each for each in form.get("enum", ()) if isinstance(each, str) and letters(each) == letters(value)]
        yield from (("same_letters", each) for each in same)
        return
    word = value.strip()
    if "boolean" in kinds and word.lower() in ("true", "false"):
        yield "spelt_boolean", word.lower() == "true"
    if ("integer" in kinds or "number" in kinds) and _NUMBER.fullmatch(word):
        yield "spelt_number", json.loads(word) if word.lstrip("-").isdigit() else float(word)
    if "array" in kinds or "object" in kinds:
        held = literal(value)
        if isinstance(held, (list, dict)):
            yield "spelt_json", held
        elif _MARKUP.fullmatch(value):
            contents = [each.strip() for each in re.findall(r">([^<>]+)<", value) if each.strip()]
            inside = literal(contents[0]) if len(contents) == 1 else None
            yield "in_markup", inside if isinstance(inside, (list, dict)) else contents


def of_object(value: Object, form: Schema, name: str) -> Readings:
    """An object where one of its own values is wanted."""
    if [*value] == [name]:
        yield "own_name", value[name]
    if "type" not in form.get("properties", {}):  # the schema sent back, with values in it
        yield from (("described", value[key]) for key in ("value", "items", "properties") if {*value} == {"type", key})


def of_scalar(value: object, kinds: list[str]) -> Readings:
    """A number or boolean where text is wanted, or a number in another form."""
    if "string" in kinds and isinstance(value, (bool, int, float)):
        yield "boolean_as_text" if isinstance(value, bool) else "number_as_text", json.dumps(value)
    if "integer" in kinds and isinstance(value, float) and value.is_integer():
        yield "whole", int(value)


def as_items(value: Any, of_items: Schema) -> Readings:
    """What is no array where one is wanted: its only item, or several in one text."""
    if isinstance(value, str):
        parts = [part.strip() for part in re.split(r"[,;\n]", value) if part.strip()]
        if not parts or parts[0][0] in "[{<(":  # meant to be more than text
            return
        if len(parts) > 1:
            yield "listed", parts
        if len(parts) == 1 or not all(map(_ADDRESS.fullmatch, parts)):
            yield "lone", [value]
    elif isinstance(value, dict):
        if value and {*cast("Object", value)} <= {*of_items.get("properties", {})}:
            yield "lone", [value]
    elif value is not None:
        yield "lone", [value]


def unwrapped(whole: Object, schema: Schema) -> Readings:
    """The arguments under one key of their own, or as the text of that key."""
    if len(whole) == 1 and (key := next(iter(whole))) not in schema.get("properties", {}):
        inner = literal(whole[key]) if isinstance(whole[key], str) else whole[key]
        as_key = literal(key) or literal(f"{{{key}}}")
        if isinstance(inner, dict):
            yield "wrapped", inner
        if isinstance(as_key, dict) and whole[key] in NOTHING:
            yield "as_key", as_key


def without_names(whole: Object, schema: Schema) -> Readings:
    """Arguments without names that leave no choice: one for the one parameter, or ``"radius=5.6"``."""
    properties: Schema = schema.get("properties", {})
    if not whole or not all(key.startswith(_POSITIONAL) for key in whole):
        return
    if len(whole) == len(properties) == 1:
        yield "positional", dict(zip(properties, whole.values(), strict=True))
    halves = [str(value).partition("=") for value in whole.values()]
    if all(name in properties for name, _, _ in halves):
        yield "positional", {name: value for name, _, value in halves}


def renamed(value: Object, form: Schema) -> tuple[Object, str] | None:
    """The object with declared names for those that can mean one of them only; None where there is none such."""
    properties: Schema = form.get("properties", {})
    wanted = properties if form.get("additionalProperties") is False else form.get("required", ())
    strangers = [name for name in value if name not in properties]
    unsent = [name for name in wanted if name not in value]
    names: dict[str, str] = {}
    reading = ""
    for how, alike in (("same_name", _same), ("near_name", _near)):
        for stranger in strangers:
            meant = [name for name in unsent if alike(stranger, name)]
            rivals = [other for other in strangers if len(meant) == 1 and alike(other, meant[0])]
            if len(meant) == len(rivals) == 1 and stranger not in names and meant[0] not in names.values():
                names[stranger], reading = meant[0], how
    if not names:
        names, reading = _prefixed(strangers, unsent, [name for name in properties if name not in value]), "prefixed"
    return ({names.get(name, name): inner for name, inner in value.items()}, reading) if names else None


def _same(sent: str, name: str) -> bool:
    return letters(sent.partition('"')[0]) == letters(name)  # ``floors" mode="json`` is markup that came along


def _near(sent: str, name: str) -> bool:
    """One letter more or less; with another letter it is another word."""
    short, long = sorted((letters(sent), letters(name)), key=len)
    return len(short) >= _SHORTEST and any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def _prefixed(strangers: list[str], unsent: list[str], declared: list[str]) -> dict[str, str]:
    """``params_city`` and ``params_days``: every one of them, and all that is missing among them."""
    prefixes = {name.partition("_")[0] + "_" for name in strangers}
    rest = {name: name.removeprefix(*prefixes) for name in strangers} if len(prefixes) == 1 else {}
    return rest if unsent and {*unsent} <= {*rest.values()} <= {*declared} else {}


def letters(text: str) -> str:
    """All of it that is not case, blank or punctuation."""
    return "".join(each for each in text.casefold() if each.isalnum())


def literal(text: str) -> Any:
    """What JSON or Python makes of it; None where it is neither."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return json.loads(json.dumps(parse(text.strip())))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return None
