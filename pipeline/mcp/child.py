"""Child: a server that runs as a child of this process, with which it talks over two pipes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

import anyio

from .lines import BrokenLineError, LineReader, LineWriter, LongLine
from .server import ServerGoneError

_PR_SET_PDEATHSIG = 1  # prctl(2)
_KILLED = 5.0  # seconds for the kernel to end what was killed
_LAST_WORDS = 0.5  # seconds for what it wrote before it ended to be read
_POLL = 0.01  # seconds between two looks at whether it ended


class Child:
    """A server in a process of its own, which leads a process group of its own.

    The group ends with `close`. If this process is killed with SIGKILL, the kernel kills the child (Linux), and
    what the child has started finds the end of its stdin.
    """

    def __init__(self, process: subprocess.Popen[bytes], limit: int) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the child has no pipes")
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._reader = LineReader(self._stdout.fileno(), limit)
        self._writer = LineWriter(self._stdin.fileno())
        self._gone = False
        self._reading = False
        self._read_all = anyio.Event()
        self._closing = anyio.Lock()

    @classmethod
    def start(cls, command: Sequence[str], limit: int) -> Self:
        """Start the server, whose stderr is ours; OSError if it cannot be started."""
        process = subprocess.Popen(  # noqa: S603  # the command is what the user asked to run
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            preexec_fn=_tie_to_parent(),  # noqa: PLW1509  # it takes no lock
        )
        return cls(process, limit)

    is_remote = False

    @property
    def exit_code(self) -> int | None:
        """The exit code as a shell shows it; None: it runs."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    async def send(self, line: bytes) -> None:
        """Write a line to its stdin; a ServerGoneError has ``landed="no"`` if nothing of the line was taken."""
        if self._gone:
            raise ServerGoneError("no")
        try:
            await self._writer.write(line)
        except BrokenLineError as exc:
            raise ServerGoneError("maybe" if exc.begun else "no") from exc

    async def read(self) -> bytes | LongLine | None:
        """The next line of its stdout. None: it closed its stdout."""
        self._reading = True
        try:
            line = await self._reader.read()
        finally:
            self._reading = False
        if line is None:
            self._gone = True
            self._read_all.set()
        return line

    async def watch(self) -> None:
        """Return when the process has ended and had time for its last words, also if another one holds its stdout.

        Elsewhere than on Linux it returns at once: then only the end of stdout shows it.
        """
        if sys.platform != "linux":
            return
        try:
            fd = os.pidfd_open(self._process.pid)
        except OSError:  # it has ended and was reaped, or this kernel is older than 5.3
            return
        try:
            await anyio.wait_readable(fd)
            with anyio.move_on_after(_LAST_WORDS):
                await self._read_all.wait()
        finally:
            os.close(fd)

    async def close(self, grace: float) -> None:
        """End it and its process group, as the specification says: close its stdin, then SIGTERM, then SIGKILL."""
        self._gone = True
        with anyio.CancelScope(shield=True):
            async with self._closing:
                if self._stdout.closed:
                    return
                anyio.notify_closing(self._stdin)
                self._stdin.close()
                await self._wait(grace)
                if self._process.poll() is None:
                    self._signal(signal.SIGTERM)
                    await self._wait(grace)
                self._signal(signal.SIGKILL)  # also what the child has left running
                await self._wait(_KILLED)
                if self._reading:  # a reader may still find its last words there
                    with anyio.move_on_after(grace):
                        await self._read_all.wait()
                anyio.notify_closing(self._stdout)
                self._stdout.close()

    async def _wait(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self._process.poll() is None:  # noqa: ASYNC110  # no event tells of it on every system
                await anyio.sleep(_POLL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # the whole group has ended
            os.killpg(self._process.pid, number)


def _tie_to_parent() -> Callable[[], object] | None:
    """Run in the child before it becomes the server: ask the kernel to kill it with this process."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended in between
            os._exit(1)

    return tie
