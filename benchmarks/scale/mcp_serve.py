"""The cost of ``toolcall serve`` beside a server of the SDK: the p50 of a call, in both eras, over both transports.

Calls are made in short slices in turns, of the same tool in both servers. ``make test-mcp`` runs it, in an environment
that has the package ``mcp``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from mcp_wire import Wire  # noqa: E402  # in the folder of the tests

HERE = Path(__file__).parent
OURS = [sys.executable, "-m", "toolcall_pipeline", "serve", "mcp_served_sum:tools"]
THEIRS = [sys.executable, str(HERE / "mcp_sdk_server.py")]
MAX_RATIO = 1.15
SLICE = 50  # calls
TRIES = 8  # measurements that have to fall short before --check fails: a cost would be there each time
MODERN_VERSION, LEGACY_VERSION = "2026-07-28", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
}
Ask = Callable[[str, dict[str, Any]], Any]


@contextmanager
def open_stdio(command: list[str], *, modern: bool) -> Generator[Ask]:
    """Ask a server over its stdin."""
    with _start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        wire = Wire(process)
        if not modern:
            wire.greet()

        def ask(method: str, params: dict[str, Any]) -> Any:
            return json.loads(wire.ask(method, **params, **({"_meta": META} if modern else {})))

        yield ask


class _Connection(http.client.HTTPConnection):
    """One that sends at once: the 40 ms of Nagle's algorithm would hide what is measured."""

    def connect(self) -> None:
        super().connect()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextmanager
def open_http(command: list[str], *, modern: bool) -> Generator[Ask]:
    """Ask a server over one connection that stays open."""
    with _start([*command, "--http", "0"], stderr=subprocess.PIPE) as process:
        port = _read_port(process)
        connection = _Connection("127.0.0.1", port)
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN_VERSION if modern else LEGACY_VERSION,
        }
        number = 0

        def post(message: dict[str, Any], more: dict[str, str]) -> http.client.HTTPResponse:
            body = json.dumps({"jsonrpc": "2.0", **message})
            try:
                connection.request("POST", "/mcp", body, {**headers, **more})
                return connection.getresponse()
            except OSError:  # it was idle for too long, while the other server started
                connection.close()
                connection.request("POST", "/mcp", body, {**headers, **more})
                return connection.getresponse()

        def ask(method: str, params: dict[str, Any]) -> Any:
            nonlocal number
            number += 1
            routing = {"mcp-method": method, **({"mcp-name": params["name"]} if "name" in params else {})}
            given = {**params, "_meta": META} if modern else params
            answer = post({"id": number, "method": method, "params": given}, routing if modern else {})
            body = answer.read().decode()
            if session := answer.headers.get("mcp-session-id"):
                headers["mcp-session-id"] = session
            data = body if body.startswith("{") else re.findall(r"^data: (\{.*)$", body, re.MULTILINE)[-1]
            return json.loads(data)

        if not modern:
            who = {"name": "wire", "version": "1"}
            ask("initialize", {"protocolVersion": LEGACY_VERSION, "capabilities": {}, "clientInfo": who})
            post({"method": "notifications/initialized"}, {}).read()
        try:
            yield ask
        finally:
            connection.close()


@contextmanager
def _start(
    command: list[str], stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
) -> Generator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}
    with subprocess.Popen(  # noqa: S603  # our own commands
        command, cwd=HERE, env=environment, stdin=stdin, stdout=stdout, stderr=stderr
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _read_port(process: subprocess.Popen[bytes]) -> int:
    """The port that the server says on stderr."""
    if process.stderr is None:
        raise RuntimeError("stderr is no pipe")
    for line in process.stderr:
        if found := re.search(rb"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError("the server did not start")


def measure(transport: Any, slices: int, *, modern: bool) -> float:
    """The ratio of the p50 of a call, ours to theirs."""
    times: dict[str, list[float]] = {"SDK": [], "serve": []}
    with ExitStack() as stack:
        servers = {
            "SDK": stack.enter_context(transport(THEIRS, modern=modern)),
            "serve": stack.enter_context(transport(OURS, modern=modern)),
        }
        for ask in servers.values():
            ask("tools/list", {})
            _call_many(ask, SLICE)
        for _ in range(slices):
            for name, ask in servers.items():
                times[name] += _call_many(ask, SLICE)
    p50 = {name: median(found) * 1000 for name, found in times.items()}
    ratio = p50["serve"] / p50["SDK"]
    era = "without a handshake" if modern else "with a handshake"
    way = "stdio" if transport is open_stdio else "HTTP"
    print(f"{way:6}{era:20}SDK {p50['SDK']:7.3f} ms, serve {p50['serve']:7.3f} ms: {ratio:.2f} x", flush=True)
    return ratio


def _call_many(ask: Ask, calls: int) -> list[float]:
    found: list[float] = []
    for number in range(calls):
        begun = time.perf_counter()
        answer = ask("tools/call", {"name": "add", "arguments": {"x": number, "y": 1}})
        found.append(time.perf_counter() - begun)
        if answer["result"]["structuredContent"] != {"total": number + 1}:
            raise RuntimeError(f"a wrong answer: {answer}")
    return found


def main() -> None:
    """Measure each way, and fail if one is too slow."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="a fifth of the calls")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is broken")
    options = parser.parse_args()
    slices = 8 if options.short else 40
    ways = [(transport, modern) for transport in (open_stdio, open_http) for modern in (False, True)]
    best = [
        next((ratio for _ in range(TRIES) if (ratio := measure(way, slices, modern=modern)) <= MAX_RATIO), None)
        for way, modern in ways
    ]
    print(f"{slices * SLICE} calls each; at most {MAX_RATIO} x")
    sys.exit(options.check and None in best)


if __name__ == "__main__":
    main()
