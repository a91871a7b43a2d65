"""Exceptions of clients by their names: those of the standard library, and those that other packages have."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import sqlite3
import ssl
import subprocess
import sys
import types
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest
import requests
import urllib3.exceptions

from support import a_tool
from toolcall_pipeline import Crashed, ToolRegistry, render
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.tools import classify, client_exceptions
from toolcall_pipeline.tools.client_exceptions import MEANINGS, find_meaning


def caused(exc: Exception, cause: BaseException) -> Exception:
    exc.__cause__ = cause
    return exc


def in_context(exc: Exception, context: BaseException) -> Exception:
    exc.__context__ = context
    return exc


def ring() -> Exception:
    exc = httpx.ConnectError("x")
    exc.__cause__ = caused(httpx.ConnectError("y"), exc)
    return exc


CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")
BY_EXCEPTION: list[tuple[Exception, str]] = [
    (TimeoutError(), "timeout"),
    (TimeoutError(), "timeout"),
    (socket.gaierror(8, "x"), "transient"),
    (ConnectionResetError(), "transient"),
    (OSError(errno.EHOSTUNREACH, "x"), "transient"),
    (OSError(errno.ENETUNREACH, "x"), "transient"),
    (OSError(errno.ENOSPC, "x"), "execution"),
    (OSError("Multiple exceptions: [Errno 111] Connect call failed"), "transient"),
    (OSError("something else"), "internal"),
    (asyncio.IncompleteReadError(b"", 5), "transient"),
    (anyio.BrokenResourceError(), "transient"),
    (anyio.EndOfStream(), "transient"),
    (anyio.ClosedResourceError(), "internal"),
    (http.client.RemoteDisconnected(""), "transient"),
    (http.client.IncompleteRead(b""), "transient"),
    (http.client.InvalidURL(), "internal"),
    (urllib.error.URLError(ConnectionRefusedError()), "transient"),
    (urllib.error.URLError(TimeoutError()), "timeout"),
    (urllib.error.URLError(CERTIFICATE), "configuration"),
    (urllib.error.HTTPError("x", 403, "x", http.client.HTTPMessage(), None), "permission"),
    (CERTIFICATE, "configuration"),
    (ssl.SSLEOFError(8, "x"), "transient"),
    (subprocess.TimeoutExpired("x", 5), "timeout"),
    (subprocess.CalledProcessError(3, "x"), "execution"),
    (httpx.ConnectTimeout("x"), "timeout"),
    (httpx.PoolTimeout("x"), "timeout"),
    (httpx.WriteError("x"), "transient"),
    (httpx.RemoteProtocolError("x"), "transient"),
    (httpx.LocalProtocolError("x"), "internal"),
    (httpx.ProxyError("x"), "transient"),
    (httpx.UnsupportedProtocol("x"), "internal"),
    (httpx.TooManyRedirects("x"), "execution"),
    (httpx.InvalidURL("x"), "internal"),
    (caused(httpx.ConnectError("x"), CERTIFICATE), "configuration"),
    (in_context(httpx.ConnectError("x"), CERTIFICATE), "transient"),  # of an earlier request
    (ring(), "transient"),
    (requests.exceptions.ConnectTimeout(), "timeout"),
    (requests.exceptions.SSLError(urllib3.exceptions.SSLError(CERTIFICATE)), "configuration"),
    (requests.exceptions.JSONDecodeError("x", "x", 0), "internal"),
    (requests.exceptions.InvalidURL("x"), "internal"),
    (ExceptionGroup("g", [httpx.ConnectError("x"), ConnectionResetError()]), "transient"),
    (ExceptionGroup("g", [httpx.ConnectError("x"), httpx.ReadTimeout("x")]), "internal"),
    (ExceptionGroup("g", [ExceptionGroup("h", [httpx.ReadTimeout("x")])]), "timeout"),
]


@pytest.mark.parametrize(
    ("exc", "kind"), BY_EXCEPTION, ids=[f"{n}-{exc!r}"[:60] for n, (exc, _) in enumerate(BY_EXCEPTION)]
)
def test_an_exception_has_the_kind_of_its_row(exc: Exception, kind: str) -> None:
    """An exception has the kind of its class, and never says that nothing happened."""
    error = classify(Crashed(exc), a_tool(effect="mutating"), 0.0)
    assert error.kind == kind
    assert getattr(error, "landed", "maybe") == "maybe"


def make(module: str, name: str, base: type[Exception] = Exception, **attributes: Any) -> Exception:
    """An exception of a package that is not installed."""
    made: Any = type(name, (base,), {"__module__": module, **attributes})
    return cast("Exception", made("hunter2"))


def an_aws_error(status: int, code: str = "x", headers: Any = None) -> Exception:
    metadata: dict[str, Any] = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
    return make("botocore.exceptions", "ClientError", response={"Error": {"Code": code}, "ResponseMetadata": metadata})


def with_code(name: str) -> Any:
    def code(_self: object) -> Any:
        return types.SimpleNamespace(name=name)

    return code


def an_http_error(status: int) -> Exception:
    request = httpx.Request("GET", "https://x")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(status, request=request))


def a_ring_of_wrappers() -> Exception:
    """Exceptions that both stand for their reason, and are the reason of each other."""
    outer, inner = make("tenacity", "RetryError"), make("qdrant_client", "ResponseHandlingException")
    outer.__cause__, inner.__cause__ = inner, outer
    return outer


REFUSED_CONNECTION = ConnectionRefusedError(errno.ECONNREFUSED, "x")
ELASTIC = {"ConnectionTimeout": "timeout", "ConnectionError": "transient", "SniffingError": "transient"}
SLACK = [
    ("invalid_auth", "configuration"),
    ("token_revoked", "configuration"),
    ("missing_scope", "permission"),
    ("not_in_channel", "permission"),
    ("channel_not_found", "not_found"),
    ("thread_not_found", "not_found"),
    ("ratelimited", "transient"),
    ("internal_error", "transient"),
    ("name_taken", "execution"),
    ("msg_too_long", "execution"),
    ("Received a response in a non-JSON format", "internal"),
    (None, "internal"),
    (["invalid_auth"], "internal"),
]
POSTGREST = [
    ("PGRST000", "transient"),
    ("PGRST100", "execution"),
    ("PGRST116", "execution"),
    ("PGRST202", "not_found"),
    ("PGRST205", "not_found"),
    ("PGRST301", "configuration"),
    ("PGRST303", "configuration"),
    ("PGRSTX00", "transient"),
    ("42501", "permission"),
    ("28000", "permission"),
    ("42P01", "not_found"),
    ("23505", "execution"),
    ("22P02", "execution"),
    ("P0001", "execution"),
    ("08006", "transient"),
    ("40001", "transient"),
    ("57014", "timeout"),
    ("PT404", "not_found"),
    ("PTxyz", "internal"),
    ("404", "not_found"),
    ("503", "transient"),
    ("200", "internal"),
    ("x", "internal"),
    ("", "internal"),
    (None, "internal"),
    (404, "not_found"),
]
BY_NAME: list[tuple[Exception, str]] = [
    (an_aws_error(503), "transient"),
    (an_aws_error(400, "ThrottlingException"), "transient"),
    (an_aws_error(400, "AccessDeniedException"), "permission"),
    (an_aws_error(403, "ExpiredToken"), "configuration"),
    (an_aws_error(404, "NoSuchKey"), "not_found"),
    (an_aws_error(400), "execution"),
    (make("botocore.exceptions", "NoCredentialsError"), "configuration"),
    (make("pymongo.errors", "NetworkTimeout"), "timeout"),
    (make("botocore.exceptions", "ClientError", response=None), "internal"),
    (make("grpc._channel", "RpcError", code=with_code("UNAVAILABLE")), "transient"),
    (make("grpc._channel", "RpcError", code=with_code("DEADLINE_EXCEEDED")), "timeout"),
    (make("grpc._channel", "RpcError"), "internal"),
    (make("asyncpg.exceptions", "PostgresError", sqlstate="57P01"), "transient"),
    (make("asyncpg.exceptions", "PostgresError", sqlstate="53300"), "transient"),
    (make("asyncpg.exceptions", "PostgresError", sqlstate="57014"), "timeout"),
    (make("asyncpg.exceptions", "PostgresError", sqlstate="28P01"), "configuration"),
    (make("asyncpg.exceptions", "PostgresError", sqlstate="42P01"), "internal"),
    (make("psycopg", "OperationalError"), "transient"),
    (make("psycopg", "OperationalError", sqlstate="40001"), "transient"),
    (make("psycopg2", "OperationalError", pgcode="57014"), "timeout"),
    (make("pymysql.err", "OperationalError"), "internal"),
    (make("sqlalchemy.exc", "TimeoutError"), "timeout"),
    (make("sqlalchemy.exc", "DBAPIError", connection_invalidated=True), "transient"),
    (make("sqlalchemy.exc", "DBAPIError", orig=ConnectionResetError()), "transient"),
    (make("sqlalchemy.exc", "DBAPIError", orig=None), "internal"),
    (make("redis.exceptions", "ConnectionError"), "transient"),
    (make("redis.exceptions", "ResponseError"), "internal"),
    (make("pymongo.errors", "OperationFailure", code=13), "permission"),
    (make("pymongo.errors", "OperationFailure", code=189), "transient"),
    (make("pymongo.errors", "OperationFailure", timeout=True), "timeout"),
    (make("openai", "APITimeoutError"), "timeout"),
    (make("azure.core.exceptions", "ServiceRequestError", inner_exception=REFUSED_CONNECTION), "transient"),
    (make("azure.core.exceptions", "ServiceRequestError", inner_exception=CERTIFICATE), "configuration"),
    (make("azure.core.exceptions", "ServiceResponseError"), "transient"),
    (make("azure.core.exceptions", "ServiceResponseTimeoutError"), "timeout"),
    (make("azure.core.exceptions", "ServiceRequestTimeoutError"), "timeout"),
    (make("azure.core.exceptions", "ClientAuthenticationError"), "configuration"),
    (make("azure.core.exceptions", "ClientAuthenticationError", status_code=403), "permission"),
    (make("google.auth.exceptions", "GoogleAuthError"), "configuration"),
    (make("google.auth.exceptions", "GoogleAuthError", retryable=True), "transient"),
    (make("google.auth.exceptions", "TransportError"), "transient"),
    (make("google.auth.exceptions", "TimeoutError"), "timeout"),
    (caused(make("google.api_core.exceptions", "RetryError"), an_http_error(404)), "not_found"),
    (make("google.api_core.exceptions", "RetryError"), "transient"),
    (make("discord.errors", "LoginFailure"), "configuration"),
    (make("discord.errors", "ConnectionClosed", code=4004), "transient"),
    *((make("elastic_transport", name), kind) for name, kind in ELASTIC.items()),
    *((make("opensearchpy.exceptions", name, status_code="N/A"), kind) for name, kind in ELASTIC.items()),
    (caused(make("elastic_transport", "ConnectionError"), CERTIFICATE), "configuration"),
    (make("qdrant_client.http.exceptions", "ResponseHandlingException"), "internal"),
    (caused(make("qdrant_client.http.exceptions", "ResponseHandlingException"), httpx.ReadTimeout("x")), "timeout"),
    (caused(make("qdrant_client.http.exceptions", "ResponseHandlingException"), ValueError()), "internal"),
    (make("qdrant_client.common.client_exceptions", "QdrantException"), "transient"),
    (caused(make("pinecone.errors.exceptions", "PineconeConnectionError"), httpx.ConnectError("x")), "transient"),
    (make("tavily.errors", "UsageLimitExceededError"), "transient"),
    (make("tavily.errors", "TimeoutError"), "timeout"),
    (make("tavily.errors", "BadRequestError"), "execution"),
    (make("tavily.errors", "ForbiddenError"), "permission"),
    (make("tavily.errors", "InvalidAPIKeyError"), "configuration"),
    (caused(make("tenacity", "RetryError"), ConnectionResetError()), "transient"),
    (caused(make("tenacity", "RetryError"), ValueError()), "internal"),
    (a_ring_of_wrappers(), "internal"),
    *((make("slack_sdk.errors", "SlackApiError", response={"ok": False, "error": e}), kind) for e, kind in SLACK),
    (make("slack_sdk.errors", "SlackApiError", response="hunter2"), "internal"),
    *((make("postgrest.exceptions", "APIError", code=code), kind) for code, kind in POSTGREST),
    (make("urllib3.exceptions", "InvalidHeader"), "transient"),
    (make("mine.httpx", "ConnectError"), "internal"),
    (make("mine", "OwnError", httpx.ReadTimeout), "timeout"),  # by its base
]


@pytest.mark.parametrize(
    ("exc", "kind"), BY_NAME, ids=[f"{n}-{type(exc).__name__}" for n, (exc, _) in enumerate(BY_NAME)]
)
def test_a_class_is_known_by_its_name(exc: Exception, kind: str) -> None:
    """A class is known by its package and name, with no import; its text is not told."""
    error = classify(Crashed(exc), a_tool(), 0.0)
    assert error.kind == kind
    assert "hunter2" not in render(error)


def test_headers_of_an_aws_error_are_read() -> None:
    """A Retry-After is read wherever a client keeps it."""
    error: Any = classify(Crashed(an_aws_error(503, headers={"retry-after": "3"})), a_tool(), 0.0)
    assert error.retry_after == 3.0


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "db")
    holder = sqlite3.connect(path)
    holder.execute("create table t (a int)")
    holder.execute("begin exclusive")
    yield path
    holder.rollback()
    holder.close()


async def test_a_locked_database(locked: str) -> None:
    """A database that somebody else has locked may be free soon; a table that is not there is a bug."""

    def run(path: str, query: str) -> None:
        client = sqlite3.connect(path, timeout=0)
        try:
            client.execute(query)
        finally:
            client.close()

    tools = ToolRegistry()
    tools.tool(effect="read", name="run")(run)
    pipeline = standard(tools, attempts=1)
    assert (
        await pipeline.call("run", {"path": locked, "query": "insert into t values (1)"})
    ).failure().kind == "transient"
    assert (await pipeline.call("run", {"path": ":memory:", "query": "select * from t"})).failure().kind == "internal"


def test_the_output_of_a_command_stays_private() -> None:
    """Of a command that failed the exit code is told, and neither its output nor its arguments."""
    exc = subprocess.CalledProcessError(3, ["psql", "hunter2"], "hunter2", "hunter2")
    assert render(classify(Crashed(exc), a_tool(), 0.0)) == "Error: Command failed with exit code 3"


class Hostile(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Unhashable(type):
    def __hash__(cls) -> int:
        raise RuntimeError

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError


ODD: list[Any] = [
    make("httpx", "ConnectError", reason=5),
    make("sqlite3", "Error", sqlite_errorname=5),
    make("grpc", "RpcError", code=5),
    make("grpc", "RpcError", code=lambda: 5),
    make("asyncpg", "PostgresError", sqlstate=b"57P01"),
    make("urllib.error", "HTTPError", code="500"),
    make("urllib3.exceptions", "MaxRetryError", reason=None),
    type("Odd", (Exception,), {"__module__": 5})(),
    Unhashable("Odd", (Exception,), {})(),
]


@pytest.mark.parametrize("exc", ODD, ids=[str(n) for n in range(len(ODD))])
def test_odd_exceptions(exc: Any) -> None:
    """What an exception holds may be anything, and nothing raises."""
    assert classify(Crashed(exc), a_tool(), 0.0).kind in ("internal", "transient")


def test_no_client_is_imported() -> None:
    """The table names clients, and imports none of them."""
    loaded_of = f"[each for each in {sorted(MEANINGS)} if each in sys.modules]"
    code = f"import sys, toolcall_pipeline.middlewares; print({loaded_of})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {"anyio", "asyncio", "builtins", "http", "socket", "ssl", "subprocess", "urllib"}
    assert set(eval(done.stdout)) <= loaded


def test_an_unknown_class_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found for a class is kept, and not longer than the class."""
    module: Any = client_exceptions
    counted: list[type] = []
    look_up = module._look_up

    def count(cls: type[BaseException]) -> Any:
        counted.append(cls)
        return look_up(cls)

    monkeypatch.setattr(module, "_look_up", count)
    cls = type("OwnError", (Exception,), {})
    before = len(module._FOUND)
    assert [find_meaning(cls()) for _ in range(3)] == [None] * 3
    assert counted == [cls]
    assert len(module._FOUND) == before + 1


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (3, "exit code 3"),
        (-9, "exit code -9"),
        (2**63 - 1, "exit code 9223372036854775807"),
        (2**63, "Command failed"),
        (-(2**63), "Command failed"),
        ("hunter2", "Command failed"),
    ],
)
def test_the_exit_code_of_a_command(code: Any, told: str) -> None:
    """A number that a system can give is told; nothing else that stands in its place is."""
    text = render(classify(Crashed(subprocess.CalledProcessError(code, "x")), a_tool(), 0.0))
    assert told in text
    assert ("exit code" in told) == ("exit code" in text)
    assert "hunter2" not in text


AWS_CODES = {
    "configuration": "ExpiredToken ExpiredTokenException InvalidAccessKeyId InvalidClientTokenId "
    "MissingAuthenticationToken SignatureDoesNotMatch UnrecognizedClientException",
    "permission": "AccessDenied AccessDeniedException UnauthorizedOperation",
    "not_found": "ResourceNotFoundException NoSuchKey NoSuchBucket",
}


@pytest.mark.parametrize(("kind", "codes"), AWS_CODES.items(), ids=AWS_CODES)
def test_what_the_codes_of_aws_mean(kind: str, codes: str) -> None:
    """A code decides before the status, which is 400 for nearly all of them."""
    for code in codes.split():
        assert classify(Crashed(an_aws_error(400, code)), a_tool(), 0.0).kind == kind, code


REFUSED = (400, 409, 412, 413, 422)


@pytest.mark.parametrize("status", REFUSED)
def test_a_service_that_refuses_the_arguments_is_quoted_so(status: int) -> None:
    """The text says who refused what, whichever client has the status; a code of the service's own decides first."""
    request = httpx.Request("GET", "https://x")
    by_httpx = httpx.HTTPStatusError("private", request=request, response=httpx.Response(status, request=request))
    by_requests = requests.Response()
    by_requests.status_code = status
    by_urllib = urllib.error.HTTPError("https://x", status, "private", http.client.HTTPMessage(), None)
    own = type("APIStatusError", (Exception,), {"status_code": status})("private")
    for exc in (by_httpx, requests.HTTPError(response=by_requests), by_urllib, own, an_aws_error(status, "Odd")):
        text = render(classify(Crashed(exc), a_tool(), 0.0))
        assert text.startswith("Error: The service refused these arguments: "), type(exc)
        assert "private" not in text
    assert "refused" not in render(classify(Crashed(an_aws_error(status, "AccessDenied")), a_tool(), 0.0))


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 500])
def test_another_status_blames_no_arguments(status: int) -> None:
    """Who may not call, what is not there and what is down is told in the words of its kind."""
    own = type("APIStatusError", (Exception,), {"status_code": status})("private")
    assert "arguments" not in render(classify(Crashed(own), a_tool(), 0.0))
