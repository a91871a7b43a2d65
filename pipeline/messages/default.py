"""The default texts: one exhaustive match over ToolError. Nothing private can reach them: no cause is ever read."""

from __future__ import annotations

from typing import assert_never

from typing_extensions import TypeIs

from ..errors import (
    Crashed,
    Denied,
    Details,
    ExecutionFailed,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    OutcomeUnknown,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
)

_LONGEST_NAME = 100  # characters of a name that nothing has: the model knows what it wrote
_MOST_PROBLEMS = 20  # of one call; a list of a thousand wrong items has one cause
_EVER = 10**6  # seconds; who is told of eleven days does not wait
_OF_TYPES = frozenset(("type", "enum", "const", "format", "anyOf"))  # which a value of another type breaks too


def say(error: ToolError) -> str:
    """What the model is told of an error; never empty, and never of what happened inside."""
    return sendable(_said(error))


def sendable(text: str) -> str:
    """The text, with a question mark for each lone surrogate, which no wire could carry."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _said(error: ToolError) -> str:  # noqa: C901, PLR0912  # one case a kind is the whole point
    match error:
        case UnknownTool():
            return _unknown(error)
        case Unavailable():
            return "This tool is not available"
        case NotExecuted(reason):
            return f"Error: Not executed: {_ended(reason)}"
        case MalformedCall():
            return _malformed(error)
        case InvalidParams():
            return _invalid(error)
        case NeedsUserInput(question):
            return f"Question: {question}"
        case ResourceNotFound(message, details):
            return _with_suggestion(f"Error: {message}" if message else "Error: Not found.", details)
        case Denied(_, message):
            return f"Error: {message}" if message else "Error: Permission denied."
        case NeedsSetup(service, message):
            return f"Error: {message}" if message else _set_up(service)
        case TimedOut(after):
            limit = f"within {after:.6g} seconds" if _sayable(after) else "in time"
            return f"Error: The tool did not finish {limit}."
        case Transient():
            return f"Error: The service is temporarily unavailable.{_when(error.retry_after)}"
        case ExecutionFailed(message, details):
            return _with_suggestion(f"Error: {message}" if message else "Error: The tool failed.", details)
        case OutcomeUnknown():
            check = f"Check with {error.verify_with} before" if error.verify_with else "Check before"
            return f"Error: The call may have taken effect, but its result was lost. {check} repeating it."
        case Crashed():
            return "An unexpected error occurred while executing this tool"
        case _:
            assert_never(error)


def _unknown(error: UnknownTool) -> str:
    lines = [f"Error: Tool '{_short(error.requested)}' not found."]
    if error.suggestions:
        lines.append(f"Did you mean: {', '.join(error.suggestions)}?")
    if error.available:
        lines.append(f"Available tools: {', '.join(error.available)}")
    lines.append("Please try again with one of the available tools.")
    return "\n".join(lines)


def _malformed(error: MalformedCall) -> str:
    if error.truncated:
        return "Error: The arguments were cut off. Send a smaller payload, or split it over several calls."
    where = "" if error.position is None else f" at line {error.position[0]} column {error.position[1]}"
    return f"Error: The arguments are not a JSON object: {error.reason}{where}."


def _invalid(error: InvalidParams) -> str:
    text = "\n".join(map(_problem, error.problems[:_MOST_PROBLEMS])) or "Error: Invalid parameters."
    more = len(error.problems) - _MOST_PROBLEMS
    return f"{text}\nError: And {more} more of these." if more > 0 else text


def _problem(problem: Problem) -> str:
    path, expected = _short(problem.path), problem.expected
    if problem.rule == "required":
        return f"Error: Missing required parameter: {path}\nPlease send {path}: {_ended(expected or 'a value')}"
    if problem.rule == "additionalProperties":
        known = f"\nThe parameters are: {expected}." if expected else ""
        return f"Error: Unknown parameter: {path}{known}"
    where = f"Error: Invalid parameter value for {path}" if path else "Error: Invalid parameters"
    if problem.rule == "validator":  # the words of the tool's author
        return f"{where}: {expected}"
    return f"{where}: must be {expected}{_came(problem)}"


def _came(problem: Problem) -> str:
    rule, got = problem.rule, problem.got
    if got == "a string" and rule != "type":  # it is one of the wrong value, and that it is a string was right
        return ""
    if got in ("an array", "an object") and rule not in _OF_TYPES:
        return ""
    return f", not {got}" if got else ""


def _set_up(service: str) -> str:
    return f"Error: {service} is not set up. Tell the user; trying again will not help."


def _with_suggestion(text: str, details: Details) -> str:
    return f"{_ended(text)} {details.suggestion}" if details.suggestion else text


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def _sayable(seconds: float | None) -> TypeIs[float]:
    return seconds is not None and abs(seconds) < _EVER  # neither is NaN, nor infinity


def _when(seconds: float | None) -> str:
    if not _sayable(seconds):
        return ""
    whole = max(1, round(seconds))
    return f" Try again in {whole} second{'' if whole == 1 else 's'}."
