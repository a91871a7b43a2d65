"""ChangeListeners: who is told that a registry has changed."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

from ..forking import register_after_fork
from ..outside_text import get_logger

Listener: TypeAlias = Callable[[], object]
_logger = get_logger()


class ChangeListeners:
    """Functions that are called after each change. Any thread may add one or end one."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()  # replaced as a whole: whoever calls them takes no lock
        self._renew_lock()
        register_after_fork(self._renew_lock)

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a function; the one that is returned takes it out again."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def stop() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return stop

    def call(self) -> None:
        """Call each of them. What one raises is logged."""
        for listener in self._listeners:
            try:
                listener()
            except Exception:  # a user's function; whoever made the change may be a call
                _logger.exception("a listener of ToolRegistry.on_change failed")

    def _renew_lock(self) -> None:
        self._lock = Lock()
