"""The default texts, byte for byte, and for every error that there can be."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure

from error_cases import ERRORS, SECRET
from toolcall_pipeline import (
    AwaitingApproval,
    Call,
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
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
    ToolRegistry,
    Transient,
    Unavailable,
    UnknownTool,
    render,
)
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.engine.errors import ERROR_TYPES
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.privacy import approved

NONE = "If none of them does what you need, do not call a tool: say so.\nThen write a plain answer, without a call."
TEXTS: dict[str, tuple[ToolError, str]] = {
    "unknown tool": (
        UnknownTool("raed"),
        f"Error: Tool 'raed' not found.\n{NONE}",
    ),
    "unknown tool, suggestions": (
        UnknownTool("raed", ("read", "read_all")),
        (
            "Error: Tool 'raed' not found.\n"
            "Did you mean: read, read_all?\n"
            "Please try again with one of the available tools."
        ),
    ),
    "unknown tool, list": (
        UnknownTool("raed", (), ("read", "write")),
        (f"Error: Tool 'raed' not found.\nAvailable tools: read, write\n{NONE}"),
    ),
    "unknown tool, both": (
        UnknownTool("raed", ("read",), ("read", "write")),
        (
            "Error: Tool 'raed' not found.\n"
            "Did you mean: read?\n"
            "Available tools: read, write\n"
            "Please try again with one of the available tools."
        ),
    ),
    "unknown tool, no name": (
        UnknownTool(""),
        (
            "Error: This call has no name of a tool.\n"
            "Call one of the available tools: send its name and its arguments.\n"
            "If you need no tool, write a plain answer, without a call."
        ),
    ),
    "unknown tool, long name": (
        UnknownTool("x" * 101),
        f"Error: Tool '{'x' * 100}…' not found.\n{NONE}",
    ),
    "unknown tool, more than are listed": (
        UnknownTool("raed", ("read",), count=1_200),
        (
            "Error: Tool 'raed' not found.\n"
            "Did you mean: read?\n"
            "There are 1,200 tools in all.\n"
            "Please try again with one of the available tools."
        ),
    ),
    "unknown tool, more than are listed, and none is near": (
        UnknownTool("raed", count=21),
        (f"Error: Tool 'raed' not found.\nThere are 21 tools, and none has a similar name.\n{NONE}"),
    ),
    "unknown tool, no tools": (UnknownTool("raed", count=0), "Error: Tool 'raed' not found.\nNo tools are available."),
    "unavailable": (Unavailable("read", "disabled"), "This tool is not available"),
    "unavailable, for a reason of one's own": (Unavailable("read", "on_strike", 3.0), "This tool is not available"),
    "rate limited": (
        Unavailable("read", "rate_limited", 59.99),
        "Error: This tool is rate limited. Try again in 60 seconds.",
    ),
    "busy": (Unavailable("read", "busy"), "Error: This tool is busy. Try again later."),
    "busy a little longer": (
        Unavailable("read", "busy", 12.3),
        "Error: This tool is busy. Try again in 13 seconds.",
    ),
    "busy for as good as": (Unavailable("read", "busy", 12.04), "Error: This tool is busy. Try again in 12 seconds."),
    "busy for a while": (Unavailable("read", "busy", 0.3), "Error: This tool is busy. Try again in 1 second."),
    "circuit breaker": (
        Unavailable("read", "breaker_open", 30),
        "Error: This tool failed repeatedly and is switched off for a while. Try again in 30 seconds.",
    ),
    "quota": (
        Unavailable("read", "quota", math.inf),
        "Error: The quota of this tool is used up. Try again later.",
    ),
    "server away": (
        Unavailable("read", "disconnected"),
        "Error: The server of this tool is not connected. Try again later.",
    ),
    "held back": (
        Unavailable("read", "changed"),
        "Error: The definition of this tool has changed, and a person has to accept it first. Try again later.",
    ),
    "unlisted": (
        Unavailable("read", "unlisted"),
        "Error: The server of this tool does not list its tools. Try again later.",
    ),
    "unavailable for a while": (Unavailable("read", "paused", 3.0), "This tool is not available"),
    "not executed": (NotExecuted("the batch stopped"), "Error: Not executed: the batch stopped."),
    "not executed, a sentence": (NotExecuted("Plan mode."), "Error: Not executed: Plan mode."),
    "malformed": (
        MalformedCall("trailing comma", (1, 8)),
        "Error: The arguments are not a JSON object: trailing comma at line 1 column 8.",
    ),
    "malformed, no place": (
        MalformedCall("they are an array"),
        "Error: The arguments are not a JSON object: they are an array.",
    ),
    "cut off": (
        MalformedCall("the provider stopped at its length limit", truncated=True),
        "Error: The arguments were cut off. Send a smaller payload, or split it over several calls.",
    ),
    "ended too early": (
        MalformedCall("EOF while parsing a string", (1, 80), truncated=True),
        (
            "Error: The arguments are not a JSON object: they end inside of a text, before the object is complete, "
            "at line 1 column 80."
        ),
    ),
    "missing parameter": (
        InvalidParams((Problem("path", "required", "a string (Where it is)"),)),
        (
            "Error: Missing required parameter: path\n"
            "Please send path: a string (Where it is).\n"
            "Fix the errors and try again."
        ),
    ),
    "missing parameter, nothing known": (
        InvalidParams((Problem("path", "required", ""),)),
        "Error: Missing required parameter: path\nPlease send path: a value.\nFix the errors and try again.",
    ),
    "unknown parameter": (
        InvalidParams((Problem("pth", "additionalProperties", "path, limit", "1"),)),
        "Error: Unknown parameter: pth\nThe parameters are: path, limit.",
    ),
    "unknown parameter, none known": (
        InvalidParams((Problem("pth", "additionalProperties", ""),)),
        "Error: Unknown parameter: pth",
    ),
    "unknown parameter, long": (
        InvalidParams((Problem("x" * 200, "additionalProperties", ""),)),
        f"Error: Unknown parameter: {'x' * 100}…",
    ),
    "author's words": (
        InvalidParams((Problem("count", "validator", "must be a positive number", "-1"),)),
        "Error: Invalid parameter value for count: must be a positive number",
    ),
    "author's words on all": (
        InvalidParams((Problem("", "validator", "too many at once"),)),
        "Error: Invalid parameters: too many at once",
    ),
    "wrong type": (
        InvalidParams((Problem("a.b[1]", "type", "an integer", "a string"),)),
        "Error: Invalid parameter value for a.b[1]: must be an integer, not a string",
    ),
    "limit": (
        InvalidParams((Problem("n", "minimum", "at least 1", "0"),)),
        "Error: Invalid parameter value for n: must be at least 1, not 0",
    ),
    "enum": (
        InvalidParams((Problem("mode", "enum", "'r' or 'w'", "a string"),)),
        "Error: Invalid parameter value for mode: must be 'r' or 'w'",
    ),
    "enum of another type": (
        InvalidParams((Problem("mode", "enum", "'r' or 'w'", "an array"),)),
        "Error: Invalid parameter value for mode: must be 'r' or 'w', not an array",
    ),
    "no repeats": (
        InvalidParams((Problem("ids", "uniqueItems", "an array without repeats", "an array"),)),
        "Error: Invalid parameter value for ids: must be an array without repeats",
    ),
    "several problems": (
        InvalidParams((Problem("a", "required", "a string"), Problem("b", "type", "a number", "true"))),
        (
            "Error: Missing required parameter: a\n"
            "Please send a: a string.\n"
            "Error: Invalid parameter value for b: must be a number, not true\n"
            "Fix the errors and try again."
        ),
    ),
    "several missing parameters": (
        InvalidParams(
            (
                Problem("a", "required", "a string"),
                Problem("b", "type", "a number", "true"),
                Problem("c.d", "required", ""),
                Problem("a", "required", "a string"),
            )
        ),
        (
            "Error: Missing required parameters: a, c.d\n"
            "- a: a string.\n"
            "- c.d: a value.\n"
            "Error: Invalid parameter value for b: must be a number, not true\n"
            "Fix the errors and try again."
        ),
    ),
    "a missing parameter, and what the author advises": (
        InvalidParams((Problem("a", "required", "a string"),), details=FailureDetails(suggestion=approved("Use b."))),
        "Error: Missing required parameter: a\nPlease send a: a string. Use b.",
    ),
    "more problems than one reads": (
        InvalidParams(tuple(Problem(f"a[{place}]", "type", "a number", "null") for place in range(1_000))),
        "\n".join(f"Error: Invalid parameter value for a[{place}]: must be a number, not null" for place in range(20))
        + "\nError: And 980 more of these.",
    ),
    "no problem": (InvalidParams(()), "Error: Invalid parameters."),
    "unknown parameter, suggestion": (
        InvalidParams((Problem("pth", "additionalProperties", "path, limit", "1", "path"),)),
        "Error: Unknown parameter: pth\nThe parameters are: path, limit. Did you mean: path?",
    ),
    "unknown parameter, suggestion only": (
        InvalidParams((Problem("pth", "additionalProperties", "", "1", "path"),)),
        "Error: Unknown parameter: pth\nDid you mean: path?",
    ),
    "enum, suggestion": (
        InvalidParams((Problem("mode", "enum", "'read' or 'write'", "a string", "read"),)),
        "Error: Invalid parameter value for mode: must be 'read' or 'write'\nDid you mean: read?",
    ),
    "a name of several lines": (
        InvalidParams((Problem("a\nError: b", "additionalProperties", ""),)),
        "Error: Unknown parameter: a Error: b",
    ),
    "a description of several lines": (
        InvalidParams((Problem("path", "required", approved("a string (Where\n  it is)")),)),
        (
            "Error: Missing required parameter: path\n"
            "Please send path: a string (Where it is).\n"
            "Fix the errors and try again."
        ),
    ),
    "a description without end": (
        InvalidParams((Problem("path", "required", approved("x" * 3_000)),)),
        f"Error: Missing required parameter: path\nPlease send path: {'x' * 999}….\nFix the errors and try again.",
    ),
    "question": (NeedsUserInput("To whom should I send it?", "to"), "Question: To whom should I send it?"),
    "question, marked": (NeedsUserInput("Question: To whom?"), "Question: To whom?"),
    "question, marked otherwise": (NeedsUserInput("Error: QUESTION: To whom?"), "Question: To whom?"),
    "an error that is a question": (ExecutionFailed("Question: Which branch?"), "Question: Which branch?"),
    "an error that is marked": (ResourceNotFound("error: no such branch"), "error: no such branch"),
    "a refusal that is a question": (Denied("policy", "Question: May I?"), "Question: May I?"),
    "set-up that is a question": (NeedsSetup("mail", "Question: Which account?"), "Question: Which account?"),
    "not found": (ResourceNotFound(), "Error: Not found."),
    "not found, approved": (ResourceNotFound("No such file: a.txt"), "Error: No such file: a.txt"),
    "not found, suggestion": (
        ResourceNotFound("No such file: a.txt", FailureDetails(suggestion="Use ls to find it.")),
        "Error: No such file: a.txt. Use ls to find it.",
    ),
    "not found, suggestion only": (
        ResourceNotFound(details=FailureDetails(suggestion="Use ls to find it.")),
        "Error: Not found. Use ls to find it.",
    ),
    "denied": (Denied("policy"), "Error: Permission denied."),
    "denied, approved": (Denied("policy", "Only admins may do that."), "Error: Only admins may do that."),
    "set-up": (NeedsSetup("mail"), "Error: mail is not set up. Tell the user; trying again will not help."),
    "set-up, approved": (NeedsSetup("mail", "No account is connected."), "Error: No account is connected."),
    "time-out": (TimedOut(30.0), "Error: The tool did not finish within 30 seconds."),
    "time-out, short": (TimedOut(0.5), "Error: The tool did not finish within 0.5 seconds."),
    "time-out, nearly a second": (TimedOut(0.94967), "Error: The tool did not finish within 0.95 seconds."),
    "time-out, a second": (TimedOut(0.9999), "Error: The tool did not finish within 1 second."),
    "time-out, seconds": (TimedOut(1.5), "Error: The tool did not finish within 1.5 seconds."),
    "time-out, many seconds": (TimedOut(61.34), "Error: The tool did not finish within 61 seconds."),
    "time-out, nearly nothing": (TimedOut(1e-9), "Error: The tool did not finish within 0.01 seconds."),
    "time-out, nothing": (TimedOut(0), "Error: The tool did not finish in time."),
    "time-out, before it began": (
        TimedOut(0.0, landed="no"),
        "Error: No time was left for this call, so the tool did not run.",
    ),
    "time-out, of unknown length": (TimedOut(), "Error: The tool did not finish in time."),
    "time-out, in fractions": (TimedOut(1 / 3), "Error: The tool did not finish within 0.33 seconds."),
    "time-out, of days": (TimedOut(604_800), "Error: The tool did not finish within 604800 seconds."),
    "time-out, without end": (TimedOut(math.inf), "Error: The tool did not finish in time."),
    "transient": (Transient(), "Error: The service is temporarily unavailable."),
    "transient, soon": (
        Transient(retry_after=0.2),
        "Error: The service is temporarily unavailable. Try again in 1 second.",
    ),
    "transient, later": (
        Transient(retry_after=30),
        "Error: The service is temporarily unavailable. Try again in 30 seconds.",
    ),
    "transient, never": (Transient(retry_after=math.inf), "Error: The service is temporarily unavailable."),
    "transient, nonsense": (Transient(retry_after=math.nan), "Error: The service is temporarily unavailable."),
    "execution": (ExecutionFailed(), "Error: The tool failed."),
    "execution, a message without end": (ExecutionFailed(approved("x" * 9_000)), f"Error: {'x' * 7_992}…"),
    "unknown tool, more suggestions than one reads": (
        UnknownTool("raed", ("a", "b", "c", "d")),
        "Error: Tool 'raed' not found.\nDid you mean: a, b, c?\nPlease try again with one of the available tools.",
    ),
    "malformed, in a place that nobody finds": (
        MalformedCall("trailing comma", (1, 10**10)),
        "Error: The arguments are not a JSON object: trailing comma.",
    ),
    "execution, approved": (ExecutionFailed("Branch exists"), "Error: Branch exists"),
    "execution, suggestion": (
        ExecutionFailed("Branch exists!", FailureDetails("name", "Choose another name.")),
        "Error: Branch exists! Choose another name.",
    ),
    "outcome unknown": (
        OutcomeUnknown(Transient(SECRET), "list_orders"),
        "Error: The call may have taken effect, but its result was lost. Check with list_orders before repeating it.",
    ),
    "outcome unknown, no way to check": (
        OutcomeUnknown(),
        "Error: The call may have taken effect, but its result was lost. Check before repeating it.",
    ),
    "awaiting approval": (
        AwaitingApproval("apr_1", 1_800_000_000.0),
        (
            "This call waits for a person's decision (apr_1). "
            "Do not send it again; go on with other work, or tell the user."
        ),
    ),
    "awaiting approval, a message of a stage": (AwaitingApproval("apr_1", message="Ask Ann."), "Error: Ask Ann."),
    "internal": (Crashed(SECRET), "An unexpected error occurred while executing this tool"),
}


@pytest.mark.parametrize(("error", "text"), [pytest.param(*row, id=name) for name, row in TEXTS.items()])
def test_each_error_has_its_text(error: ToolError, text: str) -> None:
    """The text for each error is fixed to the byte, and `render` takes the error or its failure."""
    assert render(error) == text
    assert render(Failure(error)) == text


def test_a_text_that_a_tool_keeps_is_the_text_of_its_error() -> None:
    """A message about a wrong type says what `render` says of its error, at the first call and at each later one."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    def wait(seconds: int, beats: int = 0) -> int:
        return seconds + beats

    pipeline = standard(tools)
    many = [each + 0.5 for each in range(70)]  # more than a tool keeps
    values: list[Any] = [None, "soon", [], {}, True, *many, None, "soon", many[0], many[-1]]
    sent: list[dict[str, Any]] = [{"seconds": value} for value in values]
    for more in ({}, {"beats": "two"}):
        for arguments in ({**each, **more} for each in sent):
            outcome = pipeline.call_sync("wait", arguments)
            assert openai.message(Call("wait", arguments, id="1"), outcome)["content"] == render(outcome)


def test_every_kind_has_a_text() -> None:
    """The table above has an entry for each kind of error."""
    assert {type(error) for error, _ in TEXTS.values()} == ERROR_TYPES


@given(ERRORS)
def test_there_is_a_text_for_every_error(error: ToolError) -> None:
    """A text is never empty, holds no private cause, and can be encoded; a pickled error has the same text.

    It has no form of the arguments, for which a pickle would have to hold the schema and what was sent.
    """
    text = render(error)
    assert text.strip()
    assert "hunter2" not in text
    assert text.encode().decode() == text
    kept = attrs.evolve(error, schema=None, sent=None) if isinstance(error, InvalidParams) else error
    assert render(pickle.loads(pickle.dumps(error))) == render(kept)


BROKEN_TOOLS = ToolRegistry()


@BROKEN_TOOLS.tool(effect="read")
def act(x: int = 0) -> None: ...


BROKEN = standard(BROKEN_TOOLS)


@given(
    text=st.text('{}[]":,\\tfnu019.eE-+ x\n\x01d8', max_size=12),
    whole=st.sampled_from(['{"x": 5, "s": ["a", true]}', "{"]),
)
def test_a_parser_is_not_quoted(text: str, whole: str) -> None:
    """What is wrong with a JSON text is said in words for a model, and not in those of the parser."""
    for sent in (text, f"f{text}", whole[: len(text)] + text + whole[len(text) :], whole + text):
        told = str(render(BROKEN.call_sync("act", sent))).partition("\n")[0]
        if told.startswith("Error: The arguments are not a JSON object"):
            assert not re.search("ident|expected|EOF|parsing|surrogate|code point|recursion", told), sent
