"""``toolcall proxy --url`` and servers that refuse, or speak HTTP with SSE. ``make test-mcp`` runs it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from cli_desk import until
from mcp_wire import Wire, text_of
from toolcall_pipeline.mcp.http_server import HttpServer, load_transport
from toolcall_pipeline.mcp.jsonrpc import PROTOCOL_VERSION

HERE = Path(__file__).parent
PROXY = [sys.executable, "-m", "toolcall_pipeline", "proxy", "--url"]
_LONGEST = 60  # seconds of one proxy


@contextmanager
def open_proxy(url: str, *options: str) -> Generator[Wire]:
    """A proxy in front of a URL; what it writes on stderr is in the pipe."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "TOKEN": "secret"}
    command = [*PROXY, url, *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:
        bound = threading.Timer(_LONGEST, process.kill)
        bound.start()
        try:
            yield Wire(process)
        finally:
            bound.cancel()
            process.kill()


def read_stderr(wire: Wire) -> str:
    """All that the proxy wrote there, after its end."""
    assert wire.process.stdin is not None
    assert wire.process.stderr is not None
    wire.process.stdin.close()
    return wire.process.stderr.read().decode()


@contextmanager
def serve(status: int, body: str = "no", **headers: str) -> Generator[tuple[str, list[Any]]]:
    """A server that answers each request with one status, and the headers that it was sent."""
    heard: list[Any] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(dict(self.headers))
            self.rfile.read(int(self.headers["content-length"]))
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_args: object, **_options: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", heard
        finally:
            server.shutdown()
            thread.join()


CHALLENGE = 'Bearer realm="mcp", resource_metadata="https://example.com/x"'


@pytest.mark.parametrize(
    ("status", "headers", "told"),
    [
        (401, {"WWW_Authenticate": CHALLENGE}, ["status 401 (Unauthorized)", CHALLENGE, "--header 'Authorization:"]),
        (401, {}, ["status 401 (Unauthorized)", "--header 'Authorization:"]),
        (403, {"WWW_Authenticate": "\x1b[31mBearer"}, ["status 403 (Forbidden)", "--header"]),
        (404, {}, ["status 404 (Not Found)"]),
        (429, {}, ["status 429 (Too Many Requests)"]),
        (500, {}, ["status 500 (Internal Server Error)"]),
        (599, {}, ["status 599"]),
    ],
)
def test_a_refusal_is_told(status: int, headers: dict[str, str], told: list[str]) -> None:
    """The client and the operator are told the status, what the server wants, and how to give it."""
    with serve(status, **headers) as (url, _), open_proxy(url) as wire:
        answer = json.loads(wire.greet())
        assert all(each in answer["error"]["message"] for each in told)
        assert ("--header" in answer["error"]["message"]) is (status in (401, 403))
        shown = read_stderr(wire)
        assert all(each in shown for each in told)
        assert "\x1b" not in shown
        assert "Traceback" not in shown


def test_a_refusal_in_the_server_s_own_words() -> None:
    """An error of JSON-RPC passes as it came."""
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Log in first."}})
    with serve(401, body, content_type="application/json") as (url, heard):
        with open_proxy(url, "--header", "Authorization: Bearer ${TOKEN}") as wire:
            answer = json.loads(wire.greet())
            assert answer["error"]["message"] == "Log in first."
            assert "status 401" in read_stderr(wire)
        assert heard[0]["Authorization"] == "Bearer secret"


def test_a_server_that_speaks_sse() -> None:
    """HTTP with SSE, the transport before streamable HTTP: names and arguments are repaired there too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, str(HERE / "support" / "mcp_http_server.py"), str(port), "sse"]

    def is_up() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            until(is_up, 60)
            with open_proxy(f"http://127.0.0.1:{port}/sse") as wire:
                assert "result" in json.loads(wire.greet())
                assert text_of(wire.call("Add", {"a": "1", "b": 2})) == "3"
                assert text_of(wire.call("pid")) == str(process.pid)
        finally:
            process.kill()


@pytest.mark.anyio
async def test_a_request_of_2026_has_headers_to_route_it_by() -> None:
    """Its version, its method and the name of its tool; a greeting, a notification and an earlier version have none."""
    to_server, sent = anyio.create_memory_object_stream[Any](10)
    from_server, received = anyio.create_memory_object_stream[Any](10)
    asked: list[tuple[str, int]] = []

    @asynccontextmanager
    async def connect(url: str, *, http_client: Any, max_sse_event_size: int) -> AsyncGenerator[Any]:
        asked.append((url, max_sse_event_size))
        yield received, to_server

    version = "2026-07-28"
    modern = {"_meta": {PROTOCOL_VERSION: version}}
    ours = {"mcp-protocol-version": version, "mcp-method": "tools/list"}
    messages: list[tuple[dict[str, Any], dict[str, str] | None]] = [
        ({"id": 1, "method": "initialize", "params": modern}, None),
        ({"id": 2, "method": "tools/list"}, None),
        ({"id": 3, "method": "tools/list", "params": modern}, ours),
        (
            {"id": 4, "method": "tools/call", "params": {"name": "add", **modern}},
            {**ours, "mcp-method": "tools/call", "mcp-name": "add"},
        ),
        ({"method": "notifications/progress", "params": modern}, None),
        ({"id": 5, "result": {}}, None),
    ]
    server = HttpServer(attrs.evolve(load_transport(), connect=connect), "http://tools", {}, 1_000)
    async with anyio.create_task_group() as group, to_server, from_server, sent, received:
        await group.start(server.serve)
        for message, headers in messages:
            await server.send(json.dumps({"jsonrpc": "2.0", **message}).encode())
            assert (await sent.receive()).metadata.headers == headers
        await server.close(10)
    assert asked == [("http://tools", 1_000)]
