"""What of a trace need not be live, made off the caller's thread: bounded, counted, flushed before the process ends."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from time import sleep
from typing import TypeAlias

from opentelemetry.trace import Tracer

from ..report import StageRow
from .queues import drain_at_exit, enlist
from .spans import Anchors, Ended, end_attempts, stage_spans

_PAUSE = 0.05  # seconds between two looks; waking the thread for each call costs 9 us
_IDLE = 100  # looks that found nothing: then the thread ends, and a process at rest is not woken by it
_Job: TypeAlias = tuple[Tracer, Sequence[StageRow], Anchors, Sequence[Ended]]


class Later:
    """A queue of calls whose attempts are to be ended and whose stage spans are to be made, and the thread for it.

    Children may be made after their parent has ended; sampler, limits and processors apply to them as to any span.
    """

    def __init__(self, size: int = 10_000) -> None:
        self.size = size  # calls; of one beyond it the stage spans are dropped
        self.dropped = 0  # calls whose stage spans were dropped; what else is known of them was recorded
        self._waiting: deque[_Job] = deque()
        self._making = threading.Lock()
        self._changing = threading.Lock()
        self._working = False  # a thread is there, and will look again after now
        enlist(self)

    def __call__(self, tracer: Tracer, rows: Sequence[StageRow], anchors: Anchors, ended: Sequence[Ended]) -> None:
        """Take over what is left of a call; the caller must not touch it again."""
        if len(self._waiting) >= self.size:
            self._drop(ended)
            return
        self._waiting.append((tracer, rows, anchors, ended))
        if not self._working:
            self._begin()

    def flush(self) -> int:
        """Make all that is waiting, on the caller's thread; how many calls that were.

        Before a provider shuts down, or it is lost. What comes in meanwhile may stay, or a busy process would never
        come back from here.
        """
        with self._making:
            waiting = self._waiting
            number = len(waiting)
            for _ in range(number):
                tracer, rows, anchors, ended = waiting.popleft()
                end_attempts(ended)
                stage_spans(tracer, rows, anchors)
        return number

    def forked(self) -> None:
        """In the child of a fork: what waits is the parent's to tell, and its thread stayed behind."""
        self._waiting = deque()
        self._making = threading.Lock()
        self._changing = threading.Lock()
        self._working = False
        self.dropped = 0

    def _drop(self, ended: Sequence[Ended]) -> None:
        with self._changing:  # two threads that add at once may else count one
            self.dropped += 1
        end_attempts(ended)

    def _begin(self) -> None:
        with self._changing:
            if self._working:
                return
            self._working = True
        try:
            threading.Thread(target=self._work, daemon=True, name="toolcall-spans").start()
        except RuntimeError:  # there is no thread to be had, as at the end of the process
            self._working = False
            self.flush()
        else:
            drain_at_exit()  # anew each time: before the hook of a provider that was made since

    def _work(self) -> None:
        idle = 0
        while idle < _IDLE:
            sleep(_PAUSE)
            idle = 0 if self.flush() else idle + 1
        self._working = False
        if self._waiting:  # it came in between the last look and the line above
            self._begin()
