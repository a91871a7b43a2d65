"""Find the undeclared parameters that were meant for declared ones.

Names are compared in several ways, for all absent parameters at once. A name is accepted only if it is the single
candidate for a single parameter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..engine.errors import NAME_KEPT, Repair
from .coercions import is_one_item
from .schema import JsonObject, Parts, is_array, is_object, locate, names_at, value_at
from .spelling import find_nearest, fold_name

if TYPE_CHECKING:
    from .expectations import Expected
    from .tool_parameters import Parameters


class _Matches(NamedTuple):
    """Pairs of a declared and an undeclared name in one object, one dict for each way to compare them."""

    safe: tuple[dict[str, str], ...]  # the same letters
    loose: tuple[dict[str, str], ...]  # used only if a parameter is missing


# The matches in each object, by its path; share it within one call.
Known: TypeAlias = dict[tuple[int | str, ...], _Matches]
_Pair: TypeAlias = tuple[str, str]  # an undeclared name and an absent one
_MAX_UNDECLARED = 50  # in one object; with more of them, the model meant another set of parameters
_MAX_COMPARED = 5  # undeclared names of one call whose likeness to the declared ones is measured
_MAX_NAME = 200  # characters; longer text was not meant as a name
_MIN_SINGULAR = 4  # letters: "mins" is not "min", nor "news" "new"
_PATTERN = frozenset("*?")  # characters of a pattern of names
_NUMERAL = re.compile(r"\s*[-+]?[\d.,]+\s*")
_MAX_ASSIGNED = 500  # characters of a name with its value
# A name that gives only a position, such as "arg1" or "_".
_POSITION = re.compile(r"_{0,3}(?:pos|positional|arg)?_{0,3}[0-9]{0,3}_{0,3}", re.IGNORECASE)
_PREFIX = re.compile(r"(?:params|parameters|args|arguments|kwargs)[-_. ](?P<name>.+)", re.IGNORECASE | re.DOTALL)
_ASSIGNMENT = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s?=\s?(?P<value>[^\s=,;&\"'][^=,;&\n]*)")


def find_renames(arguments: JsonObject, path: str, parameters: Parameters, known: Known) -> list[tuple[Parts, str]]:
    """Find the undeclared parameter that was meant for the missing one at a path.

    Args:
        arguments: The arguments as they were sent.
        path: The path of the missing parameter.
        parameters: The tool's parameters.
        known: The matches in each object so far.

    Returns:
        The path of the undeclared parameter and its declared name, followed by all others that were misspelt in the
        same way. Empty if there is no certain match, or if too many parameters are undeclared.
    """
    parts, missing = ([], path) if path in parameters.names else locate(arguments, path)
    safe, loose = _match_at(arguments, parts, parameters, known)
    for certain in (*safe, *loose):
        if missing in certain:
            return [([*parts, sent], name) for name, sent in certain.items()]
    return []


def find_declared(arguments: JsonObject, parts: Parts, parameters: Parameters, known: Known) -> str | None:
    """Find the declared parameter, optional or not, with the letters of an undeclared one; None if there is none.

    Args:
        arguments: The arguments as they were sent.
        parts: The path of the undeclared parameter.
        parameters: The tool's parameters.
        known: The matches in each object so far.
    """
    for certain in _match_at(arguments, parts[:-1], parameters, known).safe:
        for name, sent in certain.items():
            if sent == parts[-1]:
                return name
    return None


def list_kept(arguments: JsonObject, declared: frozenset[str]) -> tuple[Repair, ...]:
    """List the undeclared names of valid arguments that look like misspelt parameters: ``dryRun`` for ``dry_run``.

    An open schema permits any name, so nothing is changed; but the tool may have run without what was meant, so the
    report and the model are told.

    Returns:
        For each such name an entry of the rule `NAME_KEPT`, with the name before and the declared one after.
    """
    undeclared = [key for key in arguments if type(key) is str and key not in declared]
    if not 0 < len(undeclared) <= _MAX_UNDECLARED:
        return ()
    spelt = {fold_name(name): name for name in declared}
    absent = declared.difference(arguments)
    found: list[Repair] = []
    for index, key in enumerate(each for each in undeclared if len(each) <= _MAX_NAME):
        name = spelt.get(fold_name(key)) or (find_nearest(key, absent) if index < _MAX_COMPARED else "")
        if name:
            found.append(Repair(key, NAME_KEPT, key, name))
    return tuple(found)


def find_assignments(arguments: JsonObject, parameters: Parameters) -> dict[str, _Pair]:
    """Read ``{"__positional_0": "base=6"}``: texts that name their parameters, under positional names.

    Returns:
        The parameter and the text of its value, by the name that was sent. Empty if one of the texts could be the value
        of a text parameter.
    """
    undeclared = [key for key in arguments if key not in parameters.names]
    found: dict[str, _Pair] = {}
    for key in undeclared:
        text = arguments[key]
        if not key[-1:].isdigit() or not _POSITION.fullmatch(key) or not isinstance(text, str):
            return {}
        match = _ASSIGNMENT.fullmatch(text) if len(text) <= _MAX_ASSIGNED else None
        if match is None or match["name"] not in parameters.names or match["name"] in arguments:
            return {}
        found[key] = (match["name"], match["value"].strip())
    assigned = {name: parameters.expected_at([name]) for name, _ in found.values()}
    if len(assigned) < len(found) or any(map(_may_be_text, assigned.values())):
        return {}
    if all(each.optional for each in assigned.values()):
        rest = parameters.names.difference(arguments, assigned)
        if any(_may_be_text(parameters.expected_at([name])) for name in rest):
            return {}
    return found


def _may_be_text(expected: Expected) -> bool:
    return expected.takes_any_text or not expected.types


def _match_at(arguments: JsonObject, parts: Parts, parameters: Parameters, known: Known) -> _Matches:
    place = tuple(parts)
    if place not in known:
        holder = value_at(arguments, parts)
        declared = parameters.names if not parts else frozenset(names_at(parameters.schema, parts))
        known[place] = _match_names(holder, declared) if is_object(holder) else _Matches((), ())
    return known[place]


def _match_names(holder: JsonObject, declared: frozenset[str]) -> _Matches:
    """Match the absent names with the undeclared ones that were certainly meant for them."""
    undeclared = [key for key in holder if type(key) is str and key not in declared]
    if not 0 < len(undeclared) <= _MAX_UNDECLARED:
        return _Matches((), ())
    sent = {key: fold_name(key) for key in undeclared if len(key) <= _MAX_NAME}
    absent = {name: fold_name(name) for name in declared if name not in holder}
    safe = [_pair(sent.items(), absent), _pair(_cut_prefixes(sent), absent)]
    singular = {name: _cut_plural(folded) for name, folded in absent.items()}
    named = {key: folded for key, folded in sent.items() if not _may_count(holder[key])}
    loose = [_pair(((key, _cut_plural(folded)) for key, folded in named.items()), singular)]
    if len(declared) == 1:
        positions = [key for key in sent if _POSITION.fullmatch(key) and not _may_be_wrapper(holder[key])]
        loose.append([(key, name) for key in positions for name in absent])
    # Count the pairs of all ways together: a name with two partners, even in different ways, is uncertain.
    pairs = {pair for way in (*safe, *loose) for pair in way}
    by_sent, by_name = Counter(key for key, _ in pairs), Counter(name for _, name in pairs)
    certain = {(key, name) for key, name in pairs if by_sent[key] == 1 and by_name[name] == 1}
    found = [{name: key for key, name in way if (key, name) in certain} for way in (*safe, *loose)]
    return _Matches(tuple(found[: len(safe)]), tuple(found[len(safe) :]))


def _may_be_wrapper(value: object) -> bool:
    """Whether a value under a positional name may hold the arguments instead of being the only one."""
    if isinstance(value, str):
        return value.lstrip().startswith("{")
    return is_object(value) or (is_array(value) and any(map(is_object, value)))


def _may_count(value: object) -> bool:
    """Whether a value says how many or which ones, as in 3 pages or files "*": no plural of a singular."""
    if not isinstance(value, str):
        return isinstance(value, (int, float))
    if _NUMERAL.fullmatch(value) or not _PATTERN.isdisjoint(value) or not is_one_item(value):
        return True
    return not all(word[:1].isupper() for word in value.split()[1:])  # "Ed Sheeran" is one name, "a b" may be two


def _pair(sent: Iterable[tuple[str, str]], absent: Mapping[str, str]) -> list[_Pair]:
    """Pair each undeclared name with the absent names that fold to the same text."""
    names: dict[str, list[str]] = {}
    for name, text in absent.items():
        names.setdefault(text, []).append(name)
    return [(key, name) for key, text in sent if text for name in names.get(text, ())]


def _cut_prefixes(sent: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield names with a prefix such as ``params_``, each with the folded rest after the prefix."""
    for key in sent:
        if (match := _PREFIX.fullmatch(key)) is not None:
            yield key, fold_name(match["name"])


def _cut_plural(folded: str) -> str:
    plural = len(folded) > _MIN_SINGULAR and folded.endswith("s") and not folded.endswith("ss")
    return folded[:-1] if plural else folded
