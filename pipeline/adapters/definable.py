"""Fit the schema of a tool to what a provider accepts: what loses nothing is changed, anything else is refused.

One definition that a provider does not accept fails the whole request, for all tools.

Sources: https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use (no ``anyOf``,
``oneOf`` or ``allOf`` at the top; names of properties match ``^[a-zA-Z0-9_.-]{1,64}$``) and
https://ai.google.dev/gemini-api/docs/structured-output (no ``const``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from ..base.setup_error import SetupError
from ..engine.call import Call
from ..parameters.reading import read_arguments
from ..parameters.schema import UNIONS, JsonObject, ToolSchema, forms_at, is_array, is_object
from ..tools.view import ToolView

_LONGEST: Final = 64  # characters of the name of a property at Anthropic
_NOT_ACCEPTED: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_VALUES: Final = frozenset(("enum", "const", "default", "examples", "required"))  # keywords that hold no schemas
_MAX_LEVELS: Final = 16  # of arguments whose names are changed back


def fit_anthropic(tool: str, schema: JsonObject) -> JsonObject:
    """Rename the properties that Anthropic does not accept. `restore_arguments` changes the names back.

    Args:
        tool: The name of the tool, for the error.
        schema: The schema of its arguments. It stays as it is.

    Raises:
        SetupError: The schema has a union at the top, which has no equivalent there.
    """
    union = find_top_union(schema)
    if union:
        raise SetupError(
            f"Anthropic's models take no schema with {union} at the top: give the arguments of {tool!r} one object, "
            "such as {'request': <the union>}"
        )
    fitted: JsonObject = _rewrite(schema, _rename_properties) if has_odd_names(schema) else schema
    return fitted


def find_top_union(schema: Mapping[str, Any]) -> str:
    """Return the union at the top of a schema, for which Anthropic refuses the whole request; "" if there is none."""
    return next((each for each in UNIONS if each in schema), "")


def fit_gemini(schema: JsonObject) -> JsonObject:
    """Replace each ``const`` by an ``enum`` of one value, which accepts the same. The schema stays as it is."""
    fitted: JsonObject = _rewrite(schema, _replace_const)
    return fitted


def has_odd_names(schema: Any) -> bool:
    """Whether a property has a name that Anthropic does not accept, at any depth."""
    pending: list[Any] = [schema]
    while pending:
        here = pending.pop()
        if is_array(here):
            pending += here
        elif is_object(here):
            if is_object(declared := here.get("properties")) and any(map(_is_odd, declared)):
                return True
            pending += (value for key, value in here.items() if key not in _VALUES)
    return False


def restore_arguments(calls: list[Call], registry: ToolView | None) -> list[Call]:
    """The calls with the tools' own names of properties in place of those that were made for Anthropic.

    Args:
        calls: Calls with the tools' own names.
        registry: The registry whose definitions were sent. None: the calls stay as they are.
    """
    return calls if registry is None else [_restore(call, registry) for call in calls]


def _restore(call: Call, registry: ToolView) -> Call:
    tool = registry.tools.get(call.name) if type(call.name) is str else None
    if tool is None or not _must_restore(tool.parameters.schema):
        return call
    sent: Any = call.arguments
    given = read_arguments(sent) if isinstance(sent, str) and sent.lstrip().startswith("{") else sent
    if not is_object(given):
        return call
    restored = _restore_value(given, tool.parameters.schema, ())
    if restored == given:
        return call
    return attrs.evolve(call, arguments=json.dumps(restored, ensure_ascii=False) if isinstance(sent, str) else restored)


def _must_restore(schema: Mapping[str, Any]) -> bool:
    """Whether names of the schema were changed for Anthropic; looked for once in the schema of a tool."""
    if not isinstance(schema, ToolSchema):
        return has_odd_names(schema)
    if schema.has_odd_names is None:
        schema.has_odd_names = has_odd_names(schema)
    return schema.has_odd_names


def _restore_value(value: Any, schema: Mapping[str, Any], parts: tuple[int | str, ...]) -> Any:
    if len(parts) > _MAX_LEVELS:
        return value
    if is_array(value):
        return [_restore_value(each, schema, (*parts, index)) for index, each in enumerate(value)]
    if not is_object(value):
        return value
    own: dict[str, str] = {}
    for form in forms_at(schema, parts):
        own |= {sent: name for name, sent in _name_properties(form.get("properties", {})).items() if sent != name}
    restored: JsonObject = {}
    for key, each in value.items():
        name = key if key not in own or own[key] in value else own[key]
        restored[name] = _restore_value(each, schema, (*parts, name))
    return restored


def _is_odd(name: str) -> bool:
    return not 0 < len(name) <= _LONGEST or _NOT_ACCEPTED.search(name) is not None


def _name_properties(names: Iterable[str]) -> dict[str, str]:
    """Name the properties of one object as Anthropic accepts them; different names stay different."""
    every = list(names)
    taken = {name for name in every if not _is_odd(name)}
    found = {name: name for name in taken}
    for name in every:
        if name in found:
            continue
        base = _NOT_ACCEPTED.sub("_", name)[:_LONGEST] or "_"
        made, number = base, 2
        while made in taken:
            made, number = f"{base[: _LONGEST - 4]}_{number}", number + 1
        taken.add(made)
        found[name] = made
    return found


def _rewrite(node: Any, change: Callable[[JsonObject], JsonObject]) -> Any:
    if is_array(node):
        return [_rewrite(each, change) for each in node]
    if not is_object(node):
        return node
    changed = change(node)
    made: JsonObject = {}
    for key, value in changed.items():
        if key in ("properties", "$defs", "definitions", "patternProperties") and is_object(value):
            made[key] = {name: _rewrite(each, change) for name, each in value.items()}
        else:
            made[key] = value if key in _VALUES else _rewrite(value, change)
    return made


def _rename_properties(node: JsonObject) -> JsonObject:
    declared = node.get("properties")
    if not is_object(declared):
        return node
    names = _name_properties(declared)
    made = {**node, "properties": {names[name]: each for name, each in declared.items()}}
    if is_array(node.get("required")):
        made["required"] = [names.get(name, name) for name in node["required"]]
    return made


def _replace_const(node: JsonObject) -> JsonObject:
    if "const" not in node:
        return node
    return {**{key: value for key, value in node.items() if key != "const"}, "enum": [node["const"]]}
