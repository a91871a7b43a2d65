"""Tools for the tests of Process and Ray, in a module that workers can import."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
from opentelemetry.sdk.trace import TracerProvider
from returns.result import Failure

from toolcall_pipeline import Effect, StateKey, Tool, ToolContext, ToolFailed, ToolRegistry

tools = ToolRegistry()
WHO = ContextVar("WHO", default="nobody")
COUNT = {"running": 0}


class Began:
    """A pipe into which a tool writes its process id as it begins."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "began")
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    async def wait(self) -> None:
        """Wait for a tool to begin, a minute at most."""
        with anyio.fail_after(60):
            await anyio.wait_readable(self._fd)

    async def pid(self) -> int:
        """Wait for a tool to begin, a minute at most, and return its process id."""
        await self.wait()
        return self.read()

    def read(self) -> int:
        """Return the process id of a tool that has begun. Raises ValueError if none has."""
        return int(os.read(self._fd, 20))

    def close(self) -> None:
        """Close the reading end."""
        os.close(self._fd)


class OddError(Exception):
    """An exception that cannot be made again from its ``args``, with an attribute that does not pickle."""

    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"{why} ({code})")
        self.code = code
        self.lock = threading.Lock()


class Unreadable:
    """Pickles, but cannot be unpickled."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise ValueError("no")


def put(path: str, text: str) -> None:
    """Write a file. For a pipe this waits for a reader."""
    Path(path).write_text(text)


@tools.tool(effect="read")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tools.tool(effect="read")
async def where() -> tuple[int, str, int]:
    """Return the process id, a context variable and the id of the event loop."""
    await asyncio.sleep(0)
    return os.getpid(), WHO.get(), id(asyncio.get_running_loop())


@tools.tool(effect="read")
def pid() -> int:
    """Return the process id."""
    return os.getpid()


@tools.tool(effect="read", context=True)
def show_context(context: ToolContext, n: int) -> Mapping[str, Any]:
    """Return what the context has, and report progress."""
    context.progress(n, 2 * n, "half")
    left = context.deadline
    return {
        "id": context.call_id,
        "attempt": context.attempt,
        "principal": context.principal,
        "conversation": context.conversation,
        "deps": context.deps,
        "left": None if left is None else left - time.monotonic(),
    }


PLACE = StateKey[object]("place")


@tools.tool(effect="read", context=True)
def show_place(context: ToolContext) -> object:
    """Return what a stage has handed on."""
    return context.get_state(PLACE)


class Gate:
    """A pipe at which a tool waits until the test opens it."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / f"gate{len(list(folder.iterdir()))}")
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)  # so that neither end waits for the other

    def open(self, count: int = 1) -> None:
        """Let so many tools pass, one by default."""
        os.write(self._fd, b"x" * count)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._fd)


def wait_at(gate: str) -> None:
    """Wait until the gate opens."""
    with Path(gate).open("rb", buffering=0) as pipe:
        pipe.read(1)


@tools.tool(effect="read")
def waits(gate: str) -> None:
    """Wait until the gate opens."""
    wait_at(gate)


@tools.tool(effect="read", context=True)
def tells(context: ToolContext, gate: str) -> str:
    """Tell progress, then wait until somebody has heard of it."""
    context.progress(1, 2, "half")
    wait_at(gate)
    return "done"


@tools.tool(effect="read", context=True)
async def tells_async(context: ToolContext, gate: str) -> str:
    """Do the same without a thread."""
    context.progress(1, 2, "half")
    fd = os.open(gate, os.O_RDONLY | os.O_NONBLOCK)
    try:
        await anyio.wait_readable(fd)
    finally:
        os.close(fd)
    return "done"


@tools.tool(effect="read", context=True)
def floods(context: ToolContext, steps: int, message: str = "") -> int:
    """Tell more than anybody can hear, from two threads."""

    def tell() -> None:
        for n in range(steps):
            context.progress(n, message=message)

    other = threading.Thread(target=tell)
    other.start()
    other.join()
    for n in range(steps):
        context.progress(n, steps, message)
    context.progress(steps, steps, "last")
    return steps


@tools.tool(effect="read", context=True)
def tells_oddly(context: ToolContext) -> None:
    """Tell what is no progress."""
    odd: Any = object()
    for done, message in ((odd, odd), (float("nan"), "\ud800"), (10**5000, "x" * 100_000), (1, "last")):
        context.progress(done, odd, message)


@tools.tool(effect="read", context=True)
def tells_and_dies(context: ToolContext) -> None:
    """Tell progress, then be killed."""
    context.progress(1)
    os.kill(os.getpid(), signal.SIGKILL)


@tools.tool(effect="read", context=True)
def tells_when_it_has_ended(context: ToolContext, gate: str) -> int:
    """Leave a thread behind that tells progress after the call, and a child that tells it at once."""

    def tell() -> None:
        wait_at(gate)
        for n in range(1000):
            context.progress(n, message="late")

    threading.Thread(target=tell).start()
    if os.fork() == 0:
        context.progress(0, message="of a child")
        os._exit(0)
    return os.wait()[0]


@tools.tool(effect="read")
async def crowd() -> int:
    """Return how many calls of this tool run in this process at once."""
    COUNT["running"] += 1
    try:
        await asyncio.sleep(0.02)
        return COUNT["running"]
    finally:
        COUNT["running"] -= 1


@tools.tool(effect="read")
def noisy() -> str:
    """Write to stdout and stderr, which are the pipes to the caller, and start a child that writes too."""
    sys.stdout.write("printed")
    sys.stderr.write("x" * 200_000)
    os.write(2, b"x" * 200_000)
    subprocess.run([sys.executable, "-c", "print('of a child')"], check=True)
    return "done"


@tools.tool(effect="read", reveal=OddError)
def fails(how: str) -> Any:
    """Fail in the way that is named."""
    if how == "lambda":
        return lambda: None
    if how == "unreadable":
        return Unreadable()
    if how == "failure":
        return Failure(ToolFailed("as it was"))
    raise {
        "tool failed": ToolFailed("no such thing", kind="not_found", parameter="how"),
        "connection": ConnectionResetError(104, "reset"),
        "missing": FileNotFoundError(2, "no such file", "there.txt"),
        "odd": OddError(7, why="odd"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "local": type("LocalError", (Exception,), {})("here only"),
        "group": ExceptionGroup("one", [ConnectionResetError("reset")]),
    }[how]


@tools.tool(effect="read")
def hangs(fifo: str) -> None:
    """Write the process id, then hang; only SIGKILL ends it."""
    if threading.current_thread() is threading.main_thread():  # not in an actor of Ray, which has threads
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    Path(fifo).write_text(str(os.getpid()))
    threading.Event().wait()


@tools.tool(effect="read")
def spans() -> tuple[int, int | None]:
    """Make a span with a provider of this process; return its trace id and the id of its parent."""
    with TracerProvider(shutdown_on_exit=False).get_tracer("remote").start_as_current_span("inside") as span:
        parent: Any = getattr(span, "parent", None)
        return span.get_span_context().trace_id, None if parent is None else parent.span_id


def make_fatal_tool(name: str, effect: Effect, keyed: bool) -> Tool[..., Any]:
    """Make a tool whose first run has its effect and then kills its process."""
    fn = dies_keyed if keyed else dies_once
    schema = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
    return Tool.from_schema(name=name, parameters=schema, handler=fn, effect=effect, context=keyed)


def dies_once(file: str) -> int:
    return _write_and_die(file, "effect")


def dies_keyed(context: ToolContext, file: str) -> int:
    return _write_and_die(file, context.idempotency_key)


def _write_and_die(file: str, effect: str) -> int:
    with Path(file).open("a") as effects:
        effects.write(f"{effect}\n")
    runs = len(Path(file).read_text().splitlines())
    if runs == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return runs


FATAL = [
    make_fatal_tool(f"dies_{effect}", effect, effect == "keyed")
    for effect in ("read", "idempotent", "keyed", "mutating")
]
for each in FATAL:
    tools.register(each)
