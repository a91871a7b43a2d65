"""HttpServer: a server that is reached over streamable HTTP, by the transport of the package ``mcp``.

Lines come and go as they do with a child process, so a relay does not see the difference; but their bytes are not those
of the server, since the transport parses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import anyio
import attrs
from anyio.abc import TaskStatus

from ..errors import SetupError
from ..privacy import get_logger
from .jsonrpc import INVALID_REQUEST, SERVER_ENDED, Message, dump, parse, read_object
from .lines import LongLine
from .server import ServerGoneError, UnsendableError
from .server_session import find_first

_LOG = get_logger()
_VERSION = "io.modelcontextprotocol/protocolVersion"
_CONNECTING = 30.0  # seconds
_SESSION_ENDED = (INVALID_REQUEST, "Session terminated")  # how the transport reports a 404: a new greeting is due
_DETAIL = 200  # characters of what the transport says, for the log


@attrs.frozen
class Transport:
    """Parts of the package ``mcp``. It is not typed: it is not installed where this is checked."""

    connect: Any
    message_class: Any
    metadata_class: Any
    adapter: Any
    inbound: Any
    httpx: Any


def load_transport() -> Transport:
    """The parts of the package ``mcp``.

    Raises:
        SetupError: It is not installed, or is another version.
    """
    try:
        message = import_module("mcp.shared.message")
        return Transport(
            import_module("mcp.client.streamable_http").streamable_http_client,
            message.SessionMessage,
            message.ClientMessageMetadata,
            import_module("mcp_types.jsonrpc").jsonrpc_message_adapter,
            import_module("mcp.shared.inbound"),
            import_module("httpx2"),
        )
    except (ModuleNotFoundError, AttributeError) as exc:
        needed = "pip install 'toolcall-pipeline[cli,mcp]'"
        raise SetupError(f"--url needs the package mcp, 2.3 or later: {needed} ({exc})") from exc


class HttpServer:
    """One session with a server.

    Args:
        transport: The result of `load_transport`.
        url: Where it is.
        headers: Sent with each request.
        limit: Bytes of one message that comes as an event.
    """

    def __init__(self, transport: Transport, url: str, headers: Mapping[str, str], limit: int) -> None:
        self._transport = transport
        self._url, self._headers, self._limit = url, headers, limit
        self._version: str | None = None  # that was agreed on in the greeting
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._write: Any = None
        self._read: Any = None

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold the transport open until `close`. It runs in a task of its own, as a cancel scope demands."""
        httpx = self._transport.httpx
        timeout = httpx.Timeout(_CONNECTING, read=None)  # a call may take as long as the policy permits
        try:
            async with (
                httpx.AsyncClient(headers=dict(self._headers), timeout=timeout) as client,
                self._transport.connect(self._url, http_client=client, max_sse_event_size=self._limit) as (
                    self._read,
                    self._write,
                ),
            ):
                task_status.started()
                await self._closing.wait()
        except Exception as exc:  # noqa: BLE001  # foreign code; a refused connection comes as a group of exceptions
            _LOG.warning("the connection to the server ended: %s", type(find_first(exc)).__name__)
        finally:
            self._closing.set()
            self._ended.set()

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
        metadata = self._transport.metadata_class(headers=self._make_headers(message))
        try:
            await self._write.send(self._transport.message_class(parsed, metadata))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as exc:
            raise ServerGoneError("no") from exc

    def _make_headers(self, message: Message) -> dict[str, str] | None:
        """Return the headers that a server of 2026 uses to route a request."""
        inbound, params, method = self._transport.inbound, read_object(message, "params"), message.get("method")
        version = read_object(params, "_meta").get(_VERSION) or self._version
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
            if isinstance(item, Exception):
                _LOG.warning("the server sent what is no message: %s", type(item).__name__)
                continue
            message: Message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            error = read_object(message, "error")
            if error.get("code") == SERVER_ENDED or (error.get("code"), error.get("message")) == _SESSION_ENDED:
                _LOG.warning("the server cannot be reached: %s", str(error.get("message"))[:_DETAIL])
                return None
            version = read_object(message, "result").get("protocolVersion")
            self._version = version if isinstance(version, str) else self._version
            return dump(message)
        return None

    async def watch(self) -> None:
        """Return at once: `read` reports the end."""

    async def close(self, grace: float) -> None:
        """End the session."""
        self._closing.set()
        with anyio.CancelScope(shield=True), anyio.move_on_after(grace):
            await self._ended.wait()
