"""Profiles: each text of the source documents, byte for byte, with its error; and where we differ from them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from error_cases import EACH_KIND, PROFILES
from toolcall_pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    NeedsSetup,
    Problem,
    ResourceNotFound,
    SetupError,
    TimedOut,
    ToolError,
    ToolFailed,
    ToolRegistry,
    Unavailable,
    UnknownTool,
)
from toolcall_pipeline.messages import Profile, render
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.privacy import Public, approved

NAMES = ("read", "write", "sequential-thinking__sequentialthinking")


def missing(parameter: str, wanted: Public = "a string") -> InvalidParams:
    return InvalidParams((Problem(parameter, "required", wanted),))


def wrong(parameter: str, words: Public, rule: str = "validator") -> InvalidParams:
    return InvalidParams((Problem(parameter, rule, words, "a string"),))


# The text of the document, the profile, the error and the tool's name.
Row = tuple[str, str, ToolError, str | None]
LLMPROC: dict[str, Row] = {
    "not registered": ("This tool is not available", "llmproc", UnknownTool("red", ("read",), NAMES), None),
    "not enabled": ("This tool is not available", "llmproc", Unavailable("read", "disabled"), "read"),
    "paused": ("This tool is not available", "llmproc", Unavailable("read", "paused", 3.0), "read"),
    "rate limited": ("This tool is not available", "llmproc", Unavailable("read", "rate_limited", 3.0), "read"),
    "no tools": ("This tool is not available", "llmproc", UnknownTool("red", count=0), None),
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
    "more than are listed": (
        (
            "Error: Tool 'raed' not found.\n\nAvailable tools: read, real and 1,198 more\n\n"
            "Please try again with one of the available tools."
        ),
        "rfc015",
        UnknownTool("raed", ("read", "real"), count=1_200),
        None,
    ),
    "more than are listed, and none is near": (
        (
            "Error: Tool 'raed' not found.\n\nAvailable tools: 21, none with a similar name\n\n"
            "Please try again with one of the available tools."
        ),
        "rfc015",
        UnknownTool("raed", count=21),
        None,
    ),
    "no tools": (
        "Error: Tool 'raed' not found.\n\nNo tools are available.",
        "rfc015",
        UnknownTool("raed", count=0),
        None,
    ),
    "rate limited": (
        "Error executing tool 'read': This tool is rate limited. Try again in 60 seconds.",
        "rfc015",
        Unavailable("read", "rate_limited", 60.0),
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
    "unknown tool, more than are listed": (
        (
            "Question: Which tool would you like me to use? There is no tool named 'raed'. Did you mean: read (of 21 "
            "tools)?"
        ),
        "agentopia",
        UnknownTool("raed", ("read",), count=21),
        None,
    ),
    "unknown tool, more than are listed, and none is near": (
        (
            "Question: Which tool would you like me to use? There is no tool named 'raed', and of 21 tools none has a "
            "similar name."
        ),
        "agentopia",
        UnknownTool("raed", count=21),
        None,
    ),
    "unknown tool, no tools": (
        "Question: How would you like me to go on? There is no tool named 'raed', and no tools are available.",
        "agentopia",
        UnknownTool("raed", count=0),
        None,
    ),
    "rate limited": (
        "Question: Should I try again in 60 seconds? This tool is rate limited.",
        "agentopia",
        Unavailable("search", "rate_limited", 60.0),
        None,
    ),
    "busy": (
        "Question: Should I try again later? This tool is busy.",
        "agentopia",
        Unavailable("search", "busy"),
        None,
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
    "more than are listed": (
        "Unknown tool: red. Error: there is no such tool. Did you mean: read (of 21 tools)?",
        "invalid_tool",
        UnknownTool("red", ("read",), count=21),
        None,
    ),
    "more than are listed, and none is near": (
        "Unknown tool: red. Error: there is no such tool. Available tools: 21, none with a similar name",
        "invalid_tool",
        UnknownTool("red", count=21),
        None,
    ),
    "no tools": (
        "Unknown tool: red. Error: there is no such tool, and no tools are available.",
        "invalid_tool",
        UnknownTool("red", count=0),
        None,
    ),
    "empty list": (
        "Unknown tool: red. Error: there is no such tool, and none has a similar name.",
        "invalid_tool",
        UnknownTool("red"),
        None,
    ),
}
# Strings of the documents that no profile has as they stand, and why.
DEVIATIONS = {
    "Error executing tool '{name}': {str(e)}": (
        "rfc015: our text replaces that of the exception, which may hold anything (document 001: hide details)"
    ),
    "Error: Tool 'sequential-thinking' not found. Available tools: sequential-thinking__sequentialthinking": (
        "rfc015: the example prints one line, the code puts blank lines between; the profile follows the code"
    ),
    "Missing required parameter 'path'. Please provide a file path to read.": (
        "structured: the document has two texts for one error; the profile has that of its worked example, which "
        "is also the text of document 001"
    ),
    '"value": "nonexistent.txt"': "structured: what the model sent is not repeated, because it may be anybody's secret",
    '{ success: false, error: "Question: …" }': (
        "agentopia: the question is the whole text; the message around it says that it is an error"
    ),
    "Please provide the required email parameters: action, recipient details, and message content.": (
        "agentopia: unreachable in the document's code; the profile has it for arguments with too few entries"
    ),
    "Please provide the correct parameters for ${toolName}. ${error}": (
        "enhance: the error is scrubbed first, because it can hold the status code that the document bans"
    ),
    "Unknown tool: {}. Error: {}": (
        "invalid_tool: the error text is ours, with the suggestions; the document has no text for those"
    ),
}
ALL = {
    f"{profile}: {name}": row
    for profile, table in (("001", LLMPROC), ("000", RFC015), ("003", AGENTOPIA), ("004", INVALID))
    for name, row in table.items()
}


@pytest.mark.parametrize(("text", "profile", "error", "tool"), [pytest.param(*row, id=key) for key, row in ALL.items()])
def test_each_string_of_a_document_is_rendered(text: str, profile: str, error: ToolError, tool: str | None) -> None:
    """The profile of a source document renders each of its strings for the error that the string is about."""
    assert render(error, profile=profile, tool=tool) == text


def test_each_deviation_has_a_reason() -> None:
    """Each string that differs from its document names the profile and the reason."""
    assert all(reason.partition(": ")[0] in (*PROFILES, "enhance") for reason in DEVIATIONS.values())
    rendered = {text for text, *_ in ALL.values()}
    assert [text for text in DEVIATIONS if text in rendered] == [
        "Please provide the required email parameters: action, recipient details, and message content."
    ]


def test_most_errors_of_agentopia_are_questions() -> None:
    """The Agentopia document wants more than 80 % of errors in question form."""
    questions = [error.kind for error in EACH_KIND if render(error, profile="agentopia").startswith("Question: ")]
    assert len(questions) / len(EACH_KIND) > 0.8


@pytest.mark.parametrize("tool", [None, "gmail_send", "web_search", "other"])
def test_agentopia_asks_for_set_up(tool: str | None) -> None:
    """For a service that is not set up, the profile ``agentopia`` has a question with guidance."""
    for service in ("Gmail", "search", "CRM", tool or "x"):
        text = render(NeedsSetup(approved(service)), profile="agentopia", tool=tool)
        assert text.startswith("Question: ")
        assert "Please " in text


UNAFFECTED = [error for error in EACH_KIND if error.kind not in ("unknown_tool", "validation")]


@pytest.mark.parametrize("error", UNAFFECTED, ids=lambda error: error.kind)
def test_an_error_without_a_template_has_the_default_text(error: ToolError) -> None:
    """A profile changes only the texts that it has templates for."""
    assert render(error, profile="invalid_tool") == render(error)
    assert render(error, profile="default", tool="read") == render(error)


def test_a_custom_profile() -> None:
    """A profile is data: a name, templates and flags. An error without a template has the default text."""
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
def test_a_bad_profile_is_refused_when_it_is_made(templates: Any) -> None:
    """A profile with a bad template raises SetupError at once, and not during a call."""
    with pytest.raises(SetupError):
        Profile("mine", templates)


@pytest.mark.parametrize("profile", ["default", "llmproc", "rfc015", "structured", "invalid_tool"])
def test_an_author_who_says_all_is_not_said_twice(profile: str) -> None:
    """The sources' own example, "Missing required parameter: path", comes out as it is, also from a tool's author."""
    problem = Problem("path", "validator", approved("Missing required parameter: path"))
    text = render(InvalidParams((problem,)), profile=profile)
    assert text.count("Missing required parameter: path") == 1
    assert "Invalid parameter value" not in text


OF_AUTHORS = {
    "Missing required parameter: path": "Question: Missing required parameter: path",
    "Error: Invalid parameter value for path: must be relative": (
        "Question: Invalid parameter value for path: must be relative"
    ),
    "There seems to be an issue with path.": "Question: There seems to be an issue with path.",
    "Question: Which path do you mean?": "Question: Which path do you mean?",
    "The path is absolute. Which one should I use?": "Question: The path is absolute. Which one should I use?",
    "must be relative": "Question: There seems to be an issue with path. Please correct it: must be relative",
}


@pytest.mark.parametrize(("words", "text"), OF_AUTHORS.items(), ids=OF_AUTHORS)
def test_a_question_says_once_what_is_wrong(words: str, text: str) -> None:
    """In the form of a question an author's words stand for ours, where they say by themselves what is wrong."""
    problem = Problem("path", "validator", approved(words))
    assert render(InvalidParams((problem,)), profile="agentopia").splitlines()[0] == text


@pytest.mark.parametrize("kind", ["validation", "execution", "not_found", "permission", "needs_input", "configuration"])
@pytest.mark.parametrize("words", ["Question: Which path?", "Which path?", "It is absolute. Which path do you mean?"])
def test_a_question_of_an_author_is_asked_alone(kind: Any, words: str) -> None:
    """Whatever the kind, no question of ours stands before the author's."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    def probe() -> None:
        raise ToolFailed(words, kind=kind)

    text = render(standard(tools).call_sync("probe"), profile="agentopia").splitlines()[0]
    assert text == f"Question: {words.removeprefix('Question: ')}"
