"""What of a trace need not be live, made off the caller's thread: bounded, counted, flushed before the process ends."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Sequence
from time import sleep
from typing import TypeAlias

from opentelemetry.trace import Tracer

from .report import Row
from .telemetry import Anchors, Ended, end_attempts, stage_spans

_PAUSE = 0.05  # seconds between two looks; waking the thread for each call costs 9 us
_Job: TypeAlias = tuple[Tracer, Sequence[Row], Anchors, Sequence[Ended]]


class Later:
    """A queue of calls whose attempts are to be ended and whose stage spans are to be made, and the thread for it.

    Children may be made after their parent has ended; sampler, limits and processors apply to them as to any span.
    """

    def __init__(self, size: int = 10_000) -> None:
        self.size = size  # calls; of one beyond it the stage spans are dropped
        self.dropped = 0  # calls
        self._waiting: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._working = False

    def __call__(self, tracer: Tracer, rows: Sequence[Row], anchors: Anchors, ended: Sequence[Ended]) -> None:
        """Take over what is left of a call; the caller must not touch it again."""
        if len(self._waiting) >= self.size:
            self.dropped += 1
            end_attempts(ended)
            return
        self._waiting.append((tracer, rows, anchors, ended))
        if not self._working:
            self._begin()

    def flush(self) -> None:
        """Make all that is waiting, on the caller's thread. Before the provider shuts down, or it is lost."""
        with self._lock:
            while True:
                try:
                    tracer, rows, anchors, ended = self._waiting.popleft()
                except IndexError:
                    return
                end_attempts(ended)
                stage_spans(tracer, rows, anchors)

    def _begin(self) -> None:
        threading.Thread(target=self._work, daemon=True, name="toolcall-spans").start()
        self._working = True
        atexit.register(self.flush)  # runs before the hook of a provider that was made before the first call
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)

    def forked(self) -> None:
        """In the child of a fork: what waits is the parent's to tell, and its thread stayed behind."""
        self._waiting = deque()
        self._lock = threading.Lock()
        self._working = False

    def _work(self) -> None:
        while True:
            sleep(_PAUSE)
            self.flush()
