"""Open known objects that hold the arguments instead of being them: ``{"arguments": {…}}``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from .exact_json import Written
from .reading import read_literal
from .schema import JsonObject, is_object
from .spelling import fold, fold_name

# Folded names of an object that holds the arguments, as the name of the tool does; "" is one of blanks and underscores.
WRAPPERS: Final = frozenset((
    "", "arguments", "args", "kwargs", "parameters", "params", "properties", "input", "inputs", "toolinput", "toolargs",
    "toolarguments", "toolparameters", "functionargs", "functionarguments", "functionparameters",
))  # fmt: skip
# Names of an object that holds a whole call, with the arguments in it under one of the names above.
_ENVELOPES: Final = frozenset(("function", "functioncall", "toolcall", "tooluse", "call"))
# Names that may stand beside the arguments in a call: the tool's own name, an id, and the type of the message.
_NAMES: Final = frozenset(("name", "tool", "toolname", "function", "functionname", "recipientname"))
_IDS: Final = frozenset(("id", "callid", "toolcallid", "tooluseid"))
_TYPES: Final = frozenset(("function", "functioncall", "toolcall", "tooluse"))
_MAX_KEY = 10_000  # characters of a name that may hold the arguments themselves
_MAX_NAME = 50  # characters of the name of a wrapper
_MAX_BESIDE = 20  # names in one object that may be a wrapper
_MAX_WRAPPERS = 8  # one inside the other


def unwrap(
    arguments: JsonObject, declared: frozenset[str], tool_names: Collection[str], written: Written
) -> JsonObject | None:
    """Return the arguments inside a known wrapper, or the arguments whose JSON text is the only key of the object.

    Args:
        arguments: The arguments as they were sent; all names are text.
        declared: The tool's parameters.
        tool_names: The names of the tool; a call inside with another name is not opened. Empty: any name.
        written: Stores how the numbers in opened text were written.

    Returns:
        None if there is no wrapper, or if it has other entries, in it or beside it, than a call has.
    """
    names = set(map(fold_name, declared))
    allowed = set(map(fold, tool_names))
    for _ in range(_MAX_WRAPPERS):
        if len(arguments) > _MAX_BESIDE or not all(len(key) <= _MAX_KEY for key in arguments):
            return None
        if not names.isdisjoint(map(fold_name, arguments)):
            return None
        found = _open(arguments, allowed, written, single=len(declared) == 1)
        if found is None:
            return None
        is_call, arguments = found
        if not is_call and (not arguments or not names.isdisjoint(map(fold_name, arguments))):
            return arguments
    return None


def _open(
    arguments: JsonObject, allowed: set[str], written: Written, *, single: bool
) -> tuple[bool, JsonObject] | None:
    """Open one object. Text under a name of ``_`` alone stays closed if it may be the `single` parameter.

    Returns:
        Whether it holds a whole call, and the object in it; None if it is not a wrapper.
    """
    wrapping = {
        key: folded
        for key in arguments
        if len(key) <= _MAX_NAME and ((folded := fold_name(key)) in WRAPPERS or fold(key) in allowed)
    }
    if len(wrapping) == 1:
        (key,) = wrapping
        beside = {other: value for other, value in arguments.items() if other != key}
        if not _is_harmless(beside, allowed) or (single and not wrapping[key] and isinstance(arguments[key], str)):
            return None
        return _read_object(arguments[key], written, is_call=False)
    if len(arguments) != 1:
        return None
    ((key, value),) = arguments.items()
    if fold_name(key) in _ENVELOPES:
        return _read_object(value, written, is_call=True)
    if value is None or value in ("", {}):  # the text of the arguments itself became a key
        text = key.strip()
        return _read_object(text if text.startswith("{") else f"{{{text}}}", written, is_call=False)
    return None


def _read_object(value: Any, written: Written, *, is_call: bool) -> tuple[bool, JsonObject] | None:
    inner: object = value
    if value is None or value in ("", []):  # no arguments; 0 and False are not read as none
        inner = dict[str, Any]()
    elif isinstance(value, str):
        inner = read_literal(value, written)
    return (is_call, inner) if is_object(inner) and all(type(key) is str for key in inner) else None


def _is_harmless(beside: JsonObject, allowed: set[str]) -> bool:
    """Whether the entries beside the arguments only identify the call."""
    for key, value in beside.items():
        folded = fold_name(key) if len(key) <= _MAX_NAME else ""
        if folded in _NAMES:
            called = fold(value.rpartition(".")[2]) if isinstance(value, str) else ""
            if not called or (allowed and called not in allowed and fold(str(value)) not in allowed):
                return False
        elif folded == "type":
            if not isinstance(value, str) or fold(value) not in _TYPES:
                return False
        elif folded not in _IDS or not isinstance(value, (str, int)):
            return False
    return True
