"""The event loop that calls wait in, while Ray answers in threads of its own: asyncio's futures where they can be had.

An anyio Event costs three times as much, and in a batch of tiny calls that would be a third of everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

import anyio


class Bell(Awaitable[None], Protocol):
    """Rung once, in the event loop's thread; one task waits for it."""


class Loop(Protocol):
    """What a pool of actors wants of an event loop."""

    def is_here(self) -> bool:
        """Whether it is the one that the caller runs in."""
        ...

    def wake(self, function: Callable[..., object], *args: Any) -> None:
        """Have the function called in the loop's thread, from any thread. A loop that is closed wants no more."""
        ...

    def bell(self) -> Bell:
        """Something to wait for."""
        ...

    def ring(self, bell: Any) -> None:
        """Let whoever waits for it go on, if somebody still does."""
        ...


def this_loop() -> Loop:
    """The one that the caller runs in."""
    try:
        return _Asyncio(asyncio.get_running_loop())
    except RuntimeError:
        return _Trio()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Asyncio:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._soon = loop.call_soon_threadsafe
        self.bell = loop.create_future

    def is_here(self) -> bool:
        return _running_loop() is self._loop

    def wake(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):
            self._soon(function, *args)

    def ring(self, bell: asyncio.Future[None]) -> None:
        if not bell.done():  # cancelled with the task that waited for it
            bell.set_result(None)


class _Trio:
    def __init__(self) -> None:
        self._current: Callable[[], Any] = import_module("trio").lowlevel.current_trio_token
        self._token = self._current()
        self._soon = self._token.run_sync_soon

    def is_here(self) -> bool:
        try:
            return self._current() is self._token
        except RuntimeError:
            return False

    def wake(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # trio.RunFinishedError is one
            self._soon(function, *args)

    def bell(self) -> Bell:
        return _Event()

    def ring(self, bell: _Event) -> None:
        bell.event.set()


class _Event(Bell):
    def __init__(self) -> None:
        self.event = anyio.Event()

    def __await__(self) -> Generator[Any, Any, None]:
        return self.event.wait().__await__()
