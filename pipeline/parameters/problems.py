"""Refusals that both validators share, and the problems of a union's branches as one."""

from __future__ import annotations

import re

from ..errors import InvalidParams, MalformedCall, Problem
from ..privacy import PublicText
from .phrases import ANY_FORM, describe_type, describe_value, join_expected
from .schema import Form, Parts, format_path, is_object

_POSITION = re.compile(r"(?P<reason>.*?) at line (?P<line>\d+) column (?P<column>\d+)$", re.DOTALL)
_OTHER_FORM = frozenset(("type", "enum", "const", "format", "anyOf", "oneOf"))  # broken: another branch was meant


def refuse_json(message: str) -> MalformedCall:
    """Refuse text that is not JSON, with the parser's message; an early end of the text shows that it was cut off."""
    found = _POSITION.match(message)
    reason = found["reason"] if found else message
    position = (int(found["line"]), max(1, int(found["column"]))) if found else None
    if reason == "recursion limit exceeded":
        reason = "they are nested too deeply"
    return MalformedCall(PublicText(reason), position, truncated=reason.startswith("EOF while parsing"))


def refuse_unicode() -> MalformedCall:
    """Refuse text that holds a lone surrogate, which no encoding can represent."""
    return MalformedCall("they hold a character that is no Unicode")


def refuse_non_object(value: object) -> MalformedCall:
    """Refuse JSON of another type than object, or a value that JSON cannot hold."""
    return MalformedCall(PublicText(f"they are {describe_type(value)}"))


def refuse_non_json(sent: object, schema: Form) -> InvalidParams:
    """Refuse arguments that hold a value, or a key, that JSON cannot hold."""
    expected = "plain JSON values: text, numbers, booleans, null, arrays, objects"
    return InvalidParams((Problem("", "type", expected),), sent=sent, schema=schema)


def merge_branches(parts: Parts, branches: list[list[Problem]], value: object) -> list[Problem]:
    """Make one problem of what the branches of a union, all at one place, have against a value.

    The branch that has the value's type speaks for the union; of several such, the one with the fewest problems, if
    there is exactly one.
    """
    if len(branches) == 1:
        return branches[0]
    path = format_path(parts)
    branches = _select_by_tag(path, branches, value)
    if len(branches) == 1:
        return branches[0]
    nearer = [b for b in branches if not any(p.path == path and p.rule in _OTHER_FORM for p in b)]
    nearer.sort(key=len)
    if nearer and (len(nearer) == 1 or len(nearer[0]) < len(nearer[1])):
        return nearer[0]
    here = [problem for branch in branches for problem in branch if problem.path == path]
    if nearer or not here:
        return [Problem(path, "anyOf", ANY_FORM, describe_value(value))]
    rules = {problem.rule for problem in here}
    expected = join_expected(problem.expected for problem in here)
    return [Problem(path, rules.pop() if len(rules) == 1 else "anyOf", expected, describe_value(value))]


def _select_by_tag(path: str, branches: list[list[Problem]], value: object) -> list[list[Problem]]:
    """Keep the branches whose tag the value has, where a constant in one and the same field tells them apart.

    Where the value has the tag of no branch, the tag is the only problem: the rest cannot be judged.
    """
    if not is_object(value):
        return branches
    fields = {f"{path}.{name}" if path else str(name) for name in value}
    wrong_tags = [[p for p in branch if p.path in fields and p.rule in ("const", "enum")] for branch in branches]
    if not all(wrong_tags):
        matching = [branch for branch, wrong in zip(branches, wrong_tags, strict=True) if not wrong]
        return matching if len(matching) < len(branches) else branches
    if len({p.path for wrong in wrong_tags for p in wrong}) > 1:
        return branches
    first = wrong_tags[0][0]
    return [[Problem(first.path, "enum", join_expected(wrong[0].expected for wrong in wrong_tags), first.got)]]
