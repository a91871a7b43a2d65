"""An HTTP server on this machine that fails in the way that the path names, and counts what took effect.

A request ``POST /<fault>/<run>/…`` takes effect as soon as it is read; one with the Idempotency-Key of an earlier one
does not. Then the fault happens. With ``always`` each request meets that fault, whatever its path.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections import defaultdict
from contextlib import suppress
from email.utils import formatdate
from types import TracebackType
from typing import Any, Self

from benchmarks.scale.servers import hold_port

CLOSED = hold_port()  # nobody listens there
HEADERS = {
    "429 in seconds": ("Retry-After: 2",),
    "429 at a date": (f"Retry-After: {formatdate(4_000_000_000, usegmt=True)}",),
    "429 in decimals": ("Retry-After: 1.5",),
    "429 in milliseconds": ("retry-after-ms: 1500",),
    "429 at a reset": ("x-ratelimit-remaining: 0", "x-ratelimit-reset: 30"),
    "403 at a reset": ("x-ratelimit-remaining: 0", "x-ratelimit-reset: 30"),
    "429 in html": ("Retry-After: 2",),
    "503 in seconds": ("Retry-After: 3",),
}
BODY = b'{"error": {"message": "db-7: password=hunter2"}}'
FAULTS = (
    "refused",
    "reset",
    "closed",
    "hang",
    "cut",
    "stalled",
    "401",
    "403",
    "404",
    "408",
    "410",
    "418",
    "425",
    "429",
    "429 in seconds",
    "429 at a date",
    "500",
    "502",
    "503",
    "504",
)


class FaultyServer:
    """A server that lives as long as its ``with`` block."""

    def __init__(self) -> None:
        self.requests: defaultdict[str, list[str]] = defaultdict(list)  # of each run, the keys
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.requests = self.requests
        self._server.always = None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()  # waits for the handlers, which end when their client hangs up
        self._thread.join()

    def url(self, fault: str, run: str) -> str:
        """The address at which each request of this run meets this fault."""
        port = CLOSED if fault == "refused" else self.port
        return f"http://127.0.0.1:{port}/{fault.replace(' ', '-')}/{run}"

    def always(self, fault: str, body: bytes = BODY) -> str:
        """The address of a server at which from now on every request meets this fault, with this body."""
        self._server.always, self._server.body = fault, body
        return f"http://127.0.0.1:{CLOSED if fault == 'refused' else self.port}"

    def count_effects(self, run: str) -> int:
        """How many requests of a run took effect."""
        keys = self.requests[run]
        return keys.count("") + len(set(keys) - {""})


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False
    request_queue_size = 64
    requests: defaultdict[str, list[str]]
    always: str | None
    body: bytes = BODY


class _Handler(socketserver.StreamRequestHandler):
    server: Any

    def handle(self) -> None:
        line = self.rfile.readline().decode()
        if not line:
            return
        fault, run = self.server.always, ""
        if fault is None:
            _, fault, run, *_ = line.split()[1].split("/")
        headers: dict[str, str] = {}
        while (header := self.rfile.readline().decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        self.rfile.read(int(headers.get("content-length", 0)))
        self.server.requests[run].append(headers.get("idempotency-key", ""))
        with suppress(OSError):  # the client has hung up
            self.fail(fault.replace("-", " "))

    def fail(self, fault: str) -> None:
        match fault:
            case "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case "closed":
                pass
            case "hang":
                self.wait_for_client()
            case "cut":
                self.answer("200 OK", missing=100)
            case "stalled":
                self.answer("200 OK", missing=100)
                self.wait_for_client()
            case "ok":
                self.answer("200 OK")
            case _:
                self.answer(f"{fault[:3]} Failed", *HEADERS.get(fault, ()))

    def answer(self, status: str, *headers: str, missing: int = 0) -> None:
        body: bytes = self.server.body
        kind = "application/json" if body[:1] == b"{" else "text/html"
        length = len(body) + missing
        lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {length}", *headers)
        self.wfile.write("\r\n".join((*lines, "Connection: close", "", "")).encode() + body)

    def wait_for_client(self) -> None:
        self.connection.settimeout(30)
        while self.connection.recv(1024):
            pass
