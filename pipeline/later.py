"""Stage spans made off the caller's thread: bounded, counted, flushed before the process ends."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from time import sleep

from opentelemetry.trace import Tracer

from .report import Row
from .telemetry import SCOPE, Anchors, stage_spans

_PAUSE = 0.05  # seconds between two looks; waking the thread for each call costs 9 us


class Later:
    """A queue of calls whose stage spans are still to be made, and the daemon thread that makes them.

    Children may be made after their parent has ended; sampler, limits and processors apply to them as to any span.
    """

    def __init__(self, size: int = 10_000) -> None:
        self.size = size  # calls; beyond it their stage spans are dropped
        self.dropped = 0  # calls
        self._waiting: deque[tuple[Tracer, Sequence[Row], Anchors]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def __call__(self, tracer: Tracer, rows: Sequence[Row], anchors: Anchors) -> None:
        """Take over a call's rows; the caller must not touch them again."""
        if len(self._waiting) >= self.size:
            self.dropped += 1
            return
        self._waiting.append((tracer, rows, anchors))
        if self._thread is None or self._pid != os.getpid():
            self._begin()

    def flush(self) -> None:
        """Make all that is waiting, on the caller's thread. Before the provider shuts down, or they are lost."""
        with self._lock:
            while True:
                try:
                    job = self._waiting.popleft()
                except IndexError:
                    return
                try:
                    stage_spans(*job)
                except Exception:
                    logging.getLogger(SCOPE).exception("Stage spans could not be recorded")

    def _begin(self) -> None:
        first = self._thread is None
        if not first:  # in a fork: the thread stayed behind, and so did whoever held the lock
            self._lock = threading.Lock()
            self._waiting = deque([self._waiting[-1]])  # the others are the parent's to tell
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, daemon=True, name="toolcall-spans")
        self._thread.start()
        if first:
            atexit.register(self.flush)  # runs before the hook of a provider that was made before the first call

    def _work(self) -> None:
        while True:
            sleep(_PAUSE)
            self.flush()
