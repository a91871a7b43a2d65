"""The JSON form of an error and of a value, as in the source document "Tool Error Handling Analysis".

They are the document's ToolErrorResponse and ToolSuccessResponse. ``details.value`` exists only if the tool's author
gave it: the model's own input may be secret, and is not repeated otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..engine.errors import (
    InvalidParams,
    MalformedCall,
    NeedsUserInput,
    OutcomeUnknown,
    Problem,
    ToolError,
    Unavailable,
    UnknownTool,
)
from .author_words import build_facts, details_of, wait_of
from .default import MAX_TOOLS, UNAVAILABLE, find_position, format_suggestions, is_whole_text
from .text import as_sentence, is_known_time, round_wait, shorten, strip_prefix, to_one_line, truncate
from .wording import Verbosity

_NO_TEXT = "Tool execution failed"  # the document's own, for an error without a text
_ESCAPED = 8  # characters of JSON that one character of text may become, with a margin


def build_error_json(error: ToolError, lines: Sequence[str], verbosity: Verbosity, change: str, form: str) -> str:
    """Return the error as one JSON object within the budget, with as many of its problems as fit."""
    number = len(error.problems) if isinstance(error, InvalidParams) else 0
    shown = len(lines)
    while True:
        text = "; ".join(map(strip_prefix, lines[:shown])).strip() or _NO_TEXT
        if shown < number:
            text = f"{as_sentence(text)} And {number - shown} more of these."
        known, facts = _build_details(error, shown, verbosity), build_facts(error)
        details = {**known, **facts} if isinstance(error, InvalidParams) else {**facts, **known}
        if not _is_constant(error) and is_known_time(seconds := wait_of(error)):
            details["retryAfter"] = round_wait(seconds)
        if change:
            details["changed"] = change
        if form:
            details["example"] = form
        whole = _dump(error, text, details)
        if len(whole) <= verbosity.characters:
            return whole
        if shown <= 1:
            return _dump(error, truncate(text, verbosity.characters // _ESCAPED - 20), {})
        shown //= 2


def build_value_json(data: str, note: str) -> str:
    """Return a value as one JSON object. ``data`` is JSON already; an empty ``note`` is left out."""
    return add_note(f'{{"ok": true, "data": {data}}}', note)


def add_note(whole: str, note: str) -> str:
    """Add a note to the JSON object, unless it is ""."""
    return f'{whole[:-1]}, "note": {json.dumps(note, ensure_ascii=False)}}}' if note else whole


def _dump(error: ToolError, text: str, details: dict[str, Any]) -> str:
    whole: dict[str, Any] = {"ok": False, "error": text, "errorType": error.error_type}
    if details:
        whole["details"] = details
    return json.dumps(whole, ensure_ascii=False)


def _build_details(error: ToolError, shown: int, verbosity: Verbosity) -> dict[str, Any]:
    match error:
        case InvalidParams(problems) if problems:
            each = [_describe_problem(problem, verbosity) for problem in problems[:shown]]
            return each[0] if len(each) == 1 else {**each[0], "problems": each}
        case UnknownTool():
            meant = f"Did you mean: {format_suggestions(error.suggestions)}?" if error.suggestions else ""
            count = {} if error.count is None else {"count": error.count}  # 0 as well
            return _drop_empty(suggestion=meant, available=[*map(shorten, error.available[:MAX_TOOLS])]) | count
        case NeedsUserInput():
            return _drop_empty(
                parameter=shorten(error.parameter or ""), suggestion=error.details.suggestion or "Ask the user"
            )
        case MalformedCall() if not error.truncated and (position := find_position(error)) is not None:
            return {"line": position[0], "column": position[1]}
        case Unavailable(_, reason) if reason in UNAVAILABLE:
            return {"reason": reason}
        case OutcomeUnknown():
            check = f"Check with {shorten(error.verify_with)}" if error.verify_with else ""
            return _drop_empty(suggestion=" ".join(filter(None, (details_of(error).suggestion, check))))
        case _:
            return {}


def _is_constant(error: ToolError) -> bool:
    """Whether the text does not mention the reason, as for a disabled or paused tool."""
    return isinstance(error, Unavailable) and error.reason not in UNAVAILABLE and not error.message


def _describe_problem(problem: Problem, verbosity: Verbosity) -> dict[str, Any]:
    expected = to_one_line(problem.expected, verbosity.max_expected)
    suggestion = f"Did you mean: {shorten(problem.suggestion)}?" if problem.suggestion else ""
    if problem.rule == "required":
        suggestion = f"Provide {expected or 'a value'}"
        expected = ""
    elif problem.rule == "additionalProperties":
        known = f"The parameters are: {expected}." if expected else ""
        suggestion, expected = f"{known} {suggestion}".strip(), "no other parameters"
    elif is_whole_text(problem):  # the text says it
        expected = ""
    suggestion = suggestion if verbosity.hints else ""
    return _drop_empty(parameter=shorten(problem.path), constraint=expected, suggestion=suggestion)


def _drop_empty(**details: Any) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value}
