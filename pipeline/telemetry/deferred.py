"""Spans that need not be live, made on a thread of their own: bounded, counted, and flushed before the process ends."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from opentelemetry.trace import Tracer

from ..forking import register_after_fork
from ..report import StageRow
from .blame import Verdicts
from .queues import flush_queues_at_exit, register_queue
from .spans import Anchors, EndedAttempt, end_attempts, make_stage_spans

_INTERVAL = 0.05  # seconds between two looks into the queue; waking the thread for each call would cost 9 us
_Job: TypeAlias = tuple[Tracer, Sequence[StageRow], Anchors, Sequence[EndedAttempt], Verdicts]


class DeferredSpans:
    """A queue of ended calls, and the thread that ends their attempts' spans and makes their stage spans.

    A span may be made after its parent has ended; samplers, limits and processors treat it like any other.

    Args:
        max_queue: Calls that may wait. A call beyond it loses its stage spans and counts in ``dropped``; its own span
            and those of its attempts are recorded all the same.
        max_idle: Looks in a row that find the queue empty, one every 0.05 seconds, after which the thread ends. It is
            started again by the next call, so an idle process is not woken.
        sleep: Waits between two looks, for so many seconds.
    """

    def __init__(
        self, max_queue: int = 10_000, *, max_idle: int = 100, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.max_queue = max_queue
        self.dropped = 0
        self._max_idle, self._sleep = max_idle, sleep
        self._queue: deque[_Job] = deque()
        self._reset()
        register_queue(self)
        register_after_fork(self._restart_in_child)

    def _reset(self) -> None:
        self._flush_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._running = False  # the thread exists, and will look into the queue at least once more

    def add(
        self,
        tracer: Tracer,
        rows: Sequence[StageRow],
        anchors: Anchors,
        ended: Sequence[EndedAttempt],
        verdicts: Verdicts,
    ) -> None:
        """Take over the rest of a call. The caller must not change any of it afterwards."""
        if len(self._queue) >= self.max_queue:
            self._drop(ended)
            return
        self._queue.append((tracer, rows, anchors, ended, verdicts))
        if not self._running:
            self._start()

    def flush(self) -> int:
        """Make the spans of all calls that wait now, on the caller's thread, and return how many calls that were.

        Call it before a provider shuts down, or those spans are lost. Calls that end meanwhile may stay in the queue:
        in a busy process a flush that took them too might never return.
        """
        with self._flush_lock:
            queue = self._queue
            calls = len(queue)
            for _ in range(calls):
                tracer, rows, anchors, ended, verdicts = queue.popleft()
                end_attempts(ended)
                make_stage_spans(tracer, rows, anchors, verdicts)
        return calls

    def _restart_in_child(self) -> None:
        """After a fork: drop the queue, whose spans the parent makes; the thread exists in the parent only."""
        self._queue = deque()
        self.dropped = 0
        self._reset()

    def _drop(self, ended: Sequence[EndedAttempt]) -> None:
        with self._state_lock:  # += is not atomic between threads
            self.dropped += 1
        end_attempts(ended)

    def _start(self) -> None:
        with self._state_lock:
            if self._running:
                return
            self._running = True
        try:
            threading.Thread(target=self._work, daemon=True, name="toolcall-spans").start()
        except RuntimeError:  # no thread can be started, for instance at the end of the process
            self._running = False
            self.flush()
        else:
            flush_queues_at_exit()  # again for each thread: it must run before the exit hook of a newer provider

    def _work(self) -> None:
        idle = 0
        while idle < self._max_idle:
            self._sleep(_INTERVAL)
            idle = 0 if self.flush() else idle + 1
        self._running = False
        if self._queue:  # a call was added between the last look and the line above
            self._start()
