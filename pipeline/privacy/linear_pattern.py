"""LinearPattern: finds what regular expressions cover of a text, in time linear in the text.

Python's own matcher tries one way after another, which for some patterns takes exponential time. This one follows all
ways at once (Thompson, CACM 11/6, 1968), once from each end of the text, and keeps each step that it has seen.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any, TypeAlias

from ..base.setup_error import SetupError

_Test: TypeAlias = re.Pattern[str]  # of a place between two characters
_Reads: TypeAlias = dict[int, list[tuple[int, int]]]  # from a state, which test a character must pass, to a state
_Passes: TypeAlias = dict[int, list[tuple[_Test | None, int]]]  # the same without reading a character

_SRE: Any = import_module("re._parser")  # the parser of `re`; typeshed has no types for it
_COMPILER: Any = import_module("re._compiler")
_CHARACTERS = frozenset(("LITERAL", "NOT_LITERAL", "ANY", "IN"))
_REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT"))
_MAX_STATES = 10_000
_MAX_WORK = 100_000  # states in steps that were not seen before, and tests of characters: 50 to 100 ms
_NEW_KIND = 8  # what a character costs that was not seen before, beside its tests
_FIRST, _LAST = 0, 1  # states
_NOTHING, _FINAL_NEWLINE = 0, 1  # kinds of characters
_LOOKED_AT = re.compile(r"\w"), re.compile(r"(?a)\w"), re.compile(r"\n")  # by the tests of a place
_COVERED = re.compile("1+")


class LinearPattern:
    """Regular expressions of `re` without look-around, back references, and atomic or possessive parts.

    Args:
        sources: The patterns. Flags stand in them, as in ``(?i)``.

    Raises:
        SetupError: One is no such pattern, or all together have more than 10,000 states, as with large counts.
    """

    def __init__(self, *sources: str) -> None:
        self._states = 2
        self._tests: dict[str, tuple[int, _Test]] = {}
        self._reads: _Reads = {}
        self._passes: _Passes = {}
        for self._source in sources:
            try:
                tree = _SRE.parse(self._source)
                re.compile(self._source)
            except (re.error, RecursionError, OverflowError) as exc:
                raise SetupError(f"the pattern {self._source!r} is none: {exc}") from None
            self._tree_state, self._flags = tree.state, tree.state.flags
            self._link(self._passes, self._add_all(tree, _FIRST, 0), (None, _LAST))
        self._work = _Work()
        looks = any(test is not None for steps in self._passes.values() for test, _ in steps)
        self._kinds = _Kinds([test for _, test in self._tests.values()], self._work, looks=looks)
        self._forwards = _Walk(self._reads, self._passes, _FIRST, self._kinds)
        self._backwards = _Walk(_turn(self._reads), _turn(self._passes), _LAST, self._kinds)

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return from where to where matches cover the text, in order. Those that overlap or touch are one.

        Of a text that takes more than a bounded number of steps that were not seen before, all is returned.
        """
        self._work.begin(self._kinds, self._forwards, self._backwards)
        try:
            return self._find(text)
        except _TooMuchError:
            return [(0, len(text))]

    def _find(self, text: str) -> list[tuple[int, int]]:
        kinds, node = self._kinds, self._forwards.begin()
        ways: list[_Step] = []
        for kind in kinds.read(text):
            way = node[kind]
            ways.append(way)
            node = way.then
        if _LAST not in node[_NOTHING].states and not any(_LAST in each.states for each in set(ways)):
            return []
        node = self._backwards.begin()
        covered: list[str] = []
        for kind, way in zip(kinds.read(text, backwards=True), reversed(ways), strict=True):
            back = node[kind]
            covered.append(way.covers[back])
            node = back.then
        covered.reverse()
        return [each.span() for each in _COVERED.finditer("".join(covered))]

    def _add_all(self, nodes: Iterable[Any], begin: int, flags: int) -> int:
        for node in nodes:
            begin = self._add(node, begin, flags)
        return begin

    def _add(self, node: Any, begin: int, flags: int) -> int:
        """Add the steps of one part from a state; return the state at its end."""
        kind, argument = str(node[0]), node[1]
        if kind == "AT":
            return self._link(self._passes, begin, (self._compile(node, flags), self._new()))
        if kind in _CHARACTERS:
            key = f"{flags | self._flags} {node}"
            if key not in self._tests:
                self._tests[key] = len(self._tests), self._compile(node, flags)
            return self._link(self._reads, begin, (self._tests[key][0], self._new()))
        if kind == "SUBPATTERN" and not argument[2]:
            return self._add_all(argument[3], begin, flags | argument[1])
        if kind == "BRANCH":
            end = self._new()
            for each in argument[1]:
                self._link(self._passes, self._add_all(each, begin, flags), (None, end))
            return end
        if kind in _REPEATS:
            least, most, nodes = argument
            return self._repeat(least, most, nodes, begin, flags)
        raise SetupError(
            f"the pattern {self._source!r} does not run in linear time: write it without look-around, back "
            "references, and atomic or possessive parts"
        )

    def _repeat(self, least: int, most: int, nodes: Any, begin: int, flags: int) -> int:
        for _ in range(least):
            begin = self._add_all(nodes, begin, flags)
        end = self._link(self._passes, begin, (None, self._new()))
        if most == _SRE.MAXREPEAT:
            inner = self._link(self._passes, begin, (None, self._new()))
            again = self._add_all(nodes, inner, flags)
            self._link(self._passes, again, (None, inner))
            self._link(self._passes, again, (None, end))
            return end
        for _ in range(most - least):
            begin = self._add_all(nodes, begin, flags)
            self._link(self._passes, begin, (None, end))
        return end

    def _compile(self, node: Any, flags: int) -> _Test:
        made: _Test = _COMPILER.compile(_SRE.SubPattern(self._tree_state, [node]), self._flags | flags)
        return made

    def _new(self) -> int:
        self._states += 1
        if self._states > _MAX_STATES:
            raise SetupError(f"the pattern {self._source!r} is too large: write it without large counts")
        return self._states - 1

    def _link(self, steps: dict[int, list[tuple[Any, int]]], begin: int, step: tuple[Any, int]) -> int:
        steps.setdefault(begin, []).append(step)
        return step[1]


class _TooMuchError(Exception):
    """A text takes more steps that were not seen before than one call may make."""


class _Work(threading.local):
    """What one thread may still do for its text; and how much of it is kept."""

    left = _MAX_WORK
    kept = 0

    def begin(self, *keepers: _Kinds | _Walk) -> None:
        self.left = _MAX_WORK
        if self.kept > _MAX_WORK:
            self.kept = 0
            for each in keepers:
                each.clear()

    def take(self, units: int) -> None:
        self.left -= units
        self.kept += units
        if self.left < 0:
            raise _TooMuchError


class _Kinds(dict[str, int]):
    """The kind of each character: those of one kind pass the same tests.

    Args:
        tests: The tests of characters.
        work: Counts them.
        looks: Whether a step depends on the characters around a place.
    """

    def __init__(self, tests: list[_Test], work: _Work, *, looks: bool) -> None:
        super().__init__()
        self.work, self.looks = work, looks
        self._tests = tests
        self._numbers: dict[tuple[bool, ...], int] = {}
        self.samples = ["", "\n"]
        self.passed = [frozenset[int](), frozenset(number for number, test in enumerate(tests) if test.match("\n"))]

    def __missing__(self, char: str) -> int:
        self.work.take(_NEW_KIND + len(self._tests))
        key = tuple(test.match(char) is not None for test in (*self._tests, *(_LOOKED_AT if self.looks else ())))
        kind = self._numbers.get(key)
        if kind is None:
            self.samples.append(char)
            self.passed.append(frozenset(number for number in range(len(self._tests)) if key[number]))
            kind = self._numbers[key] = len(self.samples) - 1
        self[char] = kind
        return kind

    def read(self, text: str, *, backwards: bool = False) -> Iterable[int]:
        """The kinds of the characters of a text, in order or from its end."""
        is_final = self.looks and text.endswith("\n")
        final = (_FINAL_NEWLINE,) if is_final else ()
        text = text[:-1] if is_final else text
        if backwards:
            return chain(final, map(self.__getitem__, reversed(text)))
        return chain(map(self.__getitem__, text), final)

    def passes(self, test: _Test, before: int, behind: int) -> bool:
        """Whether a place between two characters passes a test."""
        left, right = self.samples[before], self.samples[behind]
        rest = "" if behind == _FINAL_NEWLINE else "."  # it keeps `$` from matching before an inner line end
        return test.match(left + right + (rest if right else ""), len(left)) is not None


class _Step:
    """One character that is read.

    Attributes:
        states: The states in which ways are before it.
        read: Those in which they are behind it.
        then: Where the next step begins.
        covers: "1" for each step of the other walk over this character with which it makes a match, "0" for the others.
    """

    __slots__ = ("covers", "read", "states", "then")

    def __init__(self, states: set[int], read: set[int], then: _Node) -> None:
        self.states, self.read, self.then = states, read, then
        self.covers = _Covers(self)


class _Covers(dict[_Step, str]):
    __slots__ = ("_step",)

    def __init__(self, step: _Step) -> None:
        self._step = step

    def __missing__(self, back: _Step) -> str:
        self[back] = covered = "0" if self._step.read.isdisjoint(back.states) else "1"
        return covered


class _Node(dict[int, _Step]):
    """The steps from one place, by the kind of the character that is read."""

    __slots__ = ("_walk", "last", "states")

    def __init__(self, walk: _Walk, states: frozenset[int], last: int) -> None:
        self._walk, self.states, self.last = walk, states, last

    def __missing__(self, kind: int) -> _Step:
        self[kind] = step = self._walk.step(self, kind)
        return step


class _Walk:
    """Follows all ways through a text at once, each of which may begin at any place.

    Args:
        reads: The steps that read a character.
        passes: Those that read none.
        begin: The state in which a way begins: the last one for a walk from the end of a text.
        kinds: The kinds of characters.
    """

    def __init__(self, reads: _Reads, passes: _Passes, begin: int, kinds: _Kinds) -> None:
        self._reads, self._passes, self._begin, self._kinds = reads, passes, begin, kinds
        self._nodes: dict[tuple[frozenset[int], int], _Node] = {}

    def begin(self) -> _Node:
        """The node before anything is read."""
        return self._node(frozenset((self._begin,)), _NOTHING)

    def clear(self) -> None:
        self._nodes.clear()

    def step(self, node: _Node, kind: int) -> _Step:
        """Make the step from a node over a character of a kind."""
        around = (node.last, kind) if self._begin == _FIRST else (kind, node.last)
        states = self._close(set(node.states), *around)
        passed = self._kinds.passed[kind]
        read = {target for state in states for test, target in self._reads.get(state, ()) if test in passed}
        self._kinds.work.take(len(states))
        return _Step(states, read, self._node(frozenset(read | {self._begin}), kind))

    def _node(self, states: frozenset[int], last: int) -> _Node:
        key = states, last if self._kinds.looks else _NOTHING
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = _Node(self, *key)
        return node

    def _close(self, states: set[int], before: int, behind: int) -> set[int]:
        left = list(states)
        while left:
            for test, target in self._passes.get(left.pop(), ()):
                if target not in states and (test is None or self._kinds.passes(test, before, behind)):
                    states.add(target)
                    left.append(target)
        return states


def _turn(steps: dict[int, list[tuple[Any, int]]]) -> dict[int, list[tuple[Any, int]]]:
    turned: dict[int, list[tuple[Any, int]]] = {}
    for begin, each in steps.items():
        for test, end in each:
            turned.setdefault(end, []).append((test, begin))
    return turned


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
