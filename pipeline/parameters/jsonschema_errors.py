"""Convert the errors of jsonschema-rs to problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeAlias

from jsonschema_rs import FancyRegexOptions, ReferencingError, ValidationError, validator_for

from ..errors import Problem
from ..privacy import Public, PublicText
from .limits import Limits, count_problems, limit_found, measure
from .problems import (
    LIMITS,
    describe_expected,
    describe_limit,
    describe_names,
    describe_options,
    describe_size,
    describe_types,
    describe_value,
    merge_branches,
)
from .schema import Form, format_path, is_object, names_at, value_at

# The limits: steps for one text by a pattern that looks back or ahead; bytes of one compiled pattern.
PATTERNS = FancyRegexOptions(backtrack_limit=2_000, size_limit=1_000_000)
_MAX_WRONG = 20  # wrong parameters that are listed for large arguments
_MAX_KEYS = 250  # names and items; for larger arguments only the wrong parameters are listed
Search: TypeAlias = Callable[[Any], tuple[Problem, ...]]  # arguments -> the parameters that are wrong
_SMALL = Limits(bytes=None, depth=None, keys=_MAX_KEYS)


def list_problems(
    validator: Any, arguments: Mapping[str, Any], schema: Form, find_wrong: Search
) -> tuple[Problem, ...]:
    """List all problems of the arguments; if these are large, only the parameters that are wrong.

    jsonschema-rs makes all its errors at once, at 26 µs each.
    """
    if measure(arguments, _SMALL).keys <= _MAX_KEYS:
        return limit_found(convert_jsonschema_errors(validator.iter_errors(arguments), arguments, schema))
    return (count_problems(None), *find_wrong(arguments))


def make_search(schema: Form) -> Search:
    """Make a search for the wrong parameters. It does not look for the problems inside, so it takes linear time."""
    validators: list[Any] = []

    def find_wrong(arguments: Any) -> tuple[Problem, ...]:
        try:
            if not validators:
                validators.append(validator_for({**schema, "required": []}, offline=True, pattern_options=PATTERNS))
            wrong = (name for name, value in arguments.items() if not validators[0].is_valid({name: value}))
            return tuple(_tell_wrong(schema, name, arguments[name]) for name in islice(wrong, _MAX_WRONG))
        except (TypeError, ValueError, AttributeError, ReferencingError):  # not JSON, or not an object
            return ()

    return find_wrong


def _tell_wrong(schema: Form, name: str, value: object) -> Problem:
    if name not in names_at(schema, ()) and not is_object(schema.get("additionalProperties")):
        return Problem(name, "additionalProperties", describe_names(schema, ()), describe_value(value))
    return Problem(name, "anyOf", describe_expected(schema, [name]), describe_value(value))


def convert_jsonschema_errors(
    errors: Iterable[ValidationError], arguments: Mapping[str, Any], schema: Form
) -> tuple[Problem, ...]:
    """Convert all errors of jsonschema-rs, each once; the errors of a union's branches become one problem.

    A wrong type is left out where a problem at the same place lists the allowed values.
    """
    found = [problem for each in errors for problem in _convert(each, arguments, schema)]
    if len(found) == 1:
        return tuple(found)
    chosen = {each.path for each in found if each.rule in ("enum", "const")}
    return tuple(each for each in dict.fromkeys(found) if each.rule != "type" or each.path not in chosen)


def _convert(error: ValidationError, arguments: Mapping[str, Any], schema: Form) -> list[Problem]:
    rule, facts = error.kind.name, error.kind.as_dict()
    parts = list(error.instance_path)
    path = format_path(parts)
    if rule == "required":
        missing = [*parts, str(facts["property"])]
        return [Problem(format_path(missing), rule, describe_expected(schema, missing))]
    value = value_at(arguments, parts)  # not error.instance: Rust's JSON has no NaN
    if rule in ("additionalProperties", "unevaluatedProperties"):
        names = describe_names(schema, parts)
        return [  # report one rule, whichever keyword forbids the name
            Problem(format_path([*parts, name]), "additionalProperties", names, describe_value(value_at(value, [name])))
            for name in facts["unexpected"]
        ]
    if facts.get("context"):  # anyOf, oneOf
        branches = [list(convert_jsonschema_errors(branch, arguments, schema)) for branch in facts["context"]]
        return merge_branches(parts, branches, value)
    if rule in LIMITS:
        got = describe_value(value) if rule.endswith("imum") else describe_size(value)
        return [Problem(path, rule, describe_limit(rule, facts["limit"]), got)]
    return [Problem(path, rule, _describe_rule(rule, facts), describe_value(value))]


def _describe_rule(rule: str, facts: Mapping[str, Any]) -> Public:
    match rule:
        case "type":
            return describe_types(facts["types"])
        case "enum":
            return describe_options(facts["options"])
        case "const":
            return describe_options([facts["expected_value"]])
        case "pattern" if "pattern" in facts:  # it is absent if matching took too many steps
            return PublicText(f"text that matches {facts['pattern']}")
        case "multipleOf":
            return PublicText(f"a multiple of {facts['multiple_of']}")
        case "uniqueItems":
            return "an array without repeats"
        case "falseSchema":
            return "left out"
        case _:
            return "as its schema says"
