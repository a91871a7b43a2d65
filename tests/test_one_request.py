"""One request: of a tool that makes one and no more, some exceptions prove that nothing happened."""

from __future__ import annotations

import errno
import socket
import urllib.error
from http import HTTPStatus
from importlib import import_module
from typing import Any

import httpx
import pytest
import requests
import urllib3.exceptions
from urllib3.connection import HTTPConnection

from client_shapes import APIResponseError, GithubException, HTTPException, StripeError, google
from toolcall_pipeline import (
    Call,
    Outcome,
    OutcomeUnknown,
    Pipeline,
    ToolFailed,
    ToolRegistry,
    is_failure,
    render,
)
from toolcall_pipeline.middlewares import Ledger, standard
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.tools.client_rules import NOT_SENT


def caused(exc: Exception, cause: BaseException) -> Exception:
    exc.__cause__ = cause
    return exc


def of_httpx(status: int, **headers: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx.Request("POST", "http://x")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(status, headers=named))


def of_urllib3(reason: Exception) -> Exception:
    return urllib3.exceptions.MaxRetryError(urllib3.HTTPConnectionPool("x"), "http://x", reason)


def of_class(module: str, name: str, **attributes: Any) -> Exception:
    made: Any = type(name, (Exception,), {"__module__": module, **attributes})
    return made("x")  # type: ignore[no-any-return]


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "x")
NO_NAME = socket.gaierror(socket.EAI_NONAME, "x")
NEW = urllib3.exceptions.NewConnectionError(HTTPConnection("x"), "x")
PROOFS: list[Exception] = [
    REFUSED,
    NO_NAME,
    socket.gaierror(socket.EAI_AGAIN, "x"),
    OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call failed"),
    caused(OSError("All connection attempts failed"), ExceptionGroup("x", [REFUSED, REFUSED])),
    ExceptionGroup("of a task group", [REFUSED]),
    urllib.error.URLError(REFUSED),
    urllib.error.URLError(NO_NAME),
    httpx.ConnectError("x"),
    caused(httpx.ConnectError("x"), caused(OSError("All connection attempts failed"), REFUSED)),
    requests.exceptions.ConnectionError(of_urllib3(NEW)),
    of_urllib3(NEW),
    of_httpx(429),
    of_httpx(429, retry_after="7"),
    of_httpx(403, retry_after="7"),
    GithubException(403, None, {"x-ratelimit-remaining": "0"}),
    google(HTTPStatus.TOO_MANY_REQUESTS),
    APIResponseError("rate_limited", 429),
    StripeError(429),
    HTTPException(429),
    of_class("azure.core.exceptions", "ServiceRequestError", inner_exception=REFUSED),
    caused(of_class("elastic_transport", "ConnectionError"), REFUSED),
    caused(of_class("qdrant_client.http.exceptions", "ResponseHandlingException"), httpx.ConnectError("x")),
    of_class("qdrant_client.common.client_exceptions", "ResourceExhaustedResponse"),
    of_class("tavily.errors", "UsageLimitExceededError"),
]
NONE: list[Exception] = [
    ConnectionResetError(),
    BrokenPipeError(),
    TimeoutError(),
    OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 104] reset"),
    OSError(errno.ENETUNREACH, "x"),
    ExceptionGroup("of two", [REFUSED, ConnectionResetError()]),
    urllib.error.URLError(ConnectionResetError()),
    httpx.ReadError("x"),
    httpx.ReadTimeout("x"),
    httpx.RemoteProtocolError("x"),
    requests.exceptions.ConnectionError("x"),
    of_urllib3(urllib3.exceptions.ReadTimeoutError(urllib3.HTTPConnectionPool("x"), "http://x", "x")),
    of_httpx(408),
    of_httpx(425),
    of_httpx(500),
    of_httpx(503, retry_after="7"),
    StripeError(500),
    ValueError(),
    caused(ValueError(), REFUSED),  # nobody knows what it did with that
    caused(RuntimeError(), of_httpx(429)),
    FileExistsError(),
    caused(of_class("google.api_core.exceptions", "RetryError"), REFUSED),  # the last of several requests
    caused(of_class("tenacity", "RetryError"), REFUSED),
    caused(of_class("tenacity", "RetryError"), of_httpx(429)),
    of_class("azure.core.exceptions", "ServiceResponseError", inner_exception=ConnectionResetError()),
]


def number(values: list[Exception]) -> list[Any]:
    return [pytest.param(value, id=f"{place}-{type(value).__name__}") for place, value in enumerate(values)]


def tools_of(exc: Exception, ran: list[int], **options: Any) -> ToolRegistry:
    async def pay(cents: int) -> str:
        ran.append(cents)
        if len(ran) == 1:
            raise exc
        return "paid"

    tools = ToolRegistry()
    tools.tool(**options)(pay)
    return tools


async def in_a_conversation(pipeline: Pipeline) -> list[Outcome]:
    return [await pipeline(Call("pay", {"cents": 5}, conversation="c")) for _ in range(2)]


async def in_a_ledger(pipeline: Pipeline) -> list[Outcome]:
    stored = pipeline.before("retry", Ledger(Memory()))
    return [await stored(Call("pay", {"cents": 5}, id=f"c{n}", conversation="c")) for n in range(2)]


async def in_reports(pipeline: Pipeline) -> list[Outcome]:
    first = await pipeline.report(Call("pay", {"cents": 5}, conversation="c"))
    assert [each.landed for each in first.attempts] in (["no"], ["maybe"])
    assert first.outcome is not None
    return [first.outcome, await pipeline(Call("pay", {"cents": 5}, conversation="c"))]


WAYS = {each.__name__: each for each in (in_a_conversation, in_a_ledger, in_reports)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("exc", number(PROOFS))
async def test_a_proof_of_no_effect_frees_an_equal_call(exc: Exception, way: str) -> None:
    """Of a tool that makes one request the equal call runs, wherever it is remembered; of any other it is refused."""
    for one_request, runs in ((True, 2), (False, 1)):
        ran: list[int] = []
        pipeline = standard(tools_of(exc, ran, one_request=one_request), attempts=1)
        first, second = await WAYS[way](pipeline)
        assert len(ran) == runs
        assert is_failure(second) == (runs == 1)
        assert isinstance(first.failure(), OutcomeUnknown) == (runs == 1 and first.failure().kind == "outcome_unknown")
        assert getattr(first.failure(), "landed", "no") == "no"


@pytest.mark.parametrize("exc", number(NONE))
async def test_anything_else_leaves_it_undecided(exc: Exception) -> None:
    """What may come after a request was taken is no proof: the equal call is refused."""
    ran: list[int] = []
    _, second = await in_a_conversation(standard(tools_of(exc, ran, one_request=True), attempts=1))
    assert len(ran) == 1
    assert second.failure().kind == "outcome_unknown"


async def test_it_is_repeated_at_once() -> None:
    """Retry repeats a changing call whose one request was not taken, in a thread and in a table of the tool's own."""
    for options in ({}, {"errors": {httpx.ConnectError: "transient"}}):
        ran: list[int] = []
        pipeline = standard(tools_of(httpx.ConnectError("x"), ran, one_request=True, **options))
        assert (await pipeline.call("pay", {"cents": 5})).unwrap() == "paid"
        assert len(ran) == 2


async def test_the_tables_of_a_user_keep_their_word() -> None:
    """The kind is that of ``errors=``, and whoever says more of landing than the exception decides."""
    ran: list[int] = []
    pipeline = standard(tools_of(REFUSED, ran, one_request=True), errors={ConnectionRefusedError: "configuration"})
    first, second = await in_a_conversation(pipeline)
    assert (first.failure().kind, second.value_or(None)) == ("configuration", "paid")
    for exc, table in (
        (ToolFailed("x", kind="transient"), None),
        (REFUSED, {ConnectionRefusedError: ToolFailed("x", kind="transient", landed=True)}),
    ):
        ran = []
        pipeline = standard(tools_of(exc, ran, one_request=True, errors=table))
        await in_a_conversation(pipeline)
        assert len(ran) <= 2


async def test_a_wait_is_told_of_an_unknown_outcome() -> None:
    """A changing tool that may make two requests is told with the wait that the service asked for."""
    pipeline = standard(tools_of(of_httpx(429, retry_after="90"), []), attempts=1)
    outcome = await pipeline.call("pay", {"cents": 5})
    told = (
        "The call may have taken effect, but its result was lost. Check before repeating it. Try again in 90 seconds."
    )
    assert render(outcome) == f"Error: {told}"
    once = standard(tools_of(of_httpx(429, retry_after="90"), [], one_request=True), attempts=1)
    told = "The service is temporarily unavailable. Try again in 90 seconds."
    assert render(await once.call("pay", {"cents": 5})).startswith(f"Error: {told}")


@pytest.mark.parametrize("package", ["httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "urllib3.exceptions"])
def test_each_name_of_the_table_exists(package: str) -> None:
    """Each class that is raised before a request is sent is in its package."""
    module = import_module(package)
    assert all(hasattr(module, name) for name in NOT_SENT[package.partition(".")[0]])
