"""Repairs of arguments: only at the places that failed, and only if the whole then validates.

Each repair is recorded with the rule, the value before and the value after. See `coercions` for the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..errors import InvalidParams, MalformedCall, Problem, Repair
from .coercions import LEAVE_OUT, Rule, coerce, fold
from .limits import Limits, is_incomplete
from .reading import read_arguments, read_literal
from .renames import WRAPPERS, Known, find_renames
from .schema import JsonObject, Parts, format_path, is_object, locate, value_at

if TYPE_CHECKING:
    from .tool_parameters import Parameters

_DROP: Final = "undeclared_dropped"  # recorded as a repair, but no rule: the tool's policy
_MAX_ROUNDS = 4  # a repair may uncover the next problem: text that holds an object that holds a number as text
_MAX_LEVELS = 16  # levels of arguments in which values are repaired
_MAX_KEY = 10_000  # characters of a name that may hold the arguments themselves
_MAX_BESIDE = 20  # names in one object that may be a wrapper
_MAX_WRAPPERS = 8  # one inside the other
_BESIDE = frozenset(("name", "tool", "toolname", "function", "functionname", "recipientname", "id", "type"))
_DICT: Any = dict  # by this name a type checker does not narrow a value to a dict of unknown things
_Fix: TypeAlias = tuple[Parts, str, Any]  # where, by which rule, and the new value; for parameter_name the new name


class _Draft:
    """Arguments while they are repaired. A container is copied before it is written to: the caller's stay as sent."""

    __slots__ = ("_copies", "arguments", "opened", "repairs")

    def __init__(self, arguments: JsonObject, repairs: tuple[Repair, ...] = ()) -> None:
        self.arguments = arguments
        self.repairs = [*repairs]
        self.opened = False  # whether text was read as what it holds
        self._copies: dict[int, Any] = {}  # by id; since they are held, no other object gets the id

    def replace(self, rule: Rule, arguments: JsonObject, before: object) -> None:
        """Go on with other arguments."""
        self.repairs.append(Repair("", rule, before, arguments))
        self.opened = True
        self.arguments = arguments

    def apply(self, fixes: Iterable[_Fix]) -> None:
        """Write the fixes into the arguments, one after the other."""
        self.arguments = self._own(self.arguments)
        for parts, rule, new in fixes:
            holder: Any = self.arguments
            for part in parts[:-1]:
                holder[part] = self._own(holder[part])
                holder = holder[part]
            last: Any = parts[-1]
            if type(last) is str and last not in holder:  # an earlier fix renamed it
                continue
            before: Any = holder[last]
            self.opened = self.opened or rule == "json_text"
            after = new
            if rule == "parameter_name":
                holder[new] = holder.pop(last)
                before = last
            elif new is LEAVE_OUT:
                del holder[last]
                after = None
            else:
                holder[last] = new
            self.repairs.append(Repair(format_path(parts), rule, before, after))

    def _own(self, container: Any) -> Any:
        """Return the container itself if it is a copy of ours, else a copy; what it holds is not copied."""
        if id(container) in self._copies:
            return container
        make: Any = dict if is_object(container) else list
        copy: Any = make(container)
        return self._copies.setdefault(id(copy), copy)


def repair_arguments(
    parameters: Parameters,
    arguments: Any,
    error: InvalidParams | MalformedCall,
    rules: frozenset[Rule],
    limits: Limits | None,
) -> tuple[JsonObject, tuple[Repair, ...]] | None:
    """Repair arguments that were refused; text that was opened must be within the limits too.

    Returns:
        The params and the repairs; None where the refusal stands.
    """
    found: JsonObject | InvalidParams | MalformedCall = error
    if type(error) is MalformedCall:
        if "json_text" not in rules or (inner := _read_text_in_text(arguments)) is None:
            return None
        draft = _Draft(inner, (Repair("", "json_text", arguments, inner),))
        draft.opened = True
        found = _parse(draft, parameters, limits)
    else:
        sent = arguments if type(arguments) is _DICT else read_arguments(arguments)
        if sent is None:
            return None
        draft = _Draft(sent)
    for _ in range(_MAX_ROUNDS):
        if type(found) is not InvalidParams or is_incomplete(found):  # too much is wrong for a mistake of spelling
            break
        if fixes := _find_fixes(draft.arguments, found.problems, parameters, rules):
            draft.apply(fixes)
        else:
            wrapped = "wrapped" in rules and parameters.names.isdisjoint(draft.arguments)
            inner = _unwrap(draft.arguments, parameters.names) if wrapped else None
            if inner is None:
                return None
            draft.replace("wrapped", inner, draft.arguments)
        found = _parse(draft, parameters, limits)
    return (found, tuple(draft.repairs)) if type(found) is dict else None


def _parse(draft: _Draft, parameters: Parameters, limits: Limits | None) -> JsonObject | InvalidParams | MalformedCall:
    """Parse a draft, unless it is larger than what was sent was: JSON text was opened in it."""
    if draft.opened and limits is not None and (too_large := limits.check_value(draft.arguments)) is not None:
        return too_large
    return parameters.parse(draft.arguments)


def _find_fixes(
    arguments: JsonObject, problems: Iterable[Problem], parameters: Parameters, rules: frozenset[Rule]
) -> list[_Fix]:
    """List a fix for each problem that has one."""
    fixes: list[_Fix] = []
    known: Known = {}
    rename = "parameter_name" in rules
    undeclared = rename and not parameters.names.issuperset(arguments)
    for problem in problems:
        path, keyword = problem.path, problem.rule
        if path.count(".") + path.count("[") > _MAX_LEVELS:
            continue
        if keyword == "required":
            if rename and (undeclared or path not in parameters.names):
                renames = find_renames(arguments, path, parameters, known)
                renamed: list[_Fix] = [(parts, "parameter_name", name) for parts, name in renames]
                fixes += [each for each in renamed if each not in fixes]
            continue
        parts: list[int | str] = [path]
        if path in arguments:
            value: Any = arguments[path]
        else:
            parts, rest = locate(arguments, path)
            if rest or not parts:
                continue
            value = value_at(arguments, parts)
        if keyword == "additionalProperties":
            if parameters.undeclared == "drop":
                fixes.append((parts, _DROP, LEAVE_OUT))
        elif (fix := coerce(value, parameters.expected_at(parts), rules)) is not None:
            fixes.append((parts, *fix))
    return fixes


def _unwrap(arguments: JsonObject, names: frozenset[str]) -> JsonObject | None:
    """Return the arguments that stand under a single key, as ``{"arguments": {…}}``; None where there are none."""
    declared = set(map(fold, names))
    for _ in range(_MAX_WRAPPERS):
        if len(arguments) > _MAX_BESIDE or not all(type(key) is str and len(key) <= _MAX_KEY for key in arguments):
            return None
        keys = {fold(key): key for key in arguments}
        if not declared.isdisjoint(keys):
            return None
        several = len(arguments) > 1
        wrapping = [key for folded, key in keys.items() if not several or folded not in _BESIDE]
        if len(wrapping) != 1 or (several and fold(wrapping[0]) not in WRAPPERS):
            return None
        inner = _read_inner(wrapping[0], arguments[wrapping[0]])
        if not is_object(inner):
            return None
        arguments = inner
        if not declared.isdisjoint(map(fold, arguments)):
            return arguments
    return None


def _read_inner(key: str, value: Any) -> Any:
    if isinstance(value, str) and value.strip():
        return read_literal(value)
    if value:
        return value
    text = key.strip()  # the text of the arguments itself became a key
    return read_literal(text if text.startswith("{") else f"{{{text}}}")


def _read_text_in_text(arguments: object) -> JsonObject | None:
    """Read the object in JSON text that is itself inside JSON text."""
    if not isinstance(arguments, str) or not arguments.lstrip().startswith('"'):
        return None
    text = read_literal(arguments)
    inner = read_literal(text) if isinstance(text, str) else None
    return inner if is_object(inner) else None
