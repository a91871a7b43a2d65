"""Undeclared parameters that were meant for missing ones.

Each way of comparing names is tried for all missing parameters at once, and a name is taken only where it is the
single candidate for a single parameter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from .coercions import fold
from .schema import JsonObject, Parts, is_object, locate, names_at, value_at

if TYPE_CHECKING:
    from .tool_parameters import Parameters

Known: TypeAlias = dict[
    tuple[int | str, ...], list[dict[str, str]]
]  # by the place of an object: the matches, by each way of comparing
_Pair: TypeAlias = tuple[str, str]  # an undeclared name, and a missing one
_MAX_UNDECLARED = 50  # in one object; where there are more, other parameters were meant
_MAX_NAME = 200  # characters; nothing longer was meant as a name
_MAX_POSITION = 30  # characters of a name that says where a value stands; the pattern takes cubic time
_POSITION = re.compile(r"_*(?:pos|positional|arg)?_*\d*_*", re.IGNORECASE)  # says where a value stands, or nothing
WRAPPERS = frozenset(  # keys that hold the arguments themselves, folded
    ("arguments", "args", "parameters", "params", "input", "kwargs", "toolinput", "toolargs", "functionargs")
)


def find_renames(arguments: JsonObject, path: str, parameters: Parameters, known: Known) -> list[tuple[Parts, str]]:
    """Find the undeclared parameter that was meant for the missing one at a path.

    Args:
        arguments: As they were sent.
        path: That of the missing parameter.
        parameters: Those of the tool.
        known: What was found in each object so far; share it within one call.

    Returns:
        Where it stands, and its declared name; with it all others that were misspelt in the same way. Empty where the
        missing one cannot be told for certain, or where too many parameters are undeclared.
    """
    parts, missing = ([], path) if path in parameters.names else locate(arguments, path)
    place = tuple(parts)
    if place not in known:
        holder = value_at(arguments, parts)
        declared = parameters.names if not parts else frozenset(names_at(parameters.schema, parts))
        known[place] = _match_names(holder, declared) if is_object(holder) else []
    for certain in known[place]:
        if missing in certain:
            return [([*parts, sent], name) for name, sent in certain.items()]
    return []


def _match_names(holder: JsonObject, declared: frozenset[str]) -> list[dict[str, str]]:
    """For each way of comparing names: the missing ones, each with the undeclared one that was meant for certain."""
    undeclared = [key for key in holder if type(key) is str and key not in declared]
    if not 0 < len(undeclared) <= _MAX_UNDECLARED:
        return []
    sent = {key: fold(key) for key in undeclared if len(key) <= _MAX_NAME}
    absent = {name: fold(name) for name in declared if name not in holder}
    singular = {name: folded.removesuffix("s") for name, folded in absent.items()}
    ways = [_pair(sent.items(), absent), _pair(_cut_prefixes(sent), absent)]
    ways.append(_pair(((key, folded.removesuffix("s")) for key, folded in sent.items()), singular))
    if len(declared) == 1:
        positions = [key for key in sent if len(key) <= _MAX_POSITION and _POSITION.fullmatch(key)]
        ways.append([(key, name) for key in positions for name in absent])
    return [_keep_certain(pairs) for pairs in ways]


def _pair(sent: Iterable[tuple[str, str]], absent: Mapping[str, str]) -> list[_Pair]:
    """Pair the undeclared with the missing names that come to the same text."""
    names: dict[str, list[str]] = {}
    for name, text in absent.items():
        names.setdefault(text, []).append(name)
    return [(key, name) for key, text in sent if text for name in names.get(text, ())]


def _cut_prefixes(sent: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what follows the name of a wrapper in a folded name."""
    for key, folded in sent.items():
        yield from ((key, folded[len(each) :]) for each in WRAPPERS if folded.startswith(each))


def _keep_certain(pairs: list[_Pair]) -> dict[str, str]:
    """Keep the pairs neither of whose names is in another pair."""
    by_sent, by_name = Counter(sent for sent, _ in pairs), Counter(name for _, name in pairs)
    return {name: sent for sent, name in pairs if by_sent[sent] == 1 and by_name[name] == 1}
