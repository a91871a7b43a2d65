"""Wake a task that waits in an event loop, from any thread: the end of a job on a cluster, or an event for a reader.

An anyio Event cannot be set from another thread, and on asyncio it takes three times as long as a plain future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from importlib import import_module
from threading import local
from typing import Any, Protocol

import anyio


class Signal(Awaitable[None], Protocol):
    """Set once, in the thread of the event loop; one task waits for it."""


class EventLoop(Protocol):
    """The operations that a waiting task needs from an event loop."""

    def is_current(self) -> bool:
        """Whether the caller runs in this loop."""
        ...

    def call_soon(self, function: Callable[..., object], *args: Any) -> bool:
        """Call the function in the thread of the loop, from any thread. False: the loop is closed, and ignores it."""
        ...

    def make_signal(self) -> Signal:
        """Make a signal that is not set."""
        ...

    def set(self, signal: Any) -> None:
        """Set a signal, in the thread of the loop; nothing happens if its task was cancelled."""
        ...

    async def wait(self, signal: Any, seconds: float) -> None:
        """Wait for a signal in a task of the loop, at most so long."""
        ...

    def start(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Run a function in a task that belongs to no caller; only the end of the loop cancels it.

        Called in the thread of the loop. The function raises nothing.
        """
        ...


_LAST = local()  # the event loop that was asked for last, in each thread


def get_event_loop() -> EventLoop:
    """Return the event loop that the caller runs in: the same object again, as long as its thread runs no other one."""
    last: EventLoop | None = getattr(_LAST, "loop", None)
    if last is None or not last.is_current():
        loop = _find_asyncio_loop()
        last = _LAST.loop = _Trio() if loop is None else _Asyncio(loop)
    return last


def _find_asyncio_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Asyncio:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call_soon = loop.call_soon_threadsafe
        self._tasks = set[asyncio.Task[None]]()  # which the loop itself does not keep
        self.make_signal = partial(asyncio.Future[None], loop=loop)

    def is_current(self) -> bool:
        return _find_asyncio_loop() is self._loop

    def call_soon(self, function: Callable[..., object], *args: Any) -> bool:
        with suppress(RuntimeError):  # the loop is closed
            self._call_soon(function, *args)
            return True
        return False

    def set(self, signal: asyncio.Future[None]) -> None:
        if not signal.done():  # else the task that waited for it was cancelled
            signal.set_result(None)

    async def wait(self, signal: asyncio.Future[None], seconds: float) -> None:
        # A timer of the loop, for a cancel scope takes five times as long: in a write to a file a tenth of everything.
        timer = self._loop.call_later(seconds, self.set, signal)
        try:
            await signal
        finally:
            timer.cancel()

    def start(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        task: Any = self._loop.create_task(function(*args))
        task._log_destroy_pending = False  # noqa: SLF001  # as asyncio's own: a loop may end without a word to its tasks
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Trio:
    def __init__(self) -> None:
        lowlevel: Any = import_module("trio").lowlevel
        self._get_token: Callable[[], Any] = lowlevel.current_trio_token
        self._token = self._get_token()
        self._spawn = lowlevel.spawn_system_task
        self._call_soon = self._token.run_sync_soon

    def is_current(self) -> bool:
        try:
            return self._get_token() is self._token
        except RuntimeError:  # the caller runs in no loop of trio
            return False

    def call_soon(self, function: Callable[..., object], *args: Any) -> bool:
        with suppress(RuntimeError):  # trio.RunFinishedError is one
            self._call_soon(function, *args)
            return True
        return False

    def make_signal(self) -> Signal:
        return _EventSignal()

    def set(self, signal: _EventSignal) -> None:
        signal.event.set()

    async def wait(self, signal: _EventSignal, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await signal

    def start(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._spawn(function, *args)


class _EventSignal(Signal):
    def __init__(self) -> None:
        self.event = anyio.Event()

    def __await__(self) -> Generator[Any, Any, None]:
        return self.event.wait().__await__()
