"""Ctrl-C and SIGTERM during a run."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from time import perf_counter

from ...base.event_loops import PORTAL
from ..stdio import redirect_to_stderr
from .progress import SHOW_CURSOR

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 5.0  # seconds
_TOOL_THREAD = "AnyIO worker thread"  # threads of other names are the user's own, which may end as they like


def to_exit_code(number: int) -> int:
    """The exit code of a process that ends because of a signal, by the convention of shells."""
    return 128 + number


@contextmanager
def catch_signals(stop: Callable[[], object]) -> Generator[list[int]]:
    """Call ``stop`` for the first signal, and end the process at once for the second one.

    At once, because a tool may block the event loop for good. No result is lost: they are written without a buffer.
    Yields the list that the first signal is put in.
    """
    caught: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if caught:
            if sys.stderr.isatty():
                os.write(2, SHOW_CURSOR)
            os._exit(to_exit_code(number))
        caught.append(number)
        stop()

    before = [(number, signal.signal(number, handle)) for number in _SIGNALS]
    try:
        yield caught
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def exit_without_threads(code: int) -> None:
    """Wait a moment for tools in threads; if some still run, end the process with this exit code.

    A thread cannot be stopped, and Python would wait for it for ever before it exits. Returns if none is left.
    """
    PORTAL.close()  # the user's code may have made synchronous calls: their loop keeps idle threads
    threads = [thread for thread in threading.enumerate() if thread.name == _TOOL_THREAD]
    deadline = perf_counter() + _PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - perf_counter()))
    running = sum(thread.is_alive() for thread in threads)
    if not running:
        return
    with redirect_to_stderr():
        print(f"{running} abandoned tools still run in threads, which cannot be stopped: exiting now", flush=True)
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # exporters send what they hold
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # broken, or not there
            stream.flush()
    os._exit(code)
