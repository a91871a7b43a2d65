"""Decide whether two spellings mean the same name or the same allowed value, and suggest the nearest one.

Two spellings are equal if they differ only in case, and in blanks, ``_`` and ``-`` between words. Every other character
may carry meaning: a leading sign, an operator, ``#``, ``+``, ``%``, ``$``, a dot, any character between two digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from typing import Any, Final, cast

import attrs

from ..engine.errors import Problem
from .problems import describe_expected, describe_names, describe_value
from .reading import read_arguments
from .schema import (
    Form,
    JsonObject,
    choose_forms,
    format_path,
    forms_at,
    is_array,
    is_object,
    is_required,
    locate,
    value_at,
)

_WORD, _LETTER = r"[^\W_]", r"[^\W\d_]"
_DROPPED = re.compile(
    rf"(?<={_WORD})(?:[ \t]+|_)(?={_LETTER})"
    rf"|(?<={_LETTER})(?:[ \t]+|_)(?=\d)"  # kept between two digits: 1_12 is not 11_2
    # A hyphen before a digit may be a minus (UTC-5), and so may one between two single letters (a-b).
    rf"|(?<={_WORD}{_WORD})-(?={_LETTER})|(?<={_WORD})-(?={_LETTER}{_WORD})"
)
_BLANKS = re.compile(r"(?<=\d)[ \t]+(?=\d)")
_JOINTS = re.compile(rf"(?<={_WORD})(?:[-. ]|(?<!\d)\.|\.(?!\d))(?={_WORD})")  # in a name
_MARKS = re.compile(r"^(?:--(?=\w)|[\"'`]+)|[\s\"'`:=]+$")  # around a name: quotes, a colon, the dashes of an option
_DOT = re.compile(r"(?<=\d)\.(?=\d)")
_NO_LETTERS = re.compile(r"[\W_]+")
_SYMBOL = re.compile(r"(?P<number>\d[\d.]*)?(?P<letters>[^\W\d_]{1,2})")  # of a unit, such as MB or 1m
_LONGEST_SYMBOL: Final = 4  # letters
_MARKUP = re.compile(  # tags of calls, and the control tokens of model families
    r"</?\s?(?:\w{1,20}:)?(?:parameter|invoke|function|tool_?call|tool_sep|arg_key|arg_value)s?\b[^<>]{0,100}>"
    r"|</?(?:start|end)_(?:of_turn|function_call|function_response)>"
    r"|</?[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]"
    r"|\[/?(?:TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|CALL_ID|ARGS|INST)\]",
    re.IGNORECASE,
)
_WITHOUT_MARKUP: Final = "text without the markup of a call, such as </parameter>: send each parameter by its own name"
_SUGGESTED = frozenset(("additionalProperties", "enum", "const"))  # rules with a list of names or values
ADVISED = _SUGGESTED | {"required"}  # rules whose problems may get a suggestion
_MAX_UNDECLARED = 5  # names
_MAX_READ = 1_000  # values that may hold markup
_MAX_MARKUP = 100_000  # characters of each that are searched
_MAX_PROBLEMS = 20  # of one call that may get a suggestion
_MIN_SCORE = 70.0  # of 100, as for the names of tools
_CONTAINED = 85.0  # the score of a name that contains the other: meal_time, optional_meal_time
_MIN_CONTAINED = 4  # letters; a shorter name is contained in too many others
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORDS = re.compile(r"[^\W_]+")
_NEGATIONS = frozenset((
    "no", "not", "non", "never", "without", "none", "dont", "disable", "disabled", "exclude", "excluded", "skip",
    "off", "un", "anti",
))  # fmt: skip
_NEGATING = frozenset(("un", "dis", "non", "de", "in", "im", "ir", "il", "anti", "no", "not", "mis"))
_OPPOSITES = (
    ("in", "ex"), ("im", "ex"), ("in", "out"), ("in", "de"), ("en", "dis"), ("en", "de"), ("as", "des"), ("at", "de"),
    ("up", "down"), ("over", "under"), ("pre", "post"), ("mini", "maxi"), ("con", "dis"), ("sub", "super"),
)  # fmt: skip
_ANTONYMS = frozenset(
    frozenset(pair.split("/"))
    for pair in (  # noqa: SIM905
        "get/set read/write open/close start/stop begin/end first/last min/max minimum/maximum add/remove on/off "
        "up/down allow/deny allow/block accept/reject approve/reject grant/revoke lock/unlock push/pop push/pull "
        "send/receive show/hide before/after above/below left/right top/bottom high/low big/small old/new "
        "true/false yes/no in/out inject/eject promote/demote sync/async login/logout signin/signout "
        "create/delete insert/delete buy/sell raise/lower rise/fall pause/resume play/pause forward/backward "
        "next/previous next/prev asc/desc from/to source/target input/output public/private include/exclude "
        "increase/decrease expand/collapse attach/detach join/leave enter/exit upload/download ingress/egress "
        "mute/unmute start/end since/until internal/external local/remote positive/negative success/failure "
        "pass/fail win/loss credit/debit deposit/withdraw enqueue/dequeue"
    ).split()
)
_LIKE = 60.0  # of 100: words with less have nothing to do with each other
_LEAST_NEGATED = 2  # letters
_MAX_NAME = 100  # characters; longer text was not meant as a name
_MAX_CHOICE = 200  # characters of a name or value that is compared
_MAX_COMPARED = 2_000  # names or values
_MAX_COMPARED_IN_ALL = 10_000  # of one call
_MAX_NEAR = 50  # of these whose letters are near, and whose words are looked at


def fold(text: str) -> str:
    """Reduce a text to its letters and digits, in lower case. Texts with equal results may still differ in meaning."""
    return _NO_LETTERS.sub("", text).casefold()


def is_same_value(one: str, other: str) -> bool:
    """Whether two spellings of an allowed value have the same words, and the same characters that carry meaning.

    A separator between two words may be another one, or the capital of the second word; it is never left out: to
    "resign" is not to "re-sign".
    """
    return not _spell_value(one).isdisjoint(_spell_value(other))


def _spell_value(text: str) -> set[str]:
    """Spell a value with its capitals as words, and without: a "HomeOffice" has two, an "iPhone" is one."""
    spelt = (_BLANKS.sub("_", each.lower()) for each in (text.strip(), _CAMEL.sub(" ", text.strip())))
    # Not casefold(), which makes "Maße" (dimensions) and "Masse" (mass) equal.
    return {_DROPPED.sub(_keep_word, each) for each in spelt}


def _keep_word(joint: re.Match[str]) -> str:
    around = joint.string[joint.start() - 1], joint.string[joint.end()]
    return " " if all(map(str.isalpha, around)) else ""


def fold_name(text: str) -> str:
    """Reduce a parameter's name to the characters that carry meaning: ``_class`` and ``class`` become equal."""
    joined = _JOINTS.sub(_join, _MARKS.sub("", text.strip()).strip("_").lower())
    return _DROPPED.sub("", joined)


def _join(match: re.Match[str]) -> str:
    return "." if _DOT.match(match.string, match.start()) else "_"


@attrs.frozen(slots=False)
class Choice:
    """The allowed texts, indexed by their folded spellings.

    Args:
        texts: The allowed texts.
    """

    texts: frozenset[str]

    def find(self, text: str) -> str | None:
        """Return the only allowed text that this one may be a spelling of; None if there is none, or more than one."""
        sent = text.strip()
        if not sent or len(sent) > 2 * self._longest:  # too long to differ in separators only
            return None
        found = self._by_case.get(sent.lower())
        if found is None:
            found = self._by_letters.get(fold(sent), [])
            if len(found) != 1 or not is_same_value(found[0], sent):
                return None
        if sent in found:
            return sent
        if len(found) != 1:
            return None
        return None if _is_other_symbol(sent, found[0]) else found[0]

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.texts), default=0)

    @cached_property
    def _by_case(self) -> dict[str, list[str]]:
        return _index(self.texts, str.lower)

    @cached_property
    def _by_letters(self) -> dict[str, list[str]]:
        return _index(self.texts, fold)


def _index(texts: Iterable[str], way: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in texts:
        found.setdefault(way(each), []).append(each)
    return found


def _is_other_symbol(sent: str, choice: str) -> bool:
    """Whether two symbols differ in a case that carries meaning: mW and MW, MB and Mb, 1M and 1m."""
    if sent == choice:
        return False
    symbol = _SYMBOL.fullmatch(sent)
    if symbol is None:
        letters = sent.isalpha() and len(sent) <= _LONGEST_SYMBOL
        return letters and sent.lower() == choice.lower() and _is_mixed(sent) and _is_mixed(choice)
    if symbol["number"]:
        return True
    if len(sent) == 1:
        return sent == "M"  # M is month or mega; m is minute, metre or milli
    return not (sent.islower() or choice.islower())


def _is_mixed(text: str) -> bool:
    """Whether a word has capitals inside, as kWh does."""
    return not (text.islower() or text.isupper() or text.istitle())


def with_suggestions(
    problems: tuple[Problem, ...], arguments: object, schema: Form, declared: frozenset[str]
) -> tuple[Problem, ...]:
    """Add the nearest name or value to each problem of an unknown name or of a value that is not allowed.

    If a parameter is missing, the undeclared names that were sent are added as problems, even if the schema accepts
    them: one of them may have been meant for it.

    Args:
        problems: The problems.
        arguments: The arguments as they were sent.
        schema: The tool's schema.
        declared: The names of its parameters.

    Returns:
        The same tuple if there is nothing to add.
    """
    is_incomplete = any(problem.rule == "required" for problem in problems)
    may_be_near = any(problem.rule in _SUGGESTED or problem.got == "null" for problem in problems)
    if not (is_incomplete or may_be_near) or (sent := read_arguments(arguments)) is None:
        return problems
    extra: list[Problem] = []
    if is_incomplete:
        known = declared | {problem.path for problem in problems}
        # A caller outside of this library may send keys of any type.
        undeclared = [name for name in sent if isinstance(cast("object", name), str) and name not in known]
        names = describe_names(schema, ()) if undeclared else ""
        extra = [
            Problem(name, "additionalProperties", names, describe_value(sent[name]))
            for name in undeclared[:_MAX_UNDECLARED]
        ]
    if not (may_be_near or extra):
        return problems
    adviser = _Adviser(sent, schema)
    suggested = [adviser.suggest(problem) for problem in problems[:_MAX_PROBLEMS]]
    return (*suggested, *problems[_MAX_PROBLEMS:], *map(adviser.suggest, extra))


def may_be_markup(text: str) -> bool:
    """Whether a quick look does not show that a text is without the markup of a call."""
    return "<" in text or "[" in text


def find_markup(arguments: object) -> tuple[Problem, ...]:
    """Find the texts in refused arguments that hold the markup of a call: what is missing may stand in them."""
    found: list[Problem] = []
    pending: list[tuple[list[int | str], Any]] = [
        ([name], each) for name, each in (read_arguments(arguments) or {}).items()
    ]
    for parts, value in islice(pending, _MAX_READ):  # it grows
        if isinstance(value, str):
            if may_be_markup(value) and _MARKUP.search(value, 0, _MAX_MARKUP):
                found.append(Problem(format_path(parts), "not", _WITHOUT_MARKUP))
        elif is_object(value):
            pending += [([*parts, str(name)], each) for name, each in value.items()]
        elif is_array(value):
            pending += [([*parts, index], each) for index, each in enumerate(value)]
    return tuple(found[:_MAX_UNDECLARED])


@attrs.define
class _Adviser:
    """Suggests names and values for the problems of one call."""

    arguments: JsonObject
    schema: Form
    _left: int = _MAX_COMPARED_IN_ALL  # names and values that may still be compared
    _choices: dict[tuple[int, ...], list[tuple[str, str]]] = attrs.field(factory=dict[Any, Any])  # by ids of the forms

    def suggest(self, problem: Problem) -> Problem:
        """Return the problem with the nearest name or value, if one is near."""
        if problem.rule not in _SUGGESTED and problem.got != "null":
            return problem
        parts, rest = locate(self.arguments, problem.path)
        if rest or not parts:
            return problem
        if problem.rule == "additionalProperties":
            holder = value_at(self.arguments, parts[:-1])
            taken = {key for key, value in holder.items() if value is not None} if is_object(holder) else set[str]()
            forms = choose_forms(self.schema, parts[:-1], holder)
            names = {name for form in forms for name in form.get("properties", ())}
            suggestion = self._find(str(parts[-1]), _fold_all(names - taken))
        elif problem.got == "null":  # null for a required parameter means that it is missing
            if not is_required(self.schema, parts):
                return problem
            return Problem(problem.path, "required", describe_expected(self.schema, parts), "null")
        else:
            suggestion = self._find(value_at(self.arguments, parts), self._fold_choice(forms_at(self.schema, parts)))
        return attrs.evolve(problem, suggestion=suggestion) if suggestion else problem

    def _find(self, text: object, among: list[tuple[str, str]]) -> str:
        self._left -= len(among)
        return _find_nearest(text, among) if self._left >= 0 else ""

    def _fold_choice(self, forms: list[Form]) -> list[tuple[str, str]]:
        """Fold the allowed texts, once for all values of the call."""
        key = tuple(map(id, forms))
        if (known := self._choices.get(key)) is None:
            choice = (each for form in forms for each in (*form.get("enum", ()), form.get("const")))
            known = self._choices[key] = _fold_all({each for each in choice if isinstance(each, str)})
        return known


def split_words(name: str) -> str:
    """Return the words of a name of any case style, in lower case with blanks between them."""
    return " ".join(_WORDS.findall(_CAMEL.sub(" ", name))).lower()


def is_opposite(sent: str, other: str) -> bool:
    """Whether one of two names or values negates the other, such as ``no_color`` and ``color``, ``undo`` and ``do``.

    Args:
        sent: The words of the one, see `split_words`.
        other: The words of the other.
    """
    ours, theirs = set(sent.split()), set(other.split())
    left, right = ours - theirs, theirs - ours
    if bool(left & _NEGATIONS) != bool(right & _NEGATIONS):
        return True
    return any(
        _negates(one, two) or _negates(two, one) or frozenset((one, two)) in _ANTONYMS for one in left for two in right
    )


def has_unlike_words(sent: str, other: str) -> bool:
    """Whether each of two names has a word that is like none of the other's: ``freezing_point``, ``boiling_point``.

    Such a name is another one, however many words they share. Without a shared word the names are compared as wholes.

    Args:
        sent: The words of the one, see `split_words`.
        other: The words of the other.
    """
    from rapidfuzz.fuzz import ratio

    ours, theirs = set(sent.split()), set(other.split())
    if not ours & theirs:
        return False
    left, right = ours - theirs, theirs - ours
    unlike = [one for one in left if all(ratio(one, two) < _LIKE for two in right)]
    return bool(unlike) and any(all(ratio(one, two) < _LIKE for one in left) for two in right)


def _negates(one: str, two: str) -> bool:
    """Whether a word is another one behind a prefix that negates it, or with the opposite prefix: import, export."""
    if len(two) >= _LEAST_NEGATED and one.endswith(two):
        return one[: -len(two)] in _NEGATING
    return any(
        one.startswith(prefix) and two.startswith(other) and one[len(prefix) :] == two[len(other) :] != ""
        for prefix, other in _OPPOSITES
    )


def find_nearest(text: object, among: Iterable[str]) -> str:
    """Return the text that is most similar to this one; "" if none is similar enough."""
    return _find_nearest(text, _fold_all(among))


def _fold_all(among: Iterable[str]) -> list[tuple[str, str]]:
    return [(each, fold(each)) for each in islice((each for each in among if len(each) <= _MAX_CHOICE), _MAX_COMPARED)]


def _find_nearest(text: object, among: Iterable[tuple[str, str]]) -> str:
    """`find_nearest` among texts that are folded already."""
    if not isinstance(text, str) or not 0 < len(text) <= _MAX_NAME or not (folded := fold(text)):
        return ""
    from rapidfuzz.fuzz import ratio

    scored: list[tuple[float, str]] = []
    for each, other in among:
        score = ratio(folded, other)
        if score < _CONTAINED:
            short, long = (folded, other) if len(folded) <= len(other) else (other, folded)
            score = _CONTAINED if len(short) >= _MIN_CONTAINED and short in long else score
        if score > _MIN_SCORE:
            scored.append((-score, each))
    words = split_words(text)
    for _, each in nsmallest(_MAX_NEAR, scored):  # the words take a hundred times as long as the letters
        known = split_words(each)
        if not is_opposite(words, known) and not has_unlike_words(words, known):
            return each
    return ""
