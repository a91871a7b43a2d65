"""SdkSession: a `ServerSession` made with the client of the package ``mcp``, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

import anyio
import attrs
from anyio.abc import ObjectReceiveStream, ObjectSendStream

from ..base import timing
from ..base.options import refuse
from ..base.setup_error import SetupError
from ..privacy import get_logger
from .jsonrpc import PARSE_ERROR
from .pairing import UNREADABLE, Pairing, UnpairedError, refuse_answerless
from .server_session import (
    Answer,
    Connect,
    InvalidAnswerError,
    RequestRefusedError,
    SessionLostError,
    TellProgress,
)

_LOG = get_logger()
_CLOSED: Final = -32000  # how the package reports that the connection ended
_NOT_READ: Final = (UNREADABLE, "Failed to parse")  # how Pairing, and the package, report an answer that is none
_LISTEN_AGAIN: Final = 1.0  # seconds until a stream that ended is opened again
Callback: TypeAlias = Callable[..., Awaitable[Any]]  # its parameters are of types of the package
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


@attrs.frozen
class Callbacks:
    """The abilities that a client offers to a server, as callbacks of the package ``mcp``; None: it does not offer it.

    Args:
        elicitation: Asks a person: ``async (context, params) -> ElicitResult``.
        sampling: Asks a model: ``async (context, params) -> CreateMessageResult``.
        roots: Lists the client's folders: ``async (context) -> ListRootsResult``.
        log: Hears what the server logs: ``async (params) -> None``.
    """

    elicitation: Callback | None = None
    sampling: Callback | None = None
    roots: Callback | None = None
    log: Callback | None = None

    def as_options(self) -> dict[str, Any]:
        """The options of the package's Client."""
        return {
            "elicitation_callback": self.elicitation,
            "sampling_callback": self.sampling,
            "list_roots_callback": self.roots,
            "logging_callback": self.log,
            "log_level": None if self.log is None else "debug",
        }


@attrs.frozen
class _Sdk:
    """Parts of the package ``mcp``. It is not typed: it is not installed where this is checked."""

    client: Any
    error: type[Exception]
    changed: Any
    command: Any
    start: Any
    reach: Any
    make_client: Any
    versions: Any


def connect_sdk(target: object, mode: str = "auto", callbacks: Callbacks | None = None) -> Connect:
    """Return a function that opens sessions with a server.

    Args:
        target: See `toolcall_pipeline.mcp.add_server`.
        mode: How the version is agreed on: ``"legacy"`` by a handshake. Default ``"auto"``: as the server can.
        callbacks: Abilities that the client offers to the server. Default None: nothing.

    Raises:
        SetupError: The package ``mcp`` is not installed, or ``target`` is none of what it may be.
    """
    sdk = _load()
    make = _read_target(sdk, target)
    options = {"mode": mode, **(callbacks or Callbacks()).as_options()}

    def connect(changed: Callable[[], object]) -> AbstractAsyncContextManager[SdkSession]:
        return _open(sdk, make(), changed, options)

    return connect


def _load() -> _Sdk:
    try:
        stdio = import_module("mcp.client.stdio")
        http: Any = import_module("mcp.client.streamable_http")
        return _Sdk(
            import_module("mcp.client.client").Client,
            import_module("mcp.shared.exceptions").MCPError,
            import_module("mcp_types").ToolListChangedNotification,
            stdio.StdioServerParameters,
            stdio.stdio_client,
            http.streamable_http_client,
            http.create_mcp_http_client,
            import_module("mcp_types.version").MODERN_PROTOCOL_VERSIONS,
        )
    except (ModuleNotFoundError, AttributeError) as exc:
        needed = "pip install 'toolcall-pipeline[mcp]'"
        raise SetupError(f"add_server needs the package mcp, 2.3 or later: {needed} ({exc})") from exc


def _read_target(sdk: _Sdk, target: object) -> Callable[[], Any]:
    """Return a function that makes a transport for each connection, or the server itself if it runs in this process."""
    given: Any = target
    if isinstance(target, str):
        if not target.startswith(("http://", "https://")):
            refuse(
                "add_server", "target", "a URL with http or https; a command is a list, as ['python', 'x.py']", target
            )
        return lambda: _reach(sdk, target)
    if isinstance(target, Sequence):
        words = list(cast("Sequence[object]", target))
        if not words or not all(type(word) is str for word in words):
            kinds = [type(word).__name__ for word in words]  # a word may be a secret
            refuse("add_server", "target", "a command of at least one text", kinds)
        given = sdk.command(command=words[0], args=words[1:])
    if isinstance(given, sdk.command):
        # A byte that is not UTF-8 would end the connection with the text of a decoder.
        lenient = given.model_copy(update={"encoding_error_handler": "replace"})
        return lambda: sdk.start(lenient)
    if type(given).__module__.startswith("mcp.server"):
        return lambda: given
    if not callable(given):
        allowed = "a URL, a command as a list, a StdioServerParameters, a server of the package mcp, or a function"
        refuse("add_server", "target", f"{allowed} that makes a transport", given)
    return cast("Callable[[], Any]", given)


@asynccontextmanager
async def _open(
    sdk: _Sdk, source: Any, changed: Callable[[], object], options: dict[str, Any]
) -> AsyncGenerator[SdkSession, None]:
    lost = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, sdk.changed):
            changed()

    in_process = type(source).__module__.startswith("mcp.server")
    client = sdk.client(source if in_process else _watch(source, lost), message_handler=hear, cache=None, **options)
    async with client, anyio.create_task_group() as group:
        if client.protocol_version in sdk.versions:  # the versions without a handshake notify only listeners
            group.start_soon(_listen, client, changed, lost)
        yield SdkSession(client, sdk.error, lost)
        group.cancel_scope.cancel()


@asynccontextmanager
async def _watch(transport: Any, lost: anyio.Event) -> AsyncGenerator[tuple[_WatchedStream, _NotedStream], None]:
    pairing = Pairing()
    async with transport as (read, write):
        yield _WatchedStream(read, lost, pairing), _NotedStream(write, pairing)


@asynccontextmanager
async def _reach(sdk: _Sdk, url: str) -> AsyncGenerator[Any, None]:
    async with sdk.make_client() as client:
        client.event_hooks["response"].append(refuse_answerless)
        async with sdk.reach(url, http_client=client) as streams:
            yield streams


async def _listen(client: Any, changed: Callable[[], object], lost: anyio.Event) -> None:
    """Hear of changes of the list. A stream that ends is opened again; if that fails, the server is gone."""
    listened = False
    while True:
        entered = False
        try:
            async with client.listen(tools_list_changed=True) as events:
                entered = listened = True
                changed()  # earlier changes were not announced
                async for _event in events:
                    changed()
        except Exception as exc:  # noqa: BLE001  # foreign
            if not listened:  # it has no such stream; the tools work without it
                _LOG.info("an MCP server does not tell of changes of its tools: %s", type(exc).__name__)
                return
            if not entered:
                lost.set()
                return
        await timing.sleep(_LISTEN_AGAIN)


class _WatchedStream(ObjectReceiveStream[Any]):
    """A stream of messages that sets an event at its end, which the package does not report."""

    def __init__(self, stream: Any, ended: anyio.Event, pairing: Pairing) -> None:
        self._stream, self._ended, self._pairing = stream, ended, pairing

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        try:
            return self._pairing.mend(await self._stream.receive())
        except UnpairedError:
            _LOG.warning("an MCP server answered what cannot be read; the connection is made again")
            self._ended.set()
            raise anyio.EndOfStream from None
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended.set()
            raise

    async def aclose(self) -> None:
        self._ended.set()
        await self._stream.aclose()


class _NotedStream(ObjectSendStream[Any]):
    """A stream of messages to a server, of which the requests are noted."""

    def __init__(self, stream: Any, pairing: Pairing) -> None:
        self._stream, self._pairing = stream, pairing

    async def send(self, item: Any) -> None:
        self._pairing.note_sent(item)  # first: the answer may be there before this returns
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()


class SdkSession:
    """A session of the package ``mcp``."""

    def __init__(self, client: Any, error: type[Exception], lost: anyio.Event) -> None:
        self._client, self._error, self._lost = client, error, lost

    async def list_page(self, cursor: str | None) -> Answer:
        """See `ServerSession`."""
        return await self._ask(lambda: self._client.list_tools(cursor=cursor))

    async def call_tool(self, name: str, arguments: dict[str, Any], tell: TellProgress) -> Answer:
        """See `ServerSession`."""

        async def hear(done: float, total: float | None, message: str | None) -> None:
            tell(done, total, message or "")

        return await self._ask(lambda: self._client.call_tool(name, arguments, progress_callback=hear))

    async def wait_until_lost(self) -> None:
        """See `ServerSession`."""
        await self._lost.wait()

    async def _ask(self, send: Callable[[], Any]) -> Answer:
        if self._lost.is_set():
            raise SessionLostError("the connection has ended", landed="no")
        try:
            answer = await send()
        except self._error as exc:
            refused: Any = exc
            if refused.code == _CLOSED:
                self._lost.set()
                raise SessionLostError(str(refused.message)) from exc
            if refused.code == PARSE_ERROR and str(refused.message).startswith(_NOT_READ):
                raise InvalidAnswerError(UNREADABLE) from exc
            raise RequestRefusedError(refused.code, refused.message) from exc
        except _BROKEN as exc:
            self._lost.set()
            raise SessionLostError(type(exc).__name__) from exc
        except Exception as exc:  # of its checks of an answer, which may have any form
            raise InvalidAnswerError(str(exc)) from exc
        return cast("Answer", answer.model_dump(mode="json", by_alias=True, exclude_none=True))
