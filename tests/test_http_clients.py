"""Real HTTP clients against a server that fails: what a call comes to, and that nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from client_names import find_missing, is_installed
from faulty_server import FaultyServer
from http_clients import CLIENTS, by_httpx, by_urllib, call, run, runs_of, send_once
from toolcall_pipeline import Effect, OutcomeUnknown, ToolContext, ToolFailed, Transient, not_begun, render
from toolcall_pipeline.tools import is_async
from toolcall_pipeline.tools.client_exceptions import MEANINGS

pytestmark = [
    pytest.mark.long,  # a real server, with every client and fault
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),  # the one that aiohttp has
]

KINDS = {
    "hang": "timeout",
    "stalled": "timeout",
    "401": "configuration",
    "403": "permission",
    "404": "not_found",
    "410": "not_found",
    "418": "execution",
}  # all others: transient


@pytest.mark.parametrize("package", [each for each in MEANINGS if is_installed(each)])
def test_each_name_of_the_table_exists(package: str, anyio_backend: str) -> None:
    """Each class that the table names is in the package, for all packages that are installed."""
    assert find_missing(package) == set()


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.mark.parametrize("client", CLIENTS)
async def test_each_fault_of_each_client(server: FaultyServer, client: str) -> None:
    """A fault has the same kind in each client; a read and a keyed call are repeated, and a mutating one never is."""
    for fault, effect in runs_of(client):
        row = await run(server, client, fault, effect)
        kind = KINDS.get(fault, "transient")
        passing = kind in ("timeout", "transient")
        attempts = 3 if passing and effect != "mutating" and fault != "429 at a date" else 1
        lands = 0 if fault == "refused" else attempts if effect == "read" else 1
        expected = ("outcome_unknown" if passing and effect == "mutating" else kind, attempts, lands)
        assert (row.kind, row.attempts, row.effects) == expected, row
        assert effect != "mutating" or row.effects <= 1
        assert "hunter2" not in render(row.outcome)
        assert fault != "429 in seconds" or row.waits == (2.0,) * (attempts - 1)


# urllib3 raises nothing for a status.
TWO_REQUESTS = [
    (client, second)
    for client in CLIENTS
    for second in ("refused", "429", "503", "hang")
    if client != "urllib3" or not second[0].isdigit()
]


@pytest.mark.parametrize(("client", "second"), TWO_REQUESTS)
async def test_the_first_of_two_requests_lands(server: FaultyServer, client: str, second: str) -> None:
    """A mutating tool whose second request fails has had one effect, and it is not known which: it is not repeated."""
    name, send = f"two-{client}-{second}", CLIENTS[client]
    seconds = 0.1 if second == "hang" else 30.0
    charge = send_once(send, server.url("ok", name), "mutating") if client not in ("openai", "anthropic") else None
    notify = send_once(send, server.url(second, f"{name}-notify"), "mutating", seconds)
    charge = charge or send_once(by_httpx, server.url("ok", name), "mutating")

    async def in_loop(context: ToolContext, **_: object) -> None:
        await charge(context)
        await notify(context)

    def in_thread(context: ToolContext, **_: object) -> None:
        charge(context)
        notify(context)

    outcome, attempts, _ = await call(in_loop if is_async(send) else in_thread, "mutating")
    assert (attempts, server.count_effects(name)) == (1, 1)
    assert type(outcome.failure()) is OutcomeUnknown
    assert "Check before repeating it" in render(outcome)


@pytest.mark.parametrize("send", [by_httpx, by_urllib], ids=["httpx", "urllib"])
async def test_a_tool_may_say_that_nothing_happened(server: FaultyServer, send: Any) -> None:
    """With ``not_begun`` for a refused connection, a mutating tool is repeated; for any other failure it is not."""
    errors: Any = {"httpx.ConnectError": not_begun, "urllib.error.URLError": not_begun}
    for fault, expected in (("refused", (Transient, 3, 0)), ("503", (OutcomeUnknown, 1, 1))):
        name = f"not-begun-{send.__name__}-{fault}"
        body = send_once(send, server.url(fault, name), "mutating")
        table = errors if send is by_httpx or fault == "refused" else None  # an HTTPError is a URLError too
        outcome, attempts, _ = await call(body, "mutating", errors=table)
        assert (type(outcome.failure()), attempts, server.count_effects(name)) == expected


@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_an_author_may_say_it_in_the_body(server: FaultyServer, effect: Effect) -> None:
    """``ToolFailed(landed=False)`` from a client's exception has the call repeated, whatever its effect."""

    async def body(_context: ToolContext, **_: object) -> None:
        try:
            await by_httpx(server.url("refused", "said"), "", 30)
        except httpx.ConnectError as exc:
            raise ToolFailed("The bank is closed", kind="transient", landed=False) from exc

    outcome, attempts, _ = await call(body, effect)
    assert (type(outcome.failure()), attempts) == (Transient, 3)
    assert render(outcome) == "Error: The bank is closed"


@pytest.mark.parametrize("client", CLIENTS)
async def test_one_request_that_was_not_taken_may_be_repeated(server: FaultyServer, client: str) -> None:
    """Of a tool that makes one request, a refused connection and a 429 prove that nothing happened; a 503 does not."""
    for fault in ("refused", "429", "503", "reset"):
        if client == "urllib3" and fault[0].isdigit():
            continue
        body = send_once(CLIENTS[client], server.url(fault, f"one-{client}-{fault}"), "mutating")
        outcome, attempts, _ = await call(body, "mutating", one_request=True)
        expected = (Transient, 3) if fault in ("refused", "429") else (OutcomeUnknown, 1)
        assert (type(outcome.failure()), attempts) == expected, fault
