"""make_server: a pipeline as a server of MCP, made with the low-level server of the package ``mcp``."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version as read_version
from typing import Any, Final
from weakref import WeakSet

import anyio
import attrs
from anyio.abc import TaskGroup

from ..base import timing
from ..base.event_loops import get_event_loop
from ..base.options import check_type
from ..base.setup_error import SetupError
from ..engine.compose import Pipeline
from ..messages.wording import Wording
from .asking import AskingCalls
from .http_transport import OneAnswer
from .jsonrpc import TOOLS_CALL, Message
from .known_clients import KnownClients
from .sdk_server import SdkServer
from .served_calls import PRIVATE, ServedCalls, complete, is_modern, with_odd_arguments
from .served_tools import ServedTools

_NAME: Final = "toolcall"
_PATIENCE: Final = 5.0  # seconds for a client to take a notification
_MARGIN: Final = 0.01  # seconds, for what is lost when times are subtracted


@attrs.frozen(eq=False)
class _Clients:
    """The state of the server's lifespan, for the clients of one transport."""

    audience: ListAudience
    listen: Any
    group: TaskGroup
    asking: AskingCalls = attrs.field(factory=AskingCalls)


def make_server(
    pipeline: Pipeline,
    *,
    name: str = _NAME,
    version: str = "",
    instructions: str | None = None,
    deps: object = None,
    wordings: Mapping[str, Wording] | None = None,
) -> Any:
    """Make a server of MCP with the tools of a pipeline.

    Use it inside of ``async with pipeline:``. It serves both eras of the protocol, several clients at once.

    Args:
        pipeline: Runs the calls. Its registries have the tools, and only those that are open are listed.
        name: The server's name for clients. Default ``"toolcall"``.
        version: The version of your server. Default "": the version of this library.
        instructions: How to use the tools, for the model. Default None: nothing is said.
        deps: The ``deps`` of each call. Default None: none.
        wordings: How the texts for the model are worded, by the name that a client gives itself, or a pattern such as
            ``claude-*``. Default None: as the pipeline words them. ``_meta["toolcall/verbosity"]`` and
            ``_meta["toolcall/profile"]`` of a request stand above it.

    Returns:
        A ``mcp.server.lowlevel.Server``: ``run()`` serves two streams, ``streamable_http_app()`` is an application of
        ASGI.

    Raises:
        SetupError: The package ``mcp`` is not installed, the pipeline has no registry, or ``pipeline`` is none.
    """
    check_type("make_server", "pipeline", pipeline, Pipeline)
    check_type("make_server", "name", name, str)
    if not pipeline.registries:
        raise SetupError("make_server: no stage of the pipeline has a registry, so there are no tools to serve")
    sdk = SdkServer.load()
    tools = ServedTools(pipeline.registries)
    tools.list_tools()  # so that a tool without a schema is refused now

    def read_principal() -> str:
        token = sdk.access_token()
        return "" if token is None else join_principal(sdk.list_principal(token))

    known = KnownClients()
    calls = ServedCalls(
        pipeline, tools, known, deps=deps, read_principal=read_principal, error=sdk.error, wordings=wordings
    )

    async def list_tools(context: Any, _params: Any) -> Message:
        return _list("tools", tools.list_tools(), context)

    async def listen(context: Any, params: Any) -> Any:
        return await context.lifespan_context.listen(context, params)

    async def greet(context: Any, _params: Any) -> None:
        connection = context.session._connection  # noqa: SLF001  # there is no public list of sessions (mcp 2.3)
        context.lifespan_context.audience.add(connection)

    async def set_level(_context: Any, _params: Any) -> Message:
        return {}

    server: Any = sdk.server(
        name,
        version=version or read_version("toolcall-pipeline"),
        instructions=instructions,
        lifespan=partial(_find_clients, sdk, tools),
        get_tool_input_schema=tools.find_schema,
        on_list_tools=list_tools,
        on_call_tool=calls.call_tool,
        on_subscriptions_listen=listen,
    )
    if calls.keeps_results:  # else clients are told of no resources
        _add_resources(server, sdk, calls)
    # To the constructor it would be deprecated; a client of the versions before 2026 may still ask for it.
    server.add_request_handler("logging/setLevel", sdk.types.SetLevelRequestParams, set_level)
    server.add_notification_handler("notifications/initialized", sdk.types.NotificationParams, greet)
    seal = sdk.boundary(sdk.sealing.ephemeral(), default_audience=name)
    server.middleware[:] = [partial(_pass, server.middleware[:], seal)]
    make_app = server.streamable_http_app

    def streamable_http_app(**options: Any) -> Any:
        if options.get("auth") is None:
            known.warn(pipeline)
        app = make_app(**options)
        app.add_middleware(OneAnswer)
        return app

    server.streamable_http_app = streamable_http_app
    # Over HTTP the SDK asks without options, and would say that the list never changes.
    options = server.create_initialization_options
    server.create_initialization_options = partial(options, sdk.tool_changes(tools_changed=True))
    return server


def _list(key: str, listed: list[Message], context: Any) -> Message:
    """The result of a request for a list."""
    result: Message = {key: listed}
    return complete({**result, **PRIVATE}) if is_modern(context) else result


def _add_resources(server: Any, sdk: SdkServer, calls: ServedCalls) -> None:
    """Serve kept results by the links to them. No list names one: they are of one client, and come and go."""

    async def list_none(key: str, context: Any, _params: Any) -> Message:
        return _list(key, [], context)

    for method, key in (("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")):
        server.add_request_handler(method, sdk.types.PaginatedRequestParams, partial(list_none, key))
    server.add_request_handler("resources/read", sdk.types.ReadResourceRequestParams, calls.read_resource)


def join_principal(parts: Iterable[str | None]) -> str:
    """Join the parts of a token into a principal: those of two tokens are equal only if all parts are."""
    return json.dumps(list(parts), separators=(",", ":"))


async def _pass(middlewares: list[Any], seal: Any, context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Let calls of tools pass with any arguments, and without the SDK's own middlewares but the one that seals states.

    Its span of a call would be an ``execute_tool`` span too, around the span of the pipeline, so that each call counts
    twice.
    """
    if context.method == TOOLS_CALL:

        def call_tool(unsealed: Any) -> Awaitable[Any]:
            return call_next(with_odd_arguments(unsealed))

        return await seal(context, call_tool)
    for middleware in reversed(middlewares):
        call_next = partial(_surround, middleware, call_next)
    return await call_next(context)


def _surround(middleware: Any, call_next: Any, context: Any) -> Awaitable[Any]:
    found: Awaitable[Any] = middleware(context, call_next)
    return found


@asynccontextmanager
async def _find_clients(sdk: SdkServer, tools: ServedTools, _server: Any) -> AsyncGenerator[_Clients, None]:
    """The lifespan of the server: one for each pair of streams, and one for all that come over HTTP."""
    bus = sdk.bus()
    audience = ListAudience(tools, lambda: bus.publish(sdk.changed()))
    listen = sdk.listen(bus)
    async with anyio.create_task_group() as group:
        group.start_soon(audience.watch)
        try:
            yield _Clients(audience, listen, group)
        finally:
            listen.close()
            group.cancel_scope.cancel()


class ListAudience:
    """The clients of one transport."""

    def __init__(self, tools: ServedTools, publish: Callable[[], Awaitable[object]]) -> None:
        self._tools, self._publish = tools, publish
        self._connections: WeakSet[Any] = WeakSet()
        self._loop = get_event_loop()
        self._changed = anyio.Event()
        self._is_told = False  # whether the loop is going to set it

    def add(self, connection: Any) -> None:
        """Add a client that has shaken hands. It is forgotten when its connection is gone."""
        self._connections.add(connection)

    async def watch(self) -> None:
        """Notify the clients of each change, until this is cancelled. Many changes at once are one."""
        with ExitStack() as stack:
            for registry in self._tools.registries:
                stack.callback(registry.on_change(self._note_change))
            shown, openings = self._tools.list_open(), self._list_openings()
            while True:
                if await self._wait(openings):
                    openings = self._list_openings()
                offered = self._tools.list_open()
                if offered != shown:
                    shown = offered
                    await self._tell()

    def _note_change(self) -> None:
        """In the thread that made the change."""
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon(self._set_changed)

    def _set_changed(self) -> None:
        self._is_told = False
        self._changed.set()

    def _list_openings(self) -> deque[float]:
        """Return when closed tools may open by themselves; no listener is called then."""
        now = timing.monotonic()
        return deque(now + seconds + _MARGIN for seconds in self._tools.list_openings())

    async def _wait(self, openings: deque[float]) -> bool:
        """Wait for a change, or for the next opening, which is taken out. Returns whether it was a change."""
        if not openings:
            await self._changed.wait()
        else:
            with timing.move_on_after(max(0.0, openings[0] - timing.monotonic())):
                await self._changed.wait()
        if not self._changed.is_set():
            openings.popleft()
            return False
        self._changed = anyio.Event()
        return True

    async def _tell(self) -> None:
        await self._publish()
        async with anyio.create_task_group() as group:
            for connection in list(self._connections):
                group.start_soon(_notify, connection)


async def _notify(connection: Any) -> None:
    with anyio.move_on_after(_PATIENCE):  # one that does not read must not keep the others waiting
        await connection.send_tool_list_changed()
