"""The texts that a model would get for the errors of a tool, under each profile.

No tool is run for it. The arguments of made-up calls are parsed, so the user's own validators are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, get_args

import attrs

from ...base.foreign_values import or_default
from ...engine.errors import InvalidParams, MalformedCall, OutcomeUnknown, ToolError, UnknownTool
from ...messages import Wording, render
from ...messages.profiles import PROFILES
from ...privacy import find_flaws
from ...tools.definition import Tool
from .tool_findings import Finding, Severity, quote

_UNDECLARED = "no_such_parameter"
_WRONG_VALUES: tuple[object, ...] = (None, {"no_such_key": 0}, [[0]], True, 0.5, "?")  # no type accepts all of them
_find_flaws = lru_cache(maxsize=1_000)(find_flaws)  # most texts are the same for all tools


@attrs.frozen
class FlawedText:
    """A flaw in a text."""

    kind: str  # of the error
    flaw: str  # one that `find_flaws` names
    text: str


@attrs.frozen
class ErrorTexts:
    """Counts of the texts of one tool, or the sums of several."""

    texts: int  # under all profiles
    errors: int  # each has one text under each profile
    questions: int  # errors whose text is a question, as `render_errors` worded them
    flawed: tuple[FlawedText, ...]  # a text is listed once for each of its flaws

    @property
    def status_codes(self) -> int:
        """Texts with a status code."""
        return sum(each.flaw == "status code" for each in self.flawed)


def render_errors(tool: Tool[..., Any], names: Sequence[str], asking: Wording) -> ErrorTexts:
    """Render each error of `list_errors` under each profile, and once more as `asking` words it, to count questions."""
    errors = list(list_errors(tool, names))
    rendered = [
        (error.kind, render(error, profile=profile, tool=tool.name)) for error in errors for profile in PROFILES
    ]
    questions = sum(render(error, wording=asking, tool=tool.name).startswith("Question:") for error in errors)
    flawed = tuple(FlawedText(kind, flaw, text) for kind, text in rendered for flaw in _find_flaws(text))
    return ErrorTexts(len(rendered), len(errors), questions, flawed)


def sum_texts(every: Sequence[ErrorTexts]) -> ErrorTexts:
    """The counts of several tools together."""
    return ErrorTexts(
        sum(each.texts for each in every),
        sum(each.errors for each in every),
        sum(each.questions for each in every),
        tuple(flawed for each in every for flawed in each.flawed),
    )


def list_errors(tool: Tool[..., Any], names: Sequence[str]) -> Iterator[ToolError]:
    """Each kind of error that a call of the tool can end in; InvalidParams once for each parameter."""
    for kind in get_args(ToolError):
        if kind is UnknownTool:
            yield UnknownTool(f"{tool.name}_", (tool.name,), tuple(names))
        elif kind is InvalidParams:
            yield from _list_invalid_params(tool)
        elif kind is not OutcomeUnknown or tool.effect == "mutating":
            yield kind.make_example()
    yield MalformedCall("EOF while parsing a string", (1, 12), truncated=True)


def _list_invalid_params(tool: Tool[..., Any]) -> Iterator[InvalidParams]:
    """Each required parameter missing, each parameter with a wrong type, and one that is not declared."""
    yield from _parse_wrong(tool, {}, "")
    for name in tool.definition()["parameters"].get("properties") or ():
        wrong = (error for value in _WRONG_VALUES for error in _parse_wrong(tool, {name: value}, name))
        yield from islice(wrong, 1)
    yield from _parse_wrong(tool, {_UNDECLARED: 0}, _UNDECLARED)


def _parse_wrong(tool: Tool[..., Any], arguments: dict[str, object], name: str) -> Iterator[InvalidParams]:
    """One error for each problem with the parameter of that name; "" stands for the ones that are missing."""
    found: Any = or_default(None)(tool.parse)(arguments)  # a bug of the user's own validator shows when it is called
    if type(found) is InvalidParams:
        for problem in found.problems:
            inside = problem.path == name or problem.path.startswith((f"{name}.", f"{name}["))
            if problem.rule == "required" if not name else inside and problem.rule != "required":
                yield attrs.evolve(found, problems=(problem,))


def check_error_texts(tool: str, texts: ErrorTexts) -> Iterator[Finding]:
    """One finding for each flaw, with the first text that has it: a name or a description brought it there."""
    first = {each.flaw: each for each in reversed(texts.flawed)}
    for flaw, each in first.items():
        what = f"the text of the error {each.kind} contains a {flaw}: {quote(each.text)}"
        severity: Severity = "error" if flaw == "status code" else "warning"  # the others may be what the tool is about
        yield Finding(severity, "text", tool, what, "reword the name or description that it comes from")
