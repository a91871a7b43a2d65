"""Parameters by a near name: the undeclared one that was sent for the one that is missing.

Each rule is tried for all that are missing at once, and taken only where it finds one stranger for one parameter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from . import problems
from .coercions import folded
from .schema import Parts, located, names_at

if TYPE_CHECKING:
    from ..tools.definition import Tool

_POSITION = re.compile(r"_*(?:pos|positional|arg)?_*\d*_*", re.IGNORECASE)  # a name that is none
WRAPPERS = frozenset(  # keys that hold the arguments themselves, folded
    ("arguments", "args", "parameters", "params", "input", "kwargs", "toolinput", "toolargs", "functionargs")
)


def known_parameters(tool: Tool[..., Any]) -> frozenset[str]:
    """The names that its schema declares, looked up once."""
    if tool.parameters is None:
        tool.parameters = frozenset(names_at(tool.schema or {}, []))
    return tool.parameters


def misspelt(whole: dict[str, Any], path: str, tool: Tool[..., Any]) -> list[tuple[Parts, str, Any]]:
    """The undeclared parameter that is the missing one in another spelling, and the others that are spelt so.

    Of each where it stands, the rule, and its declared name; none where no rule is sure of the missing one.
    """
    declared = known_parameters(tool)
    parts, name = ([], path) if path in declared else located(whole, path)
    holder = problems.at(whole, parts)
    if not isinstance(holder, dict):
        return []
    if parts:
        declared = frozenset(names_at(tool.schema or {}, parts))
    strangers = [key for key in cast("dict[str, Any]", holder) if type(key) is str and key not in declared]
    missing = [each for each in declared if each not in holder]
    for alike in (_same, _prefixed, _plural, _unnamed if len(declared) == 1 else _never):
        meant = {each: [stranger for stranger in strangers if alike(stranger, each)] for each in missing}
        found = [found for own in meant.values() for found in own]
        sure = {each: own[0] for each, own in meant.items() if len(own) == 1 and found.count(own[0]) == 1}
        if name in sure:
            return [([*parts, stranger], "parameter_name", each) for each, stranger in sure.items()]
    return []


def _same(sent: str, name: str) -> bool:
    return folded(sent) == folded(name) != ""


def _prefixed(sent: str, name: str) -> bool:
    return any(folded(sent) == wrapper + folded(name) for wrapper in WRAPPERS)


def _plural(sent: str, name: str) -> bool:
    return folded(sent).removesuffix("s") == folded(name).removesuffix("s") != ""


def _unnamed(sent: str, _name: str) -> bool:
    return _POSITION.fullmatch(sent) is not None


def _never(_sent: str, _name: str) -> bool:
    return False
