"""Tool names as models spell them: noise cut off, a canonical form, and the closest names there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs

_TOKEN = re.compile(r"<\|[^|>]*\|?>?")  # a control token of a chat template, whole or cut: <|channel|>
_WRAPPING = " \t\r\n\"'`"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_PREFIXED = re.compile(r"(?:.*(?:__|[./:]))?(.*)", re.DOTALL)
_GENERIC = frozenset(("", "functions", "function", "tools", "tool", "mcp", "api", "default", "defaultapi"))
_LONGEST = 200  # characters; nobody means a tool by more, and the scorers take quadratic time
_SAME_TAIL = 0.95  # what a likeness without the server prefix is worth
_SORTED = 0.98  # what a likeness in another order of words is worth
_A_PART = 4  # letters from which on a part of a name says something
_PART = (99.0, 0.0)  # the score of the only name that has this part: less than one that differs in case only
_GOOD = 70.0  # of 100; below it a hint misleads more often than it helps


def without_noise(name: str) -> str:
    """Cut what a transport or a chat template left on a name: control tokens, ``functions.``, quotes, blanks."""
    head, token, _ = name.partition("<|")
    if token:  # what follows a token is its argument ("<|channel|>commentary"), unless nothing stands before it
        name = head if head.strip(_WRAPPING) else _TOKEN.sub("", name)
    return name.strip(_WRAPPING).removeprefix("functions.").strip(_WRAPPING)


@attrs.frozen
class Spelling:
    """One name, normalised once."""

    words: str  # lower case, in order: "get weather"
    squashed: str  # the same without the blanks
    ordered: str  # the words in alphabetical order: compared once sorted, they are compared five times as quickly
    tail: str  # the words without a server prefix, squashed
    tail_ordered: str
    prefix: str  # the server prefix, squashed; "" without one

    @classmethod
    def of(cls, name: str) -> Spelling:
        """Read a name of any case style; ``server__tool`` and ``server.tool`` have a prefix."""
        found = _PREFIXED.fullmatch(name)
        tail = found[1] if found and found[1] else name
        words, tail_words = _words(name), _words(tail)
        prefix = _words(name[: len(name) - len(tail)])
        return cls(
            words,
            words.replace(" ", ""),
            " ".join(sorted(words.split())),
            tail_words.replace(" ", ""),
            " ".join(sorted(tail_words.split())),
            prefix.replace(" ", ""),
        )


def _words(name: str) -> str:
    return " ".join(_WORD.findall(_CAMEL.sub(" ", name))).lower()


def canonical(name: str, spellings: dict[str, Spelling]) -> list[str]:
    """The names that differ from this one in case, separators and server prefix only; none, one or several.

    A prefix that the model wrote must be the tool's own, or say nothing (``functions``): the same tail on another
    server is another tool.
    """
    asked = Spelling.of(name[:_LONGEST])
    if not asked.squashed or len(name) > _LONGEST:
        return []
    return [
        known
        for known, spelling in list(spellings.items())
        if asked.squashed in (spelling.squashed, spelling.tail)
        or (asked.tail == spelling.tail and asked.prefix in _GENERIC)
    ]


class Index:
    """The names that may be suggested, laid out for the scorers: made once for all the misses of a version."""

    def __init__(self, spellings: Mapping[str, Spelling], names: Iterable[str]) -> None:
        self.names = [name for name in names if name in spellings]
        self.entries = [spellings[name] for name in self.names]
        self.squashed = [entry.squashed for entry in self.entries]
        self.ordered = [entry.ordered for entry in self.entries]
        self.tails = [entry.tail for entry in self.entries]
        self.tails_ordered = [entry.tail_ordered for entry in self.entries]


def closest(name: str, index: Index) -> tuple[str, ...]:
    """At most three names worth suggesting, best first.

    What scores is told at `_likeness`. Besides, a name that was cut short is found if only one tool's name begins
    with it, or holds its words side by side.
    """
    asked = Spelling.of(name[:_LONGEST])
    if not asked.squashed:
        return ()
    from rapidfuzz import fuzz, process

    names, entries = index.names, index.entries
    near: set[int] = set()
    for query, choices, worth in (
        (asked.squashed, index.squashed, 1.0),
        (asked.ordered, index.ordered, _SORTED),
        (asked.tail, index.tails, _SAME_TAIL),
        (asked.tail_ordered, index.tails_ordered, _SORTED * _SAME_TAIL),
    ):
        found = process.extract(query, choices, scorer=fuzz.ratio, limit=6, score_cutoff=_GOOD / worth)
        near.update(place for _, _, place in found)
    best = {names[place]: _likeness(asked, entries[place]) for place in near}
    if len(asked.squashed) >= _A_PART:
        padded = f" {asked.words} "
        begun = [place for place, entry in enumerate(entries) if entry.squashed.startswith(asked.squashed)]
        held = [
            place for place, entry in enumerate(entries) if asked.words in entry.words and padded in f" {entry.words} "
        ]
        for places in (begun, held):
            if len(places) == 1:
                best[names[places[0]]] = max(best.get(names[places[0]], _PART), _PART)
    ranked = sorted(best, key=lambda known: (*(-score for score in best[known]), known))
    return tuple(ranked[:3])


def _likeness(asked: Spelling, known: Spelling) -> tuple[float, float]:
    """The best of an edit ratio without separators and one of the sorted words, on the whole name and on the tail.

    Second comes the ratio of the whole: it decides between tools that have the same tail on several servers.
    """
    from rapidfuzz.fuzz import ratio

    whole = ratio(asked.squashed, known.squashed)
    in_any_order = _SORTED * ratio(asked.ordered, known.ordered)
    tail = max(ratio(asked.tail, known.tail), _SORTED * ratio(asked.tail_ordered, known.tail_ordered))
    return max(whole, in_any_order, _SAME_TAIL * tail), whole
