"""The relay between a client and a server of MCP: what passes, what is answered here, and what a dead server means."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcp_desk import INITIALIZED, MODERN, TOOLS, anew, as_line, call, open_desk, result
from support import PATIENT, StoppedTime
from toolcall_pipeline import CallReport
from toolcall_pipeline.mcp import upstream
from toolcall_pipeline.policies.relay_policy import RelayLimits, RelayPolicy, ToolPolicy

TRUSTED = RelayPolicy(trust_annotations=True)
SHORT = RelayPolicy(limits=RelayLimits(line_bytes=2_000))


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0", "id":1,"method":"ping"}\n',
        b'{ "id": "x", "method": "prompts/get", "params": {"n": 1.50, "n": 2e400} , "jsonrpc": "2.0"}\n',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}\r\n',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{"role":"assistant"}}\n',
        b'{"jsonrpc":"2.0","id":[1],"method":"odd"}\n',
        b'[{"jsonrpc":"2.0", "id":1,"method":"ping"}, 5, {"jsonrpc":"2.0","method":"x"}]\n',
        b'{"jsonrpc":"2.0","id":9,"method":"ping","params":"\xff\xfe"}\n',
        b"5\n",
    ],
)
async def test_what_is_no_call_passes_to_the_server_with_its_values(line: bytes) -> None:
    """All that is no call of a tool passes to the server, written anew with the same values."""
    async with open_desk() as (desk, server):
        desk.send(line)
        assert anew(line) == await server.next_line()


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0", "id":1,"result":{"x": 1.50}}\n',
        b'{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"maxTokens": 5}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}\r\n',
        b'{"jsonrpc":"2.0","id":77,"error":{"code":-1,"message":"unknown id"}}\n',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n',
        b'[{"jsonrpc":"2.0", "id":1,"result":{}},{"jsonrpc":"2.0","method":"x"}]\n',
        b'{"jsonrpc":"2.0","method":"x","params":"\xff"}\n',
        b'{"jsonrpc":"2.0",\r"method":"x","params":[NaN,-Infinity,2e400,-0,%s]}\n' % (b"9" * 5_000),
    ],
)
async def test_what_the_server_says_passes_with_its_values(line: bytes) -> None:
    """All that answers no call of a tool passes to the client, written anew with the same values."""
    async with open_desk() as (desk, server):
        with anyio.fail_after(PATIENT):
            await anyio.to_thread.run_sync(server.say, line)
        assert anew(line) == await desk.receive_line()


@pytest.mark.parametrize(
    "line",
    [
        b"starting up ...\n",
        b"\xff\xfe\n",
        b"\n",
        b'"text"\n',
        b'log\r{"method":"x"}\n',
        b"[" * 100_000 + b"\n",
        b'{"level":"info","message":"started"}\n',
        b'{"level":"error","error":"no such file","id":1}\n',
        b'{"level":"info","method":"GET","id":7,"path":"/"}\n',
        b'{"jsonrpc":"1.0","method":"x"}\n',
        b'{"jsonrpc":"2.0","method":7}\n',
        b'{"jsonrpc":"2.0"}\n',
        b"[]\n",
        b'["2026-11-29",{"level":"info"}]\n',
    ],
)
async def test_what_is_no_message_of_the_server_does_not_pass(line: bytes) -> None:
    """A client gets messages alone: what a server prints by mistake could be read as one."""
    async with open_desk() as (desk, server):
        with anyio.fail_after(PATIENT):
            await anyio.to_thread.run_sync(server.say, line)
        note = server.say({"jsonrpc": "2.0", "method": "x"})
        assert note == await desk.receive_line()


async def test_an_unreadable_answer_to_a_request_that_passed_fails_it() -> None:
    """A client does not wait for an answer that came and cannot be read."""
    async with open_desk() as (desk, server):
        desk.send({"jsonrpc": "2.0", "id": 5, "method": "prompts/list"})
        await server.next()
        server.say(b'{"jsonrpc":"2.0","id":5,"result":{"a":tru}}\n')
        answer = await desk.receive()
        assert (answer["id"], answer["error"]["code"]) == (5, -32603)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"result": None}, None),
        ({"result": [1]}, None),
        ({"error": {}}, None),
        ({"error": {"code": 1.5, "message": "x"}}, None),
        ({}, None),
        ({"result": {"a": 1}, "error": None}, {"result": {"a": 1}}),
        ({"result": {"a": 1}, "trace": "t"}, {"result": {"a": 1}}),
        ({"error": {"code": 1, "message": "x"}, "result": None}, {"error": {"code": 1, "message": "x"}}),
        ({"id": "5", "result": {}}, {"result": {}}),
        ({"id": 5.0, "result": {}}, {"result": {}}),
        ({"jsonrpc": "1.0", "result": {}}, {"result": {}}),
    ],
)
async def test_an_answer_comes_in_the_one_form_that_each_client_reads(
    said: dict[str, Any], told: dict[str, Any] | None
) -> None:
    """Under its own id, with a result or an error and nothing else; what has neither is an error."""
    async with open_desk() as (desk, server):
        desk.send({"jsonrpc": "2.0", "id": 5, "method": "prompts/list"})
        await server.next()
        server.say({"jsonrpc": "2.0", "id": 5, **said})
        answer = await desk.receive()
        expected = told or {"error": {"code": -32603, "message": "the answer of the server cannot be read"}}
        assert answer == {"jsonrpc": "2.0", "id": 5, **expected}


@pytest.mark.parametrize("forged", [1, "1", 1.0], ids=repr)
async def test_no_server_answers_a_call_in_the_place_of_the_relay(forged: object) -> None:
    """An answer under the client's own id of a call that runs goes no further: the server was not asked under it."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        request = await server.next()
        server.say({"jsonrpc": "2.0", "id": forged, "result": {"content": [{"type": "text", "text": "forged"}]}})
        server.say(result(request))
        assert text_of(await desk.receive()) == "done"


async def test_a_valid_call_passes_with_its_meta_and_its_answer() -> None:
    """The server gets the params as they were, and the client gets the server's answer, but for the ids."""
    async with open_desk() as (desk, server):
        desk.send(call("a", "read_file", {"path": "x", "limit": 3}, _meta={"k": [1]}, task={"ttl": 5}))
        await server.list_tools()
        request = await server.next()
        expected = {
            "name": "read_file",
            "arguments": {"path": "x", "limit": 3},
            "_meta": {"k": [1]},
            "task": {"ttl": 5},
        }
        assert expected == request["params"]
        value = b'{"content":[], "structuredContent": {"n": 1.50, "n": "\\u00e9"}}'
        server.say(b'{"result": %s ,"id" : "%s"}\n' % (value, request["id"].encode()))
        assert anew(b'{"jsonrpc":"2.0","id":"a","result":%s}\n' % value) == await desk.receive_line()


async def test_an_answer_that_quotes_our_id_is_still_paired() -> None:
    """A result that holds the id of the request is written anew, with the client's id in the right place."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "read_file", {"path": "x"}))
        await server.list_tools()
        request = await server.next()
        server.say(result(request, structuredContent={"seen": request["id"]}))
        answer = await desk.receive()
        assert (1, request["id"]) == (answer["id"], answer["result"]["structuredContent"]["seen"])


@pytest.mark.parametrize(
    ("name", "arguments", "sent"),
    [
        ("readFile", {"path": "x"}, {"path": "x"}),
        ("mcp__read_file", {"path": "x"}, {"path": "x"}),
        ("read_file", '{"path": "x"}', {"path": "x"}),
        ("read_file", {"path": "x", "lines": "[1, 2]"}, {"path": "x", "lines": [1, 2]}),
        ("read_file", {"path": "x", "limit": None}, {"path": "x"}),
        ("read_file", {"path": "x", "limit": "5"}, {"path": "x", "limit": 5}),
        ("read_file", {"path": "x", "unknown": 1}, {"path": "x", "unknown": 1}),
        ("pay", None, None),
        ("pay", {}, {}),
    ],
)
async def test_what_can_be_meant_in_one_way_reaches_the_server(name: str, arguments: object, sent: object) -> None:
    """Names in another style and arguments in another form are repaired before the server sees them."""
    async with open_desk() as (desk, server):
        desk.send(call(1, name, arguments))
        await server.list_tools()
        assert sent == (await server.next())["params"].get("arguments")


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "text"),
    [
        ("read_fil", {"path": "x"}, "unknown_tool", "Did you mean: read_file?"),
        ("read_file", {}, "validation", "Missing required parameter: path"),
        ("read_file", {"path": "x", "limit": "many"}, "validation", "limit: must be an integer"),
        ("read_file", "[1]", "malformed_call", "not a JSON object"),
        (None, {}, "unknown_tool", "has no name of a tool"),
    ],
)
@pytest.mark.parametrize("meta", [{}, MODERN])
async def test_what_cannot_be_meant_is_told_with_its_kind(
    name: Any, arguments: object, kind: str, text: str, meta: dict[str, Any]
) -> None:
    """A refused call is answered here, with `isError`; the versions without a handshake get the type of result too."""
    async with open_desk() as (desk, server):
        desk.send(call(1, name, arguments, _meta=meta))
        await server.list_tools()
        answer = await desk.receive()
        assert text in text_of(answer)
        assert (True, {"toolcall/kind": kind}) == (answer["result"]["isError"], answer["result"]["_meta"])
        assert ("resultType" in answer["result"]) is bool(meta)
        assert server.received.statistics().current_buffer_used == 0


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"content": [{"type": "text", "text": "no such file"}], "isError": True, "more": 1}},
        {"error": {"code": -32602, "message": "Invalid params", "data": {"x": 1}}},
        {"result": {"content": [], "isError": True}},
    ],
)
async def test_failures_of_the_server_pass_as_they_came(answer: dict[str, Any]) -> None:
    """What the server itself says of a failure reaches the client as it came, and is not repeated."""
    async with open_desk(TRUSTED) as (desk, server):
        desk.send(call(1, "read_file", {"path": "x"}))
        await server.list_tools()
        request = await server.next()
        server.say({"jsonrpc": "2.0", "id": request["id"], **answer})
        assert as_line({"jsonrpc": "2.0", "id": 1, **answer}) == await desk.receive_line()


# -- the list of tools


async def test_the_relay_learns_from_the_lists_that_the_client_asks_for() -> None:
    """After the client has read all pages of the list, the relay asks for nothing itself."""
    async with open_desk() as (desk, server):
        for number, params, page in ((1, {}, {"nextCursor": "p2"}), (2, {"cursor": "p2"}, {})):
            desk.send({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": params})
            request = await server.next()
            line = server.say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": [TOOLS[number - 1]], **page}})
            assert line == await desk.receive_line()
        for name in ("read_file", "pay"):
            desk.send(call(9, name, {"path": "x"}))
            request = await server.next()
            assert ("tools/call", name) == (request["method"], request["params"]["name"])
            server.say(result(request))
            await desk.receive()


async def test_the_relay_asks_for_all_pages_itself() -> None:
    """Without a list of the client the relay asks for each page, in the words of a client without a handshake."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}, _meta={**MODERN, "progressToken": 5}))
        request = await server.next()
        assert request["params"] == {"_meta": MODERN}
        server.say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": TOOLS[:1], "nextCursor": "p2"}})
        request = await server.next()
        assert request["params"] == {"cursor": "p2", "_meta": MODERN}
        server.say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": TOOLS[1:]}})
        assert (await server.next())["params"]["name"] == "pay"


async def test_a_list_that_repeats_its_cursor_ends() -> None:
    """A server that gives the same cursor again and again is not asked for ever."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        for _ in range(2):
            request = await server.next()
            server.say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": TOOLS, "nextCursor": "p"}})
        assert (await server.next())["method"] == "tools/call"


async def test_a_changed_list_is_learned_again() -> None:
    """After `list_changed` the next call goes by the new list, and one of a tool that is gone is refused."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        server.say(result(await server.next()))
        await desk.receive()
        line = server.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        assert line == await desk.receive_line()
        desk.send(call(2, "pay", {"cents": 1}))
        await server.list_tools([{**TOOLS[0], "name": "fetch"}])
        assert "Available tools: fetch" in text_of(await desk.receive())


@pytest.mark.parametrize(
    "answer", [{"error": {"code": -32601, "message": "no"}}, {"result": {}}, {"result": {"tools": 5}}]
)
async def test_a_server_that_lists_nothing(answer: dict[str, Any]) -> None:
    """Where the tools cannot be known, a call is refused with the reason, and the next call asks again."""
    async with open_desk() as (desk, server):
        for number in (1, 2):
            desk.send(call(number, "pay", {"cents": 1}))
            request = await server.next()
            server.say({"jsonrpc": "2.0", "id": request["id"], **answer})
            assert "does not list its tools" in text_of(await desk.receive())


@pytest.mark.parametrize("odd", [5, {}, {"name": 5}, {"name": ""}, {"name": "t", "inputSchema": 7}, {"name": "pay"}])
async def test_odd_definitions_do_no_harm(odd: Any) -> None:
    """A definition that is none is left out, one with a broken schema is not validated, a second one is ignored."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools([*TOOLS, odd])
        server.say(result(await server.next()))
        assert text_of(await desk.receive()) == "done"


# -- a server that dies


async def test_a_lost_call_that_may_have_landed_is_told_so() -> None:
    """Without trusted annotations a call that the server took and did not answer is never repeated."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "read_file", {"path": "x"}))
        await server.list_tools()
        await server.next()
        server.die()
        answer = await desk.receive()
        assert answer["result"]["_meta"] == {"toolcall/kind": "outcome_unknown"}
        again = await desk.next_server()
        desk.send(call(2, "pay", {"cents": 1}))
        await again.list_tools()
        assert (await again.next())["params"]["name"] == "pay"


async def test_a_lost_read_is_repeated_where_annotations_are_trusted() -> None:
    """With trusted annotations a read goes to the server that was started again, after the client's own greeting."""
    async with open_desk(TRUSTED) as (desk, server):
        await desk.greet(server)
        desk.send(call(1, "read_file", {"path": "x"}))
        await server.list_tools()
        await server.next()
        server.die()
        again = await desk.next_server()
        greeting = await again.next()
        assert (greeting["method"], greeting["params"]) == ("initialize", {"clientInfo": {"name": "test"}, "n": 1.5})
        again.say({"jsonrpc": "2.0", "id": greeting["id"], "result": {"protocolVersion": "2025-06-18"}})
        assert as_line(INITIALIZED).replace(b" ", b"") == await again.next_line()
        request = await again.next_call()
        again.say(result(request, "second"))
        assert ((answer := await desk.receive())["id"], text_of(answer)) == (1, "second")


async def test_a_call_that_did_not_reach_the_server_is_sent_again() -> None:
    """A mutating call whose line the server did not take goes to the next run: nothing has landed."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        server.say(result(await server.next()))
        await desk.receive()
        server.deaf = True  # its stdin is closed, and its stdout not yet
        desk.send(call(2, "pay", {"cents": 2}))
        again = await desk.next_server()
        again.say(result(await again.next()))
        assert (await desk.receive())["id"] == 2


async def test_requests_that_passed_are_told_of_the_death() -> None:
    """A request that passed and was not answered gets an error, and what the dead server asked is cancelled."""
    async with open_desk() as (desk, server):
        server.say({"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create"})
        await desk.receive()
        desk.send({"jsonrpc": "2.0", "id": 5, "method": "prompts/list"})
        await server.next()
        server.die()
        answer, cancelled = await desk.receive(), await desk.receive()
        assert (answer["id"], answer["error"]["code"]) == (5, -32000)
        assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", "ask")
        again = await desk.next_server()
        desk.send({"jsonrpc": "2.0", "id": "ask", "result": {}})  # too late: the new server has not asked
        line = desk.send({"jsonrpc": "2.0", "id": 6, "method": "ping"})
        assert line == await again.next_line()


async def test_the_log_level_and_subscriptions_are_told_again() -> None:
    """A new server hears of what the old one accepted: the last log level, and subscriptions that were not ended."""
    async with open_desk() as (desk, server):
        await desk.greet(server)
        for number, method, params in (
            (1, "logging/setLevel", {"level": "debug"}),
            (2, "resources/subscribe", {"uri": "a"}),
            (3, "resources/subscribe", {"uri": "b"}),
            (4, "resources/unsubscribe", {"uri": "a"}),
            (5, "logging/setLevel", {"level": "error"}),
        ):
            desk.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            server.say({"jsonrpc": "2.0", "id": (await server.next())["id"], "result": {}})
            await desk.receive()
        server.die()
        again = await desk.next_server()
        told: list[Any] = []
        for _ in range(4):
            request = await again.next()
            told.append((request["method"], request.get("params")))
            if "id" in request:
                again.say({"jsonrpc": "2.0", "id": request["id"], "result": {}})
        assert told == [
            ("initialize", {"clientInfo": {"name": "test"}, "n": 1.5}),
            ("notifications/initialized", None),
            ("logging/setLevel", {"level": "error"}),
            ("resources/subscribe", {"uri": "b"}),
        ]


async def test_a_server_that_never_says_anything_is_not_started_again() -> None:
    """A server that ends before its first message ends the relay, with its exit code."""
    async with open_desk() as (desk, server):
        server.exit_code = 3
        server.die()
        await desk.ended.wait()
        assert desk.failed is not None
        assert desk.failed.exit_code == 3


async def test_a_server_that_dies_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six runs in a row that say nothing end the relay; a run that speaks begins the count anew."""
    monkeypatch.setattr(upstream, "_FIRST_DELAY", 0)
    async with open_desk() as (desk, server):
        server.say({"jsonrpc": "2.0", "method": "hello"})
        await desk.receive()
        server.die()
        for _ in range(6):
            (await desk.next_server()).die()
        await desk.ended.wait()
        assert desk.failed is not None


async def test_calls_wait_for_a_server_in_bounded_time() -> None:
    """A call that comes while no server is there is refused after the wait, and a request gets an error."""
    policy = RelayPolicy(limits=RelayLimits(server_wait=0.01))
    async with open_desk(policy) as (desk, server):
        await desk.greet(server)
        server.die()
        again = await desk.next_server()
        assert (await again.next())["method"] == "initialize"  # and it does not answer
        desk.send(call(1, "pay", {"cents": 1}))
        assert (await desk.receive())["result"]["_meta"] == {"toolcall/kind": "unavailable"}
        desk.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await desk.receive())["error"]["code"] == -32000


# -- hostile ends


async def test_answers_twice_and_to_nobody() -> None:
    """A second answer to a call is dropped, and so is a late one to a call that was cancelled."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        request = await server.next()
        server.say(result(request, "first"))
        server.say(result(request, "second"))
        line = server.say({"jsonrpc": "2.0", "method": "after"})
        lines = [await desk.receive_line(), await desk.receive_line()]
        assert line in lines
        lines.remove(line)
        assert text_of(json.loads(lines[0])) == "first"


async def test_half_a_line_of_a_server_that_dies_is_dropped() -> None:
    """What a server had begun to say when it died does not spoil the next line."""
    async with open_desk() as (desk, server):
        server.say({"jsonrpc": "2.0", "method": "hello"})
        await desk.receive()
        server.say(b'{"jsonrpc": "2.0", "id": 1, "res')
        server.die()
        again = await desk.next_server()
        line = again.say({"jsonrpc": "2.0", "method": "after"})
        assert line == await desk.receive_line()


async def test_cancel_reaches_the_server() -> None:
    """A cancelled call is cancelled at the server under the id that it has there, and gets no answer."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        request = await server.next()
        desk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        told = await server.next()
        assert ("notifications/cancelled", request["id"]) == (told["method"], told["params"]["requestId"])
        server.say(result(request))
        line = server.say({"jsonrpc": "2.0", "method": "after"})
        assert line == await desk.receive_line()


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit of the policy cancels the attempt at the server, and the call may have taken effect."""
    stopped = StoppedTime(monkeypatch)
    async with open_desk(RelayPolicy(timeout=0.01)) as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        request = await server.next()
        stopped.advance(0.01)
        assert request["id"] == (await server.next())["params"]["requestId"]
        assert (await desk.receive())["result"]["_meta"] == {"toolcall/kind": "outcome_unknown"}


@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        (b"{not json}\n", None, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":NaN}}\n', 1, -32700),
        (b'{"method":"tools/call","params":{"n":NaN},"jsonrpc":"2.0","id":"1"}\n', "1", -32700),
        (b'{"method":"tools/call","params":{"n":%s},"id":1}\n' % (b"9" * 5_000), 1, -32700),
        (b'{"method":"tools/call","params":%s,"id":1}\n' % (b"[" * 9_000 + b'"\\"]"' + b"]" * 9_000), 1, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":\n', 1, -32700),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"id":1}\n', None, -32700),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"n":"","id":1}\n', None, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"result":\n', None, -32700),
        (b"[" * 100_000 + b"\n", None, -32700),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"tools/call"}\n', None, -32700),
        (as_line(call(None, "pay")), None, -32600),
        (as_line(call([1], "pay")), None, -32600),
        (as_line(call(True, "pay")), None, -32600),
        (as_line(call(1.5, "pay")), None, -32600),
    ],
)
async def test_what_may_hide_a_call_does_not_pass(line: bytes, request_id: object, code: int) -> None:
    """A line that is no JSON, or a call without a proper id, is refused: the server might find a call in it.

    Its sender is told under its id, if it can be no other one.
    """
    async with open_desk() as (desk, server):
        with anyio.fail_after(PATIENT):
            await anyio.to_thread.run_sync(desk.send, line)
        assert (request_id, code) == ((answer := await desk.receive())["id"], answer["error"]["code"])
        assert server.received.statistics().current_buffer_used == 0


async def test_a_call_without_an_id_does_not_pass() -> None:
    """A call as a notification is dropped: it would pass by the policy."""
    async with open_desk() as (desk, server):
        desk.send({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "pay"}})
        line = desk.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert line == await server.next_line()


async def test_a_second_call_of_the_same_id_is_refused() -> None:
    """Two calls of one id at once cannot be told apart, so the second one is refused."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        request = await server.next()
        desk.send(call(1, "pay", {"cents": 2}))
        assert (await desk.receive())["error"]["code"] == -32600
        server.say(result(request))
        assert text_of(await desk.receive()) == "done"


async def test_ids_of_another_type_are_other_ids() -> None:
    """The ids 1 and "1" are two calls, and each gets its own answer."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "read_file", {"path": "number"}))
        await server.list_tools()
        desk.send(call("1", "read_file", {"path": "text"}))
        for _ in range(2):
            request = await server.next()
            server.say(result(request, request["params"]["arguments"]["path"]))
        answers = [await desk.receive(), await desk.receive()]
        assert {each["id"]: text_of(each) for each in answers} == {1: "number", "1": "text"}


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (as_line({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"x": "y" * 5_000}}), 7),
        (
            as_line({"method": "tools/call", "params": {"id": 3, "x": "y" * 5_000}, "jsonrpc": "2.0", "id": "end"}),
            "end",
        ),
        (as_line({"method": "tools/call", "id": "m", "params": {"x": "y" * 5_000}}), "m"),
        (as_line({"method": "tools/call", "params": {"x": "y" * 5_000, "id": 3}}), None),
    ],
)
async def test_a_long_line_of_the_client_is_refused(line: bytes, request_id: object) -> None:
    """A line over the limit is thrown away, and its sender is told under its id if that stands at one of its ends."""
    async with open_desk(SHORT) as (desk, server):
        desk.send(line)
        answer = await desk.receive()
        assert (request_id, -32600) == (answer["id"], answer["error"]["code"])
        line = desk.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert line == await server.next_line()


async def test_a_long_answer_fails_its_call_alone() -> None:
    """An answer over the limit is thrown away: the call failed, and nobody is told that it may be repeated."""
    async with open_desk(SHORT) as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        server.say(result(await server.next(), "x" * 5_000))
        answer = await desk.receive()
        assert answer["result"]["_meta"] == {"toolcall/kind": "execution"}
        assert "longer than 2,000 bytes" in text_of(answer)
        desk.send({"jsonrpc": "2.0", "id": 2, "method": "prompts/list"})
        server.say({"jsonrpc": "2.0", "id": (await server.next())["id"], "result": "x" * 5_000})
        assert ((answer := await desk.receive())["id"], answer["error"]["code"]) == (2, -32603)
        server.say({"jsonrpc": "2.0", "id": "ask", "method": "sampling/createMessage", "params": "x" * 5_000})
        assert ((told := await server.next())["id"], told["error"]["code"]) == ("ask", -32600)


async def test_calls_beyond_the_limit_are_told_to_come_later() -> None:
    """More calls at once than the policy permits are refused at once, and never reach the server."""
    policy = RelayPolicy(limits=RelayLimits(in_flight=2))
    async with open_desk(policy) as (desk, server):
        for number in (1, 2, 3):
            desk.send(call(number, "pay", {"cents": number}))
        answer = await desk.receive()
        assert (answer["id"], answer["result"]["_meta"]) == (3, {"toolcall/kind": "unavailable"})
        await server.list_tools()
        for _ in range(2):
            server.say(result(await server.next()))
        assert {1, 2} == {(await desk.receive())["id"] for _ in range(2)}


# -- batches of 2025-03-26


async def test_a_batch_with_calls_is_answered_as_one() -> None:
    """Calls in a batch pass the pipeline, the rest passes as a batch, and one array answers all."""
    async with open_desk() as (desk, server):
        ping, note = {"jsonrpc": "2.0", "id": 2, "method": "ping"}, {"jsonrpc": "2.0", "method": "x"}
        desk.send([call(1, "readFile", {"path": "x"}), ping, note, call(3, "unknown")])
        assert [ping, note] == json.loads(await server.next_line())
        await server.list_tools()
        request = await server.next()
        server.say(b'[{"jsonrpc": "2.0", "id": 2, "result": {}}]\n')
        server.say(result(request))
        answers = await desk.receive()
        assert {1, 2, 3} == {each["id"] for each in answers}


async def test_a_cancelled_call_of_a_batch_is_left_out() -> None:
    """The array comes without the answer to a call that was cancelled."""
    async with open_desk() as (desk, server):
        desk.send([call(1, "pay", {"cents": 1}), call(2, "pay", {"cents": 2})])
        await server.list_tools()
        first, second = sorted(
            [await server.next(), await server.next()], key=lambda each: each["params"]["arguments"]["cents"]
        )
        desk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        assert first["id"] == (await server.next())["params"]["requestId"]
        server.say(result(second))
        assert [each["id"] for each in await desk.receive()] == [2]


async def test_the_rest_of_a_batch_is_told_of_the_death() -> None:
    """If the server dies, the array holds an error for what it did not answer."""
    async with open_desk() as (desk, server):
        server.say({"jsonrpc": "2.0", "method": "hello"})
        await desk.receive()
        desk.send([call(1, "pay", {"cents": 1}), {"jsonrpc": "2.0", "id": 2, "method": "ping"}])
        await server.next()
        await server.list_tools()
        await server.next()
        server.die()
        assert {1, 2} == {each["id"] for each in await desk.receive()}


# -- the policy


async def test_a_closed_tool_is_refused_and_still_listed() -> None:
    """The policy closes a tool; the list passes unchanged."""
    policy = RelayPolicy(tools={"pay": ToolPolicy(closed=True)})
    async with open_desk(policy) as (desk, server):
        desk.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        line = server.say({"jsonrpc": "2.0", "id": (await server.next())["id"], "result": {"tools": TOOLS}})
        assert line == await desk.receive_line()
        desk.send(call(2, "pay", {"cents": 1}))
        assert (await desk.receive())["result"]["_meta"] == {"toolcall/kind": "unavailable"}


@pytest.mark.parametrize("trusted", [True, False])
async def test_the_effect_of_the_policy_comes_before_annotations(trusted: bool) -> None:
    """An effect in the policy decides, whatever the server says of itself."""
    policy = RelayPolicy(
        trust_annotations=trusted, tools={"read_file": ToolPolicy(effect="mutating"), "pay": ToolPolicy(effect="read")}
    )
    async with open_desk(policy) as (desk, server):
        desk.send(call(1, "read_file", {"path": "x"}))
        await server.list_tools()
        desk.send(call(2, "pay", {"cents": 1}))
        for _ in range(2):
            await server.next()
        server.die()
        assert (
            (answer := await desk.receive())["id"],
            answer["result"]["_meta"]["toolcall/kind"],
        ) == (1, "outcome_unknown")
        again = await desk.next_server()
        again.say(result(await again.next()))
        assert (await desk.receive())["id"] == 2


# -- crowds


async def test_two_hundred_calls_at_once_are_paired() -> None:
    """Each of 200 calls at once gets its own answer, in whatever order the server answers."""
    async with open_desk() as (desk, server):
        for number in range(200):
            desk.send(call(number, "pay", {"cents": number}))
        await server.list_tools()
        requests = [await server.next() for _ in range(200)]
        for request in reversed(requests):
            server.say(result(request, str(request["params"]["arguments"]["cents"])))
        answers = [await desk.receive() for _ in range(200)]
        assert {number: str(number) for number in range(200)} == {each["id"]: text_of(each) for each in answers}


async def test_three_megabytes_pass() -> None:
    """A call and an answer of 3 MB pass."""
    async with open_desk() as (desk, server):
        large = "x" * 3_000_000
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, desk.send, as_line(call(1, "read_file", {"path": large})))
            await server.list_tools()
            request = await server.next()
            assert large == request["params"]["arguments"]["path"]
            group.start_soon(anyio.to_thread.run_sync, server.say, as_line(result(request, large)))
            assert large == text_of(await desk.receive())


async def test_calls_that_run_are_finished_when_the_client_hangs_up() -> None:
    """Calls that run when the client closes its end are answered, then the server is ended."""
    async with open_desk() as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}))
        await server.list_tools()
        request = await server.next()
        desk.hang_up()
        server.say(result(request))
        assert (await desk.receive())["id"] == 1
        with anyio.fail_after(PATIENT):
            await desk.ended.wait()
        assert server.closed


# -- telemetry


async def test_each_call_is_one_span_between_the_client_and_the_server() -> None:
    """The trace of the client goes on in one `execute_tool`, and the server gets the attempt as its parent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with open_desk(tracer_provider=provider) as (desk, server):
        desk.send(call(1, "read_file", {"path": "x"}, _meta={"traceparent": f"00-{trace_id}-{parent}-01", "other": 1}))
        await server.list_tools()
        request = await server.next()
        server.say(result(request))
        await desk.receive()
        desk.send(call(2, "read_fil"))
        await desk.receive()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    tops = [span for span in exporter.get_finished_spans() if span.name.startswith("execute_tool")]
    assert [span.name for span in tops] == ["execute_tool read_file", "execute_tool _OTHER"]
    top, attempt_span = tops[0], spans["attempt read_file"].context
    assert top.parent is not None
    assert top.context is not None
    assert attempt_span is not None
    assert (trace_id, parent) == (format(top.context.trace_id, "032x"), format(top.parent.span_id, "016x"))
    attempt = format(attempt_span.span_id, "016x")
    assert {"traceparent": f"00-{trace_id}-{attempt}-01", "other": 1} == request["params"]["_meta"]


async def test_the_trace_passes_where_nobody_records() -> None:
    """Without a tracer the server gets the client's own `traceparent`, and odd ones do no harm."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with open_desk() as (desk, server):
        for number, given in enumerate((parent, 5, None, "odd", {"a": 1})):
            desk.send(call(number, "read_file", {"path": "x"}, _meta={"traceparent": given}))
            if number == 0:
                await server.list_tools()
            request = await server.next()
            assert given == request["params"]["_meta"]["traceparent"]
            server.say(result(request))
            await desk.receive()


async def test_progress_passes_and_is_recorded() -> None:
    """Progress of a call passes, and stands in the report of the call."""
    reports: list[CallReport] = []
    async with open_desk(sinks=[reports.append]) as (desk, server):
        desk.send(call(1, "pay", {"cents": 1}, _meta={"progressToken": "p"}))
        await server.list_tools()
        request = await server.next()
        params = {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
        line = server.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        assert line == await desk.receive_line()
        server.say(result(request))
        await desk.receive()
    assert [(each.done, each.total, each.message) for each in reports[0].progress] == [(1, 2, "half")]
