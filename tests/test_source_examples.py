"""The worked examples of the source documents, each through a pipeline: the text comes out byte for byte."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolcall_pipeline import ToolFailed, ToolRegistry, render, returned_error
from toolcall_pipeline.middlewares import standard

ANSWER: list[Any] = [None]  # what the body of the next call returns or raises
TO = "Question: Who should I send this email to? Please provide the recipient email address."
QUERY = "Question: What would you like me to search for? Please provide a search query or topic."
EMAIL_SETUP = (
    "Question: It looks like the email service needs to be set up. "
    "Please ensure your email integration is properly configured with valid credentials."
)
SEARCH_SETUP = (
    "Question: The search service needs to be configured. "
    "Please add your web search API key in the integration settings."
)


def answer() -> Any:
    if isinstance(ANSWER[0], BaseException):
        raise ANSWER[0]
    return ANSWER[0]


def failed(text: str, kind: Any = "validation", **more: Any) -> ToolFailed:
    return ToolFailed(text, kind=kind, **more)


def make_tools() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read", detect=returned_error)
    def read(path: str = "") -> object:
        return answer()

    @tools.tool(effect="read", detect=returned_error)
    def bash(cmd: str = "") -> object:
        return answer()

    @tools.tool(effect="read")
    def calculator(expression: str) -> object:
        return answer()

    @tools.tool(effect="read")
    def gmail_send_email(to: str = "", subject: str = "", body: str = "") -> object:
        return answer()

    @tools.tool(effect="read")
    def web_search(query: Annotated[str, Field(min_length=1)] = "x") -> object:
        return answer()

    @tools.tool(effect="read")
    def scrape_and_summarize(urls: list[str] | None = None) -> object:
        return answer()

    @tools.tool(name="sequential-thinking__sequentialthinking", effect="read")
    def think(thought: str) -> object:
        return answer()

    for name in ("not_enabled", "paused"):
        tools.tool(effect="read", name=name)(lambda: None)
    tools.disable("not_enabled")
    tools.pause("paused")
    return tools


# The profile, the tool, its arguments, what its body returns or raises, and the text of the document.
Example = tuple[str, str, dict[str, Any], Any, str]
NOT_AVAILABLE = "This tool is not available"
GUIDELINES: dict[str, Example] = {
    "not registered": ("llmproc", "non_registered_tool", {}, None, NOT_AVAILABLE),
    "not enabled": ("llmproc", "not_enabled", {}, None, NOT_AVAILABLE),
    "paused": ("llmproc", "paused", {}, None, NOT_AVAILABLE),
    "not enabled, by default": ("default", "not_enabled", {}, None, NOT_AVAILABLE),
    "a missing parameter": ("llmproc", "calculator", {}, None, "Error: Missing required parameter: expression"),
    **{
        f"{words!r} of a tool, {parameter}": ("llmproc", "read", {}, failed(words, parameter=parameter), text)
        for words, text in (
            ("Missing required parameter: xyz", "Error: Missing required parameter: xyz"),
            ("Error: Missing required parameter: xyz", "Error: Missing required parameter: xyz"),
            (
                "Invalid parameter value for xyz: must be a positive number",
                "Error: Invalid parameter value for xyz: must be a positive number",
            ),
            (
                "Error: Invalid parameter value for xyz: must be a positive number",
                "Error: Invalid parameter value for xyz: must be a positive number",
            ),
        )
        for parameter in (None, "xyz")
    },
    "a wrong value, in words": (
        "llmproc",
        "read",
        {},
        failed("must be a positive number", parameter="xyz"),
        "Error: Invalid parameter value for xyz: must be a positive number",
    ),
    "an internal error": (
        "llmproc",
        "read",
        {},
        ValueError("connection to postgres://ada:hunter2@db lost"),
        "An unexpected error occurred while executing this tool",
    ),
}
NAMES = (
    "read, bash, calculator, gmail_send_email, web_search, scrape_and_summarize, "
    "sequential-thinking__sequentialthinking"
)
AGAIN = "Please try again with one of the available tools."
RFC015: dict[str, Example] = {
    "a name without its server": (
        "rfc015",
        "sequential-thinking",
        {},
        None,
        f"Error: Tool 'sequential-thinking' not found.\n\nAvailable tools: {NAMES}\n\n{AGAIN}",
    ),
}


def response(error: str, type_: str, **details: str) -> str:
    return json.dumps({"ok": False, "error": error, "errorType": type_} | ({"details": details} if details else {}))


USE_LS = "Use the ls or tree tool to find available files"
ANALYSIS: dict[str, Example] = {
    "validation, returned": (
        "structured",
        "read",
        {},
        {
            "ok": False,
            "error": "Missing required parameter: path",
            "errorType": "validation",
            "details": {"parameter": "path", "suggestion": "Provide a file path to read"},
        },
        response(
            "Missing required parameter: path", "validation", parameter="path", suggestion="Provide a file path to read"
        ),
    ),
    "validation, raised": (
        "structured",
        "read",
        {},
        failed("Missing required parameter: path", parameter="path", suggestion="Provide a file path to read"),
        response(
            "Missing required parameter: path", "validation", parameter="path", suggestion="Provide a file path to read"
        ),
    ),
    "not found, returned": (
        "structured",
        "read",
        {"path": "nonexistent.txt"},
        {
            "ok": False,
            "error": "File not found: nonexistent.txt",
            "errorType": "not_found",
            "details": {"parameter": "path", "suggestion": USE_LS},
        },
        response("File not found: nonexistent.txt", "not_found", parameter="path", suggestion=USE_LS),
    ),
    "not found, raised": (
        "structured",
        "read",
        {},
        failed("File not found: nonexistent.txt", "not_found", parameter="path", suggestion=USE_LS),
        response("File not found: nonexistent.txt", "not_found", parameter="path", suggestion=USE_LS),
    ),
    "execution": (
        "structured",
        "read",
        {},
        {"ok": False, "error": "Failed to read file: it is a folder", "errorType": "execution"},
        response("Failed to read file: it is a folder", "execution"),
    ),
    "success": (
        "structured",
        "read",
        {},
        {"ok": True, "data": {"path": "a.txt", "content": "a", "size": 1}},
        json.dumps({"ok": True, "data": {"path": "a.txt", "content": "a", "size": 1}}),
    ),
    "a command without output": (
        "structured",
        "bash",
        {},
        {"exitCode": 1, "stdout": "", "stderr": ""},
        response("Command failed with exit code 1", "execution"),
    ),
    "a message without a type": (
        "structured",
        "read",
        {},
        {"success": False, "message": "File not found: a.txt"},
        response("File not found: a.txt", "execution"),
    ),
}
QUESTIONS: dict[str, tuple[str, Any]] = {
    TO: ("gmail_send_email", "to"),
    "Question: What should be the subject line of this email?": ("gmail_send_email", "subject"),
    "Question: What message content should I include in the email body?": ("gmail_send_email", "body"),
    QUERY: ("web_search", "query"),
    "Question: Which websites would you like me to scrape and summarize? Please provide one or more URLs.": (
        "scrape_and_summarize",
        "urls",
    ),
    "Question: There seems to be an issue with the email address format. "
    "Please check that the recipient email address is valid.": ("gmail_send_email", "to"),
    "Question: What content should I include in the document? Please provide the text you want me to write.": (
        "read",
        None,
    ),
    "Question: The email service needs to be configured. "
    "Please connect your email account in the integration settings.": ("gmail_send_email", None),
    EMAIL_SETUP: ("gmail_send_email", None),
    SEARCH_SETUP: ("web_search", None),
}
AGENTOPIA: dict[str, Example] = {
    **{
        f"{kind}: {text}": ("agentopia", tool, {}, failed(text, kind, parameter=parameter), text)
        for text, (tool, parameter) in QUESTIONS.items()
        for kind in ("validation", "needs_input", "configuration", "execution")
        if kind != "configuration" or parameter is None
    },
}
EXAMPLES = GUIDELINES | RFC015 | ANALYSIS | AGENTOPIA


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_each_example_comes_out_byte_for_byte(example: Example) -> None:
    """A tool that says what the document's tool says is told in the words of the document, and in no others."""
    profile, tool, arguments, ANSWER[0], text = example
    assert str(render(standard(make_tools()).call_sync(tool, arguments), profile=profile)) == text


WORDS = ("missing parameter: path", "Required parameter path is missing", "Invalid value for path: no such folder")


@pytest.mark.parametrize("profile", ["default", "llmproc", "structured", "agentopia"])
@pytest.mark.parametrize("words", [*WORDS, "Missing required parameter: path", "Unknown parameter: paht", *QUESTIONS])
@pytest.mark.parametrize("parameter", [None, "path"])
def test_a_whole_sentence_is_said_once(words: str, profile: str, parameter: Any) -> None:
    """An author who names the problem, or asks, is quoted: nothing stands before it that says the same again."""
    ANSWER[0] = failed(words, parameter=parameter)
    text = str(render(standard(make_tools()).call_sync("read", {}), profile=profile))
    assert text.count(words.removeprefix("Question: ")) == 1
    assert "Invalid parameters" not in text
    assert text.count("Invalid parameter value") == words.count("Invalid parameter value")
    assert text.count("Question:") == text.startswith("Question:")
