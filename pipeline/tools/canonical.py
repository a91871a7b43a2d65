"""Canonical names: which tools a name means if case, separators and a server prefix are all that differs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# One separator between two letters or digits. Where there are two in a row, or none beside it, it may be an operator or
# a sign: "-read", "a--b", "c++". Two underscores join the names of a server and its tool.
_SEPARATOR = re.compile(r"(?<=[^\W_])(?:__|[-_. ])(?=[^\W_])")
_PREFIX = re.compile(r"(?<=[^\W_])__(?=[^\W_])")  # behind the name of a server, as hosts of MCP servers write it
_NO_SERVER = frozenset(("functions", "tools", "mcp", "default_api"))  # in place of a server's name: it says nothing
_LETTERS = re.compile(r"[^\W_]+")
_MAX_LENGTH = 200  # characters; no tool is meant by a longer name
_MAX_SENT = 50  # readings of one name that are compared


class CanonicalNames:
    """An index of the known names by their letters, so that a name is compared only with names of the same letters."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_letters: dict[str, list[tuple[int, str]]] = {}
        for place, name in enumerate(names):
            for letters in {_join_letters(tail) for tail in _list_tails(name)} - {""}:
                self._by_letters.setdefault(letters, []).append((place, name))

    def find(self, names: Iterable[str]) -> list[str]:
        """The known names that differ from one of these only in case, separators and server prefix.

        A name that came may leave out the server prefix of a tool. A prefix that it has must be the tool's own, or one
        that names no server, such as ``mcp__``: the same tail on another server is another tool.
        """
        sent = [part for name in names if len(name) <= _MAX_LENGTH for part in _list_forms(name)][:_MAX_SENT]
        near = {found for part in sent for found in self._by_letters.get(_join_letters(part), ())}
        forms = [_Form(part) for part in sent]
        return [
            known
            for _, known in sorted(near)
            if any(_Form(tail).equals(form) for tail in _list_tails(known) for form in forms)
        ]


class _Form:
    """A name without what may differ."""

    def __init__(self, name: str) -> None:
        self._name = name
        bare = _SEPARATOR.sub("", name)
        self._letters = bare.lower() if bare.isascii() else "".join(map(_fold, bare))

    def equals(self, other: _Form) -> bool:
        """Whether two names have the same letters, and differ only in separators that mean nothing."""
        if self._letters != other._letters:
            return False
        one, two = self._list_separators(), other._list_separators()
        return all(
            _mean_the_same(one.get(place, ""), two.get(place, ""), self._letters[place - 1])
            for place in one.keys() | two
        )

    def _list_separators(self) -> dict[int, str]:
        """The separators in front of a digit, by the number of letters and digits before them."""
        found: dict[int, str] = {}
        dropped = 0
        for separator in _SEPARATOR.finditer(self._name):
            if self._name[separator.end()].isnumeric():
                found[separator.start() - dropped] = separator[0]
            dropped += len(separator[0])
        return found


def _join_letters(name: str) -> str:
    """The letters and digits of a name in one case: equal for names of equal forms, and for few others."""
    return "".join(_LETTERS.findall(name)).casefold()


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
