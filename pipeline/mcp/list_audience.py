"""ListAudience: the clients that are told when the list of tools has changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Final
from weakref import WeakSet

import anyio

from .. import timing
from ..event_loops import get_event_loop
from .served_tools import ServedTools

_PATIENCE: Final = 5.0  # seconds for a client to take a notification
_MARGIN: Final = 0.01  # seconds, for what is lost when times are subtracted


class ListAudience:
    """The clients of one transport.

    Args:
        tools: What is listed.
        publish: Tells the clients that listen: those of the versions without a handshake.
    """

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
        """Tell the clients of each change, until this is cancelled. Many changes at once are one."""
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
        """When closed tools may open by themselves, of which no listener is told."""
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
