"""The default texts: one exhaustive match over ToolError. Nothing private can reach them: no cause is ever read."""

from __future__ import annotations

from typing import assert_never

from ..errors import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    Landed,
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
from .text import NORMAL, Verbosity, assembled, ended, listed, one_line, sayable, short, whole_seconds

MORE = "Error: And {} more of these."
_MOST_SUGGESTIONS = 3  # document 004, section 4.2: "Limited to 3 similar tools max"
_MOST_TOOLS = 100  # Resolve lists 20 at most
_OF_TYPES = frozenset(("type", "enum", "const", "format", "anyOf"))  # which a value of another type breaks too
_FEW_LINES = 10**9  # of a text whose place can be told


def said(error: ToolError, how: Verbosity = NORMAL, room: int | None = None) -> str:  # noqa: C901, PLR0912  # one case a kind
    """What the model is told of an error; never empty. ``room`` is what the problems of a call may take up."""
    match error:
        case UnknownTool():
            return _unknown(error, how)
        case Unavailable():
            return "This tool is not available"  # document 001: for all reasons alike
        case NotExecuted(reason):
            return f"Error: Not executed: {ended(reason)}"
        case MalformedCall():
            return _malformed(error)
        case InvalidParams():
            blocks = list(dict.fromkeys(block_of(problem, how) for problem in error.problems[: how.problems]))
            more = max(0, len(error.problems) - how.problems)
            text = assembled(blocks, how.characters if room is None else room, MORE, more)
            return text or "Error: Invalid parameters."
        case NeedsUserInput(question, parameter):
            text = question if question.startswith("Question:") else f"Question: {question}"
            return _of_parameter(text, parameter, how)
        case ResourceNotFound(message, details):
            return _with_details(f"Error: {message}" if message else "Error: Not found.", details, how)
        case Denied(_, message):
            return f"Error: {message}" if message else "Error: Permission denied."
        case NeedsSetup(service, message):
            return f"Error: {message}" if message else _set_up(service)
        case TimedOut(after, still_running, landed):
            limit = f"within {after:.6g} seconds" if sayable(after) else "in time"
            running = " It may still be running." if how.details and still_running else ""
            return f"Error: The tool did not finish {limit}.{running or _landed(landed, how)}"
        case Transient():
            wait = f" Try again in {whole_seconds(error.retry_after)}." if sayable(error.retry_after) else ""
            return f"Error: The service is temporarily unavailable.{wait}{_landed(error.landed, how)}"
        case ExecutionFailed(message, details):
            return _with_details(f"Error: {message}" if message else "Error: The tool failed.", details, how)
        case OutcomeUnknown():
            check = f"Check with {short(error.verify_with)} before" if error.verify_with else "Check before"
            return f"Error: The call may have taken effect, but its result was lost. {check} repeating it."
        case Crashed():
            return "An unexpected error occurred while executing this tool"
        case _:
            assert_never(error)


def suggestions_of(error: UnknownTool) -> str:
    """The names that may have been meant, or ""."""
    return ", ".join(map(short, error.suggestions[:_MOST_SUGGESTIONS]))


def available_of(error: UnknownTool) -> str:
    """The names that there are, or ""."""
    return listed(error.available, _MOST_TOOLS)


def _unknown(error: UnknownTool, how: Verbosity) -> str:
    lines = [f"Error: Tool '{short(error.requested)}' not found."]
    if error.suggestions:
        lines.append(f"Did you mean: {suggestions_of(error)}?")
    if not how.hints:
        return " ".join(lines)
    if error.available:
        lines.append(f"Available tools: {available_of(error)}")
    lines.append("Please try again with one of the available tools.")
    return "\n".join(lines)


def _malformed(error: MalformedCall) -> str:
    if error.truncated:
        return "Error: The arguments were cut off. Send a smaller payload, or split it over several calls."
    place = place_of(error)
    where = f" at line {place[0]} column {place[1]}" if place else ""
    return f"Error: The arguments are not a JSON object: {error.reason}{where}."


def place_of(error: MalformedCall) -> tuple[int, int] | None:
    """Line and column, where there are any and somebody could find them."""
    return None if error.position is None or max(map(abs, error.position)) > _FEW_LINES else error.position


def block_of(problem: Problem, how: Verbosity) -> str:
    """One problem: its line, and the line that helps where there is one. Terse, it is one line."""
    line = line_of(problem, how)
    hint = hint_of(problem, how)
    if how.hints:
        return f"{line}\n{hint}" if hint else line
    return f"{ended(line)} {_meant(problem)}" if problem.suggestion else line


def line_of(problem: Problem, how: Verbosity) -> str:
    """Which parameter, what is wanted of it, and what came."""
    path = short(problem.path)
    if problem.rule == "required":
        return f"Error: Missing required parameter: {path}"
    if problem.rule == "additionalProperties":
        return f"Error: Unknown parameter: {path}"
    where = f"Error: Invalid parameter value for {path}" if path else "Error: Invalid parameters"
    expected = one_line(problem.expected, how.wanted)
    if problem.rule == "validator":  # the words of the tool's author
        return f"{where}: {expected}"
    return f"{where}: must be {expected}{_came(problem)}"


def hint_of(problem: Problem, how: Verbosity) -> str:
    """How to put it right, or ""."""
    expected = one_line(problem.expected, how.wanted)
    if problem.rule == "required":
        return f"Please send {short(problem.path)}: {ended(expected or 'a value')}"
    if problem.rule == "additionalProperties" and expected:
        known = f"The parameters are: {expected}."
        return f"{known} {_meant(problem)}" if problem.suggestion else known
    return _meant(problem)


def _meant(problem: Problem) -> str:
    return f"Did you mean: {short(problem.suggestion)}?" if problem.suggestion else ""


def _came(problem: Problem) -> str:
    rule, got = problem.rule, short(problem.got)
    if got == "a string" and rule != "type":  # it is one of the wrong value, and that it is a string was right
        return ""
    if got in ("an array", "an object") and rule not in _OF_TYPES:
        return ""
    return f", not {got}" if got else ""


def _set_up(service: str) -> str:
    return f"Error: {short(service)} is not set up. Tell the user; trying again will not help."


def _with_details(text: str, details: FailureDetails, how: Verbosity) -> str:
    return _of_parameter(f"{ended(text)} {details.suggestion}" if details.suggestion else text, details.parameter, how)


def _of_parameter(text: str, parameter: str | None, how: Verbosity) -> str:
    return f"{text}\nThe parameter is {short(parameter)}." if how.details and parameter else text


def _landed(landed: Landed, how: Verbosity) -> str:
    return " It had no effect." if how.details and landed == "no" else ""
