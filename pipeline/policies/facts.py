"""The arguments of a call as the JSON that was accepted: what rules judge, people approve, audits and plans hold."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from ..base.introspection import get_open_parameters
from ..base.setup_error import SetupError
from ..engine.call import ValidCall
from ..messages.plain_values import not_shown, to_plain
from ..parameters import CannotSay
from ..tools.definition import Tool

_DICT: Any = dict  # under this name type checkers do not narrow to `dict[Unknown, Unknown]`
_DEFAULTS: WeakKeyDictionary[Tool[..., Any], dict[str, Any]] = WeakKeyDictionary()  # to read a signature takes long


def make_plain_arguments(call: ValidCall) -> dict[str, Any]:
    """The accepted JSON, see `AcceptedJson`: repaired, with defaults, by the names of the schema; else CannotSay."""
    return call.tool.parameters.write_accepted(call.params, _get_defaults(call.tool))


def show_arguments(call: ValidCall) -> dict[str, Any]:
    """The accepted JSON for a person or a row, in which a number of too many digits for a float is text.

    Arguments that no rule can judge are shown by their Python names, as a tool's results are; of a tool with declared
    secrets only their types, for the mask goes by the names of the schema.
    """
    try:
        shown = make_plain_arguments(call)
    except CannotSay:
        is_open = call.tool.parameters.secrets is None
        shown = {name: value if is_open else not_shown(value) for name, value in call.params.items()}
    return dict(to_plain(shown))


def _get_defaults(tool: Tool[..., Any]) -> dict[str, Any]:
    """The defaults of the parameters by their Python names: of the function, else of a raw schema."""
    if (found := _DEFAULTS.get(tool)) is not None:
        return found
    found = {}
    if tool.parameters.compile().make_core is None:
        shown: Any = tool.parameters.schema.get("properties", {})
        entries = ((name, each) for name, each in shown.items() if type(each) is _DICT)  # a schema may be true
        found = {name: each["default"] for name, each in entries if "default" in each}
    with suppress(SetupError):  # a handler of a raw schema may be a builtin without a signature
        for parameter in get_open_parameters(tool.fn):
            default: Any = parameter.default
            if type(default).__name__ == "FieldInfo":
                default = parameter.empty if default.default_factory is not None else default.default
            if default is not parameter.empty and type(default).__name__ != "PydanticUndefinedType":
                found[parameter.name] = default
    _DEFAULTS[tool] = found
    return found
