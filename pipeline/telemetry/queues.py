"""All queues of deferred spans in the process, flushed before a provider shuts down."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakSet

from ..base.forking import register_after_fork

if TYPE_CHECKING:
    from .deferred import DeferredSpans

DRAIN_SECONDS = 5.0  # how long the end of a process may be delayed by a backend that does not answer


class _Queues:
    """The existing queues. The references are weak: a queue goes with the pipeline that uses it."""

    def __init__(self) -> None:
        self._all: WeakSet[DeferredSpans] = WeakSet()
        self._lock = Lock()
        register_after_fork(self._renew_lock)

    def add(self, queue: DeferredSpans) -> None:
        with self._lock:
            self._all.add(queue)

    def list(self) -> Sequence[DeferredSpans]:
        with self._lock:
            return tuple(self._all)

    def _renew_lock(self) -> None:
        self._lock = Lock()


_queues = _Queues()


def register_queue(queue: DeferredSpans) -> None:
    """Include a queue in `flush_queues`, for as long as it is referenced elsewhere."""
    _queues.add(queue)


def flush_queues(timeout: float | None = None) -> bool:
    """Flush every queue.

    Args:
        timeout: Seconds, for all of them; the queues' own threads then make the spans. Default None: no limit, and the
            caller's thread does.

    Returns:
        Whether all calls that had ended before are done.
    """
    if timeout is None:
        for queue in _queues.list():
            queue.flush()
        return True
    until = monotonic() + timeout
    late = [queue for queue in _queues.list() if not queue.wait_until_made(max(until - monotonic(), 0))]
    return not late


def measure_queues() -> None:
    """Record the metrics of the waiting calls of all queues, on the caller's thread."""
    for queue in _queues.list():
        queue.measure()


def drain_queues(timeout: float = DRAIN_SECONDS) -> None:
    """Flush every queue before a provider or the process ends. Calls left after the timeout are dropped and counted.

    Args:
        timeout: Seconds, for all of them.
    """
    until = monotonic() + timeout
    for queue in _queues.list():
        queue.drain(max(until - monotonic(), 0))


def flush_queues_at_exit() -> None:
    """Drain every queue at the end of the process, before the exit hooks that exist now: the last one in runs first."""
    atexit.unregister(drain_queues)
    atexit.register(drain_queues)
