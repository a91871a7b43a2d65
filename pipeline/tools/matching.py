"""Names worth suggesting: those that are similar to the one that a model wrote."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping

import attrs

from ..parameters.spelling import has_unlike_words, is_opposite, split_words

_END_OF_PREFIX = r"__|[./:]|-(?=[^\W_]+_[^-]*\Z)"  # a hyphen, where underscores part the words behind it: fs-read_file
_PREFIXED = re.compile(rf"(?:.*(?:{_END_OF_PREFIX}))?(.*)", re.DOTALL)
_PREFIX_END = re.compile(_END_OF_PREFIX)
_MAX_LENGTH = 200  # characters; no tool is meant by a longer name, and the scorers take quadratic time
_TAIL_WEIGHT = 0.95  # of a similarity without the server prefix
_SORTED_WEIGHT = 0.98  # of a similarity with the words in another order
_MIN_PART = 4  # letters; a shorter part of a name says too little
_PART_SCORE = (99.0, 0.0)  # of the only name that contains the part: below a name that differs in case alone
_MIN_SCORE = 70.0  # of 100; a name with less misleads more often than it helps
_GENERIC = frozenset(("tool", "tools", "function", "functions", "func", "fn", "api", "call"))  # say nothing of a tool
_MAX_SUGGESTIONS = 3
_MAX_NEAR = 6  # names that are looked at, for each of the four ways to be similar


@attrs.frozen
class Spelling:
    """A name, normalised once."""

    words: str  # lower case, in order: "get weather"
    joined: str  # the same without blanks
    sorted: str  # the words in alphabetical order: sorting once makes each comparison five times as fast
    tail: str  # the words without a server prefix, joined
    tail_sorted: str  # the words without a server prefix, in alphabetical order

    @property
    def is_prefixed(self) -> bool:
        """Whether its tail is less than the name."""
        return (self.tail, self.tail_sorted) != (self.joined, self.sorted)

    @classmethod
    def of(cls, name: str) -> Spelling:
        """Normalise a name of any case style; ``server__tool``, ``server.tool``, ``server-the_tool`` have a prefix."""
        found = _PREFIXED.fullmatch(name)
        tail = found[1] if found and found[1] else name
        words, tail_words = split_words(name), split_words(tail)
        return cls(
            words,
            words.replace(" ", ""),
            " ".join(sorted(words.split())),
            tail_words.replace(" ", ""),
            " ".join(sorted(tail_words.split())),
        )


def _has_unlike_words(sent: Spelling, known: Spelling) -> bool:
    """Whether each of two names has a word that is like none of the other's: ``freezing_point``, ``boiling_point``.

    Such a name is of another tool, however many words they share.
    """
    if sent.tail_sorted == known.tail_sorted:  # another prefix
        return False
    return has_unlike_words(sent.words, known.words)


class SuggestionIndex:
    """The names that may be suggested, laid out for the scorers. One index serves all misses of a registry version.

    Args:
        spellings: All names of the registry with their spellings.
        names: The names that may be suggested; those without a spelling are left out.
    """

    def __init__(self, spellings: Mapping[str, Spelling], names: Iterable[str]) -> None:
        self.names = [name for name in names if name in spellings]
        self.spellings = [spellings[name] for name in self.names]
        self.joined = [spelling.joined for spelling in self.spellings]
        # Most names have no prefix: they are their own tails, and one scan answers for both.
        self.whole = [place for place, known in enumerate(self.spellings) if not known.is_prefixed]
        self.prefixed = [place for place, known in enumerate(self.spellings) if known.is_prefixed]
        self._columns: dict[tuple[str, bool], list[str]] = {}
        # Each name on a line of its own: a text is searched in a fiftieth of the time that a loop over the names takes.
        self._beginnings = "".join([f"\n{joined}" for joined in self.joined])
        self._all_words = "".join([f"\n {spelling.words} " for spelling in self.spellings])

    def find_similar(self, sent: Spelling) -> set[int]:
        """The places of the six names that are most similar, in each of four ways, with the score that it takes."""
        ways = (
            (sent.joined, "joined", 1.0),
            (sent.sorted, "sorted", _SORTED_WEIGHT),
            (sent.tail, "tail", _TAIL_WEIGHT),
            (sent.tail_sorted, "tail_sorted", _SORTED_WEIGHT * _TAIL_WEIGHT),
        )
        scanned: dict[tuple[str, str], list[tuple[float, int]]] = {}  # of the names without a prefix
        near: set[int] = set()
        for query, way, weight in ways:
            least = _MIN_SCORE / weight
            key = query, way.removeprefix("tail_") if way != "tail" else "joined"  # the first of two asks for less
            if key not in scanned:
                scanned[key] = self._scan(*key, self.whole, least)
            both = [*scanned[key], *self._scan(query, way, self.prefixed, least)]
            near.update(place for score, place in sorted(both)[:_MAX_NEAR] if -score >= least)
        return near

    def _scan(self, query: str, way: str, places: list[int], least: float) -> list[tuple[float, int]]:
        """The most similar of these names, as the negative score and the place."""
        from rapidfuzz import fuzz, process

        column = self._columns.get((way, places is self.whole))
        if column is None:
            # Split from one text, the names lie side by side in memory; a scan waits for little else.
            texts: list[str] = [getattr(self.spellings[place], way) for place in places]
            column = "\n".join(texts).split("\n") if texts else texts
            self._columns[way, places is self.whole] = column
        found = process.extract(query, column, scorer=fuzz.ratio, limit=_MAX_NEAR, score_cutoff=least)
        return [(-score, places[at]) for _, score, at in found]

    def find_by_beginning(self, joined: str) -> str | None:
        """The only name that begins so, without its blanks; None if there is none, or several."""
        return self._find_only(f"\n{joined}", self._beginnings)

    def find_by_words(self, words: str) -> str | None:
        """The only name that has these words side by side; None if there is none, or several."""
        return self._find_only(f" {words} ", self._all_words)

    def _find_only(self, part: str, lines: str) -> str | None:
        """The name of the only line that has this part."""
        at = lines.find(part)
        if at < 0:
            return None
        following = lines.find("\n", at + 1)
        if following >= 0 and lines.find(part, following) >= 0:
            return None
        return self.names[lines.count("\n", 0, at + 1) - 1]


def find_bare_name(name: str, known: Container[str]) -> str | None:
    """The known name that is the sent one without a prefix, such as ``tools.``; of several, the longest.

    It is suggested alone: beside near names of other tools, a model took one of those.
    """
    tails = (name[found.end() :] for found in _PREFIX_END.finditer(name[:_MAX_LENGTH]))
    return next((tail for tail in tails if tail in known), None)


def suggest_names(name: str, index: SuggestionIndex) -> tuple[str, ...]:
    """At most three names worth suggesting, best first.

    A name is suggested if it is similar as a whole, as sorted words, or without its server prefix. Besides, a name
    that was cut short is found if exactly one tool's name begins with it, or contains its words side by side.

    Args:
        name: The name as the model wrote it, without noise.
        index: The names to choose from.
    """
    sent = Spelling.of(name[:_MAX_LENGTH])
    if not sent.joined:
        return ()
    bare = _drop_generic(sent.words)
    near = {index.joined.index(bare)} if bare in index.joined else set[int]()
    near |= index.find_similar(sent)
    scores = {index.names[place]: _score(sent, known) for place, known in _list_likely(sent, near, index)}
    for part in _find_by_part(sent, index):
        scores[part] = max(scores.get(part, _PART_SCORE), _PART_SCORE)
    ranked = sorted(scores, key=lambda known: (*(-score for score in scores[known]), known))
    return tuple(ranked[:_MAX_SUGGESTIONS])


def _list_likely(sent: Spelling, near: set[int], index: SuggestionIndex) -> Iterator[tuple[int, Spelling]]:
    """Yield the names among the near ones that are not the opposite, and not of another tool."""
    for place in near:
        known = index.spellings[place]
        if not is_opposite(sent.words, known.words) and not _has_unlike_words(sent, known):
            yield place, known


def _drop_generic(words: str) -> str:
    return "".join(word for word in words.split() if word not in _GENERIC)


def _score(sent: Spelling, known: Spelling) -> tuple[float, float]:
    """Return the best weighted similarity, then of the whole names, which decides between equal tails."""
    from rapidfuzz.fuzz import ratio

    whole = ratio(sent.joined, known.joined)
    in_any_order = _SORTED_WEIGHT * ratio(sent.sorted, known.sorted)
    tail = max(ratio(sent.tail, known.tail), _SORTED_WEIGHT * ratio(sent.tail_sorted, known.tail_sorted))
    return max(whole, in_any_order, _TAIL_WEIGHT * tail), whole


def _find_by_part(sent: Spelling, index: SuggestionIndex) -> list[str]:
    """The one name that begins with what was sent, and the one that contains its words; not where there are several."""
    if len(sent.joined) < _MIN_PART:
        return []
    found = index.find_by_beginning(sent.joined), index.find_by_words(sent.words)
    return [name for name in found if name is not None and not is_opposite(sent.words, split_words(name))]
