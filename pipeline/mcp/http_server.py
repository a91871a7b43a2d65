"""HttpServer: a server that is reached over HTTP, by the transports of the package ``mcp``.

Lines come and go as they do with a child process, so a relay does not see the difference; but their bytes are not those
of the server, since the transport parses them.

The transport is streamable HTTP, or the older one of 2024-11-05 (HTTP with SSE) where the server knows no other.
Source: https://modelcontextprotocol.io/specification/2025-06-18/basic/transports (Backwards Compatibility).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from importlib import import_module
from typing import Any, Final

import anyio
import attrs
from anyio.abc import TaskStatus

from ..base.setup_error import SetupError
from ..privacy import get_logger, neutralise
from .jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION,
    SERVER_ENDED,
    Message,
    dump,
    key_of,
    parse,
    read_object,
)
from .lines import LongLine
from .pairing import Pairing, UnpairedError, refuse_answerless
from .server import ServerGoneError, UnsendableError
from .server_session import find_first

_LOG = get_logger()
_CONNECTING = 30.0  # seconds
_SESSION_ENDED = (INVALID_REQUEST, "Session terminated")  # how the transport reports a 404: a new greeting is due
_DETAIL = 200  # characters of what the transport says, for the log
# How the transport reports a status that comes without an error of JSON-RPC.
_STAND_INS: Final = ((INTERNAL_ERROR, "Server returned an error response"), (METHOD_NOT_FOUND, "Not Found"))
_KNOWS_SSE_ALONE: Final = (400, 404, 405)  # statuses of a server that does not know streamable HTTP
_NO_CREDENTIALS: Final = (401, 403, 407)
_HINT: Final = "; --header 'Authorization: Bearer ${TOKEN}' sends a credential from the environment"
_MOST_REFUSALS: Final = 1_000  # requests whose status is kept until the transport reports it


@attrs.frozen
class Transport:
    """Parts of the package ``mcp``. It is not typed: it is not installed where this is checked."""

    connect: Any
    message_class: Any
    metadata_class: Any
    adapter: Any
    inbound: Any
    httpx: Any
    connect_sse: Any


def load_transport() -> Transport:
    """The parts of the package ``mcp``; SetupError if it is not installed, or is another version."""
    try:
        message = import_module("mcp.shared.message")
        return Transport(
            import_module("mcp.client.streamable_http").streamable_http_client,
            message.SessionMessage,
            message.ClientMessageMetadata,
            import_module("mcp_types.jsonrpc").jsonrpc_message_adapter,
            import_module("mcp.shared.inbound"),
            import_module("httpx2"),
            import_module("mcp.client.sse").sse_client,
        )
    except (ModuleNotFoundError, AttributeError) as exc:
        needed = "pip install 'toolcall-pipeline[cli,mcp]'"
        raise SetupError(f"--url needs the package mcp, 2.3 or later: {needed} ({exc})") from exc


class HttpServer:
    """One session with a server."""

    def __init__(self, transport: Transport, url: str, headers: Mapping[str, str], limit: int) -> None:
        self._transport = transport
        self._url, self._headers, self._limit = url, headers, limit
        self._version: str | None = None  # that was agreed on in the greeting
        self._pairing = Pairing()
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._write: Any = None
        self._read: Any = None
        self._refusals: dict[str, tuple[int, str]] = {}  # status and words, by the key of the request
        self._told: set[str] = set()  # of these words, to the operator
        self._unanswered: bytes | None = None  # the first request, while no answer says what the server speaks
        self._is_known = False  # what it speaks
        self._leaving = anyio.Event()  # streamable HTTP
        self._speaks_sse = False
        self._switched = anyio.Event()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold the transport open until `close`. It runs in a task of its own, as a cancel scope demands."""
        try:
            async with (
                self._make_client() as client,
                self._transport.connect(self._url, http_client=client, max_sse_event_size=self._limit) as (
                    self._read,
                    self._write,
                ),
            ):
                task_status.started()
                await self._leaving.wait()
            if self._speaks_sse:
                connection = self._transport.connect_sse(
                    self._url, timeout=_CONNECTING, sse_read_timeout=None, httpx_client_factory=self._make_client
                )
                async with connection as (self._read, self._write):
                    self._switched.set()
                    await self._closing.wait()
        except Exception as exc:  # noqa: BLE001  # foreign code; a refused connection comes as a group of exceptions
            _LOG.warning("the connection to the server ended: %s", type(find_first(exc)).__name__)
        finally:
            self._closing.set()
            self._switched.set()
            self._ended.set()

    def _make_client(self, **_options: Any) -> Any:
        """Make a client that sends our headers, and notes each refusal. The options are the transport's own."""
        httpx = self._transport.httpx
        hooks = [self._note_status, *(() if self._speaks_sse else (refuse_answerless,))]  # SSE: 202 each time
        return httpx.AsyncClient(
            headers=dict(self._headers),
            timeout=httpx.Timeout(_CONNECTING, read=None),  # a call may take as long as the policy permits
            event_hooks={"response": hooks},
        )

    async def _note_status(self, response: Any) -> None:
        """Keep the status of a request that was refused: the transport does not say it."""
        status: int = response.status_code
        if status < HTTPStatus.BAD_REQUEST or response.request.method != "POST":
            return
        words = _describe(status, response.headers.get("www-authenticate"))
        if status in _NO_CREDENTIALS:
            self._tell(words)
        try:
            sent: Message = parse(response.request.content)
        except ValueError:
            return
        if len(self._refusals) < _MOST_REFUSALS:
            self._refusals[key_of(sent.get("id"))] = status, words

    is_remote = True

    @property
    def exit_code(self) -> int | None:
        """Not known: it runs elsewhere."""
        return None

    async def send(self, line: bytes) -> None:
        """Send one message as a request of HTTP.

        Raises:
            ServerGoneError: The session has ended.
            UnsendableError: The package ``mcp`` takes it for no message: it is a batch, or has odd params.
        """
        try:
            message: Any = parse(line)
            parsed = self._transport.adapter.validate_python(message)
        except ValueError as exc:
            _LOG.warning("a message of the client is none of MCP, and was not sent")  # the error would show its values
            raise UnsendableError from exc
        if not self._is_known and self._unanswered is None and "id" in message:
            self._unanswered = line
        metadata = self._transport.metadata_class(headers=self._make_headers(message))
        item = self._transport.message_class(parsed, metadata)
        self._pairing.note_sent(item)
        try:
            await self._write.send(item)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as exc:
            raise ServerGoneError("no") from exc

    def _make_headers(self, message: Message) -> dict[str, str] | None:
        """Return the headers that a server of 2026 uses to route a request."""
        inbound, params, method = self._transport.inbound, read_object(message, "params"), message.get("method")
        version = read_object(params, "_meta").get(PROTOCOL_VERSION) or self._version
        if "id" not in message or not isinstance(method, str) or method == "initialize" or not version:
            return None
        headers = {inbound.MCP_PROTOCOL_VERSION_HEADER: version, inbound.MCP_METHOD_HEADER: method}
        key = inbound.NAME_BEARING_METHODS.get(method)
        if key and isinstance(name := params.get(key), str):
            headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
        return headers

    async def read(self) -> bytes | LongLine | None:
        """The next message as a line. None: the session ended, or the server cannot be reached."""
        while not self._closing.is_set():
            try:
                item: Any = await self._read.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return None
            try:
                item = self._pairing.mend(item)
            except UnpairedError:
                _LOG.warning("the server answered what cannot be read; the session ends")
                return None
            if isinstance(item, Exception):
                _LOG.warning("the server sent what is no message: %s", type(item).__name__)
                continue
            message: Message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            error = read_object(message, "error")
            if error.get("code") == SERVER_ENDED or (error.get("code"), error.get("message")) == _SESSION_ENDED:
                _LOG.warning("the server cannot be reached: %s", str(error.get("message"))[:_DETAIL])
                return None
            status, words = self._refusals.pop(key_of(message.get("id")), (0, ""))
            if status in _KNOWS_SSE_ALONE and self._unanswered is not None and await self._switch():
                continue
            self._is_known, self._unanswered = self._is_known or "error" not in message, None
            if words and (error.get("code"), error.get("message")) in _STAND_INS:
                message["error"] = {**error, "message": words}
                self._tell(words)
            version = read_object(message, "result").get("protocolVersion")
            self._version = version if isinstance(version, str) else self._version
            return dump(message)
        return None

    def _tell(self, words: str) -> None:
        """Warn the operator, once."""
        if words not in self._told and len(self._told) < _MOST_REFUSALS:
            self._told.add(words)
            _LOG.warning("%s", words)

    async def _switch(self) -> bool:
        """Go on over HTTP with SSE, if that is what the server speaks, with the first request once more."""
        first, self._unanswered = self._unanswered, None
        headers = {"accept": "text/event-stream"}
        try:
            async with (
                self._make_client() as client,
                client.stream("GET", self._url, headers=headers, timeout=_CONNECTING) as response,
            ):
                kind = response.headers.get("content-type", "")
                self._speaks_sse = response.status_code == HTTPStatus.OK and kind.startswith("text/event-stream")
        except (self._transport.httpx.HTTPError, OSError):
            return False
        if not self._speaks_sse or first is None:
            return False
        self._leaving.set()
        await self._switched.wait()
        if self._closing.is_set():
            return False
        await self.send(first)
        return True

    async def watch(self) -> None:
        """Return at once: `read` reports the end."""

    async def close(self, grace: float) -> None:
        """End the session."""
        self._closing.set()
        self._leaving.set()
        with anyio.CancelScope(shield=True), anyio.move_on_after(grace):
            await self._ended.wait()


def _describe(status: int, challenge: str | None) -> str:
    """The words for a request that was refused: its status, what the server wants, and how to give it."""
    known = status in HTTPStatus._value2member_map_
    words = f"the server answered with the HTTP status {status}{f' ({HTTPStatus(status).phrase})' if known else ''}"
    if challenge:
        words += f"; WWW-Authenticate: {neutralise(challenge, limit=_DETAIL)}"
    return words + (_HINT if status in _NO_CREDENTIALS else "")
