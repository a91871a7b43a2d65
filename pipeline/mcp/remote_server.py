"""RemoteServer: the connection of a registry to one MCP server, made again when it is lost."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from returns.result import Failure

from ..base import timing
from ..base.event_loops import get_event_loop
from ..base.setup_error import SetupError
from ..engine.errors import NeedsSetup, Unavailable
from ..privacy import approved, get_logger, withholds
from ..tools import Effect, ToolContext, ToolRegistry
from ..tools.detectors import TextPolicy
from ..tools.error_tables import without_texts
from .call_answers import read_answer, read_exception
from .offered_tools import CHANGED, OfferedTools
from .server_session import (
    Backoff,
    Connect,
    InvalidAnswerError,
    RequestRefusedError,
    ServerSession,
    SessionLostError,
    TellProgress,
    as_setup_error,
    describe_failure,
    read_pages,
)

_LOG = get_logger()
_BETWEEN_LISTS: Final = 1.0  # seconds: a server may say as often as it likes that its list changed
_FIRST_DELAY: Final = 0.2  # seconds before the server is connected again
_MOST_DELAY: Final = 30.0
_DISCONNECTED: Final = "disconnected"  # why the tools of a server that is away are closed


class RemoteServer:
    """One MCP server whose tools are in a registry. `toolcall_pipeline.mcp.add_server` makes it.

    All its work runs in the event loop that added it.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        connect: Connect,
        *,
        prefix: str,
        trust: bool,
        text: TextPolicy,
        effects: Mapping[str, Effect],
        fingerprints: Mapping[str, str],
        connecting: float,
        patience: float,
    ) -> None:
        self._connect, self._trust = connect, trust
        self._text: TextPolicy = text
        self._registry = registry
        self._connecting, self._patience = connecting, patience
        self._tools = OfferedTools(
            registry, self._call, prefix=prefix, trust=trust, effects=effects, fingerprints=fingerprints
        )
        self._loop = get_event_loop()
        self._session: ServerSession | None = None
        self._up = anyio.Event()  # replaced when the connection is lost
        self._changed = anyio.Event()  # replaced before the list is read again
        self._begun = False  # the tools were listed once

    @property
    def has_begun(self) -> bool:
        """Whether its tools were registered once."""
        return self._begun

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._session is not None

    @property
    def names(self) -> list[str]:
        """The names of its tools in the registry, those that are held back included."""
        return list(self._tools.offers)

    @property
    def held_back(self) -> list[str]:
        """The names in the registry of the tools whose definition changed and was not accepted."""
        return sorted(self._tools.held)

    @property
    def fingerprints(self) -> dict[str, str]:
        """The accepted fingerprints by the server's names, of all tools that it ever offered. To be stored as JSON."""
        return dict(self._tools.pins)

    def read_offer(self, name: str) -> dict[str, Any]:
        """The definition of a tool as the server offers it now, for a person who decides whether to accept it.

        Args:
            name: The tool's name in the registry.

        Raises:
            SetupError: The server offers no such tool.
        """
        if name not in self._tools.offers:
            raise SetupError(f"read_offer: the server offers no {name!r}; it offers: {', '.join(self.names) or 'none'}")
        return dict(self._tools.offers[name].definition)

    def accept(self, name: str) -> None:
        """Accept the changed definition of a tool. It opens with it, and its fingerprint is the new one.

        Args:
            name: The tool's name in the registry.

        Raises:
            SetupError: No tool of that name is held back.
        """
        self._tools.accept(name)

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Keep the connection until it is cancelled; begun when the tools are registered.

        Raises:
            SetupError: The first connection failed, or a name is taken.
        """
        backoff = Backoff(_FIRST_DELAY, _MOST_DELAY)
        async with anyio.create_task_group() as group:
            while True:
                began = timing.monotonic()
                try:
                    await self._hold_connection(group, task_status)
                except Exception as exc:  # the transport and the server are foreign code
                    if not self._begun:
                        raise as_setup_error(exc) from exc
                    _LOG.warning("the connection to an MCP server failed: %s", describe_failure(exc))
                await timing.sleep(backoff.next_delay(timing.monotonic() - began))

    def remove_tools(self) -> None:
        """Take its tools out of the registry."""
        self._session = None
        self._tools.remove_all()

    async def _hold_connection(self, group: TaskGroup, task_status: TaskStatus[None]) -> None:
        """Connect, register the tools, and return when the connection is lost."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._connecting) as scope:
            async with self._connect(self._tell_changed) as session:
                await self._refresh_tools(session)
                scope.deadline = inf
                self._mark_connected(session)
                if not self._begun:
                    self._begun = True
                    self._tools.warn_of_unknown_effects()
                    task_status.started()
                try:
                    await self._watch_list(session)
                finally:
                    self._mark_lost(group)  # now: to close a connection takes seconds, and calls should wait meanwhile
        if scope.cancelled_caught:
            raise TimeoutError(f"no connection within {self._connecting:g} seconds")

    def _mark_connected(self, session: ServerSession) -> None:
        self._session = session
        self._tools.reopen_all(_DISCONNECTED)
        self._up.set()

    def _mark_lost(self, group: TaskGroup) -> None:
        self._session = None
        self._up = anyio.Event()
        group.start_soon(self._close_later, self._up)

    async def _close_later(self, up: anyio.Event) -> None:
        """Close the tools if the server is not back soon. Until then calls wait, so that a restart is not noticed."""
        await timing.sleep(self._patience)
        if not up.is_set():
            _LOG.warning("an MCP server is away; its tools are unavailable")
            self._tools.close_all(_DISCONNECTED)

    async def _watch_list(self, session: ServerSession) -> None:
        """Read the list again whenever the server says that it changed, until the connection is lost."""
        async with anyio.create_task_group() as group:

            async def wait_until_lost() -> None:
                await session.wait_until_lost()
                group.cancel_scope.cancel()

            group.start_soon(wait_until_lost)
            while True:
                await self._changed.wait()
                with anyio.fail_after(self._connecting):
                    await self._refresh_tools(session)
                await timing.sleep(_BETWEEN_LISTS)

    def _tell_changed(self) -> None:
        self._changed.set()

    async def _refresh_tools(self, session: ServerSession) -> None:
        self._changed = anyio.Event()  # first: what changes from now on is another change
        definitions = await read_pages(session.list_page)
        self._tools.replace_all(definitions, first=not self._begun)

    async def _call(self, name: str, own: str, context: ToolContext, arguments: dict[str, Any]) -> object:
        if not self._loop.is_current():
            told = approved("The MCP server of this tool can only be called in the event loop in which it was added.")
            return Failure(NeedsSetup(approved("the MCP server"), told))
        session = await self._find_session()
        if session is None:
            return Failure(Unavailable(name, _DISCONNECTED, body_landed="no"))
        if name in self._tools.held:  # now: the server may have come back with another definition
            return Failure(Unavailable(name, CHANGED, body_landed="no"))
        offer = self._tools.offers.get(name)
        structured = offer is not None and offer.definition.get("outputSchema") is not None

        secretive = name in self._registry and withholds(self._registry[name])  # then no text of the server may pass
        try:
            answer = await session.call_tool(own, arguments, _tell_number(context) if secretive else context.progress)
        except (SessionLostError, RequestRefusedError, InvalidAnswerError) as exc:
            found: object = read_exception(exc, self._text)
        else:
            found = read_answer(answer, self._text, structured=structured, trusted=self._trust)
        return Failure(without_texts(found.failure(), name)) if secretive and type(found) is Failure else found

    async def _find_session(self) -> ServerSession | None:
        """The connection, when it is back; None: it is not back soon."""
        if self._session is None:
            with timing.move_on_after(self._patience):
                await self._up.wait()
        return self._session


def _tell_number(context: ToolContext) -> TellProgress:
    """A listener for progress that leaves out what the server says of it."""

    def tell(done: float, total: float | None, _: str) -> None:
        context.progress(done, total)

    return tell
