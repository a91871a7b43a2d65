"""Refusals and descriptions that both validators share; how the problems of a union become one problem."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Final

from ..engine.errors import InvalidParams, MalformedCall, Problem
from ..privacy import PublicText
from .formats import FORMATS, name_text
from .schema import (
    NOUNS,
    UNIONS,
    Form,
    Parts,
    choose_forms,
    format_path,
    forms_at,
    is_object,
    json_type,
    names_of,
    resolve_ref,
    schema_at,
)

_POSITION = re.compile(r"(?P<reason>.*?) at line (?P<line>\d+) column (?P<column>\d+)$", re.DOTALL)
# One of the values that `describe_options` lists, and all of them.
_OPTION = re.compile(r"'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\"|[-+.\w]++(?<!\bor)")
_OPTIONS = re.compile(rf"(?:{_OPTION.pattern})(?:, (?:{_OPTION.pattern}))*+(?: or (?:{_OPTION.pattern}))?+")
_OTHER_FORM = frozenset(("type", "enum", "const", "format", "anyOf", "oneOf"))  # broken: another branch was meant
_NAMES = frozenset(("required", "additionalProperties"))
ANY_FORM: Final = "one of the forms that its schema allows"
FAILED_CHECK: Final = "it does not pass the tool's own check"
LIMITS = {  # by JSON Schema keyword
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "greater than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} character{s} long",
    "maxLength": "at most {} character{s} long",
    "minItems": "an array of at least {} item{s}",
    "maxItems": "an array of at most {} item{s}",
    "minProperties": "an object of at least {} entr{ies}",
    "maxProperties": "an object of at most {} entr{ies}",
}
_MAX_EXACT = 2**53  # a larger float may stand for digits that were not sent
_MAX_SHOWN = 10**20  # a larger integer is described by its type


def refuse_json(message: str) -> MalformedCall:
    """Refuse text that is not JSON, with the parser's message; an early end means that the text was cut off."""
    found = _POSITION.match(message)
    reason = found["reason"] if found else message
    position = (int(found["line"]), max(1, int(found["column"]))) if found else None
    if reason == "recursion limit exceeded":
        reason = "they are nested too deeply"
    return MalformedCall(PublicText(reason), position, truncated=reason.startswith("EOF while parsing"))


def refuse_unicode() -> MalformedCall:
    """Refuse text that holds a lone surrogate, which no encoding can represent."""
    return MalformedCall("they hold a character that is no Unicode")


def refuse_rounding() -> MalformedCall:
    """Refuse text with a number that would be read as another one."""
    return MalformedCall("they hold a number with more digits than can be read without rounding it")


def refuse_non_object(value: object) -> MalformedCall:
    """Refuse JSON that is not an object, or a value that JSON cannot represent."""
    return MalformedCall(PublicText(f"they are {describe_type(value)}"))


def refuse_non_json(sent: object, schema: Form) -> InvalidParams:
    """Refuse arguments with a value or a key that JSON cannot represent."""
    expected = "plain JSON values: text, numbers, booleans, null, arrays, objects"
    return InvalidParams((Problem("", "type", expected),), sent=sent, schema=schema)


def merge_branches(parts: Parts, branches: list[list[Problem]], value: object, schema: Form) -> list[Problem]:
    """Merge the problems that the branches of one union report for one value.

    The branch with the value's type stands for the union; if several have it, the one with the fewest problems,
    provided there is exactly one.

    Args:
        parts: The path of the value.
        branches: The problems of each branch.
        value: The value.
        schema: The whole schema.
    """
    if len(branches) == 1:
        return branches[0]
    path = format_path(parts)
    unknown = dict(zip(map(id, branches), _count_unknown(schema, parts, value, len(branches)), strict=False))
    branches = _select_by_tag(path, branches, value)
    if len(branches) == 1:
        return branches[0]
    nearer = [b for b in branches if not any(p.path == path and p.rule in _OTHER_FORM for p in b)]
    if len(set(fewest := [unknown.get(id(branch), 0) for branch in nearer])) > 1:  # a name says which one was meant
        nearer = [branch for branch, count in zip(nearer, fewest, strict=True) if count == min(fewest)]
    if len(nearer) > 1 and (not value or len(nearer) == len(branches)) and (ways := _describe_ways(path, nearer)):
        return [Problem(path, "anyOf", ways)]
    # The branch whose names were sent was meant, whatever is wrong with their values.
    nearer.sort(key=_rank)
    if nearer and (len(nearer) == 1 or _rank(nearer[0]) < _rank(nearer[1])):
        return nearer[0]
    if nearer and (shared := _join_shared(path, nearer)):
        return shared
    here = [problem for branch in branches for problem in branch if problem.path == path]
    if nearer or not here:
        return [Problem(path, "anyOf", ANY_FORM, describe_value(value))]
    rules = {problem.rule for problem in here}
    expected = join_expected(problem.expected for problem in here)
    return [Problem(path, rules.pop() if len(rules) == 1 else "anyOf", expected, describe_value(value))]


def _count_unknown(schema: Form, parts: Parts, value: object, branches: int) -> list[int]:
    """Count for each branch of a union the names in the value that it does not declare; empty where that is unknown."""
    if not is_object(value):
        return []
    given = [form.get(keyword) or () for form in forms_at(schema, parts) for keyword in ("anyOf", "oneOf")]
    unions = [each for each in given if len(each) == branches]
    if len(unions) != 1:
        return []
    declared = [names_of(schema, branch) for branch in unions[0]]
    return [sum(name not in names for name in value) if names else 0 for names in declared]


def _rank(branch: list[Problem]) -> tuple[int, int]:
    """Count the names that do not fit a branch, and then all problems."""
    return sum(problem.rule in _NAMES for problem in branch), len(branch)


def _describe_ways(path: str, branches: list[list[Problem]]) -> PublicText | None:
    """Describe the names that each branch lacks, if nothing else is wrong and no branch lacks fewer than another."""
    if not all(p.rule == "required" for branch in branches for p in branch) or len(set(map(len, branches))) > 1:
        return None
    ways = (join_names([p.path.removeprefix(path).removeprefix(".") for p in branch]) for branch in branches)
    return PublicText(f"sent with {', or with '.join(dict.fromkeys(ways))}")


def _join_shared(path: str, branches: list[list[Problem]]) -> list[Problem]:
    """Return the problems that all branches have, and the names that each of them lacks beside; empty: not told so."""
    shared = set[tuple[str, str]].intersection(*({(p.path, p.rule) for p in branch} for branch in branches))
    found = [
        Problem(p.path, p.rule, join_expected(each.expected for b in branches for each in b if _is_at(each, p)), p.got)
        for p in branches[0]
        if (p.path, p.rule) in shared
    ]
    rest = [[p for p in branch if (p.path, p.rule) not in shared] for branch in branches]
    if not found or not any(rest):
        return found
    ways = _describe_ways(path, rest) if all(rest) else None
    return [Problem(path, "anyOf", ways), *found] if ways else []


def _is_at(one: Problem, other: Problem) -> bool:
    return (one.path, one.rule) == (other.path, other.rule)


def _select_by_tag(path: str, branches: list[list[Problem]], value: object) -> list[list[Problem]]:
    """Keep the branches whose tag the value has, if a constant in the same field distinguishes the branches.

    If the tag of the value matches no branch, only the tag is reported: the rest cannot be judged.
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
    options = {frozenset(_split_options(wrong[0].expected)) for wrong in wrong_tags}
    if len(options) == 1 or sum(map(len, options)) > len(frozenset[str]().union(*options)):
        return branches  # it tells no branch from another
    first = wrong_tags[0][0]
    return [[Problem(first.path, "enum", join_expected(wrong[0].expected for wrong in wrong_tags), first.got)]]


def describe_type(value: object) -> str:
    """Name the JSON type of a value: "an array", or "no JSON value"."""
    return NOUNS.get(json_type(value), "no JSON value")


def describe_value(value: object) -> str:
    """Describe a sent value: its type, or the number or boolean itself. Text may be secret and is never repeated."""
    name = json_type(value)
    if name == "boolean":
        return str(value).lower()
    if isinstance(value, int) and abs(value) < _MAX_SHOWN:
        return str(int(value))
    if isinstance(value, float) and (not math.isfinite(value) or abs(value) < _MAX_EXACT):
        return repr(float(value))
    return NOUNS.get(name, "another value")


def describe_size(value: object) -> str:
    """Describe the length of a value, for a limit on it: a number, or "empty"."""
    return str(len(value) or "empty") if isinstance(value, Sized) else describe_value(value)


def describe_limit(keyword: str, bound: Any) -> PublicText:
    """Describe a limit of `LIMITS`: "at least 1 character long"."""
    bound = int(bound) if isinstance(bound, float) and bound.is_integer() else bound
    one = bound == 1
    return PublicText(LIMITS[keyword].format(bound, s="" if one else "s", ies="y" if one else "ies"))


def describe_types(types: Iterable[str]) -> PublicText:
    """Describe the allowed JSON types: "a string or null"."""
    return PublicText(" or ".join(NOUNS.get(name, name) for name in types))


def join_names(names: Sequence[str]) -> str:
    """List names: "a, b and c"."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def describe_options(values: Iterable[Any]) -> PublicText:
    """List the allowed values: "'a', 'b' or null"."""
    words = [repr(value) if isinstance(value, str) else json.dumps(value, default=str) for value in values]
    return PublicText(" or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words))


def describe_names(schema: Form, parts: Parts, holder: object = None) -> PublicText:
    """List the names that the object at a path may have; "" if the schema declares none.

    Args:
        schema: The schema.
        parts: The path.
        holder: The object that was sent there; its tags choose the branches of a union.
    """
    node = schema_at(schema, parts)
    if node.keys().isdisjoint(UNIONS):
        return PublicText(", ".join(node.get("properties", {})))
    names = (name for form in choose_forms(schema, parts, holder) for name in form.get("properties", ()))
    return PublicText(", ".join(dict.fromkeys(names)))


def describe_expected(schema: Form, parts: Parts) -> PublicText:
    """Describe what the schema expects at a path: the type or the allowed values, and its description.

    Inside of a union, what each of its branches expects there.
    """
    node = schema_at(schema, parts)
    words = describe_form(schema, node)
    if not words:
        words = join_expected(filter(None, (describe_form(schema, form) for form in forms_at(schema, parts))))
    description = node.get("description")
    return PublicText(
        f"{words or 'a value'} ({str(description).strip().rstrip('.')})" if description else words or "a value"
    )


def join_expected(expected: Iterable[str]) -> PublicText:
    """Join alternative descriptions: "a string or null". Allowed values of several of them are listed once."""
    words = list(dict.fromkeys(expected))
    listed = [_split_options(each) for each in words]
    pieces = [piece for each in listed for piece in each]
    if len(words) > 1 and len(unique := list(dict.fromkeys(pieces))) < len(pieces):
        words = [", ".join(unique[:-1]), unique[-1]] if all(len(each) > 1 for each in listed) else unique
    return PublicText(" or ".join(words))


def _split_options(text: str) -> list[str]:
    """Split a text of `describe_options` into the values; another description stays whole."""
    if _OPTIONS.fullmatch(text) is None:
        return [text]
    return [each[0] for each in _OPTION.finditer(text)]


def describe_form(schema: Form, node: Mapping[str, Any], *, unions: bool = True) -> str:
    """Describe a subschema: its allowed values, its format or its types; "" if it has none of these."""
    if "enum" in node:
        return describe_options(node["enum"])
    if "const" in node:
        return describe_options([node["const"]])
    if types := node.get("type"):
        if types == "string" and (node.get("format") in FORMATS or "pattern" in node):
            found = name_text(node)
            return f"{found.article} {found.one}"
        return describe_types((types,) if isinstance(types, str) else types)
    branches = (node.get("anyOf") or node.get("oneOf") or ()) if unions else ()
    forms = [describe_form(schema, resolve_ref(schema, branch), unions=False) for branch in branches]
    return join_expected(forms) if all(forms) else ""
