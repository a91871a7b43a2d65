"""make_server: a pipeline as a server of MCP, made with the low-level server of the package ``mcp``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version as read_version
from typing import Any, Final

import anyio
import attrs

from ..compose import Pipeline
from ..errors import SetupError
from ..options import check_type
from .jsonrpc import Message
from .list_audience import ListAudience
from .sdk_server import SdkServer
from .served_calls import ServedCalls, complete, is_modern, with_odd_arguments
from .served_tools import ServedTools

_CALL: Final = "tools/call"
_NAME: Final = "toolcall"


@attrs.frozen
class _Clients:
    """What belongs to the clients of one transport: the state of the server's lifespan.

    Args:
        audience: Tells them of changes.
        listen: Serves ``subscriptions/listen``.
    """

    audience: ListAudience
    listen: Any


def make_server(
    pipeline: Pipeline,
    *,
    name: str = _NAME,
    version: str = "",
    instructions: str | None = None,
    deps: object = None,
) -> Any:
    """Make a server of MCP whose tools are those of a pipeline.

    Use it inside of ``async with pipeline:``. It serves both eras of the protocol, several clients at once.

    Args:
        pipeline: Runs the calls. Its registries have the tools, and only those that are open are listed.
        name: What clients call the server. Default ``"toolcall"``.
        version: The version of your server. Default "": that of this library.
        instructions: How to use the tools, for the model. Default None: nothing is said.
        deps: The ``deps`` of each call. Default None: none.

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
    tools.list_tools()  # so that a tool without a schema is told now

    def read_principal() -> str:
        token = sdk.access_token()
        return "" if token is None else " ".join(filter(None, sdk.list_principal(token)))

    calls = ServedCalls(pipeline, tools, deps=deps, read_principal=read_principal)

    async def list_tools(context: Any, _params: Any) -> Message:
        result: Message = {"tools": tools.list_tools()}
        # By the versions without a handshake: how long a client may keep it (ms), and for whom.
        return complete({**result, "ttlMs": 0, "cacheScope": "private"}) if is_modern(context) else result

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
    # To the constructor it would be deprecated; a client of the versions before 2026 may still ask for it.
    server.add_request_handler("logging/setLevel", sdk.types.SetLevelRequestParams, set_level)
    server.add_notification_handler("notifications/initialized", sdk.types.NotificationParams, greet)
    server.middleware[:] = [partial(_pass, server.middleware[:])]
    # Over HTTP the SDK asks without options, and would say that the list never changes.
    options = server.create_initialization_options
    server.create_initialization_options = partial(options, sdk.tool_changes(tools_changed=True))
    return server


async def _pass(middlewares: list[Any], context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Let calls of tools pass with any arguments, and without the SDK's own middlewares.

    Its span of a call would be an ``execute_tool`` span too, around that of the pipeline, so that each call counts
    twice.
    """
    if context.method == _CALL:
        return await call_next(with_odd_arguments(context))
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
            yield _Clients(audience, listen)
        finally:
            listen.close()
            group.cancel_scope.cancel()
