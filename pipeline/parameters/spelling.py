"""When two spellings are the same name, or the same value to choose from.

Case is folded, and blanks, ``_`` and ``-`` between two words. Every other character may carry meaning and stays: a
leading sign, an operator, ``#``, ``+``, ``%``, ``$``, a dot, and whatever stands between two digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import attrs

_WORD, _LETTER = r"[^\W_]", r"[^\W\d_]"
_DROPPED = re.compile(
    rf"(?<={_WORD})(?:[ \t]+|_)(?={_LETTER})"
    rf"|(?<={_LETTER})(?:[ \t]+|_)(?=\d)"  # between two digits it stays: 1_12 is not 11_2
    # A hyphen before a digit may be a minus (UTC-5), and so may one between two single letters (a-b).
    rf"|(?<={_WORD}{_WORD})-(?={_LETTER})|(?<={_WORD})-(?={_LETTER}{_WORD})"
)
_BLANKS = re.compile(r"(?<=\d)[ \t]+(?=\d)")
_JOINTS = re.compile(rf"(?<={_WORD})(?:[-. ]|(?<!\d)\.|\.(?!\d))(?={_WORD})")  # in a name
_DOT = re.compile(r"(?<=\d)\.(?=\d)")
_NO_LETTERS = re.compile(r"[\W_]+")
_SYMBOL = re.compile(r"(?P<number>\d[\d.]*)?(?P<letters>[^\W\d_]{1,2})")  # of a unit, such as MB or 1m
_LONGEST_SYMBOL: Final = 4  # letters


def fold(text: str) -> str:
    """Reduce a text to its letters and digits, in lower case. What is equal then may still differ in meaning."""
    return _NO_LETTERS.sub("", text).casefold()


def fold_value(text: str) -> str:
    """Reduce a value to choose from to what carries meaning."""
    # Not casefold(): to it "Maße" (dimensions) and "Masse" (mass) are one word.
    return _DROPPED.sub("", _BLANKS.sub("_", text.strip().lower()))


def fold_name(text: str) -> str:
    """Reduce the name of a parameter to what carries meaning: ``_class``, ``class``; ``filePath``, ``file.path``."""
    joined = _JOINTS.sub(_join, text.strip().strip("_").lower())
    return _DROPPED.sub("", joined)


def _join(match: re.Match[str]) -> str:
    return "." if _DOT.match(match.string, match.start()) else "_"


@attrs.frozen
class Choice:
    """The texts to choose from, by their spelling."""

    _by_case: dict[str, set[str]]
    _by_value: dict[str, set[str]]
    _by_letters: dict[str, set[str]]
    _longest: int  # characters

    @classmethod
    def of(cls, texts: Iterable[str]) -> Choice:
        """Fold each text once."""
        ways = (str.lower, fold_value, fold)
        found: list[dict[str, set[str]]] = [{} for _ in ways]
        longest = 0
        for each in texts:
            longest = max(longest, len(each))
            for way, spelt in zip(ways, found, strict=True):
                spelt.setdefault(way(each), set()).add(each)
        by_case, by_value, by_letters = found
        return cls(by_case, by_value, by_letters, longest)

    def find(self, text: str) -> str | None:
        """Return the only text that this one is another spelling of; None where there is none, or may be another."""
        sent = text.strip()
        if len(sent) > 2 * self._longest:  # no separators are so many
            return None
        found = self._by_case.get(sent.lower())
        if found is None:
            found = self._by_value.get(fold_value(sent), set())
            if len(self._by_letters.get(fold(sent), ())) != 1:
                return None
        if sent in found:
            return sent
        if not sent or len(found) != 1:
            return None
        (only,) = found
        return None if _is_other_symbol(sent, only) else only


def _is_other_symbol(sent: str, choice: str) -> bool:
    """Whether two symbols differ by a case that carries meaning: mW and MW, MB and Mb, 1M and 1m."""
    if sent == choice:
        return False
    symbol = _SYMBOL.fullmatch(sent)
    if symbol is None:
        letters = sent.isalpha() and len(sent) <= _LONGEST_SYMBOL
        return letters and sent.lower() == choice.lower() and _is_mixed(sent) and _is_mixed(choice)
    if symbol["number"]:
        return True
    if len(sent) == 1:
        return sent == "M"  # month or mega, where m is minute, metre or milli
    return not (sent.islower() or choice.islower())


def _is_mixed(text: str) -> bool:
    """Whether capitals stand inside of a word, as in kWh."""
    return not (text.islower() or text.isupper() or text.istitle())
