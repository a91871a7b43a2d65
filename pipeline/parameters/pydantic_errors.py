"""What pydantic found wrong, as `Problem`: it names its own types, and every branch of a union that it tried."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, TypeAlias, cast, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from ..errors import InvalidParams, MalformedCall, Problem
from ..privacy import PublicText, approved
from . import problems

# pydantic's error types under the JSON Schema keyword that they break (2020-12, validation vocabulary).
_RULES = {
    "literal_error": "enum",
    "enum": "enum",
    "greater_than": "exclusiveMinimum",
    "greater_than_equal": "minimum",
    "less_than": "exclusiveMaximum",
    "less_than_equal": "maximum",
    "multiple_of": "multipleOf",
    "string_too_short": "minLength",
    "string_too_long": "maxLength",
    "bytes_too_short": "minLength",
    "bytes_too_long": "maxLength",
    "url_too_long": "maxLength",
    "string_pattern_mismatch": "pattern",
    "too_short": "minItems",
    "too_long": "maxItems",
}
_BOUNDS = {"minItems": "min_length", "maxItems": "max_length"}  # where the context holds more than the bound
_TYPES: dict[str, LiteralString] = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "a boolean",
    "string_type": "a string",
    "bytes_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "deque_type": "an array",
    "iterable_type": "an array",
    "named_tuple_type": "an array",
    "dict_type": "an object",
    "frozen_dict_type": "an object",
    "ordered_dict_type": "an object",
    "counter_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "dataclass_exact_type": "an object",
    "none_required": "null",
    "time_delta_type": "a duration",
    "decimal_type": "a number",
    "fraction_type": "a number",
    "uuid_type": "a UUID",
    "url_type": "a URL",
    "complex_type": "a complex number",
}
_FORMATS = {
    "is_instance_of": "of another type",  # its own words name a class
    "is_subclass_of": "of another type",
    "time_delta_parsing": "a valid duration",
    "complex_str_parsing": "a complex number",
    "date_from_datetime_inexact": "a date without a time",
    "string_pattern_mismatch": "text that matches {pattern}",
    "url_scheme": "a URL that begins with {expected_schemes}",
    "uuid_version": "a UUID of version {expected_version}",
}
_MISSING = frozenset(("missing", "missing_argument", "missing_keyword_only_argument"))
_UNKNOWN = frozenset(("extra_forbidden", "unexpected_keyword_argument"))
_ITS_OWN = frozenset(get_args(ErrorType))  # any other type of error is an author's
_LABELLED = frozenset(("value_error", "assertion_error"))  # an author's as well, with a label before their text
_SHOULD_BE = "Input should be "
_SHOULD = re.compile(r".* should (?P<verb>be|have|not have|contain only) (?P<words>.*)", re.DOTALL)
_VERBS = {"be": "", "have": "a value with ", "not have": "a value without ", "contain only": "a value of only "}
_UNWORDED = "it does not pass the tool's own check"
Mark: TypeAlias = tuple[tuple[int | str, ...], str]  # where a union stands, and the branch of it that was tried
Known: TypeAlias = dict[tuple[int | str, str, type | None], Problem]
_TOLD_BY_TYPE = frozenset((None, str, list, dict, type(None)))  # of a number or boolean the value is told as well
_MOST_KNOWN = 256  # of one tool; the names of **kwargs are the model's
Entry: TypeAlias = tuple[Problem, Sequence[Mark]]


def of_pydantic(
    exc: ValidationError, arguments: object, schema: Mapping[str, Any], known: Known
) -> InvalidParams | MalformedCall:
    """All that pydantic found, the branches of one union told as one problem.

    ``known`` keeps, for one schema, the commonest problems there are: a missing parameter, and one of another type.
    """
    entries: list[Entry] = []
    united = False
    given = _top(arguments)
    for each in exc.errors(include_url=False):
        kind, loc = each["type"], each["loc"]
        if len(loc) == 1 and (kind == "missing" or (kind in _TYPES and loc[0] in given)):
            came = None if kind == "missing" else cast("type[Any]", type(each["input"]))
            key = (loc[0], kind, came)
            if (problem := known.get(key)) is None:
                problem = _problem(each, [*loc], schema)
                if came in _TOLD_BY_TYPE and len(known) < _MOST_KNOWN:
                    known[key] = problem
            entries.append((problem, ()))
            continue
        if kind == "json_invalid":
            return problems.not_json(str(each.get("ctx", {}).get("error", "they are no JSON")))
        if kind == "invalid_key" or kind.startswith("recursion_"):
            return problems.not_plain()
        if not loc and kind == "string_unicode":
            return problems.not_unicode()
        if not loc and kind == "dict_type":
            return problems.not_an_object(each["input"])
        if len(loc) == 1 and loc[0] in given:  # as most: no union is in the way
            entries.append((_problem(each, [*loc], schema), ()))
            continue
        parts, marks = _through(loc, arguments, kind)
        entries.append((_problem(each, parts, schema), marks))
        united = united or bool(marks)
    told = _settled(entries, arguments) if united else [problem for problem, _ in entries]
    return InvalidParams(tuple(dict.fromkeys(told) if len(told) > 1 else told))


def _top(arguments: object) -> dict[Any, Any]:
    return cast("dict[Any, Any]", arguments) if isinstance(arguments, dict) else {}


def _through(loc: tuple[int | str, ...], arguments: object, kind: str) -> tuple[list[int | str], list[Mark]]:
    """The parts of pydantic's path that lead through the arguments, and the union branches that it names besides."""
    parts: list[int | str] = []
    marks: list[Mark] = []
    here: Any = arguments
    ends = len(loc) - 1
    for place, part in enumerate(loc):
        if isinstance(here, dict) and (part in here or (place == ends and kind in _MISSING)):
            parts.append(part)
            here = cast("dict[Any, Any]", here).get(part)
        elif isinstance(here, (list, tuple)) and isinstance(part, int):
            items = cast("Sequence[Any]", here)
            parts.append(part)
            here = items[part] if part < len(items) else None
        else:
            marks.append((tuple(parts), str(part)))
    return parts, marks


def _settled(entries: list[Entry], arguments: object) -> list[Problem]:
    """The problems in their order, those of a union at the place of its first one."""
    slots: list[list[Problem]] = []
    unions: dict[tuple[int | str, ...], tuple[list[Problem], dict[str, list[Entry]]]] = {}
    for problem, marks in entries:
        if not marks:
            slots.append([problem])
            continue
        place, branch = marks[0]
        if place not in unions:
            unions[place] = ([], {})
            slots.append(unions[place][0])
        unions[place][1].setdefault(branch, []).append((problem, marks[1:]))
    for place, (slot, branches) in unions.items():
        told = [_settled(branch, arguments) for branch in branches.values()]
        slot.extend(problems.one_of(place, told, problems.at(arguments, place)))
    return [problem for slot in slots for problem in slot]


def _problem(each: ErrorDetails, parts: list[int | str], schema: Mapping[str, Any]) -> Problem:
    kind, value = each["type"], each["input"]
    noun = _TYPES.get(kind)
    if noun is not None:
        too_large = kind == "float_type" and type(value) is int
        return Problem(problems.spelt(parts), "type", "a finite number" if too_large else noun, problems.got(value))
    facts = each.get("ctx", {})
    if kind in _MISSING:
        if isinstance(parts[-1], int):  # a tuple has come to its end
            bound = problems.entry(schema, parts[:-1]).get("minItems", parts[-1] + 1)
            return Problem(
                problems.spelt(parts[:-1]), "minItems", problems.limit("minItems", bound), problems.size(value)
            )
        return Problem(problems.spelt(parts), "required", problems.wanted(schema, parts))
    if kind in _UNKNOWN:
        known = problems.declared(schema, parts[:-1])
        return Problem(problems.spelt(parts), "additionalProperties", known, problems.got(value))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _of_tag(parts, each, schema)
    path = problems.spelt(parts)
    if kind in _LABELLED or (kind not in _ITS_OWN and not each["msg"].startswith(_SHOULD_BE)):
        return Problem(path, "validator", _authors_words(each), problems.got(value))
    rule = _RULES.get(kind)
    if rule in problems.LIMITS:
        bound = facts[_BOUNDS[rule]] if rule in _BOUNDS else next(iter(facts.values()))
        came = problems.size(value) if "Length" in rule or "Items" in rule else problems.got(value)
        return Problem(path, rule, problems.limit(rule, bound), str(facts.get("actual_length", came)))
    if rule is None:
        rule = "format" if isinstance(value, str) else "type"
    return Problem(path, rule, _wanted(each, schema, parts), problems.got(value))


def _wanted(each: ErrorDetails, schema: Mapping[str, Any], parts: list[int | str]) -> PublicText:
    kind, facts = each["type"], each.get("ctx", {})
    if kind in _FORMATS:
        return PublicText(_FORMATS[kind].format(**facts))
    if kind in ("literal_error", "enum"):
        node = problems.entry(schema, parts)
        given = [node["const"]] if "const" in node else node.get("enum", ())
        return problems.options(given) or PublicText(str(facts.get("expected", "another value")))
    words = each["msg"].partition(", ")[0]  # after it the parser talks of itself
    if words.startswith(_SHOULD_BE):
        return PublicText(words.removeprefix(_SHOULD_BE))
    found = _SHOULD.fullmatch(words)
    return PublicText(_VERBS[found["verb"]] + found["words"] if found else "of the form that its schema names")


def _of_tag(parts: list[int | str], each: ErrorDetails, schema: Mapping[str, Any]) -> Problem:
    """The field by which the branches of a union are told apart."""
    facts, value = each.get("ctx", {}), each["input"]
    key = str(facts["discriminator"])
    if not key.startswith("'"):  # a function of the author's
        return Problem(problems.spelt(parts), "anyOf", "one of the forms that its schema allows", problems.got(value))
    name = key.strip("'")
    mapping = problems.entry(schema, parts).get("discriminator", {}).get("mapping", ())
    tags = problems.options(mapping) or PublicText(str(facts.get("expected_tags", "a value")))
    path = problems.spelt([*parts, name])
    if each["type"] == "union_tag_not_found":
        return Problem(path, "required", tags)
    return Problem(path, "enum", tags, problems.got(problems.at(value, [name])))


def _authors_words(each: ErrorDetails) -> PublicText:
    """The text of a validator's exception: about the arguments, so a model may see it.

    Of several arguments, as attrs has them, it is the first.
    """
    exc = each.get("ctx", {}).get("error")
    if isinstance(exc, Exception) and len(exc.args) > 1:
        return approved(str(exc.args[0]))
    text = each["msg"].partition(", ")[2] if each["type"] in _LABELLED else each["msg"]
    return approved(text.strip() or _UNWORDED)
