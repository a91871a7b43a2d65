"""Threads of tools that still run when a run ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from time import perf_counter

from ...event_loops import PORTAL
from ..stdio import redirect_to_stderr

_PATIENCE = 5.0  # seconds
_TOOL_THREAD = "AnyIO worker thread"  # threads of other names are the user's own, which may end as they like


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
