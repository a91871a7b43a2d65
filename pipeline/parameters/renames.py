"""Undeclared parameters that were meant for missing ones.

Each way of comparing names is tried for all missing parameters at once, and a name is taken only where it is the
single candidate for a single parameter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .coercions import fold
from .schema import JsonObject, Parts, is_object, locate, names_at, value_at

if TYPE_CHECKING:
    from .tool_parameters import Parameters

_POSITION = re.compile(r"_*(?:pos|positional|arg)?_*\d*_*", re.IGNORECASE)  # says where a value stands, or nothing
WRAPPERS = frozenset(  # keys that hold the arguments themselves, folded
    ("arguments", "args", "parameters", "params", "input", "kwargs", "toolinput", "toolargs", "functionargs")
)


def find_renames(arguments: JsonObject, path: str, parameters: Parameters) -> list[tuple[Parts, str]]:
    """Find the undeclared parameter that was meant for the missing one at a path.

    Returns:
        Where it stands, and its declared name; with it all others that were misspelt in the same way. Empty where the
        missing one cannot be told for certain.
    """
    declared = parameters.names
    parts, missing = ([], path) if path in declared else locate(arguments, path)
    holder = value_at(arguments, parts)
    if not is_object(holder):
        return []
    if parts:
        declared = frozenset(names_at(parameters.schema, parts))
    undeclared = [key for key in holder if type(key) is str and key not in declared]
    absent = [name for name in declared if name not in holder]
    for matches in (_same_letters, _prefixed, _plural, *((_positional,) if len(declared) == 1 else ())):
        candidates = {name: [sent for sent in undeclared if matches(sent, name)] for name in absent}
        every = [sent for found in candidates.values() for sent in found]
        certain = {name: own[0] for name, own in candidates.items() if len(own) == 1 and every.count(own[0]) == 1}
        if missing in certain:
            return [([*parts, sent], name) for name, sent in certain.items()]
    return []


def _same_letters(sent: str, name: str) -> bool:
    return fold(sent) == fold(name) != ""


def _prefixed(sent: str, name: str) -> bool:
    return any(fold(sent) == wrapper + fold(name) for wrapper in WRAPPERS)


def _plural(sent: str, name: str) -> bool:
    return fold(sent).removesuffix("s") == fold(name).removesuffix("s") != ""


def _positional(sent: str, _name: str) -> bool:
    return _POSITION.fullmatch(sent) is not None
