"""Canonical names: which tools a name means if case, separators and a server prefix are all that differs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import attrs

# One separator between two letters or digits. Where there are two in a row, or none beside it, it may be an operator or
# a sign: "-read", "a--b", "c++". Two underscores join the name of a server and that of its tool.
_SEPARATOR = re.compile(r"(?<=[^\W_])(?:__|[-_. ])(?=[^\W_])")
_PREFIX = re.compile(r"(?<=[^\W_])__(?=[^\W_])")  # behind the name of a server, as hosts of MCP servers write it
_NO_SERVER = frozenset(("functions", "tools", "mcp", "default_api"))  # in place of a server's name: it says nothing
_MAX_LENGTH = 200  # characters; no tool is meant by a longer name


@attrs.frozen
class _Form:
    """A name without what may differ."""

    letters: str  # all but the separators, in lower case
    separators: Mapping[int, str]  # those in front of a digit, by the number of letters before them

    @classmethod
    def of(cls, name: str) -> _Form:
        letters: list[str] = []
        separators: dict[int, str] = {}
        end = 0
        for found in _SEPARATOR.finditer(name):
            letters += map(_fold, name[end : found.start()])
            end = found.end()
            if name[end].isnumeric():
                separators[len(letters)] = found[0]
        letters += map(_fold, name[end:])
        return cls("".join(letters), separators)

    def equals(self, other: _Form) -> bool:
        """Whether two forms of the same letters differ only in separators that mean nothing."""
        return all(
            _mean_the_same(self.separators.get(place, ""), other.separators.get(place, ""), self.letters[place - 1])
            for place in self.separators.keys() | other.separators.keys()
        )


def _fold(letter: str) -> str:
    """A letter in lower case, unless that makes more of it than another case: "ß", "İ" and the sign of kelvin stay."""
    lower = letter.lower()
    return lower if lower.upper() == letter.upper() else letter


def _mean_the_same(one: str, other: str, before: str) -> bool:
    """Whether two separators in front of a digit may be taken for each other; "": there is none.

    ``report_11`` is not ``report_1_1``, ``1e-5`` is not ``1e5``, and a range, ``1-5``, is not a fraction, ``1.5``. An
    underscore may stand for any of them, as in names for a provider.
    """
    if one == other:
        return True
    if not (one and other):
        return not before.isnumeric() and (one or other) in ("_", " ")
    return "__" not in (one, other) and bool({one, other} & {"_", " "})


class CanonicalNames:
    """Finds the names that differ from another one only in case, separators and server prefix.

    Args:
        names: The names to find.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._forms: dict[str, list[tuple[_Form, str]]] = {}
        for name in names:
            for part in _list_tails(name):
                form = _Form.of(part)
                self._forms.setdefault(form.letters, []).append((form, name))

    def find(self, name: str) -> list[str]:
        """The names that ``name`` means: none, one or several.

        A name that came may leave out the server prefix of a tool. A prefix that it has must be the tool's own, or one
        that names no server, such as ``mcp__``: the same tail on another server is another tool.

        Args:
            name: The name as the model wrote it, without noise.
        """
        if len(name) > _MAX_LENGTH:
            return []
        found: dict[str, None] = {}
        for part in _list_forms(name):
            sent = _Form.of(part)
            found.update((known, None) for form, known in self._forms.get(sent.letters, ()) if form.equals(sent))
        return list(found)


def _list_tails(name: str) -> Iterator[str]:
    """The name of a tool, whole, and without each of its server prefixes."""
    yield name
    for prefix in _PREFIX.finditer(name):
        yield name[prefix.end() :]


def _list_forms(name: str) -> Iterator[str]:
    """The name that came, whole, and without a prefix that names no server."""
    yield name
    prefix = _PREFIX.search(name)
    if prefix and name[: prefix.start()].lower() in _NO_SERVER:
        yield name[prefix.end() :]
