"""Read the calls in a text: what has the frame of a form, is closed, names an offered tool, and is no part of prose."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import attrs

from ...base.setup_error import SetupError
from ...engine.call import Call
from ...tools.view import ToolView
from .bodies import read_json
from .forms import FORMS, UNREAD, WHOLE
from .prose import BEGIN, END_OF_THOUGHT, FENCE, end_of_hidden, goes_on, is_named

_LONGEST = 200_000  # characters; a longer text is not searched for calls
_MOST_MARKS = 2_000  # in one text, and
_MOST_FAILED = 20  # that begin no call: to look for the end of each takes time that grows with the text
_END_TOKENS = re.compile(
    r"(?:<\|(?:eom_id|eot_id|im_end|end|return|endoftext|end_of_text)\|>|</s>|<end_of_turn>"
    r"|<\uff5cend\u2581of\u2581sentence\uff5c>)\s*\Z"
)
_MARKS: Final = re.compile(
    rf"(?P<hidden>{BEGIN})|(?P<thought>{END_OF_THOUGHT})|(?P<fence>{FENCE})|"
    rf"(?P<form>{'|'.join(dict.fromkeys(form.first for form in FORMS))})"
)


class TextCalls(NamedTuple):
    """What a text holds.

    Attributes:
        calls: The calls, without ids.
        said: The text around them; all of it if there are none.
        seen: The form that the text has: of the calls, or of what looks like one; "": none.
        is_read: Whether a reader knows that form.
    """

    calls: list[Call]
    said: str
    seen: str = ""
    is_read: bool = True


@attrs.define
class _Run:
    """Calls that follow on each other, and where they stand."""

    start: int
    end: int
    begin: int  # where the text in front of it begins
    calls: list[Call]


def check_forms(text: object) -> frozenset[str] | None:
    """The names of the forms to read for an option ``text``: None for none, and all for True and ``"auto"``.

    Raises:
        SetupError: It is something else, or names a form that there is not.
    """
    if text is False:
        return None
    if text is True or text == "auto":
        return frozenset(_NAMES.values())
    given: list[object] = (
        [text] if isinstance(text, str) else [*text] if isinstance(text, (list, tuple, set, frozenset)) else []
    )
    folded = [_fold(each) if isinstance(each, str) else "" for each in given]
    unknown = [each for each, name in zip(given, folded, strict=True) if name not in _FAMILIES]
    if unknown or not given:
        known = ", ".join(dict.fromkeys(_NAMES.values()))
        what = f"{unknown[0]!r}" if unknown else f"{text!r}"
        raise SetupError(f'calls: `text` must be True, "auto" or names of forms ({known}), not {what}')
    return frozenset(name for each in folded for name in _FAMILIES[each])


def read_text_calls(text: str, registry: ToolView | None = None, forms: Collection[str] | None = None) -> TextCalls:
    """The calls in a text, and the text around them. Never raises, and takes time that grows with the text alone.

    A call is closed, has the frame of its form, names an offered tool, and stands outside of thoughts, of code and of
    quotations. A call in tags whose JSON is broken is a call: its arguments are what stands there, and a pipeline says
    to the model what is wrong with them. Numbers in arguments stay as they were written.

    Args:
        text: What the model said.
        registry: The tools that were offered. Default None: not known, and any name will do.
        forms: The names of the forms to read. Default None: all.
    """
    if len(text) > _LONGEST:
        return TextCalls([], text)
    reader = _Reader(_END_TOKENS.sub("", text), registry, forms)
    reader.scan()
    if runs := reader.runs:
        pieces = [reader.text[before.end : run.start] for before, run in zip([_START, *runs], runs, strict=False)]
        said = "".join([*pieces, reader.text[runs[-1].end :]]).strip()
        return TextCalls([call for run in runs for call in run.calls], said, reader.seen)
    outside = "".join(reader.outside).strip()
    for name, read, _ in WHOLE if not reader.seen else ():
        calls = read(outside)
        if calls and reader.offers(calls):
            if forms is not None and name not in forms:
                return TextCalls([], text, name)
            return TextCalls(calls, reader.text.replace(outside, "", 1).strip(), name)
    if not (reader.seen or reader.shown):
        unread = next((name for name, pattern in UNREAD if pattern.search(outside)), "")
        return TextCalls([], text, unread, not unread)
    return TextCalls([], text, reader.seen or reader.shown)


_START = _Run(0, 0, 0, [])


class _Reader:
    """One walk through a text, from mark to mark."""

    def __init__(self, text: str, registry: ToolView | None, forms: Collection[str] | None) -> None:
        self.text = text
        self.runs: list[_Run] = []
        self.outside: list[str] = []  # of thoughts
        self.seen = ""
        self.shown = ""  # the form of a call in a fence among prose
        self._registry = registry
        self._forms = forms
        self._failed = 0
        self._begin = 0  # where the text in front of the next mark begins
        self._run: _Run | None = None  # which may go on

    def scan(self) -> None:
        """Find the runs of calls."""
        place = kept = 0
        for _ in range(_MOST_MARKS):
            mark = _MARKS.search(self.text, place) if self._failed < _MOST_FAILED else None
            if mark is None:
                break
            kind, start = mark.lastgroup, mark.start()
            if kind == "thought":  # what stands before it was one: its first tag was in the prompt
                self.runs, self._run, self.seen = [], None, ""
                self.outside, kept = [], mark.end()
                place = self._begin = mark.end()
            elif kind in ("hidden", "fence"):
                place = end_of_hidden(self.text, mark[0], start)
                if kind == "hidden" and place > mark.end():
                    self.outside.append(self.text[kept:start])
                    kept = self._begin = place
                elif kind == "fence" and read_json(self.text[mark.end() : place].partition("\n")[2].rstrip("`~ \n")):
                    self.shown = "json"
            else:
                place = self._read(start, mark.end())
        else:
            self._failed = _MOST_FAILED
        self._end_run()
        if self._failed >= _MOST_FAILED:
            self.runs = []
        self.outside.append(self.text[kept:])

    def _read(self, start: int, behind: int) -> int:
        """Read the form that begins at a mark; return where to go on."""
        form = next((form for form in FORMS if form.opening.match(self.text, start)), None)
        if form is None:
            return behind
        run = self._run
        if run is not None and self.text[run.end : start].strip():
            self._end_run()
            run = None
        if run is None and is_named(self.text, self._begin, start, inline=form.inline):
            self._failed += 1
            named = form.read(self.text, start)
            return behind if named is None else named[1]  # no part of what is named is a call
        self.seen = self.seen or form.name
        found = form.read(self.text, start) if self._forms is None or form.name in self._forms else None
        if found is None or not found[0] or not self.offers(found[0]):
            self._failed += 1
            return behind
        calls, end = found
        if run is None:
            self._run = _Run(start, end, self._begin, calls)
        else:
            run.calls += calls
            run.end = end
        return end

    def _end_run(self) -> None:
        """Keep the last run, unless it is a part of a sentence."""
        run, self._run = self._run, None
        if run is not None and not goes_on(self.text, run.begin, run.start, run.end):
            self.runs.append(run)
            self._begin = run.end
        elif run is not None and not self.runs:
            self.seen = ""

    def offers(self, calls: Iterable[Call]) -> bool:
        """Whether all of these calls name an offered tool."""
        registry = self._registry
        if registry is None:
            return True
        from ...tools.transport_noise import list_readings

        shown = {tool.name for tool in registry.list_shown()}
        for call in calls:
            found = False
            for name in list_readings(call.name):
                tool = registry.tools.get(name) or registry.aliases.get(name) or registry.find_by_provider_name(name)
                found = found or (tool is not None and tool.name in shown)
            if not found:
                return False
        return True


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _list_families() -> dict[str, tuple[str, ...]]:
    """The names of the forms by each name, folded, that an option may have."""
    families: dict[str, tuple[str, ...]] = {}
    declared = [*((form.name, form.also) for form in FORMS), *((name, also) for name, _, also in WHOLE)]
    for name, also in declared:
        for each in (name, *also):
            families[_fold(each)] = (*families.get(_fold(each), ()), name)
    return families


_FAMILIES: Final = _list_families()
_NAMES: Final = {name: name for names in _FAMILIES.values() for name in names}
