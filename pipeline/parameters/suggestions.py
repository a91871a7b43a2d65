"""Did you mean: the allowed name or value that is closest to what came, for the text of a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import attrs

from ..errors import Problem
from . import problems
from .coercions import folded, literal
from .schema import forms_at, located, names_at

_HINTED = frozenset(("additionalProperties", "enum", "const"))
_MOST_STRANGERS = 5
_GOOD = 70.0  # of 100, as for the names of tools
_CONTAINED = 85.0  # what it is worth that one holds the other: meal_time, optional_meal_time
_A_PART = 4  # letters from which on that says something
_LONGEST = 100  # characters; nobody means a parameter by more
_MOST = 20  # problems of one call that are told at all


def hinted(found: tuple[Problem, ...], arguments: object, schema: Mapping[str, Any]) -> tuple[Problem, ...]:
    """The problems, those with an unknown name or another value than those to choose from with a suggestion.

    Where something is missing, names that no parameter has are told as well, even if the schema lets them pass: they
    are what the model meant by it, or it will wonder what became of them.
    """
    for problem in found:
        if problem.rule in _HINTED or problem.rule == "required" or problem.got == "null":
            break
    else:
        return found
    arguments = cast("object", literal(arguments)) if isinstance(arguments, str) else arguments
    told = [*(_hinted(problem, arguments, schema) for problem in found[:_MOST]), *found[_MOST:]]
    if isinstance(arguments, Mapping) and any(problem.rule == "required" for problem in found):
        entries = cast("Mapping[Any, Any]", arguments)
        names = names_at(schema, ()) | {problem.path for problem in found}
        strangers = [each for each in entries if isinstance(each, str) and each not in names][:_MOST_STRANGERS]
        known = problems.declared(schema, ())
        of = [Problem(each, "additionalProperties", known, problems.got(entries[each])) for each in strangers]
        told += [_hinted(problem, entries, schema) for problem in of]
    return tuple(told)


def _hinted(problem: Problem, arguments: object, schema: Mapping[str, Any]) -> Problem:
    if problem.rule not in _HINTED and problem.got != "null":
        return problem
    parts, rest = located(arguments, problem.path)
    if rest or not parts:
        return problem
    if problem.got == "null":  # null in place of what has to be there is that missing, whatever type it should have
        holders = forms_at(schema, parts[:-1])
        needed = any(parts[-1] in cast("list[Any]", form.get("required") or ()) for form in holders)
        return Problem(problem.path, "required", problems.wanted(schema, parts), "null") if needed else problem
    if problem.rule == "additionalProperties":
        holder = problems.at(arguments, parts[:-1])
        taken = set(cast("Mapping[str, Any]", holder)) if isinstance(holder, Mapping) else set[str]()
        suggestion = nearest(str(parts[-1]), names_at(schema, parts[:-1]) - taken)
    else:
        value = problems.at(arguments, parts)
        choice = [each for form in forms_at(schema, parts) for each in (*form.get("enum", ()), form.get("const"))]
        suggestion = nearest(value, (each for each in choice if isinstance(each, str)))
    return attrs.evolve(problem, suggestion=suggestion) if suggestion else problem


def nearest(text: object, among: Iterable[str]) -> str:
    """The one of these that is most like a text, if one is like it; else ``""``."""
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST or not (fold := folded(text)):
        return ""
    from rapidfuzz.fuzz import ratio

    best, found = _GOOD, ""
    for each in sorted(among):
        other = folded(each)
        short, long = sorted((fold, other), key=len)
        score = max(ratio(fold, other), _CONTAINED if len(short) >= _A_PART and short in long else 0)
        if score > best:
            best, found = score, each
    return found
