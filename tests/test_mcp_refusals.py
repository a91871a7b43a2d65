"""What a relay does not pass on: whoever waits for an answer is told, and nobody else."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from mcp_desk import TOOLS, ScriptedServer, as_line, call, open_desk, result
from support import PATIENT
from toolcall_pipeline.mcp.http_server import HttpServer, Transport
from toolcall_pipeline.mcp.server import UnsendableError


@pytest.mark.parametrize(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":5,"result":{"n":NaN}}\n',
        b'{"result":{"n":NaN},"jsonrpc":"2.0","id":5}\n',
        b'{"jsonrpc":"2.0","id":5,"result":{"n":\n',
        as_line({"jsonrpc": "2.0", "id": 5, "result": {"text": "y" * 20_000_000}}),
    ],
    ids=["constant", "constant, id last", "broken", "long"],
)
async def test_an_answer_of_the_client_that_is_refused_is_told_to_the_server(answer: bytes) -> None:
    """The server asked, so it waits; and its id may be that of a request of the client, which goes on."""
    async with open_desk() as (desk, server):
        desk.send(call(5, "pay", {"cents": 1}))
        paying = await server.next_call()
        server.say({"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage"})
        await desk.receive()
        with anyio.fail_after(PATIENT):
            await anyio.to_thread.run_sync(desk.send, answer)
        told = await server.next()
        assert (told["id"], told["error"]["code"]) in ((5, -32700), (5, -32600))
        server.say(result(paying))
        assert (await desk.receive())["result"]["content"][0]["text"] == "done"


async def test_an_answer_to_a_dead_server_that_is_refused_is_told_to_nobody() -> None:
    """The next server may have asked another question under the same id."""
    async with open_desk() as (desk, server):
        server.say({"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage"})
        await desk.receive()
        server.die()
        assert (await desk.receive())["params"]["requestId"] == 5
        second = await desk.next_server()
        desk.send(b'{"jsonrpc":"2.0","id":5,"result":{"n":NaN}}\n')
        line = desk.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert line == await second.next_line()


@pytest.mark.parametrize("in_batch", [False, True], ids=["alone", "with a call"])
async def test_what_a_server_cannot_be_sent_is_refused(monkeypatch: pytest.MonkeyPatch, in_batch: bool) -> None:
    """Over HTTP only messages of MCP can be sent: a request that is none is answered, and so is its batch."""
    send = ScriptedServer.send

    async def send_known(server: ScriptedServer, line: bytes) -> None:
        if b"odd" in line:
            raise UnsendableError
        await send(server, line)

    monkeypatch.setattr(ScriptedServer, "send", send_known)
    async with open_desk() as (desk, server):
        await desk.greet(server)
        desk.send({"jsonrpc": "2.0", "method": "notifications/initialized", "params": ["odd"]})
        odd = {"jsonrpc": "2.0", "id": 5, "method": "ping", "params": ["odd"]}
        desk.send([call(6, "pay"), odd] if in_batch else odd)
        if in_batch:
            server.say(result(await server.next_call()))
        answers = await desk.receive()
        told = {each["id"]: each.get("error", {}).get("code") for each in (answers if in_batch else [answers])}
        assert told == ({5: -32600, 6: None} if in_batch else {5: -32600})
        server.die()  # the next one is greeted all the same
        second = await desk.next_server()
        greeting = await second.next()
        second.say({"jsonrpc": "2.0", "id": greeting["id"], "result": {}})
        line = desk.send({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        while (found := await second.next_line()) != line:
            second.say({"jsonrpc": "2.0", "id": json.loads(found)["id"], "result": {"tools": TOOLS}})


async def test_a_message_that_is_none_of_mcp_is_not_sent_over_http(caplog: pytest.LogCaptureFixture) -> None:
    """The package ``mcp`` reads what it sends; what it refuses is told to the caller, and not logged."""

    class Strict:
        def validate_python(self, message: object) -> object:
            raise ValueError("no message")

    parts: Any = {name: Strict() for name in ("connect", "message_class", "metadata_class", "adapter", "inbound")}
    server = HttpServer(Transport(**parts, httpx=None, connect_sse=None), "http://localhost", {}, 1_000)
    for line in (b"[]\n", b"\n", b'[{"id":1,"method":"secret"}]\n'):
        with pytest.raises(UnsendableError):
            await server.send(line)
    assert "secret" not in caplog.text
