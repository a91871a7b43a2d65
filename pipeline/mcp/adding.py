"""The tools of an MCP server in a registry, for as long as a context lasts: what `ToolRegistry.add_mcp` does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import get_args

import anyio

from ..options import check_number, check_type, read_by_name, refuse
from ..tools import Effect, ToolRegistry
from ..tools.detectors import TextPolicy
from .connection_failures import find_first
from .remote_server import RemoteServer
from .sdk_session import connect_sdk
from .server_session import Connect


@asynccontextmanager
async def add_server(
    registry: ToolRegistry,
    target: object,
    *,
    prefix: str,
    trust: bool,
    text: TextPolicy,
    effects: Mapping[str, Effect],
    fingerprints: Mapping[str, str],
    connecting: float,
    patience: float,
    connect: Connect | None = None,
) -> AsyncGenerator[RemoteServer, None]:
    """See `ToolRegistry.add_mcp`.

    Args:
        registry: Where the tools are kept.
        target: The server.
        prefix: Put before each name.
        trust: Whether annotations are believed.
        text: What becomes of the texts of errors.
        effects: Effects by the server's names.
        fingerprints: Accepted ones by the server's names.
        connecting: Seconds for a connection and the first list.
        patience: Seconds for which calls wait for a server that is away.
        connect: Opens sessions, instead of the package ``mcp``. Default None: the package does.
    """
    check_type("add_mcp", "prefix", prefix, str)
    check_type("add_mcp", "trust", trust, bool)
    if text not in get_args(TextPolicy):
        refuse("add_mcp", "text", "tell, scrub or hide", text)
    for name, effect in read_by_name("add_mcp", "effects", effects).items():
        if effect not in get_args(Effect) or effect == "keyed":  # a server knows nothing of our keys
            refuse("add_mcp", f"effects[{name!r}]", "read, idempotent or mutating", effect)
    for name, fingerprint in read_by_name("add_mcp", "fingerprints", fingerprints).items():
        check_type("add_mcp", f"fingerprints[{name!r}]", fingerprint, str)
    check_number("add_mcp", "connecting", connecting, above=0, unit="seconds")
    check_number("add_mcp", "patience", patience, least=0, unit="seconds")
    server = RemoteServer(
        registry,
        connect or connect_sdk(target),
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
