"""What jsonschema-rs found wrong, as problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema_rs import ValidationError

from ..errors import Problem
from ..privacy import Public, PublicText
from .phrases import (
    LIMITS,
    describe_expected,
    describe_limit,
    describe_names,
    describe_options,
    describe_size,
    describe_types,
    describe_value,
)
from .limits import MAX_FOUND, Limits, count_problems, limit_found, measure
from .problems import merge_branches
from .schema import Form, format_path, value_at

_MAX_KEYS = 1_000  # names and items in arguments all of whose problems are listed
_SMALL = Limits(bytes=None, depth=None, keys=_MAX_KEYS)


def list_problems(validator: Any, arguments: Mapping[str, Any], schema: Form) -> tuple[Problem, ...]:
    """List what is wrong with arguments: all of it, unless they are large; then the first, and that there may be more.

    The errors of jsonschema-rs are made all at once, at 26 µs each.
    """
    if _is_small(arguments):
        return limit_found(convert_jsonschema_errors(validator.iter_errors(arguments), arguments, schema))
    return (count_problems(None), *find_first(validator, arguments, schema))


def find_first(validator: Any, arguments: Mapping[str, Any], schema: Form) -> tuple[Problem, ...]:
    """Find what is wrong first; nothing where the arguments are valid."""
    try:
        validator.validate(arguments)
    except ValidationError as exc:
        return convert_jsonschema_errors((exc,), arguments, schema)[:MAX_FOUND]
    return ()


def _is_small(arguments: Mapping[str, Any]) -> bool:
    return measure(arguments, _SMALL).keys <= _MAX_KEYS


def convert_jsonschema_errors(
    errors: Iterable[ValidationError], arguments: Mapping[str, Any], schema: Form
) -> tuple[Problem, ...]:
    """List all that jsonschema-rs found, each problem once, and those of one union's branches as one.

    Where the allowed values say what is wanted, a problem of type at the same place is left out.
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
    value = value_at(arguments, parts)  # error.instance has passed through a language without NaN
    if rule in ("additionalProperties", "unevaluatedProperties"):
        names = describe_names(schema, parts)
        return [  # one mistake, so one rule, whichever keyword forbids it
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
        case "pattern":
            return PublicText(f"text that matches {facts['pattern']}")
        case "multipleOf":
            return PublicText(f"a multiple of {facts['multiple_of']}")
        case "uniqueItems":
            return "an array without repeats"
        case "falseSchema":
            return "left out"
        case _:
            return "as its schema says"
