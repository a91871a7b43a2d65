"""What two validators say of bad arguments, as one list of `Problem`: path, JSON Schema keyword, expected, got."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from .errors import InvalidParams, MalformedCall, Problem

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError as SchemaViolation
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

# pydantic's error types under the JSON Schema keyword that they break (2020-12, validation vocabulary).
_RULES = {
    "missing": "required",
    "extra_forbidden": "additionalProperties",
    "unexpected_keyword_argument": "additionalProperties",
    "missing_argument": "required",
    "literal_error": "enum",
    "enum": "enum",
    "union_tag_invalid": "enum",
    "greater_than": "exclusiveMinimum",
    "greater_than_equal": "minimum",
    "less_than": "exclusiveMaximum",
    "less_than_equal": "maximum",
    "multiple_of": "multipleOf",
    "string_too_short": "minLength",
    "string_too_long": "maxLength",
    "string_pattern_mismatch": "pattern",
    "too_short": "minItems",
    "too_long": "maxItems",
    "value_error": "validator",
    "assertion_error": "validator",
}
_WANTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "a boolean",
    "string_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "none_required": "null",
}
_NOUNS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_NONE: dict[str, Any] = {}
_PARSER_TALK = re.compile(r", (?:input|invalid|unable) .*", re.DOTALL)
_AT = re.compile(r"(?P<reason>.*?) at line (?P<line>\d+) column (?P<column>\d+)$", re.DOTALL)
_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "greater than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters long",
    "maxLength": "at most {} characters long",
    "minItems": "an array of at least {} items",
    "maxItems": "an array of at most {} items",
    "minProperties": "an object of at least {} entries",
    "maxProperties": "an object of at most {} entries",
}


def not_json(message: str) -> MalformedCall:
    """A parser's complaint; text that ends too early is the evidence that it was cut off."""
    found = _AT.match(message)
    reason = found["reason"] if found else message
    position = (int(found["line"]), max(1, int(found["column"]))) if found else None
    if reason == "recursion limit exceeded":
        reason = "they are nested too deeply"
    return MalformedCall(reason, position, truncated=reason.startswith("EOF while parsing"))


def not_an_object(value: object) -> MalformedCall:
    """Good JSON of another type, or no JSON value at all."""
    return MalformedCall(f"they are {_NOUNS.get(json_type(value), 'no JSON value')}")


def not_plain() -> InvalidParams:
    """Values that JSON cannot hold, somewhere in the arguments."""
    return InvalidParams((Problem("", "type", "plain JSON values: text, numbers, booleans, null, arrays, objects"),))


def of_pydantic(
    exc: ValidationError, arguments: object, schema: Mapping[str, Any], missing: dict[str, Problem]
) -> InvalidParams | MalformedCall:
    """All that pydantic found, with the union branches of one place told as one problem.

    ``missing`` keeps, for one schema, the commonest problem there is: a missing parameter, by its name.
    """
    found: dict[tuple[str, str], Problem] = {}
    for each in exc.errors(include_url=False):
        kind, loc = each["type"], each["loc"]
        if kind == "missing" and len(loc) == 1:
            name = str(loc[0])
            if (problem := missing.get(name)) is None:
                problem = missing[name] = _problem(each, [name], schema)
            found[name, "required"] = problem
            continue
        if kind == "json_invalid":
            return not_json(str(each.get("ctx", {}).get("error", "they are no JSON")))
        if not loc and kind in ("dict_type", "string_unicode"):
            return not_an_object(each["input"])
        parts = _real(loc, arguments, kind)
        problem = _problem(each, parts, schema)
        key = (problem.path, problem.rule)
        if key in found and problem.expected not in found[key].expected.split(" or "):
            problem = Problem(problem.path, problem.rule, f"{found[key].expected} or {problem.expected}", problem.got)
        found[key] = problem
    return InvalidParams(tuple(found.values()))


def _real(loc: tuple[int | str, ...], arguments: object, kind: str) -> list[int | str]:
    """The parts of pydantic's path that lead through the arguments: it also names the union branches it tried."""
    parts: list[int | str] = []
    here: Any = arguments
    ends = len(loc) - 1
    for place, part in enumerate(loc):
        if isinstance(here, dict) and (part in here or (place == ends and kind == "missing")):
            parts.append(part)
            known = cast("dict[Any, Any]", here)
            here = known.get(part)
        elif isinstance(here, (list, tuple)) and isinstance(part, int):
            items = cast("Sequence[Any]", here)
            parts.append(part)
            here = items[part] if part < len(items) else None
    return parts


def _problem(each: ErrorDetails, parts: list[int | str], schema: Mapping[str, Any]) -> Problem:
    kind = each["type"]
    path = spelt(parts)
    rule = _RULES.get(kind)
    if rule == "required":
        return Problem(path, rule, wanted(schema, parts))
    if rule is None:
        rule = "type" if kind in _WANTED or kind.endswith(("_type", "_parsing")) else kind
    message = each["msg"]
    if rule == "additionalProperties":
        return Problem(path, rule, declared(schema, parts[:-1]), got(each["input"]))
    if rule == "validator":
        return Problem(path, rule, message.partition(", ")[2] or message, got(each["input"]))
    limit = next(iter(each.get("ctx", {}).values()), None) if rule in _LIMITS else None
    if rule in ("minItems", "maxItems"):
        limit = each.get("ctx", {}).get("min_length" if rule == "minItems" else "max_length")
    if limit is not None:
        return Problem(path, rule, _LIMITS[rule].format(limit), got(each["input"]))
    expected = _WANTED.get(kind) or _PARSER_TALK.sub("", message.removeprefix("Input should be "))
    return Problem(path, rule, expected, got(each["input"]))


def of_jsonschema(errors: Iterable[SchemaViolation], schema: Mapping[str, Any]) -> InvalidParams:
    """All that jsonschema-rs found."""
    return InvalidParams(tuple(problem for each in errors for problem in _violations(each, schema)))


def _violations(each: SchemaViolation, schema: Mapping[str, Any]) -> list[Problem]:
    rule, facts = each.kind.name, each.kind.as_dict()
    parts: list[int | str] = list(each.instance_path)
    path = spelt(parts)
    if rule == "required":
        missing = [*parts, str(facts["property"])]
        return [Problem(spelt(missing), rule, wanted(schema, missing))]
    if rule in ("additionalProperties", "unevaluatedProperties"):
        allowed = declared(schema, parts)
        return [Problem(spelt([*parts, name]), rule, allowed) for name in facts["unexpected"]]
    if rule in ("anyOf", "oneOf") and facts.get("context"):
        branches = [error for branch in facts["context"] for error in branch]
        nearest = [error for error in branches if list(error.instance_path) == parts and error.kind.name == "type"]
        if len(nearest) == len(branches):
            types = [name for error in nearest for name in error.kind.as_dict()["types"]]
            return [Problem(path, rule, nouns(types), got(each.instance))]
        return [Problem(path, rule, "one of the forms that its schema allows", got(each.instance))]
    return [Problem(path, rule, _expected(rule, facts), got(each.instance))]


def _expected(rule: str, facts: dict[str, Any]) -> str:
    if rule == "type":
        return nouns(facts["types"])
    if rule == "enum":
        return "one of " + ", ".join(map(repr, facts["options"]))
    if rule == "const":
        return repr(facts["expected_value"])
    if rule in _LIMITS:
        return _LIMITS[rule].format(facts["limit"])
    if rule == "pattern":
        return f"text that matches {facts['pattern']}"
    if rule == "format":
        return f"text in the format {facts.get('format', 'that its schema names')}"
    if rule == "multipleOf":
        return f"a multiple of {facts['multiple_of']}"
    if rule == "uniqueItems":
        return "an array without repeats"
    return "as its schema says"


def spelt(parts: Sequence[int | str]) -> str:
    """A path as a model reads it: ``filter.tags[1]``."""
    text = ""
    if len(parts) == 1:
        return str(parts[0])
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def json_type(value: object) -> str:
    """The JSON Schema type of a value; "" for what JSON cannot hold."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((int, "integer"), (float, "number"), (str, "string"), (list, "array"), (tuple, "array")):
        if isinstance(value, kind):
            return name
    return "object" if isinstance(value, Mapping) else ""


def got(value: object) -> str:
    """What came: its type, and for a number or boolean itself. Text may be anybody's secret and is not repeated."""
    name = json_type(value)
    if name == "boolean":
        return str(value).lower()
    if isinstance(value, int) and abs(value) < 10**20:
        return str(value)
    return repr(value) if isinstance(value, float) else _NOUNS.get(name, "another value")


def nouns(types: Iterable[str]) -> str:
    """Type names as words: "a string or null"."""
    return " or ".join(_NOUNS.get(name, name) for name in types)


def wanted(schema: Mapping[str, Any], parts: Sequence[int | str]) -> str:
    """What a missing parameter should hold, in the words of its schema."""
    entry = _entry(schema, parts)
    kinds = entry.get("type", ())
    if "enum" in entry:
        words = "one of " + ", ".join(map(repr, entry["enum"]))
    elif isinstance(kinds, str):
        words = _NOUNS.get(kinds, kinds)
    else:
        words = nouns(kinds) or "a value"
    about = entry.get("description")
    return f"{words} ({str(about).strip().rstrip('.')})" if about else words


def declared(schema: Mapping[str, Any], parts: Sequence[int | str]) -> str:
    """The names that an object may have, or "" where none are declared."""
    return ", ".join(_entry(schema, parts).get("properties", {}))


def _entry(schema: Mapping[str, Any], parts: Sequence[int | str]) -> dict[str, Any]:
    """The subschema at a path, as far as it can be followed through properties, items and local references."""
    here: Any = schema
    for part in parts:
        here = _followed(schema, here)
        here = here.get("items") if isinstance(part, int) else here.get("properties", _NONE).get(part)
    return _followed(schema, here)


def _followed(schema: Mapping[str, Any], here: Any) -> dict[str, Any]:
    for _ in range(8):  # references to references; a ring of them ends here
        if not isinstance(here, dict):
            break
        node = cast("dict[str, Any]", here)
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
            return node
        here = schema.get("$defs", _NONE).get(reference.removeprefix("#/$defs/"))
    return {}
