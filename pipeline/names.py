"""Tool names as models spell them: noise cut off, a canonical form, and the closest names there are."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

_TOKEN = re.compile(r"<\|[^|>]*\|?>?")  # a control token of a chat template, whole or cut: <|channel|>
_WRAPPING = " \t\r\n\"'`"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_PREFIXED = re.compile(r"(?:.*(?:__|[./:]))?(.*)", re.DOTALL)
_GENERIC = frozenset(("", "functions", "function", "tools", "tool", "mcp", "api", "default", "defaultapi"))
_LONGEST = 200  # characters; nobody means a tool by more, and the scorers take quadratic time
_SAME_TAIL = 0.95  # what a likeness without the server prefix is worth
_A_BEGINNING = 4  # letters from which on a beginning says something
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
    tail: str  # the words without a server prefix
    tail_squashed: str
    prefix: str  # the server prefix, squashed; "" without one

    @classmethod
    def of(cls, name: str) -> Spelling:
        """Read a name of any case style; ``server__tool`` and ``server.tool`` have a prefix."""
        found = _PREFIXED.fullmatch(name)
        tail = found[1] if found and found[1] else name
        words, tail_words = _words(name), _words(tail)
        prefix = _words(name[: len(name) - len(tail)])
        return cls(words, words.replace(" ", ""), tail_words, tail_words.replace(" ", ""), prefix.replace(" ", ""))


def _words(name: str) -> str:
    return " ".join(_WORD.findall(_CAMEL.sub(" ", name))).lower()


def canonical(name: str, spellings: dict[str, Spelling]) -> list[str]:
    """The names that differ from this one in case, separators and server prefix only; none, one or several.

    A prefix that the model wrote must be the tool's own, or say nothing (``functions``): the same tail on another
    server is another tool.
    """
    asked = Spelling.of(name)
    if not asked.squashed:
        return []
    return [
        known
        for known, spelling in spellings.items()
        if asked.squashed in (spelling.squashed, spelling.tail_squashed)
        or (asked.tail_squashed == spelling.tail_squashed and asked.prefix in _GENERIC)
    ]


def closest(name: str, spellings: dict[str, Spelling], callable_now: Iterable[str]) -> tuple[str, ...]:
    """At most three names worth suggesting, best first.

    The score is the best of an edit ratio without separators and a token-sorted ratio, on the whole name and, for
    a little less, on the part after the server prefix; a name that is cut short is found by its unique beginning.
    """
    asked = Spelling.of(name[:_LONGEST])
    if not asked.squashed:
        return ()
    from rapidfuzz import fuzz, process

    names = [known for known in callable_now if known in spellings]
    entries = [spellings[known] for known in names]
    best: dict[str, float] = {}
    for scorer, query, choices, worth in (
        (fuzz.ratio, asked.squashed, [entry.squashed for entry in entries], 1.0),
        (fuzz.token_sort_ratio, asked.words, [entry.words for entry in entries], 0.98),
        (fuzz.ratio, asked.tail_squashed, [entry.tail_squashed for entry in entries], _SAME_TAIL),
        (fuzz.token_sort_ratio, asked.tail, [entry.tail for entry in entries], 0.98 * _SAME_TAIL),
    ):
        for _, score, place in process.extract(query, choices, scorer=scorer, limit=6, score_cutoff=_GOOD / worth):
            known = names[place]
            best[known] = max(best.get(known, 0.0), score * worth)
    if len(asked.squashed) >= _A_BEGINNING:
        beginnings = [
            known for known, entry in zip(names, entries, strict=True) if entry.squashed.startswith(asked.squashed)
        ]
        if len(beginnings) == 1:
            best[beginnings[0]] = max(best.get(beginnings[0], 0.0), 99.0)
    ranked = sorted(best, key=lambda known: (-best[known], known))
    return tuple(ranked[:3])
