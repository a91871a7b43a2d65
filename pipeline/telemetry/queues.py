"""The queues of what is made later: emptied before a provider shuts down, and begun anew after a fork."""

from __future__ import annotations

import atexit
import os
from threading import Lock
from typing import Protocol
from weakref import WeakSet


class Queue(Protocol):
    """Something that makes later what it was handed."""

    def flush(self) -> object:
        """Make all that is waiting, on the caller's thread."""
        ...

    def forked(self) -> None:
        """In the child of a fork: what waits is the parent's to make, and no other thread came along."""
        ...


class _Queues:
    """All that there are; a pipeline that nobody keeps takes its queue with it."""

    def __init__(self) -> None:
        self._all: WeakSet[Queue] = WeakSet()
        self._lock = Lock()

    def add(self, queue: Queue) -> None:
        with self._lock:
            self._all.add(queue)

    def flush(self) -> None:
        with self._lock:
            queues = list(self._all)
        for queue in queues:
            queue.flush()

    def forked(self) -> None:
        self._lock = Lock()  # another thread may have held it
        for queue in list(self._all):
            queue.forked()


_queues = _Queues()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_queues.forked)


def enlist(queue: Queue) -> None:
    """Have it emptied by `drain_all`, for as long as somebody keeps it."""
    _queues.add(queue)


def drain_all() -> None:
    """Empty every queue, on the caller's thread. Before a provider shuts down, or what waits is lost."""
    _queues.flush()


def drain_at_exit() -> None:
    """Have it done when the process ends, before what has registered itself up to now: the last one in is first out."""
    atexit.unregister(drain_all)
    atexit.register(drain_all)
