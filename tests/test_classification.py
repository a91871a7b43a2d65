"""The table of exceptions: what kind of error an exception of a tool is."""

from __future__ import annotations

import socket
from http import HTTPStatus
from typing import Any, cast

import pytest
from pydantic import BaseModel, ValidationError

from support import a_tool
from toolcall_pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    NeedsSetup,
    NeedsUserInput,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolError,
    ToolFailed,
    Transient,
    Unavailable,
    approved,
    render,
)
from toolcall_pipeline.tools.classification import classify, stays_crash
from toolcall_pipeline.tools.client_exceptions import find_meaning

NOW = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT


class HTTPError(Exception):
    """As httpx, requests and others raise it: with the status on a response, or on the exception itself."""

    def __init__(self, status: Any, headers: Any = None, *, direct: bool = False) -> None:
        super().__init__("https://internal.example/secret")
        if direct:
            self.status_code, self.headers = status, headers
        else:
            self.response = type("Response", (), {"status_code": status, "headers": headers})()


def classify_raised(exc: Exception, **options: Any) -> Any:
    return classify(Crashed(exc), a_tool(**options), NOW)


BY_TYPE: list[tuple[Exception, ToolError]] = [
    (ConnectionError("secret"), Transient()),
    (ConnectionRefusedError("secret"), Transient()),
    (BrokenPipeError("secret"), Transient()),
    (socket.gaierror(8, "secret"), Transient()),
    (TimeoutError("secret"), TimedOut(None)),
    (PermissionError("secret"), Denied("probe")),
    (FileNotFoundError(2, "secret", "/home/secret"), ResourceNotFound()),
    (IsADirectoryError("secret"), ExecutionFailed(approved("It is a directory and not a file."))),
    (ValueError("secret"), Crashed()),
    (KeyError("secret"), Crashed()),
    (RuntimeError("Missing required parameter: secret"), Crashed()),
    (ExceptionGroup("one", [ConnectionError("secret")]), Transient()),
    (ExceptionGroup("two", [ConnectionError("secret"), ValueError("secret")]), Crashed()),
]
BY_STATUS: list[tuple[Any, ToolError]] = [
    (400, ExecutionFailed(approved("The service refused these arguments: they are not valid."))),
    (401, NeedsSetup("probe")),
    (403, Denied("probe")),
    (404, ResourceNotFound()),
    (408, Transient()),
    (410, ResourceNotFound()),
    (418, ExecutionFailed()),
    (422, ExecutionFailed(approved("The service refused these arguments: it cannot do what they say."))),
    (425, Transient()),
    (429, Transient()),
    (500, Transient()),
    (503, Transient()),
    (599, Transient()),
    (200, Crashed()),
    (302, Crashed()),
    (600, Crashed()),
    (HTTPStatus.SERVICE_UNAVAILABLE, Transient()),
    ("503", Crashed()),
    (True, Crashed()),
    (None, Crashed()),
]


@pytest.mark.parametrize(("exc", "expected"), BY_TYPE, ids=[f"{n}-{row[0]!r}"[:40] for n, row in enumerate(BY_TYPE)])
def test_an_exception_is_classified_by_its_type(exc: Exception, expected: ToolError) -> None:
    """A built-in exception has the kind of its type, and any other exception stays a crash."""
    error = classify_raised(exc)
    assert error == expected
    assert "secret" not in render(error)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(("status", "expected"), BY_STATUS, ids=[repr(row[0]) for row in BY_STATUS])
def test_an_exception_is_classified_by_its_http_status(status: Any, expected: ToolError, direct: bool) -> None:
    """The status on an exception or its response decides, and the model sees neither status nor text."""
    error = classify_raised(HTTPError(status, direct=direct))
    assert error == expected
    assert "secret" not in render(error)
    assert str(status) not in render(error)


DECLARED: list[tuple[ToolFailed, ToolError]] = [
    (ToolFailed("no"), ExecutionFailed("no")),
    (ToolFailed("no", suggestion="try b"), ExecutionFailed("no", FailureDetails(suggestion="try b"))),
    (ToolFailed("no", kind="not_found", parameter="a"), ResourceNotFound("no", FailureDetails("a"))),
    (ToolFailed("no", kind="permission"), Denied("probe", "no")),
    (ToolFailed("no", kind="configuration"), NeedsSetup("probe", "no")),
    (ToolFailed("who?", kind="needs_input", parameter="to"), NeedsUserInput("who?", "to")),
    (ToolFailed("no", kind="validation", parameter="a"), InvalidParams((Problem("a", "validator", "no"),))),
    (ToolFailed("no", kind="unavailable", retry_after=3), Unavailable("probe", "busy", 3, "no")),
    (ToolFailed("no", kind="timeout", landed=False), TimedOut(None, landed="no", message="no")),
    (ToolFailed("no", kind="transient", retry_after=3, landed=True), Transient(None, 3, "yes", "no")),
]


@pytest.mark.parametrize(("failed", "expected"), DECLARED, ids=[row[1].kind + str(n) for n, row in enumerate(DECLARED)])
def test_a_tool_failed_has_the_kind_that_it_names(failed: ToolFailed, expected: ToolError, caplog: Any) -> None:
    """A ToolFailed becomes the error of its kind, with its text. Nothing is logged about a kind that there is."""
    assert classify_raised(failed) == expected
    assert not caplog.records


@pytest.mark.parametrize("kind", ["bad", "", "Timeout", "unknown_tool", 7, None, [], float("nan")], ids=repr)
def test_a_kind_that_there_is_not_is_told_in_the_log(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is a mistake in the tool, which must not harm the caller: the error is an execution error."""
    assert classify_raised(ToolFailed("no", kind=kind)) == ExecutionFailed("no")
    (record,) = caplog.records
    shown: object = kind if isinstance(kind, str) else type(cast("object", kind))
    assert record.getMessage().startswith(f"Tool 'probe': ToolFailed has no kind {shown!r}; it has: execution, not_")
    assert record.levelname == "ERROR"


REVEALED: list[tuple[Exception, ToolError]] = [
    (KeyError("approved"), ExecutionFailed("'approved'")),
    (FileNotFoundError("approved"), ResourceNotFound("approved")),
    (PermissionError("approved"), Denied("probe", "approved")),
    (HTTPError(404), ResourceNotFound("https://internal.example/secret")),
    (ConnectionError("approved"), Transient(message="approved")),
]


@pytest.mark.parametrize(("exc", "expected"), REVEALED, ids=[type(row[0]).__name__ for row in REVEALED])
def test_reveal_approves_the_text(exc: Exception, expected: ToolError) -> None:
    """An exception that the tool reveals has the same kind, and its text is told."""
    assert classify_raised(exc, reveal=(type(exc),)) == expected
    assert classify_raised(exc, reveal=Exception) == expected


class Mail(BaseModel):
    to: list[int]


def test_a_pydantic_error_is_told_without_names_and_links() -> None:
    """For a pydantic error in a tool's body the model sees paths and messages, but no class and no link."""
    with pytest.raises(ValidationError) as raised:
        Mail.model_validate({"to": ["x"]})
    error = classify_raised(raised.value, reveal=ValueError)
    assert render(error).startswith("Error: to.0: Input should be a valid integer")
    assert "Mail" not in render(error)
    assert "http" not in render(error)


def test_the_exception_is_the_private_cause() -> None:
    """The classified error keeps the exception for the log."""
    cause = ConnectionError("secret")
    assert classify_raised(cause).cause is cause
    assert classify_raised(PermissionError("x")).cause is not None


@pytest.mark.parametrize("cause", [None, ValueError("secret")], ids=["no cause", "unknown"])
def test_a_crash_stays_the_same_object(cause: Exception | None) -> None:
    """A crash that the table does not know is returned as it is."""
    crash = Crashed(cause)
    assert classify(crash, a_tool(), NOW) is crash


class PlainError(Exception):
    """Stands in no table."""


class WithProperty(Exception):
    """Its status is a property."""

    @property
    def status_code(self) -> int:
        """The status."""
        return 503


class Dynamic(Exception):
    """Answers for any attribute."""

    def __getattr__(self, name: str) -> Any:
        if name == "status_code":
            return 503
        raise AttributeError(name)


def with_status(exc: Exception) -> Exception:
    vars(exc)["status_code"] = 503
    return exc


@pytest.mark.parametrize("cls", [PlainError, WithProperty, Dynamic, RuntimeError])
def test_a_crash_that_is_known_says_nothing_of_one_with_a_status(cls: type[Exception]) -> None:
    """However often a class has crashed, an instance of it that has a status means what the status means."""
    tool = a_tool()
    for exc in (cls(), cls()):
        error = Crashed(exc)
        found = classify(error, tool, NOW)
        assert not stays_crash(error, tool) or found is error
    error = Crashed(with_status(cls()) if cls is not WithProperty else cls())
    assert not stays_crash(error, tool)
    assert classify(error, tool, NOW).kind == "transient"


def test_a_crash_stays_one_where_nothing_else_may_decide() -> None:
    """A class that crashed before is known, except where the tool has words or a table of its own for it."""
    crash = Crashed(PlainError())
    classify(crash, a_tool(), NOW)
    assert stays_crash(crash, a_tool())
    assert not stays_crash(crash, a_tool(reveal=PlainError))
    assert not stays_crash(crash, a_tool(errors={PlainError: "transient"}))
    assert not stays_crash(Crashed(), a_tool())
    for exc in (ToolFailed("no"), ExceptionGroup("many", [PlainError()])):
        find_meaning(exc)  # as for the reason of another exception
        assert not stays_crash(Crashed(exc), a_tool())
