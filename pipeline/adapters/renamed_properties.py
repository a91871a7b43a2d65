"""Names of properties that a provider does not accept: it is sent others, which are changed back in calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from ..engine.call import Call
from ..parameters.reading import read_arguments
from ..parameters.schema import JsonObject, ToolSchema, forms_at, is_array, is_object
from ..tools.view import ToolView
from .schema_rules import RULES

_PATTERNS: Final = {rules.name: rules.names for rules in RULES.values() if rules.names is not None}
_LONGEST: Final = 64  # characters of a name, at all providers with a rule
_VALUES: Final = frozenset(("enum", "const", "default", "examples", "required"))  # keywords that hold no schemas
_MAX_LEVELS: Final = 16  # of arguments whose names are changed back


def restore_arguments(calls: list[Call], registry: ToolView | None, provider: str) -> list[Call]:
    """The calls with the tools' own names of properties in place of those that were made for a provider."""
    pattern = _PATTERNS.get(provider)
    return calls if registry is None or pattern is None else [_restore(call, registry, pattern) for call in calls]


def _restore(call: Call, registry: ToolView, pattern: re.Pattern[str]) -> Call:
    tool = registry.tools.get(call.name) if type(call.name) is str else None
    if tool is None or not _must_restore(tool.parameters.schema, pattern):
        return call
    sent: Any = call.arguments
    given = read_arguments(sent) if isinstance(sent, str) and sent.lstrip().startswith("{") else sent
    if not is_object(given):
        return call
    restored = _restore_value(given, tool.parameters.schema, pattern, ())
    if restored == given:
        return call
    return attrs.evolve(call, arguments=json.dumps(restored, ensure_ascii=False) if isinstance(sent, str) else restored)


def _must_restore(schema: Mapping[str, Any], pattern: re.Pattern[str]) -> bool:
    """Whether names of the schema were changed for a provider; looked for once in the schema of a tool."""
    known = schema.odd_names if isinstance(schema, ToolSchema) else {}
    found = known.get(pattern.pattern)  # the hash of a text is kept, and that of a pattern is not
    if found is None:
        found = known[pattern.pattern] = _has_odd_names(schema, pattern)
    return found


def _has_odd_names(schema: Any, pattern: re.Pattern[str]) -> bool:
    pending: list[Any] = [schema]
    while pending:
        here = pending.pop()
        if is_array(here):
            pending += here
        elif is_object(here):
            if is_object(declared := here.get("properties")) and not all(map(pattern.fullmatch, declared)):
                return True
            pending += (value for key, value in here.items() if key not in _VALUES)
    return False


def _restore_value(
    value: Any, schema: Mapping[str, Any], pattern: re.Pattern[str], parts: tuple[int | str, ...]
) -> Any:
    if len(parts) > _MAX_LEVELS:
        return value
    if is_array(value):
        return [_restore_value(each, schema, pattern, (*parts, index)) for index, each in enumerate(value)]
    if not is_object(value):
        return value
    declared = [form.get("properties", {}) for form in forms_at(schema, parts)]
    if not parts:  # all variants are sent as one object
        declared = [dict.fromkeys(name for each in declared for name in each)]
    own: dict[str, str] = {}
    for each in declared:
        own |= {sent: name for name, sent in name_properties(each, pattern).items() if sent != name}
    restored: JsonObject = {}
    for key, each in value.items():
        name = key if key not in own or own[key] in value else own[key]
        restored[name] = _restore_value(each, schema, pattern, (*parts, name))
    return restored


def name_properties(names: Iterable[str], pattern: re.Pattern[str] | None) -> dict[str, str]:
    """Name the properties of one object as a provider accepts them; different names stay different."""
    every = list(names)
    found = {name: name for name in every if pattern is None or pattern.fullmatch(name)}
    taken = {*found}
    for name in every:
        if name in found or pattern is None:
            continue
        fitting = "".join(each if pattern.fullmatch(f"a{each}") else "_" for each in name)
        base = fitting if pattern.fullmatch(fitting[:1]) else f"_{fitting}"
        made, number = base[:_LONGEST], 2
        while made in taken:
            made, number = f"{base[: _LONGEST - 4]}_{number}", number + 1
        taken.add(made)
        found[name] = made
    return found
