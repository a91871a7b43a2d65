"""The connection to a Ray cluster, and the thread that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from threading import Event, Thread
from typing import Any

from ...base.event_loops import get_event_loop


class Connection:
    """Connects to a Ray cluster, or starts one, in a thread of its own that lives until it is closed.

    A cluster that is started here ends with the thread that started it (its processes set PR_SET_PDEATHSIG), so no
    worker thread, which comes and goes, may do it. If Ray is initialized already, that Ray is used and never shut down.
    """

    def __init__(self, ray: Any, address: str | None, init: Mapping[str, Any]) -> None:
        self._ray, self._address, self._init = ray, address, init
        self._connected: Future[None] = Future()
        self._close_requested = Event()
        self._closed: Future[None] = Future()
        Thread(target=self._hold, daemon=True, name="toolcall-ray").start()  # an exit waits for no cluster

    @property
    def failed(self) -> bool:
        """Whether it could not connect. Then make another one."""
        return self._connected.done() and self._connected.exception() is not None

    async def wait_connected(self) -> None:
        """Wait until it is connected. Raises what ``ray.init`` raised."""
        await _wait_for(self._connected)

    async def close(self) -> None:
        """Let go of the cluster, and shut it down if it was started here. Waits for that only if it was connected."""
        self._close_requested.set()
        if self._connected.done():
            await _wait_for(self._closed)

    def _hold(self) -> None:
        ours = not self._ray.is_initialized()
        try:
            if ours:
                self._ray.init(address=self._address, **self._init)
        except BaseException as exc:  # noqa: BLE001  # Ray calls sys.exit for a cluster of another version
            self._connected.set_exception(exc)
            self._closed.set_result(None)
            return
        self._connected.set_result(None)
        self._close_requested.wait()
        if ours:
            self._ray.shutdown()
        self._closed.set_result(None)


async def _wait_for(future: Future[None]) -> None:
    """Wait without a worker thread, for which Python would wait at exit. Raises what the future has."""
    loop = get_event_loop()
    signal = loop.make_signal()
    future.add_done_callback(lambda _: loop.call_soon(loop.set, signal))
    await signal
    future.result()
