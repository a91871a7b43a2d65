"""A relay between a client and a server that both are played by the test: no process, and nothing waits for a time."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import attrs

from support import PATIENT
from toolcall_pipeline import Pipeline, ToolRegistry
from toolcall_pipeline.mcp.jsonrpc import dump, read
from toolcall_pipeline.mcp.lines import LineReader, LineWriter, LongLine
from toolcall_pipeline.mcp.policy_pipeline import make_pipeline
from toolcall_pipeline.mcp.relay import Relay
from toolcall_pipeline.mcp.server import Server, ServerGoneError
from toolcall_pipeline.mcp.upstream import ServerFailedError
from toolcall_pipeline.middlewares import Retry, Trace
from toolcall_pipeline.policies.relay_policy import RelayPolicy
from toolcall_pipeline.stores import SQLite

TOOLS: list[dict[str, Any]] = [
    {
        "name": "read_file",
        "description": "Read a file.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "lines": {"type": "array", "items": {"type": "integer"}},
                "limit": {"type": "integer"},
            },
            "required": ["path"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {"name": "pay", "inputSchema": {"type": "object", "properties": {"cents": {"type": "integer"}}}},
]
GREETING: dict[str, Any] = {"clientInfo": {"name": "test"}, "n": 1.50}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": GREETING}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "t"}}


def as_line(message: object) -> bytes:
    """A message as a relay writes it."""
    return dump(message)


def anew(line: bytes) -> bytes:
    """What a relay makes of a line that passes."""
    return dump(read(line, leniently=True))


def call(request_id: object, name: str, arguments: object = None, **params: object) -> dict[str, Any]:
    """A request of the client."""
    params = {"name": name, **({} if arguments is None else {"arguments": arguments}), **params}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def result(request: Mapping[str, Any], text: str = "done", **more: object) -> dict[str, Any]:
    """The answer of a tool that succeeded."""
    content = [{"type": "text", "text": text}]
    return {"jsonrpc": "2.0", "id": request["id"], "result": {"content": content, **more}}


@attrs.define(eq=False, slots=False)
class ScriptedServer:
    """One run of a server, played by the test."""

    limit: int
    is_remote: bool = False
    exit_code: int | None = None
    closed: bool = False
    deaf: bool = False  # it has closed its stdin
    dead: bool = False

    def __attrs_post_init__(self) -> None:
        self.to_server, self.received = anyio.create_memory_object_stream[bytes](10_000)
        self.read_end, self.write_end = os.pipe()
        self.reader = LineReader(self.read_end, self.limit)

    async def send(self, line: bytes) -> None:
        if self.dead or self.deaf:
            raise ServerGoneError("no")
        await self.to_server.send(line)

    async def read(self) -> bytes | LongLine | None:
        return await self.reader.read()

    async def watch(self) -> None:
        """`read` tells of the end."""

    async def close(self, grace: float) -> None:
        if not self.closed:
            self.closed = True
            self.die()

    # what the test does

    async def next_line(self) -> bytes:
        """What the relay sent next."""
        with anyio.fail_after(PATIENT):
            return await self.received.receive()

    async def next(self) -> dict[str, Any]:
        """What the relay sent next, parsed."""
        found: dict[str, Any] = json.loads(await self.next_line())
        return found

    def say(self, message: object) -> bytes:
        """Write a message, or bytes as they are; returns them."""
        line = message if isinstance(message, bytes) else as_line(message)
        os.write(self.write_end, line)
        return line

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            os.close(self.write_end)

    async def list_tools(self, tools: list[dict[str, Any]] = TOOLS) -> dict[str, Any]:
        """Answer the relay, which asks for the tools. Returns its request."""
        request = await self.next()
        assert request["method"] == "tools/list"
        self.say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": tools}})
        return request

    async def next_call(self) -> dict[str, Any]:
        """The next call, after the list of tools if the relay asks for it before."""
        request = await self.next()
        if request["method"] == "tools/list":
            self.say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": TOOLS}})
            request = await self.next()
        assert request["method"] == "tools/call"
        return request


@attrs.define(eq=False, slots=False)
class Desk:
    """The client, played by the test, and the runs of the server."""

    policy: RelayPolicy
    tracing: Mapping[str, Any]
    store: Path | None = None

    def __attrs_post_init__(self) -> None:
        self.from_client, self.client_end = os.pipe()
        self.client_reads, self.to_client = os.pipe()
        self.replies = LineReader(self.client_reads, 100_000_000)
        self.started, self._runs = anyio.create_memory_object_stream[ScriptedServer](100)
        self.runs: list[ScriptedServer] = []
        self.failed: ServerFailedError | None = None
        self.ended = anyio.Event()
        self.hung_up = False

    async def start_server(self) -> Server:
        server = ScriptedServer(self.policy.limits.line_bytes)
        self.runs.append(server)
        await self.started.send(server)
        return server

    async def next_server(self) -> ScriptedServer:
        """The next run of the server, once it is started."""
        with anyio.fail_after(PATIENT):
            return await self._runs.receive()

    def make_pipeline(self, registry: ToolRegistry) -> Pipeline:
        made = make_pipeline(registry, self.policy, store=None if self.store is None else SQLite(self.store)).replace(
            "retry", Retry(self.policy.attempts, 0)
        )
        return made.replace("trace", Trace(**self.tracing)) if self.tracing else made

    async def run(self) -> None:
        reader = LineReader(self.from_client, self.policy.limits.line_bytes)
        relay = Relay(self.start_server, self.policy, self.make_pipeline, reader, LineWriter(self.to_client))
        try:
            async with relay.pipeline:
                await relay.run()
        except ServerFailedError as exc:
            self.failed = exc
        finally:
            self.ended.set()

    def send(self, message: object) -> bytes:
        """Write a message as the client, or bytes as they are; returns them."""
        line = message if isinstance(message, bytes) else as_line(message)
        os.write(self.client_end, line)
        return line

    async def receive_line(self) -> bytes:
        """The next line that the client gets."""
        with anyio.fail_after(PATIENT):
            line = await self.replies.read()
        assert isinstance(line, bytes)
        return line

    async def receive(self) -> Any:
        """The next message that the client gets."""
        return json.loads(await self.receive_line())

    def hang_up(self) -> None:
        """Close the client's end."""
        if not self.hung_up:
            self.hung_up = True
            os.close(self.client_end)

    def close(self) -> None:
        """Close all that is open."""
        self.hang_up()
        for server in self.runs:
            server.die()
            os.close(server.read_end)
            server.to_server.close()
            server.received.close()
        self.started.close()
        self._runs.close()
        for fd in (self.from_client, self.client_reads, self.to_client):
            os.close(fd)

    async def greet(self, server: ScriptedServer, **said: object) -> None:
        """Shake hands, as the versions before 2026 do; the client says this beside its name."""
        self.send({**INITIALIZE, "params": {**GREETING, **said}})
        server.say({"jsonrpc": "2.0", "id": (await server.next())["id"], "result": {"protocolVersion": "2025-06-18"}})
        await self.receive()
        self.send(INITIALIZED)
        await server.next()


@asynccontextmanager
async def open_desk(
    policy: RelayPolicy | None = None, *, store: Path | None = None, **tracing: Any
) -> AsyncGenerator[tuple[Desk, ScriptedServer]]:
    """A relay that runs, and the first run of its server. ``tracing`` are options of Trace."""
    desk = Desk(RelayPolicy() if policy is None else policy, tracing, store)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(desk.run)
            yield desk, await desk.next_server()
            desk.hang_up()
            group.cancel_scope.cancel()
    finally:
        desk.close()
