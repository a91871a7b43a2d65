"""Repair arguments, only at the places that failed, and only if the result validates.

Each repair is recorded with the rule, the value before and the value after. See `coercions` for the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..base.foreign_values import or_default
from ..base.model_marks import cut_marks
from ..engine.errors import InvalidParams, MalformedCall, Problem, Repair
from .coercions import LEAVE_OUT, Rule, coerce
from .exact_json import Written, may_be_read_twice
from .expectations import Sent
from .limits import Limits, is_incomplete
from .reading import read_arguments, read_literal
from .renames import Known, find_assignments, find_declared, find_renames
from .schema import JsonObject, Parts, format_path, is_object, json_type, locate, value_at
from .spelling import fold_name
from .wrappers import unwrap

if TYPE_CHECKING:
    from .tool_parameters import Parameters

_DROP: Final = "undeclared_dropped"  # recorded as a repair; the tool's policy, not a rule
_FENCE = re.compile(r"```[ \t]*\w{0,20}[ \t]*\r?\n(?P<inner>.*?)\r?\n?[ \t]*```", re.DOTALL)
_NOTHING = re.compile(r"null|None|\[\s*\]|\"\"|''")  # no arguments, in text that is no object
_MAX_NOTHING = 20  # characters
_MAX_ROUNDS = 4  # a repair may uncover the next problem, such as a number as text inside of JSON text
_MAX_LEVELS = 16  # levels of arguments; deeper values are not repaired
_DICT: Any = dict  # under this name type checkers do not narrow to `dict[Unknown, Unknown]`
_Found: TypeAlias = JsonObject | InvalidParams | MalformedCall  # the params, or why there are none
_Fix: TypeAlias = tuple[Parts, str, Any]  # the path, the rule, and the new value; for parameter_name the new name


class Draft:
    """Arguments while they are repaired. A container is copied before a write, so the caller's stay unchanged."""

    __slots__ = ("_copies", "arguments", "fits", "left_out", "opened", "repairs", "sent")

    def __init__(self, arguments: JsonObject, written: Written, repairs: tuple[Repair, ...] = ()) -> None:
        self.arguments = arguments
        self.repairs = [*repairs]
        self.sent = Sent(written)
        self.left_out: set[str] = set()  # paths left out on purpose: no other name was meant for them
        self.opened = False  # whether JSON text was replaced by its value
        self.fits = False  # whether the limits are certainly kept, whatever text is opened
        self._copies: dict[int, Any] = {}  # our copies by id; they stay alive here, so ids stay unique

    def replace(self, rule: Rule, arguments: JsonObject, before: object) -> None:
        """Replace all arguments."""
        self.repairs.append(Repair("", rule, before, arguments))
        self.opened = True
        self.arguments = arguments

    def assign(self, assignments: Mapping[str, tuple[str, str]]) -> None:
        """Move values to the parameters that their texts name."""
        self.arguments = {key: value for key, value in self.arguments.items() if key not in assignments} | dict(
            assignments.values()
        )
        for key, (name, value) in assignments.items():
            before = f"{name}={value}"
            self.repairs.append(Repair(key, "parameter_name", {key: before}, {name: value}))

    def apply(self, fixes: Iterable[_Fix]) -> None:
        """Write the fixes into the arguments, in order."""
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
                self.left_out.add(format_path(parts))
                after = None
            else:
                holder[last] = new
            self.repairs.append(Repair(format_path(parts), rule, before, after))

    def _own(self, container: Any) -> Any:
        """Return the container itself if it is our copy, else a new shallow copy."""
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
    tool_names: Collection[str] = (),
) -> tuple[JsonObject, Draft] | InvalidParams | None:
    """Repair arguments that were refused.

    The result must keep the limits too, once text in it is opened.

    Args:
        parameters: The tool's parameters.
        arguments: The arguments as they were sent.
        error: The refusal.
        rules: The rules that may be used.
        limits: The limits on arguments; None: no limits.
        tool_names: The names of the tool that are accepted if the arguments hold a whole call. Empty: any name.

    Returns:
        The params and the repaired arguments; the refusal of what the repairs leave; None if nothing was repaired.
    """
    written = Written()
    found: _Found
    if type(error) is MalformedCall:
        if "json_text" not in rules or (inner := _read_whole_text(arguments, written)) is None:
            return None
        draft = Draft(inner, written, (Repair("", "json_text", arguments, inner),))
        draft.opened = True
        found = _parse(draft, parameters, limits)
    else:
        sent = arguments if type(arguments) is _DICT else _read_sent(arguments, error, written)
        if sent is None:
            return None
        draft = Draft(sent, written)
        draft.fits = type(arguments) is str and limits is not None and limits.holds_opened(arguments)
        found = error
    found = _fix(draft, found, parameters, rules, limits, tool_names)
    if is_object(found):
        return found, draft
    # Judged with the repairs that hold, so that one refusal lists all that is still wrong, and nothing else. A name
    # that only resembles another one does not hold where the call is refused, nor does a wrapper where a parameter is
    # missing: a model would send it beside the wrapper.
    if not draft.repairs or type(found) is not InvalidParams or is_incomplete(found):
        return None
    incomplete = any(each.rule == "required" for each in found.problems)
    for each in draft.repairs:
        if each.rule == "parameter_name" and not _is_same_name(each):
            return None
        if each.rule == "wrapped" and not each.path and incomplete:
            return None
    return found


def _fix(
    draft: Draft,
    found: _Found,
    parameters: Parameters,
    rules: frozenset[Rule],
    limits: Limits | None,
    tool_names: Collection[str],
) -> _Found:
    """Repair a draft until it is valid or no rule changes it. Returns the params, or the last refusal."""
    for _ in range(_MAX_ROUNDS):
        if type(found) is not InvalidParams or is_incomplete(found):  # so many problems are not a slip in spelling
            break
        if fixes := _find_fixes(draft, found.problems, parameters, rules):
            draft.apply(fixes)
        elif not _restructure(draft, parameters, rules, tool_names):
            break
        found = _parse(draft, parameters, limits)
    return found


def _is_same_name(repair: Repair) -> bool:
    return (
        isinstance(repair.before, str)
        and isinstance(repair.after, str)
        and fold_name(repair.before) == fold_name(repair.after)
    )


def _restructure(draft: Draft, parameters: Parameters, rules: frozenset[Rule], tool_names: Collection[str]) -> bool:
    """Find the arguments inside a wrapper or in positional texts, if no single value can be repaired.

    Returns:
        Whether they were found.
    """
    if not parameters.names.isdisjoint(draft.arguments) or not all(type(key) is str for key in draft.arguments):
        return False
    if "wrapped" in rules:
        inner = unwrap(draft.arguments, parameters.names, tool_names, draft.sent.written)
        if inner is not None:
            draft.replace("wrapped", inner, draft.arguments)
            return True
    assignments = find_assignments(draft.arguments, parameters) if "parameter_name" in rules else {}
    if assignments:
        draft.assign(assignments)
    return bool(assignments)


def _parse(draft: Draft, parameters: Parameters, limits: Limits | None) -> _Found:
    """Parse a draft; first check its size again if JSON text was opened in it."""
    if (
        draft.opened
        and not draft.fits
        and limits is not None
        and (too_large := limits.check_value(draft.arguments)) is not None
    ):
        return too_large
    return parameters.parse(draft.arguments)


def _find_fixes(
    draft: Draft, problems: Iterable[Problem], parameters: Parameters, rules: frozenset[Rule]
) -> list[_Fix]:
    """List a fix for each problem that has one."""
    arguments = draft.arguments
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
                fixes += [each for each in _rename(renames, draft) if each not in fixes]
            continue
        parts: list[int | str] = [path]
        if path not in arguments:
            parts, rest = locate(arguments, path)
            if rest or not parts:
                continue
        if keyword == "additionalProperties":
            name = find_declared(arguments, parts, parameters, known) if rename else None
            dropped: _Fix | None = (parts, _DROP, LEAVE_OUT) if parameters.undeclared == "drop" else None
            fix = next(_rename([(parts, name)], draft), None) if name is not None else dropped
        else:
            meant = None
            if not _may_be_alone(arguments, parts, parameters):
                meant = coerce(value_at(arguments, parts), parameters.expected_at(parts), rules, draft.sent)
            fix = None if meant is None else (parts, *meant)
        if fix is not None and fix not in fixes:
            fixes.append(fix)
    return fixes


def _may_be_alone(arguments: JsonObject, parts: Parts, parameters: Parameters) -> bool:
    """Whether a wrong item may also be the value itself: ``[3]`` where an integer or an array of texts is expected."""
    if len(parts) == 1 or type(parts[-1]) is str:
        return False
    items: Any = value_at(arguments, parts[:-1])
    if len(items) != 1:
        return False
    kind, types = json_type(items[0]), parameters.expected_at(parts[:-1]).types
    is_whole = kind == "number" and float(items[0]).is_integer()
    return kind in types or (kind == "integer" and "number" in types) or (is_whole and "integer" in types)


def _rename(renames: Iterable[tuple[Parts, str]], draft: Draft) -> Iterator[_Fix]:
    for parts, name in renames:
        if format_path([*parts[:-1], name]) not in draft.left_out:
            yield parts, "parameter_name", name


def _read_sent(arguments: object, error: object, written: Written) -> JsonObject | None:
    """Read the arguments and store how text writes its numbers; None if the reading is not lossless."""
    read = error.read if isinstance(error, InvalidParams) else None  # by the parser that refused them
    if isinstance(arguments, str) and is_object(read) and may_be_read_twice(arguments):
        return read
    if not isinstance(arguments, str) or not arguments.strip():
        return read_arguments(arguments)
    try:
        found = written.read(arguments)
    except ValueError:
        return None
    return found if is_object(found) else None


def _read_whole_text(arguments: object, written: Written) -> JsonObject | None:
    """Read the object in text that is not JSON, but has one reading that uses all of it.

    It may be nothing, as ``null``, JSON text inside of JSON text, JSON in a Markdown fence, after a byte order mark or
    before the marks of a template, with a line end in a string or a comma too many, or a Python literal.
    """
    if not isinstance(arguments, str):
        return None
    text = arguments.strip().removeprefix("\ufeff").strip()
    if text.endswith((">", "]")):
        text = cut_marks(text)
    if (fence := _FENCE.fullmatch(text)) is not None:
        text = fence["inner"]
    found: Any = None
    if len(text) <= _MAX_NOTHING and _NOTHING.fullmatch(text.strip()):
        found = {}
    elif text.startswith('"'):
        inner = read_literal(text)
        found = read_literal(inner, written) if isinstance(inner, str) else None
    elif text.startswith("{"):
        found = read_literal(text, written)
        if found is None:
            with suppress(ValueError):
                found = written.read(text, strict=False)
    return found if is_object(found) and _is_unicode(found) else None


@or_default(default=False)
def _is_unicode(value: JsonObject) -> bool:
    """Whether no text in a value has a lone surrogate, which `json` reads and no encoding can represent."""
    return bool(json.dumps(value, ensure_ascii=False).encode())
