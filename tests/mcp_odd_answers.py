"""Answers of a server of MCP that cannot be read, through the package ``mcp``. ``make test-mcp`` runs it."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from returns.result import Failure, Success

from benchmarks.scale.servers import HOST, hold_port
from toolcall_pipeline import Outcome, Pipeline, ToolRegistry
from toolcall_pipeline.mcp import add_server, remote_server
from toolcall_pipeline.middlewares import standard

SERVER = str(Path(__file__).parent / "support" / "odd_mcp_server.py")
SOON = 120  # seconds; a call that waits for ever is told by it, on however slow a machine
pytestmark = pytest.mark.filterwarnings("default")  # those of the packages of others
both = pytest.mark.parametrize("over", ["stdio", "http"])


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was of no use is made again after 0.2 seconds each time, and not later and later."""
    monkeypatch.setattr(remote_server, "_MOST_DELAY", 0.2)


ODD = [
    b'{"jsonrpc":"2.0","id":ID,"result":null}',
    b'{"jsonrpc":"2.0","id":ID,"result":[]}',
    b'{"jsonrpc":"2.0","id":ID,"result":{}}',
    b'{"jsonrpc":"2.0","id":ID}',
    b'{"id":ID,"result":{"content":[]}}',
    b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32000}}',
    b'{"jsonrpc":"2.0","id":ID,"error":null}',
    b'{"jsonrpc":"2.0","id":ID,"error":"broken"}',
    b'{"jsonrpc":"2.0","id":ID,"error":{"message":"x","code":"y"}}',
    b'{"jsonrpc":"2.0","id":[ID],"result":{"content":[]}}',
    b'{"jsonrpc":"2.0","id":true,"result":{"content":[]}}',
    b'{"jsonrpc":"2.0","id":null,"result":{"content":[]}}',
    b'{"jsonrpc":"2.0","id":99.5,"result":{"content":[]}}',
    b'{"jsonrpc":"2.0","id":"nobody","result":{"content":[]}}',
    b'{"jsonrpc":"2.0","id":"nobody","error":{"code":1,"message":"x"}}',
    b'{"jsonrpc":"2.0","result":{"content":[]}}',
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\xff\xfe"}]',
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[',
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"a":tru}}',
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":ID,"result":{"content":[],"a":}}',
    b'[{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}]',
    '{"jsonrpc":"2.0","id":ID,"result":{}}'.encode("utf-16-le").replace(b"I\0D\0", b"ID"),
    b"\xff\xfe\xfd",
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text"}]}}',
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":"text"}}',
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":NaN}}',
]


@asynccontextmanager
async def open_odd(over: str, monkeypatch: pytest.MonkeyPatch, tools: Any = ()) -> AsyncGenerator[ToolRegistry]:
    """A registry with the tools of the odd server."""
    monkeypatch.setenv("ODD_TOOLS", json.dumps(tools))
    registry = ToolRegistry()
    if over == "stdio":
        stdio: Any = import_module("mcp.client.stdio")
        target = stdio.StdioServerParameters(
            command=sys.executable, args=[SERVER], env={"ODD_TOOLS": json.dumps(tools)}
        )
        async with add_server(registry, target):
            yield registry
    else:
        port = hold_port()
        async with await anyio.open_process([sys.executable, SERVER, str(port)]) as process:
            with anyio.fail_after(SOON):
                while not await listens(port):  # noqa: ASYNC110  # of a process
                    await anyio.sleep(0.02)
            async with add_server(registry, f"http://{HOST}:{port}/mcp"):
                yield registry
            process.kill()


async def listens(port: int) -> bool:
    """Whether somebody listens at a port."""
    try:
        await (await anyio.connect_tcp(HOST, port)).aclose()
    except OSError:
        return False
    return True


async def say(pipeline: Pipeline, frame: bytes, **more: Any) -> Outcome:
    """Make a call that is answered with these bytes."""
    with anyio.fail_after(SOON):
        return await pipeline.call("say", {"frame": frame.hex(), **more})


async def say_well(pipeline: Pipeline) -> None:
    """The connection is of use, or is made again."""
    with anyio.fail_after(SOON):
        while (outcome := await pipeline.call("say", {})) != Success("well"):
            assert isinstance(outcome, Failure)
            await anyio.sleep(0.05)


@both
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(over: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a server answers, its call ends without a time limit, and the next one is answered."""
    async with open_odd(over, monkeypatch) as registry:
        pipeline = standard(registry)
        for frame in ODD:
            outcome = await say(pipeline, frame)
            assert isinstance(outcome, Failure), frame
            await say_well(pipeline)


async def test_a_response_of_http_that_answers_nothing_fails_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does a status that says that no answer comes, another kind of content, and a stream without an answer."""
    event = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
    async with open_odd("http", monkeypatch) as registry:
        pipeline = standard(registry)
        cases: list[tuple[bytes, dict[str, Any]]] = [
            (b"", {"status": 202}),
            (b"", {}),
            (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}', {}),
            (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', {}),
            (b"<html>", {"kind": "text/html"}),
            (event, {"kind": "text/event-stream"}),
            (b"data: {nothing\n\n", {"kind": "text/event-stream"}),
            (b"\xff\xff\n\n", {"kind": "text/event-stream"}),
            (b"{}", {"status": 500}),
        ]
        for frame, more in cases:
            assert isinstance(await say(pipeline, frame, **more), Failure), frame
            await say_well(pipeline)


@both
async def test_random_frames_hold_up_no_call(over: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of an answer are cut, doubled, replaced and put in, 60 times."""
    dice = random.Random(7)
    whole = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok"}],"isError":false}}'
    async with open_odd(over, monkeypatch) as registry:
        pipeline = standard(registry)
        for _ in range(60):
            frame = bytearray(whole)
            for _ in range(dice.randint(1, 4)):
                place = dice.randrange(len(frame))
                if dice.random() < 0.3:
                    frame[place : place + dice.randint(1, 30)] = b""
                else:
                    frame[place : place + dice.randint(0, 3)] = bytes(dice.choices(b'{}[]":,0\xff\xc3aN\\', k=2))
            await say(pipeline, bytes(frame))
            await say_well(pipeline)


async def test_what_a_server_prints_beside_its_answer_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that is no answer, and an answer to nobody after the answer, are passed over."""
    well = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok"}]}}'
    async with open_odd("stdio", monkeypatch) as registry:
        pipeline = standard(registry)
        for noise in (
            b"working",
            b"[INFO] ready",
            b"{'a': 1}"[1:],
            b'{"level":"info"}',
            b'{"jsonrpc":"2.0","method":"x"}',
        ):
            assert await say(pipeline, noise + b"\n" + well + b"\n" + well) == Success("ok")


@both
async def test_an_odd_tool_is_left_out_by_name_and_the_others_work(
    over: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each tool that the package does not take is logged with what is wrong with it."""
    odd: dict[str, dict[str, Any]] = {
        "no_schema": {"name": "no_schema"},
        "no_type": {"name": "no_type", "inputSchema": {"properties": {}}},
        "list_schema": {"name": "list_schema", "inputSchema": []},
        "odd_output": {"name": "odd_output", "inputSchema": {"type": "object"}, "outputSchema": "text"},
        "odd_hints": {"name": "odd_hints", "inputSchema": {"type": "object"}, "annotations": 5},
        "odd_text": {"name": "odd_text", "inputSchema": {"type": "object"}, "description": 5},
    }
    async with open_odd(over, monkeypatch, [*odd.values(), 5, None, {"name": 3}]) as registry:
        await say_well(standard(registry))
        assert registry.tools.keys() - odd.keys() == {"say"}
        logged = "\n".join(record.getMessage() for record in caplog.records)
        for name in odd.keys() - registry.tools.keys():
            assert f"left out: {name}: " in logged
        assert "no_schema" not in registry
        assert "pydantic" not in logged
