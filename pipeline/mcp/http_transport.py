"""A server of MCP over streamable HTTP, for many clients at once, which may repeat the id of an open request."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from ipaddress import ip_address
from typing import Any, Final, TypeAlias

import anyio

from ..base.setup_error import SetupError
from .jsonrpc import INVALID_REQUEST, REPEATED, dump, is_id, is_message, key_of, make_error, parse
from .sdk_server import SdkServer

PATH: Final = "/mcp"
_LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
_ENDLESS: Final = (b"mcp-method", b"subscriptions/listen")  # the header of a request that has no answer until the end
_BACKLOG: Final = 2_048  # connections that wait to be accepted
_LAST_ANSWERS: Final = 1  # second for connections to end that are open when the server stops
_KEEP_ALIVE: Final = 75  # seconds; longer than clients keep an idle connection, or a request may meet its end
_POLL: Final = 0.02  # seconds between two looks at whether calls are under way
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_SESSION: Final = b"mcp-session-id"
_GRACE: Final = 5.0  # seconds for the calls that are under way when the server is stopped
_MOST_READ: Final = 4 * 1024 * 1024  # bytes of a body; the SDK refuses a longer one


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server at this address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class HttpTransport:
    """Serves clients at one address: `open`, then `run`.

    Requests must come with a ``Host`` of this machine, or one of those that are allowed, and with no ``Origin`` but one
    of these. So no web page that a user visits can call tools here (DNS rebinding).

    Args:
        host: The address. One that others can reach needs ``allowed``.
        port: The port. 0: any that is free.
        allowed: Further names by which clients reach the server.

    Raises:
        SetupError: The address can be reached by others, and no name is allowed.
    """

    def __init__(self, host: str, port: int, allowed: Sequence[str] = ()) -> None:
        if not is_local(host) and not allowed:
            raise SetupError(
                f"others can reach {host}: name the hosts by which clients may call it with --allow-host, and put "
                "something in front that lets only your clients through; 127.0.0.1 is for this machine alone"
            )
        self._host, self._port = host, port
        self._allowed = tuple(name.lower() for name in allowed)  # as clients write it
        self._socket: socket.socket | None = None  # once it is open
        self._stopping = anyio.Event()
        self._calls = 0  # under way

    @property
    def listening(self) -> socket.socket:
        """The socket at which clients arrive; SetupError if it is not open."""
        if self._socket is None:
            raise SetupError("HttpTransport: it is not open")
        return self._socket

    @property
    def url(self) -> str:
        """The address for clients, once it is open."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.listening.getsockname()[1]}{PATH}"

    def open(self) -> None:
        """Take the address; OSError if it is taken, or is none."""
        host = self._host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The protocol is named, or asyncio would leave Nagle's algorithm on, which delays each answer by 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, self._port))
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        self._socket = listening

    async def run(self, server: Any) -> None:
        """Serve clients until `stop`."""
        listening = self.listening
        sdk = SdkServer.load()
        uvicorn: Any = import_module("uvicorn")
        names = [form for each in (*_LOCAL, *self._allowed) for form in (each, f"{each}:*")]
        security = sdk.security(
            enable_dns_rebinding_protection=True,
            allowed_hosts=names,
            allowed_origins=[f"{scheme}://{each}" for each in names for scheme in ("http", "https")],
        )
        app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security, host=self._host)

        async def count(scope: Any, receive: Any, send: Any) -> None:
            is_call = scope.get("method") == "POST" and _ENDLESS not in scope["headers"]
            self._calls += is_call
            try:
                await app(scope, receive, send)
            finally:
                self._calls -= is_call

        limits = {"timeout_graceful_shutdown": _LAST_ANSWERS, "timeout_keep_alive": _KEEP_ALIVE}
        config = uvicorn.Config(count, log_level="critical", **limits)
        web = uvicorn.Server(config)
        web.capture_signals = nullcontext  # who runs this catches them
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, web)
            await web.serve(sockets=[listening])
            group.cancel_scope.cancel()

    def stop(self) -> None:
        """Take no more clients, when the calls that are under way have ended or had their time."""
        self._stopping.set()

    async def _watch(self, web: Any) -> None:
        await self._stopping.wait()
        with anyio.move_on_after(_GRACE):
            while self._calls:  # noqa: ASYNC110  # an answer that is written leaves nothing to wait for
                await anyio.sleep(_POLL)
        web.should_exit = True


class OneAnswer:
    """Refuses a request with the id of an open request of its session."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app
        self._open: set[tuple[bytes, str]] = set()  # session and id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of HTTP."""
        session = dict(scope.get("headers", ())).get(_SESSION) if scope.get("method") == "POST" else None
        if session is None:
            await self._app(scope, receive, send)
            return
        body, again = await _read_body(receive)
        request_id = _find_id(body)
        key = session, key_of(request_id)
        if request_id is None:
            await self._app(scope, again, send)
        elif key in self._open:
            await _refuse(send, request_id)
        else:
            self._open.add(key)
            try:
                await self._app(scope, again, send)
            finally:
                self._open.discard(key)


async def _read_body(receive: Receive) -> tuple[bytes, Receive]:
    """The body, or its beginning, and a function that yields the same events again."""
    events: list[MutableMapping[str, Any]] = []
    body = bytearray()
    while True:
        event = await receive()
        events.append(event)
        body += event.get("body", b"")
        if not event.get("more_body") or len(body) > _MOST_READ:
            break
    events.reverse()

    async def again() -> MutableMapping[str, Any]:
        return events.pop() if events else await receive()

    return bytes(body), again


def _find_id(body: bytes) -> str | int | None:
    """The id of the request in a body; None: it holds none."""
    try:
        message: object = parse(body)
    except ValueError:
        return None
    if not is_message(message) or "method" not in message or not is_id(found := message.get("id")):
        return None
    return found


async def _refuse(send: Send, request_id: str | int) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": dump(make_error(request_id, INVALID_REQUEST, REPEATED))})
