"""A model that knows nothing but the text of an error: it changes exactly the arguments that the text names.

A new value is the first one that fits the words of the text, a new name is the suggested one, and everything else
stays as it was sent.
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs

from toolcall_pipeline import Call
from toolcall_pipeline.dialogue import Hints
from toolcall_pipeline.dialogue.records import Answered
from toolcall_pipeline.parameters.schema import locate

_NO_VALUE: Any = object()
_TYPES: Mapping[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}
_LIMITS: tuple[tuple[str, Callable[[int], Any]], ...] = (
    (r"at least (\d+) characters? long", lambda bound: "x" * bound),
    (r"at most (\d+) characters? long", lambda bound: "x"[:bound]),
    (r"an array of at least (\d+) items?", lambda bound: ["text"] * bound),
    (r"an array of at most (\d+) items?", lambda _: []),
    (r"at (?:least|most) (-?\d+)", lambda bound: bound),
    (r"greater than (-?\d+)", lambda bound: bound + 1),
    (r"less than (-?\d+)", lambda bound: bound - 1),
)
_OPTION = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_PROBLEM = re.compile(
    r"Error: (?:Missing required parameter: (?P<missing>.+)|Unknown parameter: (?P<unknown>.+)"
    r"|Invalid parameter value for (?P<wrong>.+?): (?:must be )?(?P<wanted>.+))$"
    r"|- (?P<listed>.+?): (?P<needed>.+)$"  # one of several that are missing
)
_MISSING = re.compile(r"^Error: Missing required parameters?: (?P<names>.+)$", re.MULTILINE)
_HOLE = re.compile(r'("(?:[^"\\]|\\.)*"): <([^>]*)>')  # of the form in the last line
_SUGGESTION = re.compile(r"Did you mean: (?P<names>.+)\?$", re.MULTILINE)


def make_value(words: str) -> Any:
    """Return the first value that fits what the text asks for; `_NO_VALUE` if its words are unknown here."""
    if option := _OPTION.match(words):
        return ast.literal_eval(option[0])
    for pattern, make in _LIMITS:
        if found := re.match(pattern, words):
            return make(int(found[1]))
    return next(
        (copy.copy(value) for name, value in _TYPES.items() if re.match(rf"(?:an? )?{name}\b", words)), _NO_VALUE
    )


def recover_object(text: object) -> dict[str, Any] | None:
    """Return the object that a malformed text certainly contains, or None.

    There may be text around it, comments in it, trailing commas, or it may be a Python literal.
    """
    if not isinstance(text, str) or "{" not in text:
        return None
    text = text[text.index("{") :]
    without_comments = re.sub(r",\s*(?=[}\]])", "", re.sub(r"//[^\n]*", "", text))
    parsers: tuple[Callable[[str], Any], ...] = (
        lambda each: json.JSONDecoder(strict=False).raw_decode(each)[0],
        ast.literal_eval,
    )
    for each in (text, without_comments):
        for parse in parsers:
            try:
                value = parse(each)
            except (ValueError, SyntaxError, RecursionError):
                continue
            if isinstance(value, dict):
                return cast("dict[str, Any]", value)
    return None


@attrs.define
class TextOnlyModel:
    """A model that takes errors to the letter.

    Args:
        constant: what it reads in place of each text. Default None: the texts as they are.
        stuck: why it gave up; empty as long as it did not.
        made_up: whether it sent a value where the text gives only the form.
    """

    constant: str | None = None
    stuck: str = ""
    made_up: bool = False

    async def __call__(self, answered: Sequence[Answered], guidance: str, hints: Hints, /) -> list[Call]:  # noqa: ARG002  # it takes no advice
        """Send the call again, changed as the text says; nothing if the text says nothing to go by."""
        each = answered[0]
        again = self.correct(each.call, each.text if self.constant is None else self.constant)
        if isinstance(again, str):
            self.stuck = again
            return []
        return [again]

    def correct(self, call: Call, text: str) -> Call | str:
        """Return the call, changed where the text says so; or the reason why there is none."""
        if text.startswith("Error: Tool '"):
            suggestion = _SUGGESTION.search(text)
            if suggestion is None:
                return "no tool is suggested"
            return attrs.evolve(call, name=suggestion["names"].split(", ")[0])
        if text.startswith("Error: The arguments "):
            recovered = recover_object(call.arguments)
            return "the text holds no JSON object" if recovered is None else attrs.evolve(call, arguments=recovered)
        lines = [*text.splitlines(), *_list_holes(text)]
        problems = [(found, lines[at + 1 :]) for at, line in enumerate(lines) if (found := _PROBLEM.match(line))]
        if not problems:  # it may be arguments that are no JSON, told in a text that does not say so
            return "no value fits the words"
        sent: Any = call.arguments
        arguments: Any = json.loads(sent) if isinstance(sent, str) else copy.deepcopy(dict(sent or {}))
        problems.sort(key=lambda problem: problem[0]["unknown"] is None)  # a new name may be one that is missing
        changed = [self._change(arguments, found, rest[0] if rest else "") for found, rest in problems]
        return attrs.evolve(call, arguments=arguments) if any(changed) else "no value fits the words"

    def _change(self, arguments: dict[str, Any], found: re.Match[str], hint: str) -> bool:
        """Change what one problem names; False if no value can be made for it."""
        path = found["missing"] or found["listed"] or found["unknown"] or found["wrong"]
        parts, rest = locate(arguments, path)
        name: Any = rest or parts.pop()
        holder: Any = arguments
        for part in parts:
            holder = holder[part]
        suggestion = None if found["listed"] else _SUGGESTION.search(hint)
        if found["unknown"]:
            value = holder.pop(name, None)
            if suggestion is not None:
                holder.setdefault(suggestion["names"], value)
            return True
        if (found["missing"] or found["listed"]) and holder.get(
            name
        ) is not None:  # it got its new name before; null counts as absent
            return True
        words = hint.removeprefix(f"Please send {path}: ") if found["missing"] else found["needed"] or found["wanted"]
        value = suggestion["names"] if suggestion is not None else make_value(words)
        if value is not _NO_VALUE:
            holder[name] = value
            self.made_up = self.made_up or suggestion is None
        return value is not _NO_VALUE


def _list_holes(text: str) -> list[str]:
    """Return the entries of the form at the end of a text for missing parameters, a line for each."""
    missing = _MISSING.search(text)
    holes = [(str(json.loads(name)), words) for name, words in _HOLE.findall(text.splitlines()[-1])]
    names = [] if missing is None else [missing["names"], *missing["names"].split(", ")]
    return [f"- {name}: {words}" for name, words in holes if name in names]
