"""Whose call a request of MCP is, and what is remembered of it. No package of MCP is needed here."""

from __future__ import annotations

import gc
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from toolcall_pipeline import Call, CallReport, Pipeline, ToolRegistry
from toolcall_pipeline.engine.report.report_rows import kind_of
from toolcall_pipeline.mcp.known_clients import CONVERSATION, UNKNOWN, KnownClients
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import FakeClock

LONG, HALF = "long" * 100, "half \ud800"
STREAMS: dict[str, Any] = {"session_id": None, "has_standalone_channel": True}
SESSION: dict[str, Any] = {"session_id": "s", "has_standalone_channel": True}
NEITHER: dict[str, Any] = {"session_id": None, "has_standalone_channel": False}


class Streams:
    """What one connection keeps over all its requests."""


def make_request(about: dict[str, Any], named: object = None, streams: object = None, sent: object = "HTTP") -> Any:
    """A request as the package ``mcp`` hands it over."""
    connection = SimpleNamespace(**about, outbound=streams or Streams())
    return SimpleNamespace(
        session=SimpleNamespace(_connection=connection),
        request=sent,
        request_id=7,
        meta=None if named is None else {CONVERSATION: named},
        lifespan_context=streams or {},
    )


def digest(text: str) -> str:
    return "mcp-" + sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


@pytest.mark.parametrize("sent", [None, "SSE"])
@pytest.mark.parametrize("about", [STREAMS, NEITHER])
def test_a_connection_is_one_client(about: dict[str, Any], sent: object) -> None:
    """Over stdio, over SSE and in one process its requests are of one conversation, which no other one has."""
    if sent and not about["has_standalone_channel"]:
        return  # a request of HTTP without a session, see below
    clients, pipeline, here, there = KnownClients(), standard(ToolRegistry()), Streams(), Streams()
    call = Call("pay", principal="Ann")
    calls = [clients.sign(call, make_request(about, "named", each, sent), pipeline) for each in (here, here, there)]
    assert calls[0].conversation == calls[1].conversation != calls[2].conversation
    assert [each.reply for each in calls] == [""] * 3
    assert all(each.guards is None for each in calls)


def test_a_session_of_http_is_one_client() -> None:
    """It is known by a digest, which says nothing of its id, and whatever connection it comes over."""
    clients, pipeline = KnownClients(), standard(ToolRegistry())
    for _ in range(2):
        call = clients.sign(Call("pay", principal="Ann"), make_request(SESSION, "named"), pipeline)
        assert (call.conversation, call.reply, call.guards) == (digest("s"), "", None)


@pytest.mark.parametrize(
    ("principal", "named", "conversation"),
    [
        ("Ann", "one", "one"),
        ("Ann", LONG, digest(LONG)),
        ("Ann", HALF, digest(HALF)),
        ("Ann", "", ""),
        ("Ann", 5, ""),
        ("Ann", ["one"], ""),
        ("Ann", None, ""),
        ("", "one", ""),  # anybody could name it
        ("", None, ""),
    ],
)
def test_without_a_session_a_known_client_names_the_conversation(
    principal: str, named: object, conversation: str
) -> None:
    """Each of its requests is a reply of its own, for such a client begins its ids anew as it likes."""
    clients, pipeline, request = KnownClients(), standard(ToolRegistry()), make_request(NEITHER, named)
    calls = [clients.sign(Call("pay", id="7", principal=principal), request, pipeline) for _ in range(2)]
    assert [each.conversation for each in calls] == [conversation] * 2
    assert calls[0].reply != calls[1].reply
    assert [each.guards is None for each in calls] == [bool(conversation)] * 2


@pytest.mark.parametrize("about", [STREAMS, SESSION, NEITHER])
@pytest.mark.parametrize("bound", [False, True])
def test_a_conversation_of_the_application_comes_first(about: dict[str, Any], bound: bool) -> None:
    """Said by the call or by the pipeline; its clients are told apart, and the requests of each."""
    pipeline, clients, streams = standard(ToolRegistry()), KnownClients(), Streams()
    call = Call("pay") if bound else Call("pay", conversation="thread 1")
    if bound:
        pipeline = pipeline.with_(conversation="thread 1")
    request, other = make_request(about, "named", streams), make_request({**about, "session_id": "other"}, "named")
    calls = [clients.sign(call, each, pipeline) for each in (request, request, other)]
    assert [each.conversation for each in calls] == ["thread 1"] * 3
    assert (calls[0].reply == calls[1].reply) == (about is not NEITHER)
    assert calls[0].reply != calls[2].reply


def make_paying(ran: list[int], reports: list[CallReport], **options: Any) -> Pipeline:
    tools = ToolRegistry()

    @tools.tool
    async def pay(amount: int) -> str:
        ran.append(amount)
        if amount:
            raise ConnectionResetError
        return "paid"

    return standard(tools, attempts=1, **options).replace("trace", Trace(sinks=[reports.append]))


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("principal", ["Ann", ""])
async def test_what_is_remembered_without_a_conversation(
    principal: str, has_store: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a principal what is undecided, for ten minutes; of nobody nothing, which is said; a ledger knows all."""
    ran, reports = list[int](), list[CallReport]()
    pipeline = make_paying(ran, reports, **({"store": Memory()} if has_store else {}))
    clients, is_unknown = KnownClients(), not principal and not has_store
    with FakeClock() as clock:
        for seconds in (0.0, 599.0, 2.0):
            clock.advance(seconds)
            call = clients.sign(Call("pay", {"amount": 5}, principal=principal), make_request(NEITHER), pipeline)
            assert kind_of(await pipeline(call)) == "outcome_unknown"
    assert len(ran) == (1 if has_store else 3 if is_unknown else 2)
    assert [[stage.note for stage in each.stages].count(UNKNOWN) for each in reports] == [is_unknown] * 3
    assert caplog.text.count("are not known again") == is_unknown


async def test_a_principal_is_kept_while_something_is_undecided() -> None:
    """Ten minutes after its last lost call nothing of it is left, and nothing is kept of who lost none."""
    ran, reports, clients = list[int](), list[CallReport](), KnownClients()
    pipeline = make_paying(ran, reports)

    async def pay(principal: str, amount: int) -> None:
        call = clients.sign(Call("pay", {"amount": amount}, principal=principal), make_request(NEITHER), pipeline)
        await pipeline(call)

    def count() -> int:
        reports.clear()
        gc.collect()
        return len(clients)

    with FakeClock() as clock:
        for number in range(50):
            await pay(f"{number}", number % 2)
        assert count() == 25
        clock.advance(601)
        await pay("Ann", 0)
        assert count() == 0
