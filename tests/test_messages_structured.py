"""The profile `structured`: errors and values as JSON objects of document 002."""

from __future__ import annotations

import json
from typing import Any

import pytest
from returns.result import Success

from toolcall_pipeline import (
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    MalformedCall,
    NeedsUserInput,
    OutcomeUnknown,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
    render,
)
from toolcall_pipeline.privacy import approved

STRUCTURED: dict[str, tuple[ToolError, dict[str, Any]]] = {
    "missing": (
        InvalidParams((Problem("path", "required", "a file path to read"),)),
        {
            "ok": False,
            "error": "Missing required parameter: path",
            "errorType": "validation",
            "details": {"parameter": "path", "suggestion": "Provide a file path to read"},
        },
    ),
    "empty": (
        InvalidParams((Problem("path", "validator", "File path cannot be empty", "a string"),)),
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
    "unknown tool, more than are listed": (
        UnknownTool("red", ("read",), count=21),
        {
            "ok": False,
            "error": "Tool 'red' not found. Please try again with one of the available tools.",
            "errorType": "not_found",
            "details": {"suggestion": "Did you mean: read?", "count": 21},
        },
    ),
    "unknown tool, no tools": (
        UnknownTool("red", count=0),
        {
            "ok": False,
            "error": "Tool 'red' not found. No tools are available.",
            "errorType": "not_found",
            "details": {"count": 0},
        },
    ),
    "rate limited": (
        Unavailable("read", "rate_limited", 12.2),
        {
            "ok": False,
            "error": "This tool is rate limited. Try again in 13 seconds.",
            "errorType": "permission",
            "details": {"reason": "rate_limited", "retryAfter": 13},
        },
    ),
    "busy": (
        Unavailable("read", "busy"),
        {
            "ok": False,
            "error": "This tool is busy. Try again later.",
            "errorType": "permission",
            "details": {"reason": "busy"},
        },
    ),
    "disabled": (
        Unavailable("read", "disabled", 3),
        {"ok": False, "error": "This tool is not available", "errorType": "permission"},
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
            "error": "The service is temporarily unavailable. Try again in 3 seconds.",
            "errorType": "execution",
            "details": {"retryAfter": 3},
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


@pytest.mark.parametrize(("error", "response"), [pytest.param(*row, id=name) for name, row in STRUCTURED.items()])
def test_an_error_is_a_tool_error_response(error: ToolError, response: dict[str, Any]) -> None:
    """An error is document 002's ToolErrorResponse, with its keys in their order, without the value that was sent."""
    assert render(error, profile="structured") == json.dumps(response)


def test_the_change_and_an_example_are_details() -> None:
    """What changed, and the form of valid arguments, are fields of ``details``."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    error = InvalidParams((Problem("a", "required", "an integer"),), sent={}, schema=schema)
    told = json.loads(render(error, profile="structured", previous=error, verbosity="full"))
    assert told["details"]["changed"] == "These are the same arguments as before."
    assert told["details"]["example"] == '{"a": <integer>}'


def test_a_response_is_always_one_object_within_the_budget() -> None:
    """However many and long the problems are, the text is one JSON object within the budget."""
    problems = tuple(Problem(f"p{place}", "enum", approved('"' * 2_000), "null") for place in range(30))
    told = json.loads(render(InvalidParams(problems), profile="structured"))
    assert told["error"].endswith(" more of these.")
    one = json.loads(render(ExecutionFailed(approved("\0" * 9_000)), profile="structured"))
    assert one["ok"] is False
    assert one["error"].endswith("…")


VALUES = {
    "text": ("a", '{"ok": true, "data": "a"}'),
    "text that is JSON": ('{"a": 1}', '{"ok": true, "data": "{\\"a\\": 1}"}'),
    "nothing": (None, '{"ok": true, "data": null}'),
    "empty": ("", '{"ok": true, "data": ""}'),
    "object": ({"path": "a", "size": 1}, '{"ok": true, "data": {"path": "a", "size": 1}}'),
    "bytes of text": (b"abc", '{"ok": true, "data": "abc"}'),
    "bytes": (b"\xff", '{"ok": true, "data": "(1 bytes of binary data)"}'),
    "odd": (object(), '{"ok": true, "data": "(a value of type object, which cannot be shown as text)"}'),
    "surrogate": ("\ud800", '{"ok": true, "data": "?"}'),
}


@pytest.mark.parametrize(("value", "text"), [pytest.param(*row, id=name) for name, row in VALUES.items()])
def test_a_value_is_a_tool_success_response(value: object, text: str) -> None:
    """A value is document 002's ToolSuccessResponse."""
    assert render(Success(value), profile="structured") == text


def test_a_value_that_is_too_long_is_cut_as_text() -> None:
    """A value above the limit becomes a JSON string, because half of an object would not be JSON."""
    told = json.loads(render(Success({"a": "x" * 1_000}), profile="structured", limit=200))
    assert "characters left out" in told["data"]
    assert len(told["data"]) <= 200
