"""What jsonschema-rs found wrong, as `Problem`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema_rs import ValidationError

from ..errors import InvalidParams, Problem
from ..privacy import Public, PublicText
from . import problems


def of_jsonschema(
    errors: Iterable[ValidationError], arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> InvalidParams:
    """All that jsonschema-rs found, the branches of one union told as one problem."""
    return InvalidParams(tuple(_all(errors, arguments, schema)))


def _all(errors: Iterable[ValidationError], arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Problem]:
    """The problems, each once, and of a type none where the values to choose from say more."""
    told = [problem for each in errors for problem in _problems(each, arguments, schema)]
    if len(told) == 1:
        return told
    chosen = {each.path for each in told if each.rule in ("enum", "const")}
    return [each for each in dict.fromkeys(told) if each.rule != "type" or each.path not in chosen]


def _problems(each: ValidationError, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Problem]:
    rule, facts = each.kind.name, each.kind.as_dict()
    parts = list(each.instance_path)
    path = problems.spelt(parts)
    if rule == "required":
        missing = [*parts, str(facts["property"])]
        return [Problem(problems.spelt(missing), rule, problems.wanted(schema, missing))]
    value = problems.at(arguments, parts)  # each.instance has been through a language without NaN
    if rule in ("additionalProperties", "unevaluatedProperties"):
        allowed = problems.declared(schema, parts)
        return [
            Problem(problems.spelt([*parts, name]), rule, allowed, problems.got(problems.at(value, [name])))
            for name in facts["unexpected"]
        ]
    if facts.get("context"):  # anyOf, oneOf
        return problems.one_of(parts, [_all(branch, arguments, schema) for branch in facts["context"]], value)
    if rule in problems.LIMITS:
        came = problems.got(value) if rule.endswith("imum") else problems.size(value)
        return [Problem(path, rule, problems.limit(rule, facts["limit"]), came)]
    return [Problem(path, rule, _expected(rule, facts), problems.got(value))]


def _expected(rule: str, facts: Mapping[str, Any]) -> Public:
    if rule == "type":
        return problems.nouns(facts["types"])
    if rule == "enum":
        return problems.options(facts["options"])
    if rule == "const":
        return problems.options([facts["expected_value"]])
    if rule == "pattern":
        return PublicText(f"text that matches {facts['pattern']}")
    if rule == "multipleOf":
        return PublicText(f"a multiple of {facts['multiple_of']}")
    if rule == "uniqueItems":
        return "an array without repeats"
    if rule == "falseSchema":
        return "left out"
    return "as its schema says"
