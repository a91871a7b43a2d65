"""Profiles: each text of the source documents to the byte, with the error that it is told of; and where we part."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from returns.result import Success
from test_messages_cases import PROFILES

from pipeline import (
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
    SetupError,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
)
from pipeline.messages import Profile, render
from pipeline.privacy import Public, approved

NAMES = ("read", "write", "sequential-thinking__sequentialthinking")


def missing(parameter: str, wanted: Public = "a string") -> InvalidParams:
    return InvalidParams((Problem(parameter, "required", wanted),))


def wrong(parameter: str, words: Public, rule: str = "validator") -> InvalidParams:
    return InvalidParams((Problem(parameter, rule, words, "a string"),))


# What the document says, in which profile, of what.
Row = tuple[str, str, ToolError, str | None]
LLMPROC: dict[str, Row] = {
    "not registered": ("This tool is not available", "llmproc", UnknownTool("red", ("read",), NAMES), None),
    "not enabled": ("This tool is not available", "llmproc", Unavailable("read", "disabled"), "read"),
    "paused": ("This tool is not available", "llmproc", Unavailable("read", "paused", 3.0), "read"),
    "missing": ("Error: Missing required parameter: xyz", "llmproc", missing("xyz"), "calculator"),
    "value": (
        "Error: Invalid parameter value for xyz: must be a positive number",
        "llmproc",
        wrong("xyz", "must be a positive number"),
        "calculator",
    ),
    "value by schema": (
        "Error: Invalid parameter value for xyz: must be a positive number",
        "llmproc",
        wrong("xyz", "a positive number", "type"),
        None,
    ),
    "internal": (
        "An unexpected error occurred while executing this tool",
        "llmproc",
        Crashed(ValueError("invalid parameter: password=hunter2")),
        "failing_tool",
    ),
}
RFC015: dict[str, Row] = {
    "not found": (
        (
            "Error: Tool 'sequential-thinking' not found.\n\n"
            "Available tools: read, write, sequential-thinking__sequentialthinking\n\n"
            "Please try again with one of the available tools."
        ),
        "rfc015",
        UnknownTool("sequential-thinking", (), NAMES),
        None,
    ),
    "executing": (
        "Error executing tool 'read': An unexpected error occurred while executing this tool",
        "rfc015",
        Crashed(ValueError("password=hunter2")),
        "read",
    ),
    "executing, approved": (
        "Error executing tool 'read': No such file: a.txt",
        "rfc015",
        ResourceNotFound("No such file: a.txt"),
        "read",
    ),
    "executing, no name": ("Error executing this tool: Permission denied.", "rfc015", Denied("policy"), None),
}
EMAIL_SET_UP = (
    "Question: It looks like the email service needs to be set up. Please ensure your email integration is properly "
    "configured with valid credentials."
)
EMAIL_MISSING = (
    "Question: What email details are missing? Please provide the recipient email address, subject line, and message "
    "content."
)
SEARCH = "Question: What would you like me to search for? Please provide a search query or topic."
SEARCH_SET_UP = (
    "Question: The search service needs to be configured. Please add your web search API key in the integration "
    "settings."
)
AGENTOPIA: dict[str, Row] = {
    "to": (
        "Question: Who should I send this email to? Please provide the recipient email address.",
        "agentopia",
        missing("to"),
        "send_email",
    ),
    "subject": (
        "Question: What should be the subject line of this email?",
        "agentopia",
        missing("subject"),
        "gmail_send",
    ),
    "body": (
        "Question: What message content should I include in the email body?",
        "agentopia",
        missing("body"),
        "smtp_send",
    ),
    "empty body": (
        "Question: What message content should I include in the email body?",
        "agentopia",
        wrong("body", "at least 1 character long", "minLength"),
        "gmail_send",
    ),
    "action": (
        (
            "Question: What email action would you like me to perform? Please specify send_email, read_emails, or "
            "search_emails."
        ),
        "agentopia",
        missing("action"),
        "gmail_api",
    ),
    "params": (
        (
            "Question: What email details would you like me to use? For sending emails, please provide recipient (to), "
            "subject, and message body."
        ),
        "agentopia",
        missing("params"),
        "gmail_api",
    ),
    "agent": (
        "Missing agent context. Please retry with proper agent identification.",
        "agentopia",
        missing("agent_id"),
        "gmail_api",
    ),
    "nothing": (
        "Please provide the required email parameters: action, recipient details, and message content.",
        "agentopia",
        wrong("", "an object of at least 3 entries", "minProperties"),
        "gmail_api",
    ),
    "other details": (EMAIL_MISSING, "agentopia", missing("thread"), "gmail_send"),
    "address": (
        (
            "Question: There seems to be an issue with the email address format. Please check that the recipient email "
            "address is valid."
        ),
        "agentopia",
        wrong("to[1]", "a valid address", "format"),
        "gmail_send",
    ),
    "email, not set up": (EMAIL_SET_UP, "agentopia", NeedsSetup("gmail_send"), "gmail_send"),
    "Gmail": (
        (
            "Question: Your Gmail service needs to be set up. Please ensure your Gmail integration is properly "
            "configured with valid credentials."
        ),
        "agentopia",
        NeedsSetup("Gmail"),
        "gmail_send",
    ),
    "email, by a tool": (
        (
            "Question: Your email service needs to be set up. Please ensure your email integration is properly "
            "configured with valid credentials."
        ),
        "agentopia",
        NeedsSetup("email"),
        "gmail_send",
    ),
    "email, by its name": (
        (
            "Question: The email service needs to be configured. Please connect your email account in the integration "
            "settings."
        ),
        "agentopia",
        NeedsSetup("email"),
        None,
    ),
    "query": (SEARCH, "agentopia", missing("query"), "web_search"),
    "news query": (SEARCH, "agentopia", missing("query"), "news_search"),
    "urls": (
        "Question: Which websites would you like me to scrape and summarize? Please provide one or more URLs.",
        "agentopia",
        missing("urls"),
        "scrape_and_summarize",
    ),
    "no urls": (
        "Question: Which websites would you like me to scrape and summarize? Please provide one or more URLs.",
        "agentopia",
        wrong("urls", "an array of at least 1 item", "minItems"),
        "scrape_and_summarize",
    ),
    "search parameters": (
        (
            "Question: There seems to be an issue with the search parameters. Please provide a clear search query or "
            "valid URLs to scrape."
        ),
        "agentopia",
        wrong("query", "a string", "type"),
        "web_search",
    ),
    "search, not set up": (SEARCH_SET_UP, "agentopia", NeedsSetup("web_search"), "web_search"),
    "search, by its name": (SEARCH_SET_UP, "agentopia", NeedsSetup("Search"), None),
    "no key": (
        (
            "Question: No API key found for Serper. Please add your Serper API key in the integration settings before "
            "I can perform web searches."
        ),
        "agentopia",
        NeedsSetup("Serper"),
        "web_search",
    ),
    "no search key": (
        (
            "Question: No search API key found. Please add your web search API key in the integration settings before "
            "I can perform searches."
        ),
        "agentopia",
        NeedsSetup("search"),
        "web_search",
    ),
    "corrupted": (
        (
            "Question: Your Serper API key appears to be corrupted. Please delete and re-add your Serper credentials "
            "in the integration settings."
        ),
        "agentopia",
        NeedsSetup("Serper", "Its key is corrupted."),
        "web_search",
    ),
    "corrupted search key": (
        (
            "Question: Your search API key appears to be corrupted. Please delete and re-add your search credentials "
            "in the integration settings."
        ),
        "agentopia",
        NeedsSetup("search", "Corrupted: it is a UUID"),
        "web_search",
    ),
    "document": (
        "Question: What content should I include in the document? Please provide the text you want me to write.",
        "agentopia",
        missing("content"),
        "create_document",
    ),
    "file": (
        (
            "Question: Which file would you like me to process? Please provide either a file URL or upload the file "
            "content."
        ),
        "agentopia",
        missing("fileUrl"),
        "process",
    ),
    "pattern, missing": (
        "Question: What city should I use? Please provide a string (Where it is).",
        "agentopia",
        missing("city", "a string (Where it is)"),
        "weather",
    ),
    "pattern, set-up": (
        "Question: Your CRM needs to be set up. Please connect it first.",
        "agentopia",
        NeedsSetup("CRM", "Please connect it first."),
        "find_customer",
    ),
    "pattern, wrong": (
        "Question: There seems to be an issue with city. Please make sure that it is a string.",
        "agentopia",
        wrong("city", "a string", "type"),
        "weather",
    ),
    "pattern, service": (
        (
            "Question: The CRM service needs to be configured. Please add your CRM credentials in the integration "
            "settings."
        ),
        "agentopia",
        NeedsSetup("CRM"),
        "find_customer",
    ),
    "a question already": (
        "Question: Which branch? Please provide its name.",
        "agentopia",
        ExecutionFailed("Question: Which branch? Please provide its name."),
        "push",
    ),
}
INVALID: dict[str, Row] = {
    "suggestions": (
        "Unknown tool: red. Error: there is no such tool. Did you mean: read?",
        "invalid_tool",
        UnknownTool("red", ("read",), NAMES),
        None,
    ),
    "three at most": (
        "Unknown tool: red. Error: there is no such tool. Did you mean: a, b, c?",
        "invalid_tool",
        UnknownTool("red", ("a", "b", "c", "d")),
        None,
    ),
    "list": (
        "Unknown tool: red. Error: there is no such tool. Available tools: a, b",
        "invalid_tool",
        UnknownTool("red", (), ("a", "b")),
        None,
    ),
    "empty list": (
        "Unknown tool: red. Error: there is no such tool, and none has a similar name.",
        "invalid_tool",
        UnknownTool("red"),
        None,
    ),
}
# The documents' strings that we do not tell as they stand, and why.
DEVIATIONS = {
    "Error executing tool '{name}': {str(e)}": (
        "rfc015: our own text stands in place of the exception's, which may hold anything (document 001: hide details)"
    ),
    "Error: Tool 'sequential-thinking' not found. Available tools: sequential-thinking__sequentialthinking": (
        "rfc015: the example prints it in one line, the code with blank lines between; the code is told"
    ),
    "Missing required parameter 'path'. Please provide a file path to read.": (
        "structured: the document has two wordings of one error; the one of its worked example, which is also 001's, "
        "is told"
    ),
    '"value": "nonexistent.txt"': "structured: what the model sent is not repeated, it may be anybody's secret",
    '{ success: false, error: "Question: …" }': (
        "agentopia: the question is the text; that it is an error is said by the message that carries it"
    ),
    "Please provide the required email parameters: action, recipient details, and message content.": (
        "agentopia: unreachable in the document's code; told of arguments with too few entries"
    ),
    "Please provide the correct parameters for ${toolName}. ${error}": (
        "enhance: the error is scrubbed first, since it can hold the status code that the document bans"
    ),
    "Unknown tool: {}. Error: {}": (
        "invalid_tool: the error is ours and holds the suggestions; the document has no text for those"
    ),
}
ALL = {
    f"{profile}: {name}": row
    for profile, table in (("001", LLMPROC), ("000", RFC015), ("003", AGENTOPIA), ("004", INVALID))
    for name, row in table.items()
}


@pytest.mark.parametrize(("text", "profile", "error", "tool"), [pytest.param(*row, id=key) for key, row in ALL.items()])
def test_the_documents_strings_are_told(text: str, profile: str, error: ToolError, tool: str | None) -> None:
    """Each string of a source document is what its profile tells of the error that it is about."""
    assert render(error, profile=profile, tool=tool) == text


def test_a_deviation_says_why() -> None:
    """What is told otherwise than a document has it is told for a reason."""
    assert all(reason.partition(": ")[0] in (*PROFILES, "enhance") for reason in DEVIATIONS.values())
    told = {text for text, *_ in ALL.values()}
    assert [text for text in DEVIATIONS if text in told] == [
        "Please provide the required email parameters: action, recipient details, and message content."
    ]


STRUCTURED: dict[str, tuple[ToolError, dict[str, Any]]] = {
    "missing": (
        missing("path", "a file path to read"),
        {
            "ok": False,
            "error": "Missing required parameter: path",
            "errorType": "validation",
            "details": {"parameter": "path", "suggestion": "Provide a file path to read"},
        },
    ),
    "empty": (
        wrong("path", "File path cannot be empty"),
        {
            "ok": False,
            "error": "Invalid parameter value for path: File path cannot be empty",
            "errorType": "validation",
            "details": {"parameter": "path", "constraint": "File path cannot be empty"},
        },
    ),
    "not found": (
        ResourceNotFound(
            "File not found: nonexistent.txt",
            FailureDetails("path", "Use the ls or tree tool to find available files"),
        ),
        {
            "ok": False,
            "error": "File not found: nonexistent.txt",
            "errorType": "not_found",
            "details": {"parameter": "path", "suggestion": "Use the ls or tree tool to find available files"},
        },
    ),
    "execution": (
        ExecutionFailed("Command failed with exit code 1. stderr: Permission denied"),
        {
            "ok": False,
            "error": "Command failed with exit code 1. stderr: Permission denied",
            "errorType": "execution",
        },
    ),
    "no text": (ExecutionFailed(), {"ok": False, "error": "Tool execution failed", "errorType": "execution"}),
    "permission": (Denied("policy"), {"ok": False, "error": "Permission denied.", "errorType": "permission"}),
    "time-out": (
        TimedOut(3),
        {"ok": False, "error": "The tool did not finish within 3 seconds.", "errorType": "timeout"},
    ),
    "a number is not repeated": (
        InvalidParams((Problem("age", "minimum", "at least 1", "-4111111111111111"),)),
        {
            "ok": False,
            "error": "Invalid parameter value for age: must be at least 1",
            "errorType": "validation",
            "details": {"parameter": "age", "constraint": "at least 1"},
        },
    ),
    "several": (
        InvalidParams((Problem("a", "required", "a string"), Problem("b", "additionalProperties", "a", "1", "a"))),
        {
            "ok": False,
            "error": "Missing required parameter: a; Unknown parameter: b",
            "errorType": "validation",
            "details": {
                "parameter": "a",
                "suggestion": "Provide a string",
                "problems": [
                    {"parameter": "a", "suggestion": "Provide a string"},
                    {
                        "parameter": "b",
                        "constraint": "no other parameters",
                        "suggestion": "The parameters are: a. Did you mean: a?",
                    },
                ],
            },
        },
    ),
    "unknown tool": (
        UnknownTool("red", ("read",), ("read", "write")),
        {
            "ok": False,
            "error": "Tool 'red' not found. Please try again with one of the available tools.",
            "errorType": "not_found",
            "details": {"suggestion": "Did you mean: read?", "available": ["read", "write"]},
        },
    ),
    "malformed": (
        MalformedCall("trailing comma", (1, 8)),
        {
            "ok": False,
            "error": "The arguments are not a JSON object: trailing comma at line 1 column 8.",
            "errorType": "validation",
            "details": {"line": 1, "column": 8},
        },
    ),
    "transient": (
        Transient(retry_after=2.4),
        {
            "ok": False,
            "error": "The service is temporarily unavailable. Try again in 2 seconds.",
            "errorType": "execution",
            "details": {"retryAfter": 2},
        },
    ),
    "question": (
        NeedsUserInput("To whom?", "to"),
        {
            "ok": False,
            "error": "To whom?",
            "errorType": "validation",
            "details": {"parameter": "to", "suggestion": "Ask the user"},
        },
    ),
    "outcome unknown": (
        OutcomeUnknown(None, "list_mail"),
        {
            "ok": False,
            "error": (
                "The call may have taken effect, but its result was lost. Check with list_mail before repeating it."
            ),
            "errorType": "execution",
            "details": {"suggestion": "Check with list_mail"},
        },
    ),
}


@pytest.mark.parametrize(("error", "told"), [pytest.param(*row, id=name) for name, row in STRUCTURED.items()])
def test_the_structured_response(error: ToolError, told: dict[str, Any]) -> None:
    """Document 002's ToolErrorResponse, key by key in its order, without the value that was sent."""
    assert render(error, profile="structured") == json.dumps(told)


def test_structured_says_what_changed_and_shows_an_example() -> None:
    """What other profiles tell in a sentence is a field of the details."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    error = InvalidParams((Problem("a", "required", "an integer"),), sent={}, schema=schema)
    told = json.loads(render(error, profile="structured", previous=error, verbosity="full"))
    assert told["details"]["changed"] == "These are the same arguments as before."
    assert told["details"]["example"] == {"a": 1}


def test_structured_drops_problems_before_it_breaks() -> None:
    """However much there is to say, it is one JSON object within the budget."""
    problems = tuple(Problem(f"p{place}", "enum", approved('"' * 2_000), "null") for place in range(30))
    told = json.loads(render(InvalidParams(problems), profile="structured"))
    assert told["error"].endswith(" more of these.")
    one = json.loads(render(ExecutionFailed(approved("\0" * 9_000)), profile="structured"))
    assert one["ok"] is False
    assert one["error"].endswith("…")


EACH_KIND: tuple[ToolError, ...] = (
    UnknownTool("red", ("read",)),
    Unavailable("read", "paused"),
    NotExecuted("the batch stopped"),
    MalformedCall("trailing comma", (1, 8)),
    missing("to"),
    NeedsUserInput("To whom?"),
    ResourceNotFound(),
    Denied("policy"),
    NeedsSetup("CRM"),
    TimedOut(3),
    Transient(),
    ExecutionFailed(),
    OutcomeUnknown(),
    Crashed(),
)


def test_most_of_agentopias_errors_are_questions() -> None:
    """The document's target: more than 80 % of errors use question format."""
    questions = [error.kind for error in EACH_KIND if render(error, profile="agentopia").startswith("Question: ")]
    assert len({error.kind for error in EACH_KIND}) == 14
    assert len(questions) / len(EACH_KIND) > 0.8


@pytest.mark.parametrize("tool", [None, "gmail_send", "web_search", "other"])
def test_set_up_is_asked_for(tool: str | None) -> None:
    """What only an operator can mend is told as set-up guidance, in the profile for that."""
    for service in ("Gmail", "search", "CRM", tool or "x"):
        text = render(NeedsSetup(approved(service)), profile="agentopia", tool=tool)
        assert text.startswith("Question: ")
        assert "Please " in text


UNAFFECTED = [error for error in EACH_KIND if error.kind not in ("unknown_tool", "validation")]


@pytest.mark.parametrize("error", UNAFFECTED, ids=lambda error: error.kind)
def test_what_a_profile_does_not_word_has_the_default_text(error: ToolError) -> None:
    """A profile is a difference to the default texts, and no more."""
    assert render(error, profile="invalid_tool") == render(error)
    assert render(error, profile="default", tool="read") == render(error)


VALUES = {
    "text": ("a", '{"ok": true, "data": "a"}'),
    "text that is JSON": ('{"a": 1}', '{"ok": true, "data": "{\\"a\\": 1}"}'),
    "nothing": (None, '{"ok": true, "data": null}'),
    "empty": ("", '{"ok": true, "data": ""}'),
    "object": ({"path": "a", "size": 1}, '{"ok": true, "data": {"path": "a", "size": 1}}'),
    "bytes of text": (b"abc", '{"ok": true, "data": "abc"}'),
    "bytes": (b"\xff", '{"ok": true, "data": "(1 bytes of binary data)"}'),
    "odd": (object(), '{"ok": true, "data": "(the result cannot be shown as text)"}'),
    "surrogate": ("\ud800", '{"ok": true, "data": "?"}'),
}


@pytest.mark.parametrize(("value", "told"), [pytest.param(*row, id=name) for name, row in VALUES.items()])
def test_a_structured_success(value: object, told: str) -> None:
    """Document 002's ToolSuccessResponse."""
    assert render(Success(value), profile="structured") == told


def test_a_structured_success_that_is_too_long_is_still_json() -> None:
    """Half of an object would be no JSON: it is cut as text."""
    told = json.loads(render(Success({"a": "x" * 1_000}), profile="structured", limit=200))
    assert "characters left out" in told["data"]
    assert len(told["data"]) <= 200


def test_a_profile_of_ones_own() -> None:
    """A profile is data: a name, templates and flags; what it words is told so, all else by default."""
    mine = Profile("mine", {"internal": "Oops."})
    assert render(Crashed(), profile=mine) == "Oops."
    assert render(TimedOut(), profile=mine) == render(TimedOut())
    assert render(Crashed(), profile=attrs.evolve(mine, json=True)) == (
        '{"ok": false, "error": "Oops.", "errorType": "execution"}'
    )
    assert hash(mine) == hash(Profile("mine"))
    bare = Profile("bare", {"validation": "{parameter}!"}, hints=False)
    assert render(missing("a"), profile=bare) == "a!"
    assert render(missing("a"), profile=attrs.evolve(bare, hints=True)) == "a!\nPlease send a: a string."


@pytest.mark.parametrize("templates", [{"internal": ""}, {"nonsense": "x"}, {"internal": "{cause}"}, 5])
def test_a_profile_that_makes_no_sense_is_refused_when_it_is_made(templates: Any) -> None:
    """Not in the middle of a call."""
    with pytest.raises(SetupError):
        Profile("mine", templates)
