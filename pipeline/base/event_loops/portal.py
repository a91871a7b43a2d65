"""Portal: runs calls of code that has no event loop, in one loop for the whole process, in a thread of its own."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import attrs

from ..forking import register_after_fork
from ..setup_error import SetupError

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T")
_PATIENCE = 5.0  # seconds for what is cancelled to end


@attrs.define(eq=False)
class _Job:
    """A result that a thread waits for. It may be cancelled at any moment, be it before the loop has heard of it."""

    function: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...]
    wanted: bool = True
    scope: anyio.CancelScope | None = None  # once it has begun
    raised: BaseException | None = None
    ended: threading.Event = attrs.field(factory=threading.Event)

    async def run(self) -> Any:
        """The value that the function returns. A SystemExit is kept, because in the loop it would end all calls."""
        try:
            with anyio.CancelScope() as self.scope:
                return await self.function(*self.args) if self.wanted else None
        except (Exception, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as exc:  # noqa: BLE001  # raised again in the thread that waits
            self.raised = exc
        finally:
            self.ended.set()

    def cancel(self, portal: BlockingPortal) -> None:
        """End it, and wait until it has ended."""
        self.wanted = False
        if self.scope is not None and not self.ended.is_set():
            portal.start_task_soon(self.scope.cancel)
            self.ended.wait(_PATIENCE)


class Portal:
    """One event loop of asyncio for all threads of this process that have none.

    anyio's `BlockingPortalProvider` would not do: its loop ends with the last call that uses it, and with it what a
    pipeline has opened there; its thread is no daemon, so a call that hangs keeps the process alive; a child that is
    forked while it runs has its lock and no loop; and an interrupt leaves the function running.

    It starts with the first call. When the main thread has ended, it stops as soon as no thread waits that the process
    waits for, so that it keeps no process alive. A forked child gets one of its own.
    """

    def __init__(self) -> None:
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def _restart_in_child(self) -> None:
        self._changed = threading.Condition()  # guards what follows
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None  # where its loop runs, or ran last
        self._waiting: set[_Job] = set()  # of threads for which the process waits

    def is_here(self) -> bool:
        """Whether this is the thread of the loop."""
        return threading.current_thread() is self._thread

    def run(
        self,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        wait: Callable[[Future[T]], T] | None = None,
    ) -> T:
        """Run an async function in the loop, with the context variables of this thread, and wait for its result.

        An exception that interrupts the wait, such as KeyboardInterrupt, cancels the function; it is raised when the
        function has ended, or after 5 seconds.

        Raises:
            SetupError: This is the thread of the loop: it would wait for itself. Or Python is ending, as where a
                ``__del__`` calls: no other thread runs any more.
        """
        if sys.is_finalizing():
            raise SetupError("a synchronous call was made while Python ends, when no event loop can run any more")
        if self.is_here():
            raise SetupError(
                "a synchronous call was made in the event loop that runs synchronous calls, which would wait for "
                "itself: in async code write `await pipeline.call(…)`"
            )
        job, portal = _Job(function, args), None
        try:
            with self._changed:
                if not threading.current_thread().daemon:
                    self._waiting.add(job)
                portal = self._find_portal()
                future: Future[T] = portal.start_task_soon(job.run)
            value = future.result() if wait is None else wait(future)
        except CancelledError:  # the process ends, and this is a daemon; its thread ends without a traceback
            raise SystemExit from None
        except BaseException:
            if portal is not None:
                job.cancel(portal)
            raise
        finally:
            with self._changed:
                self._waiting.discard(job)
                self._changed.notify_all()
        if job.raised is not None:
            raise job.raised
        return value

    def _find_portal(self) -> BlockingPortal:
        """The portal, started if there is none. The caller holds the lock."""
        if self._portal is None or self._thread is None or not self._thread.is_alive():
            started: Future[BlockingPortal] = Future()
            thread = threading.Thread(target=_serve, args=(started,), daemon=True, name="toolcall-sync")
            thread.start()
            self._portal, self._thread = started.result(), thread
            watch = threading.Thread(target=self._stop_after_main, daemon=True, name="toolcall-sync-exit")
            watch.start()
            atexit.unregister(self.close)
            atexit.register(self.close)
        return self._portal

    def _stop_after_main(self) -> None:
        """End the threads of the loop, for which Python waits before it calls what is registered with atexit."""
        threading.main_thread().join()
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting)
        self.close()

    def close(self) -> None:
        """End the loop and what runs in it. A later call starts another one."""
        with self._changed:
            portal, thread = self._portal, self._thread
            self._portal = None  # a thread that calls after this gets another one
        if portal is not None:
            portal.start_task_soon(portal.stop, True)  # noqa: FBT003  # cancel_remaining
        if thread is not None:  # also if another thread has stopped it: what it closes has to be closed
            thread.join(_PATIENCE)


def _serve(started: Future[BlockingPortal]) -> None:
    from anyio.from_thread import BlockingPortal

    async def host() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    try:
        anyio.run(host, backend="asyncio")
    except BaseException as exc:
        if started.done():
            raise
        started.set_exception(exc)


PORTAL = Portal()
