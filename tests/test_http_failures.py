"""The status in an exception of any client, and the wait that a service asks for."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import requests
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from client_shapes import (
    GOOGLE_BODY,
    APIConnectionError,
    APIError,
    ApiException,
    APIResponseError,
    ElasticError,
    GithubException,
    HttpError,
    HTTPException,
    HttplibResponse,
    OperationFailure,
    RetryInfo,
    StripeError,
    TransportError,
    XMLSyntaxError,
    google,
)
from support import a_tool
from toolcall_pipeline import Crashed, render
from toolcall_pipeline.tools import classify
from toolcall_pipeline.tools.http_failures import Meaning, read_wait

NOW = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT
DATE, ISO = "Sun, 09 Sep 2001 01:47:40 GMT", "2001-09-09T01:47:40Z"


def classify_raised(exc: BaseException) -> Any:
    return classify(Crashed(exc), a_tool(), NOW)


def of_httpx(status: int, body: Any = None, **headers: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, headers=named, json=body)
    return httpx.HTTPStatusError("hunter2", request=httpx.Request("GET", "http://x"), response=response)


def of_requests(status: int, body: Any = None, **headers: str) -> Exception:
    response = requests.Response()
    response.status_code = status
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    vars(response)["_content"] = json.dumps(body).encode()  # as `Session.send` leaves it
    return requests.HTTPError("hunter2", response=response)


def unread(status: int) -> Exception:
    """A streamed response, whose body would have to be read from the network."""
    response = httpx.Response(status, stream=httpx.ByteStream(b"{}"))
    return httpx.HTTPStatusError("hunter2", request=httpx.Request("GET", "http://x"), response=response)


ODD_WAITS: list[Any] = [None, True, -1, float("nan"), float("inf"), 1e300, "soon", object(), [5], 10**5000]


def within(exc: Exception, outer: Exception) -> Exception:
    """An exception as ``raise outer from None`` makes it, where the first is handled."""
    outer.__context__, outer.__suppress_context__ = exc, True
    return outer


def of_ollama(status: int) -> Exception:
    made: Any = type("ResponseError", (Exception,), {"__module__": "ollama._types", "status_code": status})
    return made("hunter2")  # type: ignore[no-any-return]


def saying(module: str, name: str, **attributes: Any) -> Exception:
    """An exception of a class that stands for a 429."""
    made: Any = type(name, (Exception,), {"__module__": module, **attributes})
    return made("hunter2")  # type: ignore[no-any-return]


# The exception, its kind, and the wait in seconds.
CLIENTS: list[tuple[BaseException, str, float | None]] = [
    (google(HTTPStatus.NOT_FOUND), "not_found", None),
    (google(HTTPStatus.TOO_MANY_REQUESTS, [object(), RetryInfo(7, 500_000_000)]), "transient", 7.5),
    (google(HTTPStatus.SERVICE_UNAVAILABLE), "transient", None),
    (google(HTTPStatus.FORBIDDEN), "permission", None),
    (google(HTTPStatus.UNAUTHORIZED), "configuration", None),
    (google(HTTPStatus.CONFLICT), "execution", None),
    (APIError(429, GOOGLE_BODY), "transient", 23.5),
    (APIError(400, {"error": {"status": "INVALID_ARGUMENT"}}), "execution", None),
    (HttpError(HttplibResponse(403), b"{}"), "permission", None),
    (HttpError(HttplibResponse(429, retry_after="2.5"), b"{}"), "transient", 2.5),
    (HttpError(HttplibResponse(429), json.dumps(GOOGLE_BODY).encode()), "transient", 23.5),
    (HttpError(HttplibResponse(429), b"{}", GOOGLE_BODY["error"]["details"]), "transient", 23.5),
    (HttpError(HttplibResponse(404), b"retryDelay{"), "not_found", None),
    (GithubException(404, {"message": "Not Found"}, {}), "not_found", None),
    (GithubException(403, None, None), "permission", None),
    (GithubException(403, None, {"x-ratelimit-remaining": "4999", "x-ratelimit-reset": "1000000060"}), "permission", 0),
    (GithubException(403, None, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1000000060"}), "transient", 60.0),
    (GithubException(403, None, {"retry-after": "30", "x-ratelimit-remaining": "17"}), "transient", 30.0),
    (GithubException(500, None, {"x-ratelimit-remaining": "17", "x-ratelimit-reset": "1000000060"}), "transient", None),
    (APIResponseError("rate_limited", 429, retry_after="1"), "transient", 1.0),
    (APIResponseError("object_not_found", 404), "not_found", None),
    (APIResponseError("unauthorized", 401), "configuration", None),
    (APIResponseError("validation_error", 400), "execution", None),
    (StripeError(402, code="card_declined"), "execution", None),
    (StripeError(429, {"Retry-After": "0.5"}), "transient", 0.5),
    (StripeError(403), "permission", None),
    (StripeError(None), "internal", None),
    (APIConnectionError(None), "transient", None),
    (HTTPException(403, 50013), "permission", None),
    (HTTPException(404, 10003), "not_found", None),
    (HTTPException(429, retry_after="0.653"), "transient", 0.653),
    (HTTPException(429, x_ratelimit_remaining="0", x_ratelimit_reset_after="1.5"), "transient", 1.5),
    (HTTPException(400, 50035), "execution", None),
    (ApiException(409, urllib3.HTTPHeaderDict({"Retry-After": "1"})), "execution", 1.0),
    (ApiException(429, urllib3.HTTPHeaderDict({"Retry-After": "1"})), "transient", 1.0),
    (ApiException(403), "permission", None),
    (ApiException(0), "internal", None),
    (ApiException("Failure"), "internal", None),
    (of_httpx(429, retry_after_ms="1500", retry_after="9"), "transient", 1.5),
    (of_httpx(429, GOOGLE_BODY), "transient", 23.5),
    (of_httpx(403, retry_after="5"), "transient", 5.0),
    (of_httpx(403, GOOGLE_BODY), "permission", None),
    (unread(429), "transient", None),
    (of_requests(503, retry_after=DATE), "transient", 60.0),
    (of_requests(429, GOOGLE_BODY), "transient", 23.5),
    (of_requests(403, x_ratelimit_remaining="0"), "transient", None),
    (TransportError(), "internal", None),  # its status cannot be read
    (TransportError(503), "transient", None),
    (OperationFailure(425), "internal", None),  # a number of MongoDB, and of no HTTP
    (ElasticError(429, retry_after="2"), "transient", 2.0),
    (ElasticError(403, x_ratelimit_remaining="0", x_ratelimit_reset="30"), "transient", 30.0),
    (ElasticError(404), "not_found", None),
    (within(of_httpx(429, retry_after="2"), of_ollama(429)), "transient", 2.0),
    (within(of_httpx(403, x_ratelimit_remaining="0"), of_ollama(403)), "transient", None),
    (within(of_httpx(429, retry_after="2"), of_ollama(503)), "transient", None),  # of another response
    (saying("qdrant_client.common.client_exceptions", "ResourceExhaustedResponse", retry_after_s=2), "transient", 2.0),
    (saying("discord.errors", "RateLimited", retry_after=61.5), "transient", 61.5),
    (saying("telegram.error", "RetryAfter", retry_after=timedelta(seconds=5)), "transient", 5.0),
    (saying("aiogram.exceptions", "TelegramRetryAfter", retry_after=5), "transient", 5.0),
    (saying("tavily.errors", "UsageLimitExceededError", retry_after_seconds=60), "transient", 60.0),
    (saying("tavily.errors", "UsageLimitExceededError"), "transient", None),
    *((saying("discord.errors", "RateLimited", retry_after=odd), "transient", None) for odd in ODD_WAITS),
    (XMLSyntaxError("hunter2"), "internal", None),
    (SystemExit(404), "internal", None),
]


@pytest.mark.parametrize(
    ("exc", "kind", "wait"), CLIENTS, ids=[f"{n}-{type(exc).__name__}" for n, (exc, _, _) in enumerate(CLIENTS)]
)
def test_a_client_keeps_its_status_where_it_likes(exc: BaseException, kind: str, wait: float | None) -> None:
    """The kind and the wait are found wherever a client keeps them, and nothing of its text is told."""
    error = classify_raised(exc)
    assert error.kind == kind
    asked = getattr(error, "retry_after", None)
    details = getattr(error, "details", None)
    assert (asked if asked is not None else getattr(details, "retry_after", None)) == (wait or None)
    assert "hunter2" not in render(error)


def message(**headers: str) -> HTTPMessage:
    made = HTTPMessage()
    for name, value in headers.items():
        made[name.replace("_", "-")] = value
    return made


HEADERS: list[tuple[Any, float | None]] = [
    (None, None),
    ({}, None),
    ({"Retry-After": "7"}, 7.0),
    ({"RETRY-AFTER": " 7 "}, 7.0),
    ({"retry-after": "1.5"}, 1.5),
    ({b"retry-after": b"1.5"}, 1.5),
    (message(Retry_After="1.5"), 1.5),
    (httpx.Headers({"Retry-After": "1.5"}), 1.5),
    ({"Retry-After": DATE}, 60.0),
    ({"Retry-After": "Sunday, 09-Sep-01 01:47:40 GMT"}, 60.0),
    ({"Retry-After": "Sun Sep  9 01:47:40 2001"}, 60.0),  # without a zone
    ({"Retry-After": "Sun, 09 Sep 2001 01:47:40 -0000"}, 60.0),
    ({"Retry-After": "Sun, 09 Sep 2001 01:45:40 GMT"}, 0.0),
    ({"Retry-After": ISO}, 60.0),
    ({"Retry-After": "soon"}, None),
    ({"Retry-After": "-1"}, None),
    ({"Retry-After": "inf"}, None),
    ({"Retry-After": "1e3"}, None),
    ({"Retry-After": "٣"}, None),
    ({"Retry-After": "9" * 400}, None),
    ({"retry-after-ms": "250"}, 0.25),
    ({"retry-after-ms": "250.5", "retry-after": "1"}, 0.2505),
    ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
    ({"x-ratelimit-reset": "30"}, 30.0),
    ({"x-ratelimit-reset": "1000000030"}, 30.0),
    ({"x-ratelimit-reset": "1000000030000"}, 30.0),
    ({"x-ratelimit-reset": "999999000"}, 999999000.0),
    ({"x-ratelimit-reset": "1m30s"}, 90.0),
    ({"x-ratelimit-reset": "250ms"}, 0.25),
    ({"x-ratelimit-reset": ISO}, 60.0),
    ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1000000030"}, 30.0),
    ({"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "1000000030"}, None),
    ({"RateLimit-Remaining": "0", "RateLimit-Reset": "30"}, 30.0),
    ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "1000000030"}, 30.0),
    ({"x-ratelimit-reset": "30", "retry-after": "2"}, 2.0),
    (7, None),
    ([("retry-after", "7")], None),
]


@pytest.mark.parametrize(("headers", "seconds"), HEADERS, ids=[str(n) for n in range(len(HEADERS))])
def test_headers_say_when_to_come_back(headers: Any, seconds: float | None) -> None:
    """The wait is a number, a date or a duration in one of the headers that services send, and else is unknown."""
    assert read_wait(Meaning("transient", headers), NOW) == seconds


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset"]), st.text()), st.text())
def test_any_header_and_body_is_a_wait_or_none(headers: Mapping[str, str], body: str) -> None:
    """Whatever stands there, the wait is None or a number of seconds that is not negative."""
    source = APIError(429, {"retryDelay": body, "error": {"x": [body]}})
    seconds = read_wait(Meaning("transient", headers, source=source), NOW)
    assert seconds is None or 0 <= seconds < 1e16


DELAYS: list[tuple[Any, float | None]] = [
    ({"retryDelay": "12s"}, 12.0),
    ({"retryDelay": "0.25s"}, 0.25),
    ({"retryDelay": {"seconds": 3}}, None),
    ([[[{"retryDelay": "1s"}]]], 1.0),
    ('{"a": [{"retryDelay": "1s"}]}', 1.0),
    (b'{"a": [{"retryDelay": "1s"}]}', 1.0),
    ("retryDelay", None),
    ([SimpleNamespace(retry_delay=SimpleNamespace(total_seconds=lambda: 2.5))], 2.5),
    ([{"a": {}}] * 10_000 + [{"retryDelay": "1s"}], None),  # too far in
]


@pytest.mark.parametrize(("details", "seconds"), DELAYS, ids=[str(n) for n in range(len(DELAYS))])
def test_a_body_says_when_to_come_back(details: Any, seconds: float | None) -> None:
    """A ``retryDelay`` is found in what a client has kept of a body, which is read within bounds."""
    source = APIError(429, {})
    source.details = details
    assert read_wait(Meaning("transient", source=source), NOW) == seconds


NO_TEXT = "It holds bytes that are no text in the expected encoding."
FILES: list[tuple[str, Callable[[Path], object], str]] = [
    ("a directory is read", lambda path: path.read_text(), "It is a directory and not a file."),
    (
        "a file is listed",
        lambda path: list((path / "a").iterdir()),
        "It is not a directory, or a part of its path is none.",
    ),
    ("made again", lambda path: path.mkdir(), "It exists already."),
    ("not empty", lambda path: path.rmdir(), "The directory is not empty."),
    ("too long a name", lambda path: (path / ("x" * 300)).read_text(), "The name is too long."),
    (
        "bytes",
        lambda path: (path / "a").read_text("utf-8"),
        "It holds bytes that are no text in the expected encoding.",
    ),
    ("a link to itself", lambda path: (path / "loop").read_text(), "Its links lead in a circle."),
    ("copied onto", lambda path: shutil.copytree(path, path), "It exists already."),
]
RAISED: list[tuple[Exception, str]] = [
    (OSError(errno.ENOSPC, "hunter2"), "There is no space left."),
    (OSError(errno.EDQUOT, "hunter2"), "There is no space left."),
    (OSError(errno.EROFS, "hunter2"), "It cannot be changed: its file system is read-only."),
    (OSError(errno.EFBIG, "hunter2"), "The file is too large."),
    (IsADirectoryError("hunter2"), "It is a directory and not a file."),
    (FileExistsError("hunter2"), "It exists already."),
    (NotADirectoryError("hunter2"), "It is not a directory, or a part of its path is none."),
    (
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "hunter2"),
        "It holds bytes that are no text in the expected encoding.",
    ),
]


@pytest.mark.parametrize(("what", "act", "text"), FILES, ids=[each[0] for each in FILES])
def test_a_file_system_that_says_no_is_told(
    what: str, act: Callable[[Path], object], text: str, tmp_path: Path
) -> None:
    """The model is told what is wrong in a fixed text, which holds no path."""
    where = tmp_path / "hunter2"
    where.mkdir()
    (where / "a").write_bytes(b"\xff")
    (where / "loop").symlink_to(where / "loop")
    with pytest.raises((OSError, UnicodeDecodeError)) as raised:
        act(where)
    assert render(classify_raised(raised.value)) == f"Error: {text}", what


@pytest.mark.parametrize(
    ("exc", "text"), RAISED, ids=[f"{n}-{type(each[0]).__name__}" for n, each in enumerate(RAISED)]
)
def test_what_a_tool_raises_like_a_file_system_is_told(exc: Exception, text: str) -> None:
    """The same where a number or a class alone says what is wrong."""
    error = classify_raised(exc)
    assert (error.kind, render(error)) == ("execution", f"Error: {text}")


@pytest.mark.parametrize(
    "exc", [OSError(errno.EIO, "x"), OSError(errno.EMFILE, "x"), ProcessLookupError(), ValueError()]
)
def test_any_other_os_error_is_a_bug(exc: Exception) -> None:
    """A broken disk, too many open files and a process that is gone are nothing that the model can fix."""
    assert classify_raised(exc).kind == "internal"
