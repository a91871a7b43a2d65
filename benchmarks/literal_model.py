"""A model that knows nothing but the text of an error: it changes exactly the arguments that the text names.

A new value is the first one that fits the words; a name is the one that is suggested; all else stays as it was sent.
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs

from pipeline import Call
from pipeline.dialogue import Hints
from pipeline.dialogue.records import Answered
from pipeline.parameters.schema import located

_NOTHING: Any = object()
_TYPES: Mapping[str, Any] = {
    "a string": "text",
    "an integer": 1,
    "a number": 1,
    "a boolean": True,
    "an array": [],
    "an object": {},
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
_TOLD = re.compile(
    r"Error: (?:Missing required parameter: (?P<missing>.+)|Unknown parameter: (?P<unknown>.+)"
    r"|Invalid parameter value for (?P<wrong>.+?): (?:must be )?(?P<wanted>.+))$"
)
_MEANT = re.compile(r"Did you mean: (?P<names>.+)\?$", re.MULTILINE)


def value_of(words: str) -> Any:
    """The first value that fits what the text says is wanted; `_NOTHING` where its words are none that we know."""
    if option := _OPTION.match(words):
        return ast.literal_eval(option[0])
    for pattern, make in _LIMITS:
        if found := re.match(pattern, words):
            return make(int(found[1]))
    return next((copy.copy(value) for name, value in _TYPES.items() if re.match(rf"{name}\b", words)), _NOTHING)


def known_of(text: object) -> dict[str, Any] | None:
    """What a malformed text surely holds: an object with something behind it, comments in it, or Python's own form."""
    if not isinstance(text, str) or "{" not in text:
        return None
    text = text[text.index("{") :]
    plain = re.sub(r",\s*(?=[}\]])", "", re.sub(r"//[^\n]*", "", text))
    readings: tuple[Callable[[str], Any], ...] = (
        lambda each: json.JSONDecoder(strict=False).raw_decode(each)[0],
        ast.literal_eval,
    )
    for each in (text, plain):
        for reading in readings:
            try:
                value = reading(each)
            except (ValueError, SyntaxError, RecursionError):
                continue
            if isinstance(value, dict):
                return cast("dict[str, Any]", value)
    return None


@attrs.define
class LiteralModel:
    """A model that reads errors to the letter."""

    stuck: str = ""  # why it gave up
    formed: bool = False  # whether it sent a value of which it knew no more than the form

    async def __call__(self, answered: Sequence[Answered], guidance: str, hints: Hints, /) -> list[Call]:  # noqa: ARG002  # it needs no advice
        """The call once more, changed as the text says; none where that says nothing to go by."""
        each = answered[0]
        again = self.mended(each.call, each.text)
        if isinstance(again, str):
            self.stuck = again
            return []
        return [again]

    def mended(self, call: Call, told: str) -> Call | str:
        """The call, changed where the text says so; or why there is none."""
        if told.startswith("Error: Tool '"):
            meant = _MEANT.search(told)
            if meant is None:
                return "no tool is suggested"
            return attrs.evolve(call, name=meant["names"].split(", ")[0])
        if told.startswith("Error: The arguments "):
            known = known_of(call.arguments)
            return "no JSON can be made of it" if known is None else attrs.evolve(call, arguments=known)
        sent: Any = call.arguments
        arguments: Any = json.loads(sent) if isinstance(sent, str) else copy.deepcopy(dict(sent or {}))
        lines = told.splitlines()
        problems = [(found, lines[at + 1 :]) for at, line in enumerate(lines) if (found := _TOLD.match(line))]
        problems.sort(key=lambda problem: problem[0]["unknown"] is None)  # a new name may be one that is missing
        changed = [self._change(arguments, found, rest[0] if rest else "") for found, rest in problems]
        return attrs.evolve(call, arguments=arguments) if any(changed) else "no value fits the words"

    def _change(self, arguments: dict[str, Any], found: re.Match[str], hint: str) -> bool:
        """Change what one problem names; False where nothing can be made of it."""
        path = found["missing"] or found["unknown"] or found["wrong"]
        parts, rest = located(arguments, path)
        name: Any = rest or parts.pop()
        holder: Any = arguments
        for part in parts:
            holder = holder[part]
        meant = _MEANT.search(hint)
        if found["unknown"]:
            value = holder.pop(name, None)
            if meant is not None:
                holder.setdefault(meant["names"], value)
            return True
        if found["missing"] and name in holder:  # by its new name
            return True
        words = hint.removeprefix(f"Please send {path}: ") if found["missing"] else found["wanted"]
        value = meant["names"] if meant is not None else value_of(words)
        if value is not _NOTHING:
            holder[name] = value
            self.formed = self.formed or meant is None
        return value is not _NOTHING
