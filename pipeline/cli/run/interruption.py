"""Ctrl-C and SIGTERM during a run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from .progress import SHOW_CURSOR

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
