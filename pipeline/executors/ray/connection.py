"""The connection to a Ray cluster, or the cluster itself where it is started here, and the thread that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from threading import Event, Thread
from typing import Any

from .event_loop import this_loop


class Connection:
    """Made by a thread that stays until it is closed: Ray's processes end with the one that started them.

    That is what PR_SET_PDEATHSIG means, and worker threads come and go. A Ray that is there already is left as it is.
    """

    def __init__(self, ray: Any, address: str | None, init: Mapping[str, Any]) -> None:
        self._ray, self._address, self._init = ray, address, init
        self._made: Future[None] = Future()
        self._end = Event()
        self._ended: Future[None] = Future()
        Thread(target=self._live, daemon=True, name="toolcall-ray").start()  # an exit waits for no cluster

    @property
    def failed(self) -> bool:
        """Whether it came to nothing, so that another one may be tried."""
        return self._made.done() and self._made.exception() is not None

    async def made(self) -> None:
        """Wait until it is there. Raises what Ray raises where it cannot be."""
        await _of(self._made)

    async def close(self) -> None:
        """Let go of the cluster; end it, if it was started here. One that is still being looked for is left to that."""
        self._end.set()
        if self._made.done():
            await _of(self._ended)

    def _live(self) -> None:
        ours = not self._ray.is_initialized()
        try:
            if ours:
                self._ray.init(address=self._address, **self._init)
        except BaseException as exc:  # noqa: BLE001  # Ray exits where it finds no cluster of its own version
            self._made.set_exception(exc)
            self._ended.set_result(None)
            return
        self._made.set_result(None)
        self._end.wait()
        if ours:
            self._ray.shutdown()
        self._ended.set_result(None)


async def _of(future: Future[None]) -> None:
    """What came of it; not by a worker thread, which Python would wait for at its end."""
    loop = this_loop()
    bell = loop.bell()
    future.add_done_callback(lambda _: loop.wake(loop.ring, bell))
    await bell
    future.result()
