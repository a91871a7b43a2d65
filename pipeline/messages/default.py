"""The default texts: one exhaustive match over ToolError. Nothing private can reach them: no cause is ever read."""

from __future__ import annotations

from typing import assert_never

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

_LONGEST_NAME = 100  # characters of a name that no tool has: the model knows what it wrote


def say(error: ToolError) -> str:  # noqa: C901, PLR0912  # one case a kind is the whole point
    """What the model is told of an error; never empty, and never of what happened inside."""
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
            return "\n".join(map(_problem, error.problems)) or "Error: Invalid parameters."
        case NeedsUserInput(question):
            return f"Question: {question}"
        case ResourceNotFound(message, details):
            return _with_suggestion(f"Error: {message}" if message else "Error: Not found.", details)
        case Denied(_, message):
            return f"Error: {message}" if message else "Error: Permission denied."
        case NeedsSetup(service, message):
            return f"Error: {message}" if message else _set_up(service)
        case TimedOut(after):
            limit = "in time" if after is None else f"within {after:g} seconds"
            return f"Error: The tool did not finish {limit}."
        case Transient():
            when = "" if error.retry_after is None else f" Try again in {_seconds(error.retry_after)}."
            return f"Error: The service is temporarily unavailable.{when}"
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
    name = error.requested
    lines = [f"Error: Tool '{name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + '…'}' not found."]
    if error.suggestions:
        lines.append(f"Did you mean: {', '.join(error.suggestions)}?")
    if error.available:
        lines.append(f"Available tools: {', '.join(error.available)}")
    if error.suggestions or error.available:
        lines.append("Please try again with one of the available tools.")
    return "\n".join(lines)


def _malformed(error: MalformedCall) -> str:
    if error.truncated:
        return "Error: The arguments were cut off. Send a smaller payload, or split it over several calls."
    where = "" if error.position is None else f" at line {error.position[0]} column {error.position[1]}"
    return f"Error: The arguments are not a JSON object: {error.reason}{where}."


def _problem(problem: Problem) -> str:
    path, expected = problem.path, problem.expected
    if problem.rule == "required":
        return f"Error: Missing required parameter: {path}\nPlease send {path}: {_ended(expected or 'a value')}"
    if problem.rule == "additionalProperties":
        known = f"\nThe parameters are: {expected}." if expected else ""
        return f"Error: Unknown parameter: {path}{known}"
    where = f"Error: Invalid parameter value for {path}" if path else "Error: Invalid parameters"
    if problem.rule == "validator":  # the words of the tool's author
        return f"{where}: {expected}"
    came = f", not {problem.got}" if problem.got else ""
    return f"{where}: must be {expected}{came}"


def _set_up(service: str) -> str:
    return f"Error: {service} is not set up. Tell the user; trying again will not help."


def _with_suggestion(text: str, details: Details) -> str:
    return f"{_ended(text)} {details.suggestion}" if details.suggestion else text


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


def _seconds(seconds: float) -> str:
    whole = max(1, round(seconds))
    return f"{whole} second{'' if whole == 1 else 's'}"
