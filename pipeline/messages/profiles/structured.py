"""The profile ``structured``: the ToolErrorResponse and ToolSuccessResponse of "Tool Error Handling Analysis".

Its ``details.value`` is left out: what the model sent is not repeated, since it may be anybody's secret.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...errors import (
    ExecutionFailed,
    InvalidParams,
    MalformedCall,
    NeedsUserInput,
    OutcomeUnknown,
    Problem,
    ResourceNotFound,
    ToolError,
    Transient,
    UnknownTool,
)
from ..default import place_of, suggestions_of
from ..text import Verbosity, cut, ended, one_line, sayable, short, unmarked

_NO_TEXT = "Tool execution failed"  # the document's own, for an error without any
_INFLATED = 8  # a character of text may become six of JSON


def as_json(error: ToolError, lines: Sequence[str], how: Verbosity, since: str, example: str) -> str:
    """The error as one JSON object, within the budget: of many problems as many as there is room for."""
    told = len(lines)
    while True:
        text = "; ".join(map(unmarked, lines[:told])).strip() or _NO_TEXT
        if told < _number_of(error):
            text = f"{ended(text)} And {_number_of(error) - told} more of these."
        details = _details(error, told, how)
        if since:
            details["changed"] = since
        if example:
            details["example"] = json.loads(example)
        whole = _dumped(error, text, details)
        if len(whole) <= how.characters:
            return whole
        if told <= 1:
            return _dumped(error, cut(text, how.characters // _INFLATED - 20), {})
        told //= 2


def as_value(text: str, note: str) -> str:
    """A success as one JSON object; ``text`` is JSON itself."""
    return with_note(f'{{"ok": true, "data": {text}}}', note)


def with_note(told: str, note: str) -> str:
    """One JSON object, with a note besides where there is one."""
    return f'{told[:-1]}, "note": {json.dumps(note, ensure_ascii=False)}}}' if note else told


def _number_of(error: ToolError) -> int:
    return len(error.problems) if isinstance(error, InvalidParams) else 0


def _dumped(error: ToolError, text: str, details: dict[str, Any]) -> str:
    whole: dict[str, Any] = {"ok": False, "error": text, "errorType": error.error_type}
    if details:
        whole["details"] = details
    return json.dumps(whole, ensure_ascii=False)


def _details(error: ToolError, told: int, how: Verbosity) -> dict[str, Any]:
    match error:
        case InvalidParams(problems) if problems:
            each = [_of_problem(problem, how) for problem in problems[:told]]
            return each[0] if len(each) == 1 else {**each[0], "problems": each}
        case ResourceNotFound(_, details) | ExecutionFailed(_, details):
            return _known(parameter=short(details.parameter or ""), suggestion=details.suggestion or "")
        case UnknownTool():
            meant = f"Did you mean: {suggestions_of(error)}?" if error.suggestions else ""
            return _known(suggestion=meant, available=[short(name) for name in error.available[:100]])
        case NeedsUserInput():
            return _known(parameter=short(error.parameter or ""), suggestion="Ask the user")
        case MalformedCall() if not error.truncated and (place := place_of(error)) is not None:
            return {"line": place[0], "column": place[1]}
        case Transient(_, seconds) if sayable(seconds):
            return {"retryAfter": max(1, round(seconds))}
        case OutcomeUnknown():
            return _known(suggestion=f"Check with {short(error.verify_with)}" if error.verify_with else "")
        case _:
            return {}


def _of_problem(problem: Problem, how: Verbosity) -> dict[str, Any]:
    expected = one_line(problem.expected, how.wanted)
    suggestion = f"Did you mean: {short(problem.suggestion)}?" if problem.suggestion else ""
    if problem.rule == "required":
        suggestion = f"Provide {expected or 'a value'}"
        expected = ""
    elif problem.rule == "additionalProperties":
        known = f"The parameters are: {expected}." if expected else ""
        suggestion, expected = f"{known} {suggestion}".strip(), "no other parameters"
    return _known(parameter=short(problem.path), constraint=expected, suggestion=suggestion if how.hints else "")


def _known(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value}
