"""The relay between hostile ends: nothing runs twice, no call waits for ever, nothing ends the relay or fills it."""

from __future__ import annotations

import json
import os
import pickle
import re
from contextlib import suppress
from decimal import Decimal
from typing import Any, cast

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_desk import INITIALIZE, MODERN, TOOLS, Desk, ScriptedServer, anew, call, open_desk, result
from support import PATIENT, StoppedTime
from toolcall_pipeline import CallReport
from toolcall_pipeline.base import timing
from toolcall_pipeline.mcp import relay
from toolcall_pipeline.mcp.jsonrpc import Message, dump, hides_call, is_message, read
from toolcall_pipeline.mcp.lines import LineWriter
from toolcall_pipeline.mcp.open_requests import OpenRequests
from toolcall_pipeline.mcp.upstream import Session
from toolcall_pipeline.policies.relay_policy import RelayLimits, RelayPolicy

TRUSTED = RelayPolicy(trust_annotations=True)
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
DEEP = b"[" * 3_000 + b"]" * 3_000


def kind_of(answer: dict[str, Any]) -> str:
    kind: str = answer["result"].get("_meta", {}).get("toolcall/kind", "success")
    return kind


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


async def begin(desk: Desk, server: ScriptedServer, request_id: object = 1, **params: Any) -> dict[str, Any]:
    """Make a call, and return the request that reaches the server."""
    desk.send(call(request_id, "pay", {"cents": 1}, **params))
    await server.list_tools()
    return await server.next()


# -- answers that are none


@pytest.mark.parametrize("odd", [b"NaN", b"-Infinity", b"1e999", b"1" * 5_000, b'"\xff"', b'"\\ud800"'])
async def test_an_answer_with_what_only_some_readers_take_passes(odd: bytes) -> None:
    """An answer with a constant or a number that Python's JSON does not take passes with its values."""
    async with open_desk() as (desk, server):
        request = await begin(desk, server)
        line = b'{"jsonrpc":"2.0","id":"%s","result":{"content":[],"structuredContent":{"n": %s}}}\n'
        server.say(line % (request["id"].encode(), odd))
        assert anew((line % (b"#", odd)).replace(b'"#"', b"1")) == await desk.receive_line()


@pytest.mark.parametrize(
    "odd",
    [
        b'{"jsonrpc":"2.0","id":"%s","result":{"content":[],"x":' + DEEP + b"}}\n",
        b'{"jsonrpc":"2.0","id":"%s","result":{"content":[}}\n',
        b'{"jsonrpc":"2.0","id":"%s","result":{"content":[]}} trailing\n',
        b'[{"jsonrpc":"2.0","id":"%s","result":{"content":[]}},]\n',
        b'{"jsonrpc":"2.0","id":"%s"}\n',
        b'{"jsonrpc":"2.0","id":"%s","result":null}\n',
        b'{"jsonrpc":"2.0","id":"%s","result":[]}\n',
        b'{"jsonrpc":"2.0","id":"%s","error":null}\n',
        b'{"jsonrpc":"2.0","id":"%s","error":"broken"}\n',
        b'{"jsonrpc":"2.0","id":"%s","error":{"code":-32000}}\n',
        b'{"jsonrpc":"2.0","id":"%s","error":{"code":"x","message":"y"}}\n',
        b'{"jsonrpc":"2.0","id":"%s","error":{"code":true,"message":"y"}}\n',
        b'{"jsonrpc":"2.0","id":"%s","result":{},"error":{"code":1,"message":"y"}}\n',
        b'{"jsonrpc":"2.0","id":"%s","method":null}\n',
    ],
)
async def test_an_answer_that_cannot_be_read_ends_its_call(odd: bytes) -> None:
    """The call has run, so it fails and is not repeated; the client is not shown an id that it does not know."""
    async with open_desk(TRUSTED) as (desk, server):
        desk.send(call(1, "read_file", {"path": "x"}))
        await server.list_tools()
        request = await server.next()
        await anyio.to_thread.run_sync(server.say, odd.replace(b"%s", request["id"].encode()))
        answer = await desk.receive()
        assert (answer["id"], kind_of(answer)) == (1, "execution")
        assert "cannot be read" in text_of(answer)
        line = desk.send(b'{"jsonrpc":"2.0","method":"after"}\n')
        assert line == await server.next_line()


@pytest.mark.parametrize(
    "noise",
    [
        b"working on %s\n",
        b'got {"jsonrpc":"2.0","id":"%s","method":"tools/call"}\n',
        b'sending {"jsonrpc":"2.0","id":"%s","result":{}}\n',
        b"{'id': '%s'}\n",
    ],
)
async def test_what_a_server_prints_of_a_call_is_no_answer(noise: bytes) -> None:
    """A server that prints to its stdout what it does has not answered yet."""
    async with open_desk() as (desk, server):
        request = await begin(desk, server)
        server.say(noise % request["id"].encode())
        server.say(result(request))
        assert text_of(await desk.receive()) == "done"


async def test_half_an_answer_of_a_server_that_dies_is_no_answer() -> None:
    """A read whose answer broke off is repeated."""
    async with open_desk(TRUSTED) as (desk, server):
        desk.send(call(1, "read_file", {"path": "x"}))
        await server.list_tools()
        request = await server.next()
        server.say(b'{"jsonrpc":"2.0","id":"%s","result":{"cont' % request["id"].encode())
        server.die()
        again = await desk.next_server()
        again.say(result(await again.next(), "second"))
        assert text_of(await desk.receive()) == "second"


async def test_a_long_answer_with_its_id_in_an_odd_place_ends_its_call() -> None:
    """Members behind the id do not hide whose answer was thrown away."""
    async with open_desk(RelayPolicy(limits=RelayLimits(line_bytes=2_000))) as (desk, server):
        request = await begin(desk, server)
        server.say({"result": {"content": [], "x": "y" * 9_000}, "id": request["id"], "extra": 1, "more": [2]})
        answer = await desk.receive()
        assert (answer["id"], kind_of(answer)) == (1, "execution")
        assert "longer than 2,000 bytes" in text_of(answer)


@pytest.mark.parametrize("number", [b"1e999", b"true", b"-1", b"1" + b"0" * 400, b"NaN", b'"1"', b"null"])
async def test_odd_progress_does_no_harm(number: bytes) -> None:
    """It passes as it came, and its call goes on."""
    async with open_desk(sinks=[list[CallReport]().append]) as (desk, server):
        request = await begin(desk, server, _meta={"progressToken": 5})
        params = b'{"progressToken":5,"progress":%s,"total":%s,"message":"\\ud800"}' % (number, number)
        line = server.say(b'{"jsonrpc":"2.0","method":"notifications/progress","params":%s}\n' % params)
        assert line == await desk.receive_line()
        server.say(result(request))
        assert (await desk.receive())["id"] == 1


@pytest.mark.parametrize("depth", [100, 190, 200, 3_000])
async def test_deep_definitions_end_nothing(depth: int) -> None:
    """A list that is too deep to read is told as that, one that can be read is used; twice, since it is compared."""
    deep = '{"a":' * depth + "1" + "}" * depth
    tools = f'[{{"name":"pay"}},{{"name":"deep","inputSchema":{{"x":{deep}}}}}]'

    async def serve() -> None:
        while True:
            request = await server.next()
            if request["method"] == "tools/list":
                server.say(b'{"id":"%s","result":{"tools":%s}}\n' % (request["id"].encode(), tools.encode()))
            else:
                server.say(result(request))

    async with open_desk() as (desk, server), anyio.create_task_group() as group:
        group.start_soon(serve)
        for number in range(2):
            desk.send(call(number, "pay", {"cents": 1}))
            answer = await desk.receive()
            assert ("does not list" in text_of(answer)) is (depth > 190)
            server.say(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n')
            await desk.receive_line()
        group.cancel_scope.cancel()


# -- calls that hide


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"x","Method":"tools/call","Method":"ping","METHOD":"tools/call"}\n',
        b'{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"pay"}}\n',
        b'{"jsonrpc":"2.0","id":1,"METHOD":"tools\\/call"}\n',
        b'{"jsonrpc":"2.0","id":1,"\\u004dethod":"\\u0074ools/c\\u0061ll","method":"ping"}\n',
        b'[{"jsonrpc":"2.0","id":1,"Method":"tools/call"},{"jsonrpc":"2.0","id":2,"method":"ping"}]\n',
        b'[[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]]\n',
        b'{"jsonrpc":"2.0","id":1,"method\\u0000x":"tools/call","method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call\\u0000x","params":{"name":"pay"}}\n',
        b'[{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"pay"}},{"id":1,"Method":"tools/call"}]\n',
    ],
)
async def test_a_call_that_only_another_reader_sees_does_not_pass(line: bytes) -> None:
    """Readers differ in equal keys and in the case of keys: what one of them may take for a call is refused."""
    async with open_desk() as (desk, server):
        desk.send(line)
        answer = await desk.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert server.received.statistics().current_buffer_used == 0


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"method":"tools/call"}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{"text":"method: \\"tools/call\\""}}\n',
        b'{"jsonrpc":"2.0","method":"x","params":"tools/call","params":2}\n',
    ],
)
async def test_what_only_speaks_of_calls_passes(line: bytes) -> None:
    """The words alone are no call."""
    async with open_desk() as (desk, server):
        desk.send(line)
        assert anew(line) == await server.next_line()
        assert not hides_call(read(line))


@pytest.mark.parametrize("name", [["pay"], {"a": 1}, 5, None, True, "x" * 10_000])
async def test_odd_names_are_unknown(name: Any) -> None:
    """A name that is no text is that of no tool."""
    async with open_desk() as (desk, server):
        await begin(desk, server)
        desk.send(call(2, name, {}))
        assert kind_of(await desk.receive()) == "unknown_tool"


# -- batches of 2025-03-26


async def test_the_parts_of_a_batch_pass_with_their_values() -> None:
    """What is no call goes to the server, and each answer comes back, written anew with the same values."""
    odd = b'{"id":2, "jsonrpc":"2.0","method":"y","params":{"n":1.50,"m":1e999,"m":10000000000000000000001}}'
    answer = b'{"jsonrpc":"2.0","id":2, "result":{"n":1.50,"m":NaN}}'
    async with open_desk() as (desk, server):
        desk.send(b'[ {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}} , %s ]\n' % odd)
        assert anew(b"[%s]" % odd) == await server.next_line()
        server.say(b"%s\r\n" % answer)
        await server.list_tools()
        line = await desk.receive_line()
        assert anew(answer).strip() in line
        assert {1, 2} == {each["id"] for each in json.loads(line)}


async def test_a_batch_of_the_server_passes_without_what_is_ours() -> None:
    """The answer to a call is taken out; the rest has its values."""
    note = b'{"jsonrpc":"2.0", "method":"y","params":{"n":1e999}}'
    async with open_desk() as (desk, server):
        request = await begin(desk, server)
        answer = b'{"jsonrpc":"2.0", "id":"%s","result":{"content":[], "n":1.50}}'
        server.say(b"[%s, %s]\n" % (answer % request["id"].encode(), note))
        assert {anew(b"[%s]" % note), anew((answer % b"#").replace(b'"#"', b"1"))} == {
            await desk.receive_line(),
            await desk.receive_line(),
        }


async def test_a_request_of_a_batch_that_is_cancelled_does_not_hold_up_the_others() -> None:
    """A server does not answer what was cancelled, so the array comes without it."""
    async with open_desk() as (desk, server):
        desk.send([call(1, "pay", {"cents": 1}), PING])
        assert json.loads(await server.next_line()) == [PING]
        await server.list_tools()
        request = await server.next()
        desk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        await server.next()
        server.say(result(request))
        assert [each["id"] for each in await desk.receive()] == [1]


@pytest.mark.parametrize("other", [1, 1.5, None, [7], "1"], ids=repr)
async def test_ids_in_a_batch_that_are_odd_or_taken(other: object) -> None:
    """Each request of a batch is answered once, whatever its id: one that runs already, one twice, one of no type."""
    async with open_desk() as (desk, server):
        request = await begin(desk, server)
        desk.send([call(1, "pay", {"cents": 2}), call(3, "nope"), {**PING, "id": other}])
        await server.next()
        server.say({"jsonrpc": "2.0", "id": other, "result": {}})
        answers = await desk.receive()
        assert len(answers) == 3
        assert [each["error"]["code"] for each in answers if "error" in each] == [-32600]
        server.say(result(request))
        assert (await desk.receive())["id"] == 1


# -- messages that are written anew

ODD_SPACES = st.text(" \t\r\n", max_size=3)
TOKENS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)


def as_text(value: Any, draw: st.DrawFn) -> str:
    """A value as JSON text with odd blanks between its tokens, twins before each key, and text raw or escaped."""
    pad = draw(ODD_SPACES)
    if is_message(value):
        twins = [f'{json.dumps(key)}:{pad}"tools/call",' for key in value if draw(st.booleans())]
        members = [f"{json.dumps(key)}{pad}:{as_text(each, draw)}" for key, each in value.items()]
        return "{" + pad + "".join(twins) + ",".join(members) + pad + "}"
    if isinstance(value, list):
        return "[" + pad + ",".join(as_text(each, draw) for each in cast("list[Any]", value)) + pad + "]"
    if isinstance(value, Decimal):
        return f"{pad}{value}{pad}"
    return pad + json.dumps(value, ensure_ascii=draw(st.booleans())) + pad


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, Any]:
    """A line, and what it says."""
    texts = st.text(st.characters(), max_size=8) | st.sampled_from(
        ["\u2028", "\x85", "\ufeff", "\x00", "\r{}", "\ud800"]
    )
    values = st.recursive(
        st.none() | st.booleans() | texts | TOKENS.map(Decimal),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=8,
    )
    message = draw(st.dictionaries(texts, values, max_size=4))
    return as_text(message, draw).encode(errors="surrogatepass"), message


def read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@given(messages())
@example((b'{"a":12345678901234567.89,"b":-0,"c":1e400,"d":0.1000000000000000055511151231257827}', None))
def test_no_other_reader_sees_another_message(sent: tuple[bytes, Any]) -> None:
    """What passes is one line for each reader of lines, names no key twice, and has the exact values that were sent."""
    line, _ = sent
    with suppress(ValueError):
        message = read(line)
        for written in (dump(message), dump(read(line, leniently=True))):
            text = written.decode()
            assert [text.rstrip("\n")] == text.splitlines()
            assert not re.search("[\x00-\x1f]", text.rstrip("\n"))
            exactly = json.JSONDecoder(object_pairs_hook=read_pairs, parse_float=Decimal, parse_int=Decimal)
            expected = json.loads(line.decode(errors="replace").strip(), parse_float=Decimal, parse_int=Decimal)
            assert repr(expected) == repr(exactly.decode(text)) or expected == exactly.decode(text)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0",\r"id":1,"method":"ping"\r}\r\n',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping"}\n',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\u2028\x85\ufeff"}}\n'.encode(),
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\u0000\\ud800","n":[1e400,-0,0.30000000000000000001]}}\n',
    ],
)
async def test_a_line_that_another_reader_could_split_passes_as_one(line: bytes) -> None:
    """A carriage return, equal keys and ends of lines of Unicode do not reach the server as they came."""
    async with open_desk() as (desk, server):
        desk.send(line)
        written = await server.next_line()
        assert [written.decode().rstrip("\n")] == written.decode().splitlines()
        assert json.loads(line, parse_float=Decimal) == json.loads(written, parse_float=Decimal)


@pytest.mark.parametrize("number", ["12345678901234567.89", "1e400", "4.99999999999999999999"])
async def test_a_call_with_a_number_that_a_double_rounds_is_refused(number: str) -> None:
    """A rule and a person would see another number than the server: the model is told where, and nothing is sent."""
    async with open_desk() as (desk, server):
        await begin(desk, server)
        desk.send(
            b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"pay","arguments":{"c":[%s]}}}\n'
            % number.encode()
        )
        answer = await desk.receive()
        assert (answer["id"], kind_of(answer)) == (2, "validation")
        assert "c[0]" in text_of(answer)
        assert server.received.statistics().current_buffer_used == 0


async def test_params_in_another_case_do_not_reach_the_server() -> None:
    """A reader that takes ``Arguments`` for ``arguments``, or ends a text at NUL, would see others than were judged."""
    async with open_desk() as (desk, server):
        hidden = {"name\0": "other", "arguments\0x": {"cents": 9}, "Name\0": "other"}
        request = await begin(desk, server, Name="other", ARGUMENTS={"cents": 9}, **hidden)
        assert request["params"] == {"name": "pay", "arguments": {"cents": 1}}


# -- a server that dies


async def test_a_call_that_comes_as_the_server_dies_is_made_once_and_answered() -> None:
    """A call that the dead server never got is no lost call: the next run answers it."""
    async with open_desk() as (desk, server):
        server.say(result(await begin(desk, server)))
        await desk.receive()
        server.deaf = True
        desk.send(call(2, "pay", {"cents": 2}))
        again = await desk.next_server()
        again.say(result(await again.next(), "made"))
        assert text_of(await desk.receive()) == "made"


async def test_a_request_that_waits_for_the_next_server_is_answered_once() -> None:
    """A request that the dead server never got is not told of the death; one that it got is told, in its batch too."""
    async with open_desk() as (desk, server):
        server.say({"jsonrpc": "2.0", "method": "hello"})
        await desk.receive()
        desk.send({**PING, "id": 1})
        await server.next()
        server.deaf = True
        desk.send(PING)
        again = await desk.next_server()
        assert ((told := await desk.receive())["id"], told["error"]["code"]) == (1, -32000)
        assert (await again.next())["id"] == 2
        line = again.say({"jsonrpc": "2.0", "id": 2, "result": {}})
        assert line == await desk.receive_line()


async def test_an_initialize_that_waits_for_the_next_server_is_told_to_the_one_after_it() -> None:
    """A greeting that reached only the second run is what the third one is greeted with."""
    async with open_desk() as (desk, server):
        server.say({"jsonrpc": "2.0", "method": "hello"})
        await desk.receive()
        server.deaf = True
        desk.send(INITIALIZE)
        second = await desk.next_server()
        second.say({"jsonrpc": "2.0", "id": (await second.next())["id"], "result": {}})
        await desk.receive()
        second.die()
        third = await desk.next_server()
        assert (await third.next())["method"] == "initialize"


async def test_lines_that_wait_for_a_server_wait_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many messages come while the server is away, none behind them waits longer than `server_wait`."""
    stopped = StoppedTime(monkeypatch)
    async with open_desk(RelayPolicy(limits=RelayLimits(server_wait=0.05))) as (desk, server):
        await desk.greet(server)
        server.die()
        again = await desk.next_server()
        assert (await again.next())["method"] == "initialize"  # and it does not answer
        for number in range(200):
            desk.send({**PING, "id": number})
        stopped.advance(0.05)
        for number in range(200):
            assert ((answer := await desk.receive())["id"], answer["error"]["code"]) == (number, -32000)


async def test_a_server_that_is_of_no_use_is_started_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """To answer the greeting is not enough to be started again at once; to answer the client is."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(timing, "sleep", sleep)
    async with open_desk() as (desk, server):
        await desk.greet(server)
        run = server
        for number in range(10):
            run.die()
            run = await desk.next_server()
            run.say({"jsonrpc": "2.0", "id": (await run.next())["id"], "result": {}})
            await run.next()
            if number == 7:
                desk.send(PING)
                run.say({"jsonrpc": "2.0", "id": (await run.next())["id"], "result": {}})
                await desk.receive()
    assert slept[:8] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert slept[8:10] == [0.05, 0.1]


@pytest.mark.parametrize("changed", [False, True])
async def test_the_client_hears_of_tools_that_a_restart_changed(changed: bool) -> None:
    """A server that comes back with other tools is told to the client; one that comes back as it was is not."""
    async with open_desk() as (desk, server):
        await desk.greet(server)
        desk.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        server.say({"jsonrpc": "2.0", "id": (await server.next())["id"], "result": {"tools": TOOLS}})
        await desk.receive()
        server.die()
        again = await desk.next_server()
        again.say({"jsonrpc": "2.0", "id": (await again.next())["id"], "result": {}})
        await again.next()
        await again.list_tools([{**TOOLS[0], "description": "Other."}, TOOLS[1]] if changed else TOOLS)
        if changed:
            assert await desk.receive() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        await anyio.wait_all_tasks_blocked()
        line = again.say({"jsonrpc": "2.0", "method": "after"})
        assert line == await desk.receive_line()


async def test_a_client_without_a_handshake_is_told_nothing_that_it_does_not_listen_for() -> None:
    """From 2026 on a client hears of changes in a stream that it opened, and opens again after a restart."""
    async with open_desk() as (desk, server):
        server.say(result(await begin(desk, server, _meta=MODERN)))
        await desk.receive()
        server.die()
        again = await desk.next_server()
        line = desk.send(PING)
        assert line == await again.next_line()


async def test_a_consent_to_a_dead_server_is_none_to_the_next_one() -> None:
    """A question whose id a dead server used too gets another id, so that each answer goes where it belongs."""
    question = {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": "Send it?"}}
    async with open_desk() as (desk, server):
        server.say(question)
        await desk.receive()
        server.die()
        assert (await desk.receive())["params"]["requestId"] == 0
        again = await desk.next_server()
        again.say({**question, "params": {"message": "Delete it?"}})
        asked = await desk.receive()
        assert (asked["params"]["message"], asked["id"] != 0) == ("Delete it?", True)
        desk.send({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept"}})  # to the dead one, and too late
        desk.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
        assert await again.next() == {"jsonrpc": "2.0", "id": 0, "result": {"action": "decline"}}
        again.say({**question, "id": 0})  # now the number is free again
        assert (await desk.receive())["id"] == 0


async def test_a_question_with_another_id_is_cancelled_under_that_one() -> None:
    """The client hears of the cancellation under the id that it knows."""
    question = {"jsonrpc": "2.0", "id": "a", "method": "sampling/createMessage"}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a", "reason": "late"}}
    async with open_desk() as (desk, server):
        server.say(question)
        await desk.receive()
        server.die()
        await desk.receive()
        again = await desk.next_server()
        again.say(question)
        asked = await desk.receive()
        again.say(cancel)
        assert {"requestId": asked["id"], "reason": "late"} == (await desk.receive())["params"]


async def test_a_client_that_is_gone_ends_a_relay_that_cannot_pass_its_message_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that reads nothing does not keep the relay, and so itself, when nobody is there any more."""

    async def take_nothing(_line: bytes) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(relay, "_LOOK", 0.001)
    monkeypatch.setattr(relay, "_DRAINING", 0.001)
    async with open_desk() as (desk, server):
        monkeypatch.setattr(server, "send", take_nothing)
        desk.send(PING)
        desk.hang_up()
        with anyio.fail_after(PATIENT):
            await desk.ended.wait()
        assert server.closed


# -- a client that reads slowly


async def test_lines_that_wait_are_counted() -> None:
    """Who waits for room waits until enough has been written."""
    read_end, write_end = os.pipe()
    writer, order = LineWriter(write_end), list[str]()

    async def write() -> None:
        await writer.write(b"x" * 1_000_000)
        order.append("written")

    async def wait() -> None:
        await writer.wait_for_room(999_999)
        order.append("room")

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        await writer.wait_for_room(1_000_000)
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert order == []
        left = 1_000_000
        while left:
            await anyio.wait_readable(read_end)
            left -= len(os.read(read_end, 65_536))
    assert sorted(order) == ["room", "written"]
    os.close(read_end)
    os.close(write_end)


async def test_a_client_that_does_not_read_stops_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of many calls do not pile up: beyond `in_flight_bytes` nothing more is read from the server."""
    full, said = anyio.Event(), list[int]()
    wait = LineWriter.wait_for_room

    async def wait_and_tell(writer: LineWriter, most: int) -> None:
        with anyio.move_on_after(0) as scope:
            await wait(writer, most)
        if scope.cancelled_caught:
            full.set()
            await wait(writer, most)

    monkeypatch.setattr(LineWriter, "wait_for_room", wait_and_tell)
    async with open_desk(RelayPolicy(limits=RelayLimits(in_flight_bytes=1_000_000))) as (desk, server):
        for number in range(20):
            desk.send(call(number, "pay", {"cents": 1}))
        await server.list_tools()
        requests = [await server.next() for _ in range(20)]

        def say_all() -> None:
            for request in requests:
                server.say(result(request, "x" * 900_000))
                said.append(request["id"])

        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, say_all)
            with anyio.fail_after(PATIENT):
                await full.wait()
            assert len(said) < 10
            assert set(range(20)) == {(await desk.receive())["id"] for _ in range(20)}


async def test_what_is_open_keeps_little_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a request that passed only what is needed later is kept, however large it and its id are."""
    noted: list[OpenRequests] = []
    make = OpenRequests.__init__

    def note(self: OpenRequests, *arguments: Any) -> None:
        make(self, *arguments)
        noted.append(self)

    monkeypatch.setattr(OpenRequests, "__init__", note)
    large = "y" * 50_000
    async with open_desk() as (desk, server):
        for request_id, method in ((1, "completion/complete"), (2, "resources/subscribe"), (3, large), (large, "ping")):
            params = {"cursor": large, "uri": large + large, "ref": [large]}
            request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            with anyio.fail_after(PATIENT):  # a pipe holds less
                await anyio.to_thread.run_sync(desk.send, request)
            await server.next_line()
        server.say({"jsonrpc": "2.0", "id": large, "method": "ping"})
        await desk.receive()
        assert len(pickle.dumps(noted[0])) < 30_000
        server.die()
        assert {(await desk.receive())["id"] for _ in range(3)} == {1, 2, 3}


def test_a_request_of_the_client_answers_nothing() -> None:
    """Only an answer with the id that a server asked under, and which has ended, is dropped."""
    open_requests = OpenRequests(10, Session())
    open_requests.note_asked({"id": 1, "method": "roots/list"})
    open_requests.end(())
    answer: Message = {"id": 1, "result": {}}
    request: Message = {"id": 1, "method": "ping"}
    other: Message = {"id": "1", "result": {}}
    assert [open_requests.is_void(each) for each in (answer, request, other)] == [True, False, False]
    open_requests.drop_void(answer)
    assert not open_requests.is_void(answer)
