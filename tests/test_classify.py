"""Classify: the table of exceptions."""

from __future__ import annotations

import socket
from http import HTTPStatus
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from returns.result import Failure, Success

from middlewares import Classify
from middlewares.classify import retry_after
from pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    NeedsSetup,
    NeedsUserInput,
    Outcome,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolError,
    ToolFailed,
    Transient,
    Unavailable,
    render,
)
from pipeline.testing import script
from support import a_call, a_tool


class HTTPError(Exception):
    """As httpx, requests and others raise: the status is on a response, or on the exception itself."""

    def __init__(self, status: Any, headers: Any = None, *, direct: bool = False) -> None:
        super().__init__("https://internal.example/secret")
        if direct:
            self.status_code, self.headers = status, headers
        else:
            self.response = type("Response", (), {"status_code": status, "headers": headers})()


async def classified(exc: Exception, **options: Any) -> Any:
    call = a_call(a_tool(**options))
    outcome = await Classify(clock=lambda: 1_000_000_000.0)(call, script(Failure(Crashed(exc))))
    assert isinstance(outcome, Failure)
    return outcome.failure()


BY_TYPE: list[tuple[Exception, ToolError]] = [
    (ConnectionError("secret"), Transient()),
    (ConnectionRefusedError("secret"), Transient()),
    (BrokenPipeError("secret"), Transient()),
    (socket.gaierror(8, "secret"), Transient()),
    (TimeoutError("secret"), TimedOut(None)),
    (PermissionError("secret"), Denied("probe")),
    (FileNotFoundError(2, "secret", "/home/secret"), ResourceNotFound()),
    (IsADirectoryError("secret"), Crashed()),
    (ValueError("secret"), Crashed()),
    (KeyError("secret"), Crashed()),
    (RuntimeError("Missing required parameter: secret"), Crashed()),
    (ExceptionGroup("one", [ConnectionError("secret")]), Transient()),
    (ExceptionGroup("two", [ConnectionError("secret"), ValueError("secret")]), Crashed()),
]
BY_STATUS: list[tuple[Any, ToolError]] = [
    (400, ExecutionFailed()),
    (401, NeedsSetup("probe")),
    (403, Denied("probe")),
    (404, ResourceNotFound()),
    (408, Transient()),
    (410, ResourceNotFound()),
    (418, ExecutionFailed()),
    (422, ExecutionFailed()),
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
async def test_an_exception_is_read_by_its_type(exc: Exception, expected: ToolError) -> None:
    """Built-in exceptions have a kind by their type; what has no word in the table stays a crash."""
    error = await classified(exc)
    assert error == expected
    assert "secret" not in render(error)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(("status", "expected"), BY_STATUS, ids=[repr(row[0]) for row in BY_STATUS])
async def test_an_exception_is_read_by_its_http_status(status: Any, expected: ToolError, direct: bool) -> None:
    """A status on the exception or on its response decides, and neither it nor the text is told to the model."""
    error = await classified(HTTPError(status, direct=direct))
    assert error == expected
    assert "secret" not in render(error)
    assert str(status) not in render(error)


NOW = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT
HEADERS: list[tuple[Any, float | None]] = [
    (None, None),
    ({}, None),
    ({"Retry-After": "7"}, 7.0),
    ({"retry-after": " 7 "}, 7.0),
    ({"Retry-After": "Sun, 09 Sep 2001 01:47:40 GMT"}, 60.0),
    ({"Retry-After": "Sun, 09 Sep 2001 01:45:40 GMT"}, 0.0),
    ({"Retry-After": "soon"}, None),
    ({"Retry-After": "-1"}, None),
    ({"Retry-After": "inf"}, None),
    ({"Retry-After": "٣"}, None),
    (7, None),
]


@pytest.mark.parametrize(("headers", "seconds"), HEADERS, ids=[str(n) for n in range(len(HEADERS))])
async def test_retry_after_is_seconds_or_a_date(headers: Any, seconds: float | None) -> None:
    """Retry-After is a number of seconds or an HTTP date; what is neither is no hint."""
    assert retry_after(headers, lambda: NOW) == seconds
    assert (await classified(HTTPError(503, headers))).retry_after == seconds


AS_TOLD: list[tuple[ToolFailed, ToolError]] = [
    (ToolFailed("no"), ExecutionFailed("no")),
    (ToolFailed("no", suggestion="try b"), ExecutionFailed("no", FailureDetails(suggestion="try b"))),
    (ToolFailed("no", kind="not_found", parameter="a"), ResourceNotFound("no", FailureDetails("a"))),
    (ToolFailed("no", kind="permission"), Denied("probe", "no")),
    (ToolFailed("no", kind="configuration"), NeedsSetup("probe", "no")),
    (ToolFailed("who?", kind="needs_input", parameter="to"), NeedsUserInput("who?", "to")),
    (ToolFailed("no", kind="validation", parameter="a"), InvalidParams((Problem("a", "validator", "no"),))),
    (ToolFailed("no", kind="unavailable", retry_after=3), Unavailable("probe", "busy", 3)),
    (ToolFailed("no", kind="timeout", landed=False), TimedOut(None, landed="no")),
    (ToolFailed("no", kind="transient", retry_after=3, landed=True), Transient(None, 3, "yes")),
]


@pytest.mark.parametrize(("failed", "expected"), AS_TOLD, ids=[row[1].kind + str(n) for n, row in enumerate(AS_TOLD)])
async def test_a_tool_failed_is_what_its_author_says(failed: ToolFailed, expected: ToolError) -> None:
    """ToolFailed becomes the kind that it names, with the text that its author approved."""
    assert await classified(failed) == expected


EXPECTED: list[tuple[Exception, ToolError]] = [
    (KeyError("approved"), ExecutionFailed("'approved'")),
    (FileNotFoundError("approved"), ResourceNotFound("approved")),
    (PermissionError("approved"), Denied("probe", "approved")),
    (HTTPError(404), ResourceNotFound("https://internal.example/secret")),
    (ConnectionError("approved"), Transient()),
]


@pytest.mark.parametrize(("exc", "expected"), EXPECTED, ids=[type(row[0]).__name__ for row in EXPECTED])
async def test_expect_approves_the_text(exc: Exception, expected: ToolError) -> None:
    """An exception that the tool declares keeps its kind, and its text may be shown."""
    assert await classified(exc, reveal=(type(exc),)) == expected
    assert await classified(exc, reveal=Exception) == expected


class Mail(BaseModel):
    to: list[int]


async def test_a_validation_librarys_own_text_is_not_told() -> None:
    """Of a pydantic error in the tool's body the places and messages are told, no class and no link."""
    with pytest.raises(ValidationError) as raised:
        Mail.model_validate({"to": ["x"]})
    error = await classified(raised.value, reveal=ValueError)
    assert render(error).startswith("Error: to.0: Input should be a valid integer")
    assert "Mail" not in render(error)
    assert "http" not in render(error)


async def test_a_private_cause_stays_with_its_error() -> None:
    """What was caught is kept for the log."""
    cause = ConnectionError("secret")
    assert (await classified(cause)).cause is cause
    assert (await classified(PermissionError("x"))).cause is not None


@pytest.mark.parametrize("outcome", [Success(1), Failure(Denied("x")), Failure(Crashed())])
async def test_what_is_judged_already_passes(outcome: Outcome) -> None:
    """An outcome that is no caught exception is given back as it is."""
    assert await Classify()(a_call(), script(outcome)) is outcome
