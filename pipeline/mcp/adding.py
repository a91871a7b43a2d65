"""add_server: the tools of an MCP server in a registry, for as long as a context lasts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import get_args

import anyio

from ..base.options import check_number, check_type, read_by_name, refuse
from ..tools import Effect, ToolRegistry
from ..tools.detectors import TextPolicy
from .remote_server import RemoteServer
from .sdk_session import Callback, Callbacks, connect_sdk
from .server_session import Connect, find_first


@asynccontextmanager
async def add_server(
    registry: ToolRegistry,
    target: object,
    *,
    prefix: str = "",
    trust: bool = False,
    text: TextPolicy = "scrub",
    effects: Mapping[str, Effect] | None = None,
    fingerprints: Mapping[str, str] | None = None,
    connecting: float = 20.0,
    patience: float = 5.0,
    elicitation: Callback | None = None,
    sampling: Callback | None = None,
    roots: Callback | None = None,
    log: Callback | None = None,
    connect: Connect | None = None,
) -> AsyncGenerator[RemoteServer, None]:
    """Add the tools of an MCP server for as long as an ``async with`` block lasts.

    They follow the server's list. While the server is away they are unavailable, for the reason ``disconnected``, and
    it is connected again. A tool whose definition is not the accepted one is unavailable for the reason ``changed``
    until `RemoteServer.accept`. The guide in ``pipeline/mcp`` says more.

    Args:
        registry: The registry that gets the tools.
        target: A command as a list, ``["uvx", "mcp-server-time"]``; a URL of streamable HTTP; a server or a
            StdioServerParameters of the package ``mcp``; or a function that makes a new transport of that package for
            each connection.
        prefix: Put before the name of each tool, such as ``"time_"``. Default "": the names are the server's.
        trust: Whether to believe the server's annotations: that a tool only reads, or may be called again. Default
            False: each tool is ``mutating``, so a lost call is never repeated.
        text: How the texts of the server's errors reach the model: ``"tell"``, ``"scrub"`` or ``"hide"``, as for
            `toolcall_pipeline.tools.detectors.ReturnedError`. Default ``"scrub"``.
        effects: The effects of tools that you know yourself, by the server's names. Default None: none.
        fingerprints: The definitions that you have accepted, by the server's names, as in `RemoteServer.fingerprints`.
            A tool that is not among them is accepted as it is seen first. Default None: none.
        connecting: Seconds for a connection and the first list. Default 20.
        patience: Seconds for which calls wait for a server that is away before its tools are closed. Default 5; 0: they
            are closed at once.
        elicitation: Asks a person for the server, as a callback of the package ``mcp``: ``async (context, params) ->
            ElicitResult``. Default None: the server cannot ask one. The time limit of a call goes on meanwhile.
        sampling: Asks a model for the server: ``async (context, params) -> CreateMessageResult``. Default None.
        roots: Lists the folders for the server to work in: ``async (context) -> ListRootsResult``. Default None.
        log: Hears what the server logs, from the level ``debug`` on: ``async (params) -> None``. Default None.
        connect: Opens sessions in place of the package ``mcp``, for tests. Default None: the package does.

    Raises:
        SetupError: An option is wrong, the package ``mcp`` is not installed, the server cannot be reached, or a name is
            taken. Raised when the context is entered.
    """
    check_type("add_server", "registry", registry, ToolRegistry)
    effects = {} if effects is None else effects
    fingerprints = {} if fingerprints is None else fingerprints
    check_type("add_server", "prefix", prefix, str)
    check_type("add_server", "trust", trust, bool)
    if text not in get_args(TextPolicy):
        refuse("add_server", "text", "tell, scrub or hide", text)
    for name, effect in read_by_name("add_server", "effects", effects).items():
        if effect not in get_args(Effect) or effect == "keyed":  # a server knows nothing of our keys
            refuse("add_server", f"effects[{name!r}]", "read, idempotent or mutating", effect)
    for name, fingerprint in read_by_name("add_server", "fingerprints", fingerprints).items():
        check_type("add_server", f"fingerprints[{name!r}]", fingerprint, str)
    offered = {"elicitation": elicitation, "sampling": sampling, "roots": roots, "log": log}
    for name, callback in offered.items():
        if callback is not None and not callable(callback):
            refuse("add_server", name, "an async function, as a callback of the package mcp", callback)
    check_number("add_server", "connecting", connecting, above=0, unit="seconds")
    check_number("add_server", "patience", patience, least=0, unit="seconds")
    server = RemoteServer(
        registry,
        connect or connect_sdk(target, callbacks=Callbacks(elicitation, sampling, roots, log)),
        prefix=prefix,
        trust=trust,
        text=text,
        effects=effects,
        fingerprints=fingerprints,
        connecting=connecting,
        patience=patience,
    )
    raised: BaseException | None = None
    try:
        async with anyio.create_task_group() as group:
            try:
                await group.start(server.serve)
                yield server
            except (GeneratorExit, anyio.get_cancelled_exc_class()):
                raise
            except BaseException as exc:  # noqa: BLE001  # raised below: the group would wrap it
                raised = exc
            group.cancel_scope.cancel()
    finally:
        server.remove_tools()
    if raised is not None:
        raise raised if server.has_begun else find_first(raised)
