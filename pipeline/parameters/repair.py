"""Arguments put right before the tool runs: only where they fail, and only if the whole then validates.

Every repair is an entry of the ledger. The value that was meant has to be in what was sent: a float is not cut, a
boolean is no number, nothing is made up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from ..errors import InvalidParams, MalformedCall, Problem, Repair
from . import problems
from .coercions import DROPPED, Place, coerced, folded, literal
from .renames import WRAPPERS, known_parameters, misspelt
from .schema import Parts, forms_at, located

if TYPE_CHECKING:
    from ..tools.definition import Tool

Rule: TypeAlias = Literal[
    "json_text",  # JSON text where an object or array is wanted, and no text
    "null_optional",  # null, "null" or "" for an optional parameter that may not be null: left out
    "number_text",  # "5" for 5
    "boolean_text",  # "True" for true
    "text_of_number",  # 5 for "5"
    "text_of_boolean",  # true for "true"
    "whole_float",  # 3.0 for 3
    "lone_scalar",  # "a" for ["a"]
    "separated_text",  # "a, b" for ["a", "b"], where both are values to choose from
    "enum_spelling",  # "Home Delivery" for "home-delivery"
    "parameter_name",  # filePath for file_path, also params_path, files for file, or no name where there is one only
    "wrapped",  # {"arguments": {…}} for {…}, {"type": "number", "value": 5} for 5
]
RULES: tuple[Rule, ...] = get_args(Rule)
DROP = "undeclared_dropped"  # no repair but a tool's policy; an entry of the ledger as well
_ROUNDS = 4  # a repair may show what was wrong behind it: text that holds an object that holds a number as text
_AROUND = frozenset(("name", "tool", "toolname", "function", "functionname", "recipientname", "id", "type"))
_DEEPEST = 8  # unions in unions, and references to references


def is_plain(refused: InvalidParams | MalformedCall, arguments: object, tool: Tool[..., Any]) -> bool:
    """Whether nothing but declared parameters came, and some are missing: what most refusals are, and past mending."""
    declared = tool.parameters
    if declared is None or type(refused) is not InvalidParams or type(arguments) is not dict:
        return False
    for problem in refused.problems:
        if problem.rule != "required" or problem.path not in declared:
            return False
    return declared.issuperset(cast("dict[str, Any]", arguments))


def repaired(
    arguments: object, refused: InvalidParams | MalformedCall, tool: Tool[..., Any], rules: frozenset[str]
) -> tuple[dict[str, Any], tuple[Repair, ...]] | None:
    """The params and the ledger of what was put right for them; None where the refusal stands."""
    found: dict[str, Any] | InvalidParams | MalformedCall = refused
    ledger: list[Repair] = []
    if type(refused) is MalformedCall:
        if "json_text" not in rules or (inner := _text_in_text(arguments)) is None:
            return None
        ledger.append(Repair("", "json_text", arguments, inner))
        arguments, found = inner, tool.parse(inner)
    elif type(arguments) is not dict:
        arguments = _decoded(arguments)
    if not isinstance(arguments, dict):
        return None
    whole = cast("dict[str, Any]", arguments)
    declared = tool.parameters or known_parameters(tool)
    own: dict[int, Any] = {}  # the containers that may be written to: the caller's own stay as they are
    for _ in range(_ROUNDS):
        if type(found) is not InvalidParams:
            break
        fixes = _fixes(whole, found.problems, tool, declared, rules)
        if not fixes:
            may_be = "wrapped" in rules and declared.isdisjoint(whole)
            if not may_be or (inner := _unwrapped(whole, declared)) is None:
                return None
            ledger.append(Repair("", "wrapped", whole, inner))
            whole = inner
        else:
            whole = _opened(whole, own)
            ledger += [repair for each in fixes if (repair := _applied(whole, own, *each)) is not None]
        found = tool.parse(whole)
    return (found, tuple(ledger)) if type(found) is dict else None


def _fixes(
    whole: dict[str, Any],
    found: Iterable[Problem],
    tool: Tool[..., Any],
    declared: frozenset[str],
    rules: frozenset[str],
) -> list[tuple[Parts, str, Any]]:
    """Of each problem that can be mended: where, by which rule, and the new value, or the new name."""
    fixes: list[tuple[Parts, str, Any]] = []
    strangers = "parameter_name" in rules and not declared.issuperset(whole)
    for problem in found:
        path, rule = problem.path, problem.rule
        if rule == "required":
            if "parameter_name" in rules and (strangers or path not in declared):
                fixes += misspelt(whole, path, tool)
            continue
        if path in whole:
            parts: list[int | str] = [path]
            value = whole[path]
            place = tool.places.get(path)
        else:
            parts, rest = located(whole, path)
            if rest or not parts:
                continue
            value, place = problems.at(whole, parts), None
        if rule == "additionalProperties":
            if tool.undeclared == "drop":
                fixes.append((parts, DROP, DROPPED))
            continue
        if place is None:
            place = _place(tool, parts)
        fix = coerced(value, place, rules)
        if fix is not None:
            fixes.append((parts, *fix))
    return fixes


def _opened(container: Any, own: dict[int, Any]) -> Any:
    """The container, or a copy of it that may be written to; what is in it stays as it is."""
    if id(container) in own:
        return container
    copy: Any = cast("Any", dict if isinstance(container, dict) else list)(container)
    return own.setdefault(id(copy), copy)


def _applied(whole: dict[str, Any], own: dict[int, Any], parts: Parts, rule: str, new: Any) -> Repair | None:
    """Write one fix into the arguments."""
    holder: Any = whole
    for part in parts[:-1]:
        holder[part] = _opened(holder[part], own)
        holder = holder[part]
    last: Any = parts[-1]
    if type(last) is str and last not in holder:  # renamed by the fix before
        return None
    before: Any = holder[last]
    path = problems.spelt(parts)
    if rule == "parameter_name":
        holder[new] = holder.pop(last)
        return Repair(path, rule, last, new)
    if new is DROPPED:
        del holder[last]
        return Repair(path, rule, before, None)
    holder[last] = new
    return Repair(path, rule, before, new)


def _unwrapped(whole: dict[str, Any], names: frozenset[str]) -> dict[str, Any] | None:
    """The arguments that a call holds under one key of its own, as ``{"arguments": {…}}``."""
    declared = set(map(folded, names))
    for _ in range(_DEEPEST):
        if not all(type(key) is str for key in whole):
            return None
        keys = {folded(key): key for key in whole}
        if not declared.isdisjoint(keys):
            return None
        wrapping = [key for fold, key in keys.items() if fold not in _AROUND] if len(whole) > 1 else [*whole]
        if len(wrapping) != 1 or (len(whole) > 1 and folded(wrapping[0]) not in WRAPPERS):
            return None
        inner: Any = whole[wrapping[0]]
        if isinstance(inner, str) and inner.strip():
            inner = literal(inner)
        elif not inner:  # the text of the arguments itself became a key
            text = wrapping[0].strip()
            inner = literal(text if text.startswith("{") else f"{{{text}}}")
        if not isinstance(inner, dict):
            return None
        whole = cast("dict[str, Any]", inner)
        if not declared.isdisjoint(map(folded, whole)):
            return whole
    return None


def _text_in_text(arguments: object) -> dict[str, Any] | None:
    """The object in JSON text that holds JSON text."""
    is_text = isinstance(arguments, str) and arguments.lstrip().startswith('"')
    text: Any = literal(cast("str", arguments)) if is_text else None
    inner: Any = literal(text) if isinstance(text, str) else None
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else None


def _decoded(arguments: object) -> object:
    if isinstance(arguments, str):
        return literal(arguments) if arguments.strip() else {}
    if isinstance(arguments, Mapping) and not isinstance(arguments, dict):
        return dict(cast("Mapping[str, Any]", arguments))
    return {} if arguments is None else cast("object", arguments)


def _place(tool: Tool[..., Any], parts: Parts) -> Place:
    """What the schema says of a place; of a parameter itself it is kept."""
    schema = tool.schema or {}
    holders = forms_at(schema, parts[:-1])
    last = parts[-1]
    needed = any(last in cast("list[Any]", form.get("required") or ()) for form in holders)
    name = last if isinstance(last, str) else None
    items = partial(_place, tool, [*parts, 0])
    place = Place.of(forms_at(schema, parts), items, name, may_miss=name is not None and not needed)
    if len(parts) == 1 and any(last in form.get("properties", ()) for form in holders):
        tool.places[str(last)] = place
    return place
