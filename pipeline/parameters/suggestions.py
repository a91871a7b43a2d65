"""Did you mean: the allowed name or value closest to what was sent, for the text of a refusal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import attrs

from ..errors import Problem
from .phrases import describe_expected, describe_names, describe_value
from .reading import read_arguments
from .schema import Form, JsonObject, forms_at, is_object, is_required, locate, names_at, value_at
from .spelling import fold

_SUGGESTED = frozenset(("additionalProperties", "enum", "const"))  # rules that have names or values to choose from
ADVISED = _SUGGESTED | {"required"}  # rules whose problems there may be more to say about
_MAX_UNDECLARED = 5  # names
_MAX_PROBLEMS = 20  # of one call that are looked at
_MIN_SCORE = 70.0  # of 100, as for the names of tools
_CONTAINED = 85.0  # the score of a name that contains the other: meal_time, optional_meal_time
_MIN_CONTAINED = 4  # letters; a shorter name is contained in many
_MAX_NAME = 100  # characters; nothing longer was meant as a name


def with_suggestions(problems: tuple[Problem, ...], arguments: object, schema: Form) -> tuple[Problem, ...]:
    """Add what was probably meant to each problem of an unknown name, or of a value that is none of the choices.

    Where a parameter is missing, the undeclared names that were sent are added as problems, even if the schema lets
    them pass: one of them may have been meant for it.

    Returns:
        The same tuple where there is nothing to add.
    """
    for problem in problems:
        if problem.rule in ADVISED or problem.got == "null":
            break
    else:
        return problems
    sent = read_arguments(arguments)
    if sent is None:
        return problems
    result = [*(_suggest(problem, sent, schema) for problem in problems[:_MAX_PROBLEMS]), *problems[_MAX_PROBLEMS:]]
    if any(problem.rule == "required" for problem in problems):
        known = names_at(schema, ()) | {problem.path for problem in problems}
        # From outside the library a key may be of any type.
        undeclared = [name for name in sent if isinstance(cast("object", name), str) and name not in known]
        names = describe_names(schema, ())
        extra = (
            Problem(name, "additionalProperties", names, describe_value(sent[name]))
            for name in undeclared[:_MAX_UNDECLARED]
        )
        result += [_suggest(problem, sent, schema) for problem in extra]
    return tuple(result)


def _suggest(problem: Problem, arguments: JsonObject, schema: Form) -> Problem:
    if problem.rule not in _SUGGESTED and problem.got != "null":
        return problem
    parts, rest = locate(arguments, problem.path)
    if rest or not parts:
        return problem
    if problem.got == "null":  # null for a required parameter: it is missing, whatever its type
        if not is_required(schema, parts):
            return problem
        return Problem(problem.path, "required", describe_expected(schema, parts), "null")
    if problem.rule == "additionalProperties":
        holder = value_at(arguments, parts[:-1])
        taken = set(holder) if is_object(holder) else set[str]()
        suggestion = find_nearest(str(parts[-1]), names_at(schema, parts[:-1]) - taken)
    else:
        choice = [each for form in forms_at(schema, parts) for each in (*form.get("enum", ()), form.get("const"))]
        suggestion = find_nearest(value_at(arguments, parts), (each for each in choice if isinstance(each, str)))
    return attrs.evolve(problem, suggestion=suggestion) if suggestion else problem


def find_nearest(text: object, among: Iterable[str]) -> str:
    """Return the text that is most like this one; "" where none is like it."""
    if not isinstance(text, str) or not 0 < len(text) <= _MAX_NAME or not (folded := fold(text)):
        return ""
    from rapidfuzz.fuzz import ratio

    best, found = _MIN_SCORE, ""
    for each in sorted(among):
        other = fold(each)
        short, long = sorted((folded, other), key=len)
        contained = len(short) >= _MIN_CONTAINED and short in long
        score = max(ratio(folded, other), _CONTAINED if contained else 0)
        if score > best:
            best, found = score, each
    return found
