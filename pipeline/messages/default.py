"""The default texts: one exhaustive match over ToolError. No cause is ever read, so no private text can leak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from ..engine.errors import (
    AwaitingApproval,
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
from .author_words import add_author_words, message_of
from .closing import Closing, close
from .text import (
    add_prefix,
    as_sentence,
    count_fitting,
    format_count,
    format_seconds,
    format_wait,
    is_known_time,
    join_blocks,
    join_names,
    shorten,
    strip_prefix,
    to_one_line,
    truncate,
)
from .wording import NORMAL, Verbosity

INVALID = "Error: Invalid parameters."  # for an error without a problem
MORE = "Error: And {} more of these."
_PLAIN_ANSWER = "Then write a plain answer, without a call."
_NO_NAME = "Error: This call has no name of a tool."
_HOW_TO_CALL = "Call one of the available tools: send its name and its arguments."
_OR_PLAIN = "If you need no tool, write a plain answer, without a call."
_MAX_SUGGESTIONS = 3
MAX_TOOLS = 1_000  # names in one list; Resolve lists 20 by default
# Why a tool that exists may not be called now, for the reasons that a model can do something about: wait, or go on
# without it. Any other reason, such as "disabled", has one text for all of them.
UNAVAILABLE = {
    "rate_limited": "This tool is rate limited.",
    "busy": "This tool is busy.",
    "breaker_open": "This tool failed repeatedly and is switched off for a while.",
    "quota": "The quota of this tool is used up.",
    "disconnected": "The server of this tool is not connected.",
    "changed": "The definition of this tool has changed, and a person has to accept it first.",
    "unlisted": "The server of this tool does not list its tools.",
}
_QUOTA_OF = {  # by what shares a quota: the call of another tool may have used it up
    "conversation": "The quota of this conversation is used up, and this tool counts in it.",
    "principal": "The quota of tool calls is used up, and this tool counts in it.",
    "turn": "The quota of this reply is used up, and this tool counts in it.",
}
_OF_PARSERS = {  # the beginnings of what parsers say of text that is not JSON, and the words for a model
    "EOF while parsing a string": "they end inside of a text, before the object is complete,",
    "EOF while parsing": "they end before the object is complete,",
    "key must be a string": "a name must be in double quotes",
    "expected value": "a value is missing or is not JSON, which has texts in double quotes, true, false and null",
    "expected ident": "a value is missing or is not JSON, which has texts in double quotes, true, false and null",
    "number out of range": "a number is too large",
    "recursion limit": "they are nested too deeply",
    "trailing characters": "more text follows after the object",
    "expected `:`": "a colon is missing after a name",
    "expected `,` or `}`": "a comma or } is missing",
    "expected `,` or `]`": "a comma or ] is missing",
    "control character": "a line end or another control character in a text must be written as an escape, such as \\n",
    "invalid escape": "a backslash in a text must be doubled",
    "lone leading surrogate": "an escape with \\u in a text is not complete",
    "unexpected end of hex escape": "an escape with \\u in a text is not complete",
    "invalid unicode code point": "an escape with \\u in a text is not complete",
    "invalid number": "a number is not written as in JSON",
}
_EXPLAINED = ("required", "additionalProperties")  # the rules whose line of help says what is expected
_RULES_OF_FORM = frozenset(("type", "enum", "const", "format", "anyOf"))  # a value of the wrong type violates these too
_WHOLE = (
    "missing required",
    "missing parameter",
    "required parameter",
    "invalid parameter",
    "invalid value for",
    "unknown parameter",
    "there seems to be an issue",
)  # how our own texts begin, and those of the source documents
_MAX_LINE = 10**9  # a larger number helps no reader


def default_text(error: ToolError, verbosity: Verbosity = NORMAL) -> str:
    """Return the text of an error that no profile or template has a text for. Never empty."""
    closing = close(error, verbosity)
    end = f"\n{closing.line}" if closing.line else ""
    return default_body(error, verbosity, verbosity.characters - len(end), closing) + end


def default_body(error: ToolError, verbosity: Verbosity, room: int, closing: Closing) -> str:
    """The default text without its closing line, of at most so many characters."""
    return truncate(add_author_words(_build_text(error, verbosity, room, closing), error), room)


def _build_text(  # noqa: C901, PLR0912  # by kind
    error: ToolError, verbosity: Verbosity, room: int, closing: Closing
) -> str:
    match error:
        case InvalidParams() if len(error.problems) == 1:  # as with most
            return describe_problem(error.problems[0], verbosity, closing)
        case InvalidParams():
            shown = error.problems[: verbosity.max_problems]
            missing, others = split_missing(shown)
            blocks = [describe_missing(missing, verbosity, closing)] if missing else []
            blocks += dict.fromkeys([describe_problem(problem, verbosity, closing) for problem in others])
            return join_blocks(blocks, room, MORE, len(error.problems) - len(shown)) or INVALID
        case UnknownTool():
            return _describe_unknown_tool(error, verbosity)
        case Unavailable() if error.message:
            return add_prefix(error.message)
        case Unavailable():
            return _describe_unavailable(error)
        case NotExecuted(reason):
            return f"Error: Not executed: {as_sentence(reason)}"
        case MalformedCall():
            return _describe_malformed(error)
        case NeedsUserInput(question, parameter):
            return _add_parameter(f"Question: {strip_prefix(question)}", parameter, verbosity)
        case ResourceNotFound(message):
            return _add_details(add_prefix(message or "Not found."), error.details, verbosity)
        case Denied(_, message):
            return add_prefix(message or "Permission denied.")
        case AwaitingApproval(id_, _, message):
            fixed = f"This call waits for a person's decision ({shorten(id_)})."
            next_step = "Do not send it again; go on with other work, or tell the user."
            return add_prefix(message) if message else f"{fixed} {next_step}"
        case NeedsSetup(service, message):
            fixed = f"{shorten(service)} is not set up. Tell the user; trying again will not help."
            return add_prefix(message or fixed)
        case TimedOut() | Transient() if error.message:
            return f"{add_prefix(error.message)}{_describe_effect(error.landed, verbosity)}"
        case TimedOut(0, landed="no"):  # its caller had none left
            return "Error: No time was left for this call, so the tool did not run."
        case TimedOut(after, still_running, landed):
            limit = f"within {format_seconds(after)}" if is_known_time(after) and after > 0 else "in time"
            running = " It may still be running." if verbosity.details and still_running else ""
            return f"Error: The tool did not finish {limit}.{running or _describe_effect(landed, verbosity)}"
        case Transient():
            wait = f" Try again in {format_wait(error.retry_after)}." if is_known_time(error.retry_after) else ""
            effect = _describe_effect(error.landed, verbosity)
            return f"Error: The service is temporarily unavailable.{wait}{effect}"
        case ExecutionFailed(message):
            return _add_details(add_prefix(message or "The tool failed."), error.details, verbosity)
        case OutcomeUnknown():
            check = f"Check with {shorten(error.verify_with)} before" if error.verify_with else "Check before"
            unknown = f"The call may have taken effect, but its result was lost. {check} repeating it."
            message = message_of(error)
            return f"Error: {as_sentence(message)} {unknown}" if message else f"Error: {unknown}"
        case Crashed():
            return "An unexpected error occurred while executing this tool"
        case _:
            assert_never(error)


def format_suggestions(names: Sequence[str]) -> str:
    """Return the names that the model may have meant, or ""."""
    return join_names(names[:_MAX_SUGGESTIONS], _MAX_SUGGESTIONS)


def format_available(error: UnknownTool) -> str:
    """Return the names that the model may choose from; of too many, the nearest ones and the number of the others.

    "" if there are none, or if there are too many and none is near.
    """
    if error.available or not error.count or not error.suggestions:
        return join_names(error.available, MAX_TOOLS)
    nearest = error.suggestions[:_MAX_SUGGESTIONS]
    more = error.count - len(nearest)
    return f"{format_suggestions(nearest)} and {more:,} more" if more > 0 else format_suggestions(nearest)


def find_position(error: MalformedCall) -> tuple[int, int] | None:
    """Return line and column of the mistake; None if they are unknown or too large to help."""
    return None if error.position is None or max(map(abs, error.position)) > _MAX_LINE else error.position


def describe_problem(problem: Problem, verbosity: Verbosity, closing: Closing) -> str:
    """Describe one problem: its line, then the line of help if there is one. A terse text puts both on one line."""
    line = state_problem(problem, verbosity)
    if closing.describes and problem.rule == "required":
        return line
    if verbosity.hints:
        hint = explain_fix(problem, verbosity)
        return f"{line}\n{hint}" if hint else line
    return f"{as_sentence(line)} {_ask_if_meant(problem)}" if problem.suggestion else line


def split_missing(problems: Sequence[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Separate missing parameters from other problems; a single missing one counts as another problem."""
    if len(problems) == 1:
        return [], list(problems)
    missing = [problem for problem in problems if problem.rule == "required"]
    if len(missing) <= 1:
        return [], list(problems)
    return missing, [problem for problem in problems if problem.rule != "required"]


def describe_missing(problems: Sequence[Problem], verbosity: Verbosity, closing: Closing) -> str:
    """Describe all missing parameters in one block: their names, then a line for each that fits into half of the room.

    If the last line of the text describes them, only the names. With a block for each of them, a small model sent the
    same call again in 11 of 12 cases; with one block, in 3 of 9.
    """
    room = verbosity.characters // 2
    each = dict.fromkeys(
        (shorten(problem.path), to_one_line(problem.expected, verbosity.max_expected)) for problem in problems
    )
    names = [name for name, _ in each]
    lines: list[str] = []
    fitting = count_fitting(names, room, 2)
    more = f" and {len(names) - fitting} more" if fitting < len(names) else ""
    if verbosity.hints and not closing.describes:
        lines = [f"- {name}: {as_sentence(expected or 'a value')}" for name, expected in each]
    head = f"Error: Missing required parameters: {', '.join(names[:fitting])}{more}"
    return "\n".join([head, *lines[: count_fitting(lines, room, 1)]])


def state_problem(problem: Problem, verbosity: Verbosity) -> str:
    """Say which parameter is wrong, what is expected, and what was sent."""
    path = shorten(problem.path)
    if problem.rule == "required":
        return f"Error: Missing required parameter: {path}"
    if problem.rule == "additionalProperties":
        return f"Error: Unknown parameter: {path}"
    where = f"Error: Invalid parameter value for {path}" if path else "Error: Invalid parameters"
    expected = to_one_line(problem.expected, verbosity.max_expected)
    if problem.rule == "validator":  # a sentence of the tool's author
        return add_prefix(expected) if is_whole_text(problem) else f"{where}: {expected}"
    return f"{where}: must be {expected}{_describe_got(problem)}"


def is_whole_text(problem: Problem) -> bool:
    """Whether an author's sentence is all that a text says: "Missing required parameter: path", or a question."""
    if problem.rule != "validator":
        return False
    words = str(problem.expected)
    return words.lower().startswith("question:") or strip_prefix(words).lower().startswith(_WHOLE)


def explain_fix(problem: Problem, verbosity: Verbosity) -> str:
    """Say how to correct a problem; "" if its line says it all."""
    if problem.rule not in _EXPLAINED:
        return _ask_if_meant(problem)
    expected = to_one_line(problem.expected, verbosity.max_expected)
    if problem.rule == "required":
        return f"Please send {shorten(problem.path)}: {as_sentence(expected or 'a value')}"
    if expected:
        known = f"The parameters are: {expected}."
        return f"{known} {_ask_if_meant(problem)}" if problem.suggestion else known
    return _ask_if_meant(problem)


def _describe_unknown_tool(error: UnknownTool, verbosity: Verbosity) -> str:
    named = bool(error.requested.strip())
    lines = [f"Error: Tool '{shorten(error.requested)}' not found." if named else _NO_NAME]
    if error.count == 0:
        lines.append("No tools are available.")
    elif error.suggestions:
        lines.append(f"Did you mean: {format_suggestions(error.suggestions)}?")
    if not verbosity.hints:
        return " ".join(lines)
    if error.available:
        lines.append(f"Available tools: {format_available(error)}")
    elif error.count:
        number = f"There {'is' if error.count == 1 else 'are'} {format_count(error.count, 'tool')}"
        lines.append(f"{number} in all." if error.suggestions else f"{number}, and none has a similar name.")
    if error.suggestions:
        lines.append("Please try again with one of the available tools.")
    elif error.count != 0 and not named:
        lines += (_HOW_TO_CALL, _OR_PLAIN)
    elif error.count != 0:  # asked to try again here, a small model called any tool; "say so" alone made it call "say"
        lines += ("If none of them does what you need, do not call a tool: say so.", _PLAIN_ANSWER)
    return "\n".join(lines)


def _describe_unavailable(error: Unavailable) -> str:
    why, wait = UNAVAILABLE.get(error.reason), error.retry_after
    if why is None:
        return "This tool is not available"
    if error.quota_of == "turn":
        when = "Try again in your next reply."
    elif is_known_time(wait):
        when = f"Try again in {format_wait(wait)}."
    else:
        when = "Do not call it again." if error.quota_of else "Try again later."
    return f"Error: {_QUOTA_OF.get(error.quota_of, why)} {when}"


def _describe_malformed(error: MalformedCall) -> str:
    position = find_position(error)
    if error.truncated and position is None:  # the provider says so; a parser knows only where the text ends
        return "Error: The arguments were cut off. Send a smaller payload, or split it over several calls."
    where = f" at line {position[0]} column {position[1]}" if position else ""
    words = next((words for start, words in _OF_PARSERS.items() if error.reason.startswith(start)), error.reason)
    return f"Error: The arguments are not a JSON object: {words}{where}."


def _ask_if_meant(problem: Problem) -> str:
    return f"Did you mean: {shorten(problem.suggestion)}?" if problem.suggestion else ""


def _describe_got(problem: Problem) -> str:
    rule, got = problem.rule, shorten(problem.got)
    if got == "a string" and rule != "type":  # its type is right, so naming it would mislead
        return ""
    if got in ("an array", "an object") and rule not in _RULES_OF_FORM:
        return ""
    if got == "empty":
        return ", and is empty"
    return f", not {got}" if got else ""


def _add_details(text: str, details: FailureDetails, verbosity: Verbosity) -> str:
    if details.suggestion:
        text = f"{as_sentence(text)} {details.suggestion}"
    return _add_parameter(text, details.parameter, verbosity)


def _add_parameter(text: str, parameter: str | None, verbosity: Verbosity) -> str:
    return f"{text}\nThe parameter is {shorten(parameter)}." if verbosity.details and parameter else text


def _describe_effect(landed: Landed, verbosity: Verbosity) -> str:
    return " It had no effect." if verbosity.details and landed == "no" else ""
