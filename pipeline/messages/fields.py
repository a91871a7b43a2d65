"""What a template can be found by, and filled with, of an error: public words only, each of bounded length."""

from __future__ import annotations

from ..errors import (
    Denied,
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
from .default import available_of, hint_of, line_of, said, suggestions_of
from .templates import About, Facts
from .text import Verbosity, one_line, sayable, short, unmarked, whole_seconds

_NO_NAME = "(no name)"


def about(error: ToolError, problem: Problem | None, tool: str | None) -> About:
    """What a template for that error is found by."""
    rule = parameter = service = ""
    name = tool or ""
    match error:
        case UnknownTool(requested):
            name = requested
        case Unavailable(own, reason):
            name, rule = own or name, reason
        case MalformedCall():
            rule = "truncated" if error.truncated else ""
        case InvalidParams():
            rule, parameter = (problem.rule, problem.path) if problem is not None else ("", "")
        case NeedsUserInput():
            parameter = error.parameter or ""
        case ResourceNotFound() | ExecutionFailed():
            parameter = error.details.parameter or ""
        case NeedsSetup():
            service = error.service
            name = tool or service  # Classify knows no other name for the service than the tool's
            rule = "corrupted" if "corrupt" in error.message.lower() else ""
        case _:
            pass
    return About(error.kind, rule, parameter, name, service)


def facts_of(  # noqa: C901, PLR0912  # one case a kind
    error: ToolError, problem: Problem | None, how: Verbosity, tool: str | None
) -> Facts:
    """What the places of a template are filled with; "" for what is not known."""
    facts = {"tool": short(tool or "")}
    text = said(error, how) if problem is None else line_of(problem, how)
    facts["text"] = unmarked(text)
    match error:
        case UnknownTool():
            facts["tool"] = short(error.requested) or _NO_NAME
            facts["suggestions"], facts["available"] = suggestions_of(error), available_of(error)
        case Unavailable():
            facts["tool"], facts["reason"] = short(error.tool or tool or ""), short(error.reason)
            if sayable(error.retry_after):
                facts["seconds"] = whole_seconds(error.retry_after)
        case NotExecuted(reason) | MalformedCall(reason):
            facts["reason"] = reason
        case NeedsUserInput(question):
            facts["question"], facts["parameter"] = unmarked(question), short(error.parameter or "")
        case ResourceNotFound(message, details) | ExecutionFailed(message, details):
            facts["message"], facts["parameter"] = message, short(details.parameter or "")
            facts["suggestions"] = details.suggestion or ""
        case Denied():
            facts["message"] = error.message
        case NeedsSetup(service, message):
            facts["message"], facts["service"] = message, "" if service == tool else short(service)
        case TimedOut(after):
            facts["seconds"] = f"{after:.6g}" if sayable(after) else ""
        case Transient():
            facts["seconds"] = whole_seconds(error.retry_after) if sayable(error.retry_after) else ""
        case OutcomeUnknown():
            facts["verify_with"] = short(error.verify_with or "")
        case _:
            pass
    if problem is not None:
        facts |= _of_problem(problem, how)
    return facts


def _of_problem(problem: Problem, how: Verbosity) -> dict[str, str]:
    return {
        "parameter": short(problem.path),
        "expected": one_line(problem.expected, how.wanted),
        "got": short(problem.got),
        "suggestions": short(problem.suggestion),
        "hint": hint_of(problem, how),
    }


def is_question(error: ToolError) -> str:
    """The approved text of an error if it is a question already, else ""."""
    text: str = getattr(error, "message", "") or getattr(error, "question", "")
    return text if text.lower().startswith("question:") else ""
