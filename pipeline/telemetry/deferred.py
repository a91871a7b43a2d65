"""Ended calls whose spans are made on a separate thread: bounded, counted, and flushed before the process ends."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from ..base.forking import register_after_fork
from ..privacy import get_logger
from .metrics import Instruments, Measurement, record_safely
from .queues import flush_queues_at_exit, register_queue

_INTERVAL = 0.05  # seconds between two polls of the queue; waking the thread for each call would cost 9 us
_logger = get_logger()
_thread = threading.local()  # `flushing`: this thread makes the spans of some queue


class EndedCall(Protocol):
    """A call that has ended, with the data for its spans."""

    def make_spans(self) -> None:
        """Make the missing spans, and end all of them."""
        ...

    def make_without_stages(self) -> None:
        """The same, without the spans of its stages."""
        ...


class DeferredSpans:
    """A queue of ended calls, and the thread that makes the rest of their spans and records their metrics.

    A span may be made after its parent has ended; samplers, limits and processors treat it like any other.

    Args:
        max_queue: Calls that may wait. A call beyond it loses its stage spans and counts in ``dropped``; its own span
            and its attempt spans are still recorded. Default 10,000.
        max_idle: Polls in a row, one every 0.05 seconds, that find the queue empty before the thread ends. The next
            call starts it again, so an idle process is not woken. Default 100.
        sleep: Waits between two polls, for so many seconds. Default None: until then, or the end of the process.
    """

    def __init__(
        self, max_queue: int = 10_000, *, max_idle: int = 100, sleep: Callable[[float], object] | None = None
    ) -> None:
        self.max_queue = max_queue
        self.dropped = 0
        self._max_idle, self._given_sleep = max_idle, sleep
        self._queue: deque[EndedCall] = deque()
        self._measurements: deque[tuple[Instruments, Measurement]] = deque()
        self._instruments: Instruments | None = None
        self._reset()
        register_queue(self)
        register_after_fork(self._restart_in_child)

    def _reset(self) -> None:
        self._flush_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._running = False  # the thread exists, and will look into the queue at least once more
        self._flushing = False  # a thread is making spans
        self._given_up = False  # that takes longer than a drain waits, and its calls were counted as dropped
        self._made = 0  # calls
        self._drain, self._drained = threading.Event(), threading.Event()
        self._sleep = self._given_sleep or self._drain.wait

    def add(self, call: EndedCall) -> None:
        """Queue an ended call."""
        if len(self._queue) >= self.max_queue:
            self._count_dropped(1, f"more than {self.max_queue} calls wait")
            call.make_without_stages()
            return
        self._queue.append(call)
        if not self._running:
            self._start()

    def measure_later(self, instruments: Instruments, measurement: Measurement) -> None:
        """Have the thread record a call's metrics. If the queue is full, record them now."""
        if len(self._measurements) >= self.max_queue:
            record_safely(instruments, measurement)
            return
        self._measurements.append((instruments, measurement))
        if not self._running:
            self._start()

    def measure(self) -> int:
        """Record the metrics of all calls that wait now, on the caller's thread. Return their number.

        It needs no lock, so a span exporter that does not answer cannot hold up metrics.
        """
        done = 0
        for _ in range(len(self._measurements)):
            try:
                instruments, measurement = self._measurements.popleft()
            except IndexError:  # another thread was faster
                break
            record_safely(instruments, measurement)
            done += 1
        return done

    def report_to(self, instruments: Instruments) -> None:
        """Count dropped calls as a metric too, including those dropped before."""
        with self._state_lock:
            self._instruments, dropped = instruments, self.dropped
        if dropped:
            instruments.count_dropped(dropped)

    def flush(self, timeout: float | None = None) -> int:
        """Make the spans of all calls that wait now, on the caller's thread. Return their number.

        Calls that end meanwhile may stay in the queue: otherwise a flush in a busy process might never return. A span
        processor that flushes during a flush, even of another queue, gets 0: two threads that flush each other's queues
        would deadlock.

        Args:
            timeout: Seconds, after which no further call is begun. Default None: no limit.
        """
        if _is_flushing():
            return 0
        self.measure()
        until = None if timeout is None else monotonic() + timeout
        if not self._flush_lock.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            return 0
        done = 0
        try:
            self._flushing = _thread.flushing = True
            for _ in range(len(self._queue)):
                if until is not None and monotonic() >= until:
                    break
                try:
                    call = self._queue.popleft()
                except IndexError:  # a drain dropped the rest
                    break
                call.make_spans()
                done += 1
                self._made += 1
        finally:
            self._flushing = _thread.flushing = self._given_up = False
            self._flush_lock.release()
        return done

    def wait_until_made(self, timeout: float) -> bool:
        """Have the thread make the spans of all calls that wait now. Return True if it did so in time.

        The caller's thread does not make them: a processor that exports each span as it ends, to a backend that does
        not answer, would block it for longer.

        Args:
            timeout: Seconds.
        """
        if _is_flushing():
            return True  # a thread that makes spans cannot wait for them
        self.measure()
        if not self._running or self._given_sleep is not None:
            self.flush(timeout)
            return self.is_empty
        until = monotonic() + timeout
        wanted = self._made + len(self._queue) + self._flushing
        while self._made < wanted and not self.is_empty and (left := until - monotonic()) > 0:
            self._drained.clear()
            self._drain.set()
            self._drained.wait(min(left, _INTERVAL))  # not longer: another wait may clear the signal
        self._drain.clear()
        return self._made >= wanted or self.is_empty

    def drain(self, timeout: float) -> None:
        """Make all waiting spans, because the process or a provider ends.

        The thread makes them, since the exporter of a provider may take any time; calls that are left after the timeout
        are dropped. An exporter that blocked one drain does not block the next, so the process waits for it once.

        Args:
            timeout: Seconds.
        """
        timeout = 0.0 if self._given_up else timeout
        until = monotonic() + timeout
        self.measure()
        if _is_flushing():
            return
        if self._running and self._given_sleep is None:
            self._drained.clear()
            self._drain.set()
            self._drained.wait(timeout)
            self._drain.clear()
        self.flush(until - monotonic())
        if late := len(self._queue) + (self._flushing and not self._given_up):
            self._given_up = self._flushing
            self._queue.clear()
            self._count_dropped(late, f"they were not made within {timeout:.3g} seconds before the end")

    @property
    def is_empty(self) -> bool:
        """Whether no call waits or is being processed."""
        return not self._queue and not self._flushing

    def _restart_in_child(self) -> None:
        """In the child of a fork: drop the queue, whose spans the parent makes. The thread runs only in the parent."""
        self._queue, self._measurements = deque(), deque()
        self.dropped = 0
        self._reset()

    def _count_dropped(self, calls: int, reason: str) -> None:
        with self._state_lock:  # += is not atomic between threads
            is_first = not self.dropped
            self.dropped += calls
            instruments = self._instruments
        if instruments is not None:
            instruments.count_dropped(calls)
        if is_first:
            _logger.warning("Calls lose their deferred spans: %s. `Trace.deferred.dropped` counts them", reason)

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
            flush_queues_at_exit()  # for each thread anew: it must run before the exit hook of a newer provider

    def _work(self) -> None:
        idle = 0
        while idle < self._max_idle:
            self._sleep(_INTERVAL)
            try:
                idle = 0 if self.measure() + self.flush() else idle + 1
            except BaseException:  # noqa: BLE001  # even the log handler may raise, and nothing is above this frame
                idle = 0
            if self._drain.is_set() and not self._queue:
                self._drained.set()
        self._running = False
        self._drained.set()  # wake a drain that still took the thread for running
        if self._queue or self._measurements:  # a call was added after the last poll
            self._start()


def _is_flushing() -> bool:
    """Whether a span processor is calling from within a flush on this thread."""
    return getattr(_thread, "flushing", False)
