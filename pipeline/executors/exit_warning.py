"""Warns at exit which tools Python waits for: their threads were abandoned, and nothing can end them."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress

from ..base.forking import register_after_fork
from ..privacy import get_logger

_LOG = get_logger()
_INTERVAL = 0.5  # seconds between two looks for such a tool


class ExitWarning:
    """The tools that run in abandoned threads, and a thread that warns of them once the main thread has ended.

    That thread exists only while there are such tools. It is a daemon, so no exit waits for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: Counter[str] = Counter()
        self._watcher: threading.Thread | None = None

    def add(self, tool: str) -> None:
        """A thread of this tool is abandoned."""
        with self._lock:
            self._tools[tool] += 1
            if self._watcher is None:
                watcher = threading.Thread(target=self._watch, daemon=True, name="toolcall-exit")
                with suppress(RuntimeError):  # no thread can be started, as at exit; the call must not fail for that
                    watcher.start()
                    self._watcher = watcher

    def remove(self, tool: str) -> None:
        """An abandoned thread of this tool has ended."""
        with self._lock:
            self._tools[tool] -= 1
            if not self._tools[tool]:
                del self._tools[tool]

    def _watch(self) -> None:
        main = threading.main_thread()
        while True:
            main.join(_INTERVAL)
            with self._lock:
                if not self._tools:
                    self._watcher = None
                    return
                tools = ", ".join(sorted(self._tools))
            if not main.is_alive():
                _LOG.warning(
                    "at exit, tools still run in threads that nobody waits for, and Python may wait for them: %s", tools
                )
                return

    def restart_in_child(self) -> None:
        """In a forked child: the other threads are gone, and one of them may have held the lock."""
        self._lock = threading.Lock()
        self._tools.clear()
        self._watcher = None


EXIT_WARNING = ExitWarning()
register_after_fork(EXIT_WARNING.restart_in_child)
