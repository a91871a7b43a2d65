"""LinearPattern: finds what a regular expression covers of a text, in time linear in the text.

Python's own matcher tries one way after another, which for some patterns takes exponential time. This one follows all
ways at once (Thompson, CACM 11/6, 1968), once from each end of the text, and keeps each step that it has seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any, TypeAlias

from ..base.setup_error import SetupError

_States: TypeAlias = frozenset[int]
_Around: TypeAlias = tuple[str, str, str]  # the characters before and behind a place, and a stand-in for the rest
_Test: TypeAlias = re.Pattern[str]  # of a character, or of a place between two
_Steps: TypeAlias = dict[int, list[tuple[_Test | None, int]]]  # from a state, what must hold, to a state

_SRE: Any = import_module("re._parser")  # the parser of `re`; typeshed has no types for it
_COMPILER: Any = import_module("re._compiler")
_CHARACTERS = frozenset(("LITERAL", "NOT_LITERAL", "ANY", "IN"))
_REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT"))
_MAX_STATES = 10_000
_MAX_SEEN = 100_000  # steps
_NO_PLACE: _Around = "", "", ""


class LinearPattern:
    """A regular expression of `re` without look-around, back references, and atomic or possessive parts.

    Args:
        source: The pattern. Flags stand in it, as in ``(?i)``.

    Raises:
        SetupError: It is no such pattern, or has more than 10,000 states, as with large counts.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._states = 1  # 0 is the first
        self._reads: _Steps = {}  # a character
        self._passes: _Steps = {}  # none
        try:
            tree = _SRE.parse(source)
            re.compile(source)
        except (re.error, RecursionError, OverflowError) as exc:
            raise SetupError(f"the pattern {source!r} is none: {exc}") from None
        self._tree_state, self._flags = tree.state, tree.state.flags
        self._last = self._add_all(tree, 0, 0)
        looks = any(test is not None for steps in self._passes.values() for test, _ in steps)
        self._forwards = _Walk(self._reads, self._passes, 0, looks=looks)
        self._backwards = _Walk(_turn(self._reads), _turn(self._passes), self._last, looks=looks)
        self._covers: dict[tuple[_States, str, _States], bool] = {}

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return from where to where matches cover the text, in order. Those that overlap or touch are one."""
        places = self._forwards.follow(text, _list_places(text) if self._forwards.looks else None)
        if not any(self._last in each for each in places):
            return []
        ends = self._backwards.follow(text[::-1], _list_places(text)[::-1] if self._forwards.looks else None)[::-1]
        found: list[tuple[int, int]] = []
        for index, char in enumerate(text):
            key = places[index], char, ends[index + 1]
            covered = self._covers.get(key)
            if covered is None:
                covered = self._covers[key] = self._is_covered(*key)
            if covered:
                begin = found.pop()[0] if found and found[-1][1] == index else index
                found.append((begin, index + 1))
        if len(self._covers) > _MAX_SEEN:
            self._covers.clear()
        return found

    def _is_covered(self, before: _States, char: str, behind: _States) -> bool:
        return any(
            target in behind and test is not None and test.match(char) is not None
            for state in before
            for test, target in self._reads.get(state, ())
        )

    def _add_all(self, nodes: Iterable[Any], begin: int, flags: int) -> int:
        for node in nodes:
            begin = self._add(node, begin, flags)
        return begin

    def _add(self, node: Any, begin: int, flags: int) -> int:
        """Add the steps of one part from a state; return the state at its end."""
        kind, argument = str(node[0]), node[1]
        if kind in _CHARACTERS or kind == "AT":
            steps = self._passes if kind == "AT" else self._reads
            return self._link(steps, begin, self._compile(node, flags), self._new())
        if kind == "SUBPATTERN" and not argument[2]:
            return self._add_all(argument[3], begin, flags | argument[1])
        if kind == "BRANCH":
            end = self._new()
            for each in argument[1]:
                self._link(self._passes, self._add_all(each, begin, flags), None, end)
            return end
        if kind in _REPEATS:
            least, most, nodes = argument
            return self._repeat(least, most, nodes, begin, flags)
        raise SetupError(
            f"the pattern {self.source!r} does not run in linear time: write it without look-around, back references, "
            "and atomic or possessive parts"
        )

    def _repeat(self, least: int, most: int, nodes: Any, begin: int, flags: int) -> int:
        for _ in range(least):
            begin = self._add_all(nodes, begin, flags)
        end = self._link(self._passes, begin, None, self._new())
        if most == _SRE.MAXREPEAT:
            inner = self._link(self._passes, begin, None, self._new())
            again = self._add_all(nodes, inner, flags)
            self._link(self._passes, again, None, inner)
            self._link(self._passes, again, None, end)
            return end
        for _ in range(most - least):
            begin = self._add_all(nodes, begin, flags)
            self._link(self._passes, begin, None, end)
        return end

    def _compile(self, node: Any, flags: int) -> _Test:
        made: _Test = _COMPILER.compile(_SRE.SubPattern(self._tree_state, [node]), self._flags | flags)
        return made

    def _new(self) -> int:
        self._states += 1
        if self._states > _MAX_STATES:
            raise SetupError(f"the pattern {self.source!r} is too large: write it without large counts")
        return self._states - 1

    def _link(self, steps: _Steps, begin: int, test: _Test | None, end: int) -> int:
        steps.setdefault(begin, []).append((test, end))
        return end


class _Walk:
    """Follows all ways through a text at once, each of which may begin at any place.

    Args:
        reads: The steps that read a character.
        passes: Those that read none.
        begin: The state in which a way begins.
        looks: Whether a step depends on the characters around a place.
    """

    def __init__(self, reads: _Steps, passes: _Steps, begin: int, *, looks: bool) -> None:
        self._reads, self._passes, self._begin, self.looks = reads, passes, begin, looks
        self._seen: dict[tuple[_States, str, _Around], _States] = {}

    def follow(self, text: str, around: list[_Around] | None) -> list[_States]:
        """Return the states in which ways may be, at each place of the text, before its first character to its end."""
        if len(self._seen) > _MAX_SEEN:
            self._seen.clear()
        seen = self._seen
        states = self._close({self._begin}, _NO_PLACE if around is None else around[0])
        places = [states]
        for index, char in enumerate(text, 1):
            key = states, char, _NO_PLACE if around is None else around[index]
            found = seen.get(key)
            if found is None:
                found = seen[key] = self._step(*key)
            states = found
            places.append(states)
        return places

    def _step(self, states: _States, char: str, around: _Around) -> _States:
        read = {
            target
            for state in states
            for test, target in self._reads.get(state, ())
            if test is not None and test.match(char)
        }
        return self._close(read | {self._begin}, around)

    def _close(self, states: set[int], around: _Around) -> _States:
        before, behind, rest = around
        left = list(states)
        while left:
            for test, target in self._passes.get(left.pop(), ()):
                if target not in states and (test is None or test.match(before + behind + rest, len(before))):
                    states.add(target)
                    left.append(target)
        return frozenset(states)


def _turn(steps: _Steps) -> _Steps:
    turned: _Steps = {}
    for begin, each in steps.items():
        for test, end in each:
            turned.setdefault(end, []).append((test, begin))
    return turned


def _list_places(text: str) -> list[_Around]:
    """The characters around each place; a stand-in for the rest keeps ``$`` from matching before an inner line end."""
    padded = ["", *text, ""]
    last = len(text) - 1
    return [(before, behind, "." if place < last else "") for place, (before, behind) in enumerate(pairwise(padded))]


def merge_spans(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans in order, those that overlap or touch as one."""
    begin = end = -1
    for low, high in sorted(spans):
        if low > end:
            if end > begin:
                yield begin, end
            begin, end = low, high
        else:
            end = max(end, high)
    if end > begin:
        yield begin, end
