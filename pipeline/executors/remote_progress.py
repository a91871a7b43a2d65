"""The way of progress from a tool in another process to its caller: at once if there is a listener, else in the reply.

A tool may report a million steps, and must not wait. So a step that cannot be sent now waits for its turn, and the
next one takes its place: those who listen hear some steps and the last one. Steps are numbered, so that one which is
sent and also comes with the reply is heard once.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from math import nan
from secrets import token_hex
from typing import Any, Protocol, TypeAlias, cast

from ..engine.call import ValidCall
from ..engine.report import MAX_STEPS, Progress
from .body import make_tell

Step: TypeAlias = tuple[int, float, float | None, str]  # its number from 1, done, total, message
_MAX_MESSAGE = 1000  # characters
_BURST = 100  # steps that are sent at once
_RATE = 100.0  # steps a second, after that
_PAUSE = 0.02  # seconds until what could not be sent is tried again


def ask_for_steps(call: ValidCall) -> str | None:
    """The way that the worker reports progress: None: not at all, "": with the reply, else under this token at once."""
    if call.report is None or not call.tool.context:
        return None
    return token_hex(8) if call.report.is_streamed else ""


class HeardSteps:
    """The steps of one attempt, in the caller's process. It is made in the attempt, before its body begins."""

    def __init__(self, call: ValidCall) -> None:
        self._tell = None if call.report is None else make_tell(call.report)
        self.last = 0

    def hear(self, steps: Iterable[Step]) -> None:
        """Add those that were not heard yet to the report of the call."""
        for number, done, total, message in steps:
            if number > self.last and self._tell is not None:
                self.last = number
                self._tell(Progress(done, total, message, time.perf_counter_ns()))


class ToldSteps(Protocol):
    """The steps of one job, in the worker. It is called for each step, in any thread of the tool."""

    def __call__(self, step: Progress, /) -> None:
        """Add a step that the tool reported."""
        ...

    def close(self) -> list[Step]:
        """End with the body: later steps are lost. Return the steps that the reply must bring."""
        ...


class KeptSteps:
    """Keeps all steps for the reply: the first ones and the last."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, step: Progress, /) -> None:
        """Keep it."""
        with self._lock:
            if not self._closed:
                del self._steps[MAX_STEPS - 1 :]
                self._steps.append(number_step(next(self._numbers), step))

    def close(self) -> list[Step]:
        """All of them. A thread that the tool has left behind adds none while they are pickled."""
        with self._lock:
            self._closed = True
            return self._steps


class SentSteps:
    """Sends each step at once, as fast as the caller is to hear them, and no faster."""

    def __init__(self, send: Callable[[Step], bool]) -> None:
        self._send = send
        self._numbers = count(1)
        self._lock = threading.Lock()  # who has it sends; only `close` waits for it
        self._latest: Step | None = None
        self._sent = 0  # the number of the last one that was sent
        self._closed = False
        self._allowed, self._since = float(_BURST), time.monotonic()
        self._sender: threading.Thread | None = None

    def __call__(self, step: Progress, /) -> None:
        """Send it, or let it wait for its turn."""
        self._latest = number_step(next(self._numbers), step)
        if not self._try() and self._sender is None:
            self._sender = threading.Thread(target=self._send_later, daemon=True, name="toolcall-progress")
            try:
                self._sender.start()
            except RuntimeError:  # no thread can be started; the step goes with the next one, or with the reply
                self._sender = None

    def close(self) -> list[Step]:
        """The step that still waits, if there is one."""
        with self._lock:
            self._closed = True
            step = self._find_waiting()
            return [] if step is None else [step]

    def _find_waiting(self) -> Step | None:
        step = self._latest
        return step if step is not None and step[0] > self._sent else None

    def _try(self) -> bool:
        """Send the step that waits. Returns whether nothing waits any more."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            step = self._find_waiting()
            if step is None or self._closed:
                return True
            now = time.monotonic()
            self._allowed = min(self._allowed + (now - self._since) * _RATE, _BURST)
            self._since = now
            if self._allowed < 1 or not self._send(step):
                return False
            self._allowed -= 1
            self._sent = step[0]
            return self._find_waiting() is None
        finally:
            self._lock.release()

    def _send_later(self) -> None:
        while True:
            time.sleep(_PAUSE)
            if self._try():
                self._sender = None
                if self._closed or self._find_waiting() is None:  # else it came between these two lines
                    return
                self._sender = threading.current_thread()


def number_step(number: int, step: Progress) -> Step:
    """The step in plain types, which pickle."""
    done, total, message = step.read()
    return number, nan if done is None else done, total, message[:_MAX_MESSAGE]


def encode_step(step: Step, limit: int) -> bytes:
    """Pickle a step, in so many bytes at most: a long message is cut."""
    encoded = pickle.dumps(step)
    if len(encoded) <= limit:
        return encoded
    number, done, total, message = step
    return pickle.dumps((number, done, total, message[: limit // 8]))  # a character takes 4 bytes at most


def decode_step(encoded: bytes) -> Step:
    """Read a step."""
    read: Any = pickle.loads(encoded)  # noqa: S301  # from our own worker
    return cast("Step", read)
