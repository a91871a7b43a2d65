"""Tools that do to their worker process what they should not, in a module that workers can import."""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import signal
import struct
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from opentelemetry import trace

from remote_tools import put
from toolcall_pipeline import ToolRegistry

tools = ToolRegistry()
LEFT = ContextVar("LEFT", default="nothing")
KEPT: list[Any] = []  # what a tool leaves open


def make_forgery() -> bytes:
    """What a worker might send as a reply, in two formats: nobody called for it."""
    reply = pickle.dumps(("returned", "of another call", []))
    in_anyio = pickle.dumps(reply)
    return b"RETURN %d\n%s%s%s" % (len(in_anyio), in_anyio, struct.pack("!16sQ", bytes(16), len(reply)), reply)


def write_everywhere(data: bytes) -> None:
    """Write to every pipe that this process has."""
    for each in list(Path("/proc/self/fd").iterdir()):
        try:
            if str(each.readlink()).startswith("pipe:"):
                os.write(int(each.name), data)
        except OSError:  # not for writing
            continue


@tools.tool(effect="mutating")
def pid() -> int:
    """Return the process id."""
    return os.getpid()


@tools.tool(effect="read")
def haunt(go: str, done: str, everywhere: bool) -> int:
    """Leave a thread that writes replies once it is told to, and says when it did; return the process id."""

    def write() -> None:
        Path(go).read_bytes()
        if everywhere:
            write_everywhere(make_forgery())
        else:
            os.write(1, make_forgery())
            os.write(2, b"x" * 200_000)
        put(done, "x")

    threading.Thread(target=write, daemon=True).start()
    return os.getpid()


@tools.tool(effect="mutating")
def answers_twice() -> str:
    """Write replies before the worker does."""
    write_everywhere(make_forgery())
    return "done"


@tools.tool(effect="mutating")
def forks(fifo: str) -> str:
    """Fork; the child returns as well."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "of the worker" if child else "of the child"


@tools.tool(effect="read")
def dies_with_a_child(fifo: str) -> None:
    """Fork a child that lives on, tell its process id, and die."""
    child = os.fork()
    if not child:
        threading.Event().wait()
    put(fifo, str(child))
    os.kill(os.getpid(), signal.SIGKILL)


@tools.tool(effect="mutating")
def closes_descriptors(file: str) -> str:
    """Close every descriptor, then open a file under each number."""
    count = len(list(Path("/proc/self/fd").iterdir()))
    os.closerange(0, 256)
    KEPT.extend(os.open(file, os.O_RDWR | os.O_APPEND) for _ in range(count))
    return "done"


@tools.tool(effect="read")
def holds(fifo: str, how: str) -> None:
    """Open a pipe, tell the process id, keep the pipe open, and never end."""
    KEPT.append(os.open(fifo, os.O_WRONLY))
    if how == "waits":  # and without the signal that Linux sends when the caller dies
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    os.write(KEPT[-1], str(os.getpid()).encode())
    if how == "never lets another thread run":
        re.match("(a+)+$", "a" * 100 + "b")
    threading.Event().wait()


@tools.tool(effect="read")
def leave(value: str) -> str:
    """Leave a value in a context variable, and return what was there."""
    found = LEFT.get()
    LEFT.set(value)
    return found


@tools.tool(effect="read")
async def leave_async(value: str) -> str:
    """As leave."""
    found: str = leave.fn(value)
    return found


@tools.tool(effect="read")
async def trace_id() -> int:
    """Return the trace that this runs in."""
    return trace.get_current_span().get_span_context().trace_id


# Modules that do something when they are imported, each with a tool `run`; `{fifo}` is a pipe to the test.
IMPORTS = {
    "raises": "raise LookupError('no such setting')",
    "exits": "import sys; sys.exit(3)",
    "ends": "import os; os.write(2, b'out of luck'); os._exit(3)",
    "aborts": "import os; os.abort()",
    "misses a module": "import there_is_no_such_module",
}
