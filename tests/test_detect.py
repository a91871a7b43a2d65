"""Detectors: failures in what a tool returned, and the errors made of them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from toolcall_pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    Problem,
    ResourceNotFound,
    SetupError,
    Success,
    TimedOut,
    ToolError,
    ToolRegistry,
    render,
)
from toolcall_pipeline.engine.errors import ERROR_TYPES
from toolcall_pipeline.messages.values import elide_middle
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.privacy import approved
from toolcall_pipeline.tools.detectors import ReturnedError, exit_status, extract_error_text, is_error, returned_error


def failed(text: str, parameter: str | None = None, suggestion: str | None = None) -> ExecutionFailed:
    return ExecutionFailed(
        approved(text), FailureDetails(parameter, None if suggestion is None else approved(suggestion))
    )


def found(text: str, parameter: str | None = None, suggestion: str | None = None) -> ResourceNotFound:
    return ResourceNotFound(
        approved(text), FailureDetails(parameter, None if suggestion is None else approved(suggestion))
    )


def invalid(parameter: str, text: str, suggestion: str | None = None) -> InvalidParams:
    details = FailureDetails(suggestion=None if suggestion is None else approved(suggestion))
    return InvalidParams((Problem(parameter, "validator", approved(text)),), details=details)


def stopped(exit_code: int, *parts: str) -> ExecutionFailed:
    return failed(". ".join((f"Command failed with exit code {exit_code}", *parts)))


@dataclass
class AsDataclass:
    ok: bool
    error: str | None = None


@attrs.frozen
class AsAttrs:
    success: bool
    message: str = ""


class AsModel(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    is_error: bool = Field(alias="isError")
    content: list[dict[str, str]] = []


class AsTuple(NamedTuple):
    ok: bool
    reason: str


PYTHON = sys.executable
FALLBACK = "Tool execution failed"
READ = {"parameter": "path", "value": "/home/ann/private.txt", "suggestion": "Use ls or tree to find available files"}
FAILURES: dict[str, tuple[Any, ToolError]] = {
    # the adapter's payload
    "ok false": ({"ok": False, "error": "File not found: a.txt", "stack": "at x"}, failed("File not found: a.txt")),
    "success false": ({"success": False, "message": "No printer"}, failed("No printer")),
    "error alone": (
        {"error": "Refusing to write outside project root"},
        failed("Refusing to write outside project root"),
    ),
    "nothing said": ({"ok": False}, failed(FALLBACK)),
    "a stack alone": ({"ok": False, "stack": "Error: x\n    at read (read.ts:73)"}, failed(FALLBACK)),
    "blank": ({"ok": False, "error": " \n"}, failed(FALLBACK)),
    # the extractor's keys, in the document's order
    "error first": (
        {"ok": False, "reason": "6", "details": "5", "detail": "4", "message": "3", "stderr": "2", "error": " 1 "},
        failed("1"),
    ),
    "then stderr": (
        {"ok": False, "reason": "6", "details": "5", "detail": "4", "message": "3", "stderr": "2"},
        failed("2"),
    ),
    "then message": ({"ok": False, "reason": "6", "details": "5", "detail": "4", "message": "3"}, failed("3")),
    "then detail": ({"ok": False, "reason": "6", "details": "5", "detail": "4"}, failed("4")),
    "then details": ({"ok": False, "reason": "6", "details": "5"}, failed("5")),
    "then reason": ({"ok": False, "reason": "6", "stdout": "7"}, failed("6")),
    "then stdout": ({"ok": False, "stdout": "7"}, failed("7")),
    "a key that is no text": ({"ok": False, "error": True, "message": 5, "reason": "full"}, failed("full")),
    "nested": ({"error": {"code": 7, "message": "No space"}}, failed("No space")),
    "nested twice": ({"error": {"error": {"reason": "No space"}}}, failed("No space")),
    "nested without text": ({"error": {"code": 7}, "message": "No space"}, failed("No space")),
    "several": ({"error": ["a is wrong", " ", "b is wrong"]}, failed("a is wrong\nb is wrong")),
    "a JavaScript Error as JSON": ({"error": {}}, failed(FALLBACK)),
    "a number": ({"error": 7}, failed(FALLBACK)),
    # commands
    "stderr": ({"exitCode": 1, "stdout": "out", "stderr": "Permission denied\n"}, failed("Permission denied")),
    "stdout only": ({"exitCode": 1, "stdout": "2 tests failed\n", "stderr": ""}, failed("2 tests failed")),
    "silent": ({"exitCode": 2, "stdout": "", "stderr": ""}, failed("Command failed with exit code 2")),
    "snake case": ({"exit_code": -9}, failed("Command failed with exit code -9")),
    "returncode": ({"returncode": 3}, failed("Command failed with exit code 3")),
    "code beside an output": ({"code": 3, "stdout": ""}, failed("Command failed with exit code 3")),
    "a command that says ok": ({"ok": True, "exitCode": 1}, failed("Command failed with exit code 1")),
    "bytes": (subprocess.CompletedProcess("ls", 1, b"", "fehlt: \xe4".encode("latin-1")), failed("fehlt: \ufffd")),
    "text": (subprocess.CompletedProcess(["ls"], 1, "only here", None), failed("only here")),
    # MCP
    "MCP": (
        {
            "isError": True,
            "content": [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "2"}],
        },
        failed("one\n2"),
    ),
    "MCP objects": (SimpleNamespace(isError=True, content=[SimpleNamespace(type="text", text="one")]), failed("one")),
    "a tool_result block": ({"type": "tool_result", "is_error": True, "content": "no"}, failed("no")),
    "MCP without text": ({"isError": True, "content": []}, failed(FALLBACK)),
    # objects
    "a dataclass": (AsDataclass(ok=False, error="no"), failed("no")),
    "a dataclass that says error": (AsDataclass(ok=True, error="no"), failed("no")),
    "attrs": (AsAttrs(success=False, message="no"), failed("no")),
    "pydantic": (AsModel(isError=True, content=[{"type": "text", "text": "no"}]), failed("no")),
    "a named tuple": (AsTuple(ok=False, reason="no"), failed("no")),
    # errorType
    "validation": (
        {
            "ok": False,
            "error": "Missing required parameter: path",
            "errorType": "validation",
            "details": {"parameter": "path", "value": None, "suggestion": "Provide a file path to read"},
        },
        invalid("path", "Missing required parameter: path", "Provide a file path to read"),
    ),
    "validation of the whole": (
        {"ok": False, "error": "Too long!", "errorType": "validation"},
        invalid("", "Too long!"),
    ),
    "not_found": (
        {"ok": False, "error": "File not found: a.txt", "errorType": "not_found", "details": READ},
        found("File not found: a.txt", "path", "Use ls or tree to find available files"),
    ),
    "permission": (
        {"ok": False, "error": "Not yours", "errorType": "permission", "details": {"suggestion": "Ask Ann."}},
        Denied("the tool", approved("Not yours"), FailureDetails(suggestion=approved("Ask Ann."))),
    ),
    "timeout": (
        {"ok": False, "error": "The printer slept", "errorType": "timeout"},
        TimedOut(message=approved("The printer slept")),
    ),
    "execution": (
        {"ok": False, "error": "Failed to read file", "errorType": "execution", "details": READ},
        failed("Failed to read file", "path", "Use ls or tree to find available files"),
    ),
    "another": ({"ok": False, "error": "no", "errorType": "weather"}, failed("no")),
    "in snake case": ({"ok": False, "error": "no", "error_type": "not_found"}, found("no")),
}


@pytest.mark.parametrize(("value", "error"), FAILURES.values(), ids=FAILURES)
def test_failures(value: Any, error: ToolError) -> None:
    """Each shape of a failure gives the error of its kind, with its own text."""
    assert returned_error(value) == error
    assert is_error(value)


SUCCESSES: dict[str, Any] = {
    "error null": {"error": None, "data": [1]},
    "error false": {"error": False},
    "error empty": {"success": True, "error": "", "data": {}},
    "no error": {"error": 0},
    "no errors": {"error": []},
    "ok": {"ok": True, "data": {"path": "a", "content": "ok: false", "size": 1}},
    "success 0": {"success": 0},
    "ok as text": {"ok": "false"},
    "ok null": {"ok": None, "success": None},
    "isError as text": {"isError": "true"},
    "isError 1": {"isError": 1},
    "no MCP error": {"isError": False, "content": [{"type": "text", "text": "error"}]},
    "a command that wrote to stderr": {"exitCode": 0, "stdout": "", "stderr": "warning: old"},
    "still running": SimpleNamespace(returncode=None, stdout=None),
    "exit code true": {"exitCode": True},
    "exit code as text": {"exitCode": "1"},
    "a code of anything": {"code": 404, "message": "what that means"},
    "code 0": {"code": 0, "stderr": "warning"},
    "only a message": {"message": "sent", "detail": "2 of 2", "reason": "asked for"},
    "only an errorType": {"errorType": "validation"},
    "done": subprocess.CompletedProcess("ls", 0, "a\n", ""),
    "a dataclass": AsDataclass(ok=True),
    "text": '{"ok": false}',
    "a list": [{"ok": False}],
    "a number": 1,
    "none": None,
    "a logger, with a method called error": SimpleNamespace(error=print),
    "a mock": Mock(),
}


@pytest.mark.parametrize("value", SUCCESSES.values(), ids=SUCCESSES)
def test_successes(value: Any) -> None:
    """A value is a failure only if it clearly says so: False and not 0, an error and not null."""
    assert returned_error(value) is None
    assert not is_error(value)


TEXTS: dict[str, tuple[Any, str | None, str]] = {
    "top level": ({"error": "inner"}, " outer ", "outer"),
    "blank top level": ({"error": "inner"}, " ", "inner"),
    "text itself": (" boom ", None, "boom"),
    "bytes": (b" boom ", None, "boom"),
    "nothing": ({}, None, FALLBACK),
    "none": (None, None, FALLBACK),
    "exit code": ({"exitCode": 5}, None, "Command failed with exit code 5"),
    "content of what is no failure": ({"content": "a file's"}, None, FALLBACK),
    "an exception": ({"error": ValueError("private")}, None, FALLBACK),
}


@pytest.mark.parametrize(("value", "top_level", "text"), TEXTS.values(), ids=TEXTS)
def test_texts(value: Any, top_level: str | None, text: str) -> None:
    """The text is the first in the document's order, or the document's own if there is none."""
    assert extract_error_text(value, top_level) == text


@pytest.mark.parametrize(
    ("value", "strict", "lenient"),
    [
        ({"exitCode": 1, "stdout": "", "stderr": "no"}, stopped(1, "stderr: no"), None),
        ({"exitCode": 1, "stdout": "1 match"}, stopped(1, "stdout: 1 match"), None),
        ({"exitCode": 0, "error": "old option", "ok": False}, None, None),
        ({"ok": False, "error": "no such command"}, failed("no such command"), failed("no such command")),
        (subprocess.CompletedProcess("diff", 1, "a", ""), stopped(1, "The command was: diff\nstdout: a"), None),
    ],
    ids=["failed", "stdout only", "exit code alone decides", "it never ran", "process"],
)
def test_commands(value: Any, strict: ToolError | None, lenient: ToolError | None) -> None:
    """The exit code alone decides about a command; where it is an answer, a value with one is never a failure."""
    assert exit_status()(value) == strict
    assert exit_status(allow_nonzero_exit=True)(value) == lenient


def test_an_exception_is_as_if_raised() -> None:
    """An exception under ``error`` is a private cause, and a text beside it is told."""
    boom = ValueError("/home/ann")
    bare, explained = returned_error({"error": boom}), returned_error({"error": boom, "message": "No printer"})
    assert isinstance(bare, Crashed)
    assert bare.cause is boom
    assert isinstance(explained, ExecutionFailed)
    assert (explained.cause, explained.message) == (boom, "No printer")


def test_a_time_out_may_have_landed() -> None:
    """The text of a time-out is in its cause, for the log, and whether the call took effect is not known."""
    error = returned_error({"ok": False, "errorType": "timeout", "error": "The printer slept"})
    assert isinstance(error, TimedOut)
    assert (str(error.cause), error.landed) == ("The printer slept", "maybe")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["ok", "success", "error", "isError", "exitCode", "code", "stdout", "message", "content"])
            | st.text(),
            inner,
            max_size=5,
        )
    ),
)


@given(JSON)
def test_any_json(value: Any) -> None:
    """Any JSON is a success, or an error with a text, and all three functions agree."""
    error = returned_error(value)
    assert is_error(value) is (error is not None)
    assert error is None or type(error) in ERROR_TYPES
    assert error is None or render(error)
    assert extract_error_text(value).strip() == extract_error_text(value) != ""


@given(st.dictionaries(st.text().filter(lambda key: key not in ("ok", "success")), JSON))
def test_a_null_error_is_a_success(value: dict[str, Any]) -> None:
    """``{error: null, …}`` is a success, unless another field says that it is a failure."""
    signs = {"isError", "is_error", "exitCode", "exit_code", "returncode", "code"}
    assert returned_error({**{key: inner for key, inner in value.items() if key not in signs}, "error": None}) is None


class Hostile:
    """Raises when any attribute is read."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class HostileText(str):
    __slots__ = ()

    def strip(self, *_: Any) -> str:
        raise RuntimeError("strip")


class HostileList(list[Any]):
    def __len__(self) -> int:
        raise RuntimeError("len")

    def __iter__(self) -> Any:
        raise RuntimeError("iter")


class HostileInt(int):
    def __int__(self) -> int:
        raise RuntimeError("int")

    def __ne__(self, other: object) -> bool:
        raise RuntimeError("ne")


class HostileMapping(dict[str, Any]):
    def get(self, *_: Any) -> Any:
        raise RuntimeError("get")


def cyclic() -> dict[str, Any]:
    ring: dict[str, Any] = {"ok": False}
    ring["error"] = ring
    return ring


def deep(levels: int) -> dict[str, Any]:
    nested: dict[str, Any] = {"message": "far down"}
    for _ in range(levels):
        nested = {"error": nested}
    return nested


ODD: dict[str, tuple[Any, str | None]] = {
    "unreadable": (Hostile(), None),
    "an unreadable mapping": (HostileMapping(ok=False), None),
    "an unreadable error": ({"ok": False, "error": Hostile(), "reason": "full"}, "full"),
    "an unreadable error alone": ({"error": Hostile()}, None),
    "an odd text": ({"error": HostileText(" a ")}, "a"),
    "an odd list": ({"error": HostileList("a")}, FALLBACK),
    "an odd number": ({"error": HostileInt(1)}, FALLBACK),
    "an odd exit code": ({"exitCode": HostileInt(3)}, "Command failed with exit code 3"),
    "odd content": ({"isError": True, "content": [Hostile(), {"text": 1}, "a"]}, "a"),
    "a ring": (cyclic(), FALLBACK),
    "nested": (deep(8), "far down"),
    "too deep": (deep(100_000), FALLBACK),
    "an exit code of no machine": ({"exitCode": 10**5_000}, None),
    "keys that are no text": ({1: 2, "ok": False, None: "x"}, FALLBACK),
    "huge": ({"ok": False, "error": "x" * 10**6}, elide_middle("x" * 10**6, 8_000)),
}


@pytest.mark.parametrize(("value", "text"), ODD.values(), ids=ODD)
def test_odd_values(value: Any, text: str | None) -> None:
    """No value raises: what cannot be read counts as absent, and errors within errors are read to some depth."""
    error = returned_error(value)
    assert (None if text is None else failed(text)) == error


async def test_detectors_in_a_pipeline() -> None:
    """A tool with a detector fails by what it returns, and one without returns a value."""
    tools = ToolRegistry()

    @tools.tool(effect="read", detect=returned_error)
    async def read(path: str) -> dict[str, Any]:
        if path == "a.txt":
            return {"ok": True, "data": {"path": path, "error": "not the tool's"}}
        return {"ok": False, "error": f"File not found: {path}", "errorType": "not_found", "details": READ}

    @tools.tool(effect="read", detect=exit_status())
    def bash(cmd: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PYTHON, "-c", cmd], capture_output=True, text=True, check=False)

    @tools.tool(effect="read", detect=returned_error, reveal=KeyError)
    async def returns_exceptions(error: str) -> dict[str, Any]:
        return {"error": {"key": KeyError("who"), "value": ValueError("secret")}[error]}

    @tools.tool(effect="read")
    async def undeclared() -> dict[str, Any]:
        return {"ok": False}

    pipeline = standard(tools)
    missing = await pipeline.call("read", {"path": "b.txt"})
    assert render(missing) == "Error: File not found: b.txt. Use ls or tree to find available files"
    assert "/home/ann" not in repr(missing)
    assert await pipeline.call("read", {"path": "a.txt"}) == Success({"path": "a.txt", "error": "not the tool's"})
    assert render(await pipeline.call("bash", {"cmd": "print(5); raise SystemExit(3)"})) == (
        "Error: Command failed with exit code 3. The command was: … -c 'print(5); raise SystemExit(3)'\nstdout: 5"
    )
    assert (await pipeline.run(bash, cmd="print('out')")).unwrap().stdout == "out\n"
    assert render(await pipeline.call("returns_exceptions", {"error": "key"})) == "Error: 'who'"
    assert "secret" not in render(await pipeline.call("returns_exceptions", {"error": "value"}))
    assert await pipeline.call("undeclared") == Success({"ok": False})


KINDS: dict[str, tuple[Any, str]] = {
    "configuration": ({"ok": False, "error": "No key", "errorType": "configuration"}, "configuration"),
    "needs_input": ({"ok": False, "error": "Which account?", "errorType": "needs_input"}, "needs_input"),
    "unavailable": ({"ok": False, "error": "Closed", "errorType": "unavailable"}, "unavailable"),
    "transient": ({"ok": False, "error": "Busy", "errorType": "transient"}, "transient"),
    "as Anthropic has it": (
        {"type": "error", "error": {"type": "authentication_error", "message": "x"}},
        "configuration",
    ),
    "as OpenAI has it": (
        {"error": {"message": "x", "type": "invalid_request_error", "code": "invalid_api_key"}},
        "configuration",
    ),
    "a status": ({"error": "x", "status": 401}, "configuration"),
    "a status within": ({"error": {"code": 404, "message": "x"}}, "not_found"),
    "a later status": ({"error": {"code": 503, "message": "x"}}, "transient"),
    "a status as text": ({"error": {"code": "503", "message": "x"}}, "execution"),
    "a code of another kind": ({"error": {"code": -32602, "message": "x"}}, "execution"),
    "the type goes first": ({"error": "x", "errorType": "not_found", "status": 401}, "not_found"),
}


@pytest.mark.parametrize(("value", "kind"), KINDS.values(), ids=KINDS)
def test_the_kind_is_what_the_value_says(value: Any, kind: str) -> None:
    """A failure has the kind that its type names, else the one of its HTTP status."""
    error = returned_error(value)
    assert error is not None
    assert error.kind == kind


def test_who_can_fix_it() -> None:
    """A key that is missing is not asked of the model, and a question goes to the user."""
    key = returned_error({"ok": False, "error": "GITHUB_TOKEN is missing", "errorType": "configuration"})
    question = returned_error(
        {"ok": False, "error": "Which account?", "errorType": "needs_input", "details": {"parameter": "account"}}
    )
    assert key is not None
    assert question is not None
    assert (key.fixable_by, render(key)) == ("operator", "Error: GITHUB_TOKEN is missing")
    assert (question.fixable_by, render(question)) == ("human", "Question: Which account?")


def test_details_are_read() -> None:
    """Parameter, constraint, suggestion and the wait arrive; the value that was sent is not repeated."""
    details = {"parameter": "n", "constraint": "at most 5", "value": "hunter2", "suggestion": "Take 5."}
    error = returned_error({"ok": False, "error": "Too many", "retryAfter": 3, "details": details})
    assert error is not None
    assert (
        render(error)
        == "Error: Too many. Take 5. Try again in 3 seconds.\nDetails: parameter: n; constraint: at most 5"
    )


def test_open_details_stay() -> None:
    """Other texts, numbers and truth values of the details are kept, scrubbed; what is nested or without end is not."""
    details = {"count": 3, "full": True, "hint": "see /etc/passwd", "deep": {"a": 1}, "value": "hunter2", 5: "x"}
    error = returned_error({"ok": False, "error": "Too many", "details": details | {f"k{n}": n for n in range(50)}})
    assert isinstance(error, ExecutionFailed)
    more = dict(error.details.more)
    assert (more["count"], more["full"], "deep" in more, "value" in more) == (3, True, False, False)
    assert "/etc" not in str(more["hint"])
    assert len(more) <= 20
    hidden = ReturnedError(text="hide")({"ok": False, "error": "x", "details": details})
    assert isinstance(hidden, ExecutionFailed)
    assert dict(hidden.details.more) == {}


ENVELOPES: dict[str, tuple[Any, Any]] = {
    "data": ({"ok": True, "data": [1]}, [1]),
    "result": ({"success": True, "result": "done", "error": None}, "done"),
    "nothing": ({"success": True, "data": None}, None),
    "with a message": ({"success": True, "data": 1, "message": "done"}, 1),
    "no payload": ({"ok": True}, {"ok": True}),
    "two payloads": ({"ok": True, "data": 1, "result": 2}, {"ok": True, "data": 1, "result": 2}),
    "more than an envelope": ({"ok": True, "data": 1, "next": 2}, {"ok": True, "data": 1, "next": 2}),
    "no envelope": ({"data": 1}, {"data": 1}),
    "an object": (AsDataclass(ok=True), AsDataclass(ok=True)),
    "text": ("ok", "ok"),
}


@pytest.mark.parametrize(("value", "inner"), ENVELOPES.values(), ids=ENVELOPES)
async def test_a_success_is_taken_out_of_its_envelope(value: Any, inner: Any) -> None:
    """What an envelope of a success holds is the result; what is more than an envelope stays as it is."""
    tools = ToolRegistry()

    @tools.tool(effect="read", detect=returned_error)
    async def ask() -> Any:
        return value

    assert await standard(tools).call("ask") == Success(inner)


STACK = (
    "cannot connect to postgres://admin:hunter2@db-7.internal/main\n"
    "Traceback (most recent call last):\n"
    '  File "/home/ann/app/main.py", line 3, in <module>\n'
    "psycopg.OperationalError: password=hunter2\n"
)
SECRETS = ("hunter2", "/home/ann", "Traceback", "postgres:", "OperationalError", "db-7")
FOREIGN: dict[str, Any] = {
    "stderr": {"exitCode": 1, "stderr": STACK},
    "stdout": {"exitCode": 1, "stdout": STACK},
    "process": subprocess.CompletedProcess(["psql", "postgres://admin:hunter2@db-7.internal"], 1, STACK, STACK),
    "error": {"ok": False, "error": STACK},
    "nested": {"error": {"message": STACK}},
    "content": {"isError": True, "content": [{"type": "text", "text": STACK}]},
    "suggestion": {"ok": False, "error": "no", "details": {"suggestion": STACK, "constraint": STACK}},
    **{
        kind: {"ok": False, "error": STACK, "errorType": kind}
        for kind in ("validation", "timeout", "configuration", "needs_input", "permission")
    },
}


@pytest.mark.parametrize("value", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("make", [ReturnedError, exit_status])
def test_a_foreign_text_is_scrubbed_unless_the_author_approves_it(value: Any, make: Any) -> None:
    """No stack, path, address or password is told by default; "tell" tells the text, and "hide" nothing of it."""
    for detect in (make(), make(text="scrub")):
        for profile in ("default", "structured", "agentopia"):
            text = render(detect(value), profile=profile, verbosity="full")
            assert [secret for secret in SECRETS if secret in text] == []
            assert [secret for secret in SECRETS if secret in repr(detect(value))] == []
    assert "hunter2" in render(make(text="tell")(value))
    hidden = render(make(text="hide")(value))
    assert "connect" not in hidden
    assert hidden


def test_the_outputs_of_a_command_are_told_by_head_and_tail() -> None:
    """Of a long output the first and the last lines are told, of stderr and of stdout, after the exit code."""
    lines = [f"line {number} of many" for number in range(10_000)]
    done = subprocess.CompletedProcess(["make", "all"], 2, "\n".join(lines), "\n".join(map(str.upper, lines)))
    error = exit_status()(done)
    assert isinstance(error, ExecutionFailed)
    assert error.message.startswith("Command failed with exit code 2. The command was: make all\nstderr:\nLINE 0")
    assert [each in error.message for each in ("line 0 of", "line 9999", "LINE 9999", "left out")] == [True] * 4
    assert len(error.message) < 7_000


@pytest.mark.parametrize("make", [ReturnedError, exit_status])
@pytest.mark.parametrize("policy", ["TELL", "", None, []])
def test_a_policy_is_checked(make: Any, policy: Any) -> None:
    """A policy that there is not is a SetupError at once."""
    with pytest.raises(SetupError, match="tell, scrub or hide"):
        make(text=policy)
