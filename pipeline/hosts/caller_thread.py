"""Bodies of a synchronous framework: they run in the thread that called, as the framework alone would run them.

The pipeline runs in the loop of synchronous calls meanwhile. So no event loop of ours runs in the thread of a body: it
may start one, and is where an interrupt from the keyboard is raised.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from queue import SimpleQueue
from threading import Lock
from typing import Any, TypeVar

import anyio

from ..base.event_loops import PORTAL, get_event_loop

T = TypeVar("T")


class CallerThread:
    """The thread that waits for one call, and runs its bodies meanwhile. Made in that thread."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[..., None] | None] = SimpleQueue()
        self._lock = Lock()  # of what follows
        self._left: BaseException | None = None  # why nobody waits any more
        self._library = _find_library()

    def wait_for(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an async function in another thread, and return its result."""
        if not PORTAL.is_here():
            return PORTAL.run(function, wait=self._serve)
        with ThreadPoolExecutor(1) as thread:  # an async tool blocks the loop of synchronous calls, which cannot wait
            return self._serve(thread.submit(copy_context().run, asyncio.run, function()))

    async def run(self, body: Callable[..., T], *args: Any) -> T:
        """Run a body in that thread, with the context variables of this task. Nothing cuts the wait for it short."""
        loop, context = get_event_loop(), copy_context()
        ended = loop.make_signal()
        answered: Future[T] = Future()  # not waited for: it only holds the answer

        def job(left: BaseException | None = None) -> None:
            try:
                answered.set_exception(left) if left else answered.set_result(context.run(self._run, body, *args))
            except BaseException as exc:  # noqa: BLE001  # raised again in the task
                answered.set_exception(exc)
            loop.call_soon(loop.set, ended)

        with self._lock:
            if self._left is not None:
                raise self._left
            self._jobs.put(job)
        with anyio.CancelScope(shield=True):
            await ended
        return answered.result()

    def _run(self, body: Callable[..., T], *args: Any) -> T:
        if self._library is not None:
            self._library[0].set(self._library[1])
        return body(*args)

    def _serve(self, future: Future[T]) -> T:
        future.add_done_callback(lambda _: self._jobs.put(None))
        try:
            while (job := self._jobs.get()) is not None:
                job()
        except BaseException as exc:
            with self._lock:
                self._left = exc
            while not self._jobs.empty():
                if (job := self._jobs.get()) is not None:
                    job(exc)
            raise
        return future.result()


def _find_library() -> tuple[Any, Any] | None:
    """The variable of sniffio that names the library of the loop that runs, and its value here; None: nobody asks it.

    In the context of a task it says that a loop runs, also in another thread.
    """
    sniffio: Any = sys.modules.get("sniffio")
    return None if sniffio is None else (sniffio.current_async_library_cvar, sniffio.current_async_library_cvar.get())
