"""Every queue of deferred spans in the process: flushed before a provider shuts down."""

from __future__ import annotations

import atexit
from threading import Lock
from typing import Protocol
from weakref import WeakSet

from ..forking import register_after_fork


class SpanQueue(Protocol):
    """A queue of spans that are still to be made."""

    def flush(self) -> object:
        """Make all spans that wait, on the caller's thread."""
        ...


class _Queues:
    """The queues that exist. They are held weakly: a queue goes with the pipeline that uses it."""

    def __init__(self) -> None:
        self._all: WeakSet[SpanQueue] = WeakSet()
        self._lock = Lock()
        register_after_fork(self._renew_lock)

    def add(self, queue: SpanQueue) -> None:
        with self._lock:
            self._all.add(queue)

    def flush(self) -> None:
        with self._lock:
            queues = list(self._all)
        for queue in queues:
            queue.flush()

    def _renew_lock(self) -> None:
        self._lock = Lock()


_queues = _Queues()


def register_queue(queue: SpanQueue) -> None:
    """Include a queue in `flush_queues`, for as long as somebody else holds it."""
    _queues.add(queue)


def flush_queues() -> None:
    """Flush every queue, on the caller's thread. Do it before a provider shuts down, or their spans are lost."""
    _queues.flush()


def flush_queues_at_exit() -> None:
    """Flush every queue at the end of the process, before the exit hooks that exist now: the last one in runs first."""
    atexit.unregister(flush_queues)
    atexit.register(flush_queues)
