"""A worker process as its caller sees it: it is sent one job at a time, and its replies are read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from tempfile import TemporaryFile
from typing import Any, cast

import anyio
from anyio import CancelScope, get_cancelled_exc_class, wait_readable, wait_writable

from .worker_main import HEADER, STEP

_BOOT = f"import sys; sys.path[:] = sys.argv[4:]; from {__package__}.worker_main import serve; serve()"
_LARGEST_READ = 1 << 20  # bytes
_PATIENCE = 60.0  # seconds: how long a worker may prepare a job that was left behind, before it is taken for stuck
_DEATH = 5.0  # seconds: SIGKILL takes milliseconds, and longer only if the machine is in trouble
_TOLD = 2000  # characters of what a worker wrote to stderr before its first job


class WorkerLostError(Exception):
    """The worker ended, or wrote something else than a reply."""


class WorkerProcess:
    """One worker process. It has one job at a time.

    Raises:
        OSError: No process can be started.
    """

    def __init__(self, living: set[WorkerProcess]) -> None:
        self._living = living
        self._errors = TemporaryFile()  # noqa: SIM115  # open until the first job is prepared
        with ExitStack() as undo:
            undo.callback(self._errors.close)
            self._process = subprocess.Popen(  # noqa: S603  # this very interpreter
                [sys.executable, "-c", _BOOT, str(os.getpid()), *_get_main(), *(p for p in sys.path if type(p) is str)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
            )
            undo.pop_all()
        self._in, self._out = (cast("Any", end).fileno() for end in (self._process.stdin, self._process.stdout))
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._received = bytearray()
        self._unread: set[bytes] = set()  # nonces of jobs that it may still prepare though they were left behind
        self._waiting_since = 0.0
        self._told = ""
        living.add(self)

    @property
    def is_clean(self) -> bool:
        """Whether it lives and has written nothing but replies."""
        return self in self._living and not self._received and self._process.poll() is None

    @property
    def was_killed(self) -> bool:
        """Whether it was ended from outside, such as a system that is short of memory."""
        return self._process.returncode in (-signal.SIGKILL, -signal.SIGTERM)

    async def prepare(self, job: bytes) -> bytes:
        """Send a job, and wait until its body can begin.

        If the caller is cancelled, the worker goes on: it may be importing what the next call needs.

        Returns:
            b"", or the reply that says why the body cannot begin.

        Raises:
            WorkerLostError: The worker is gone; the body has not begun.
        """
        nonce, sent = os.urandom(16), False
        try:
            await self._send(nonce, job)
            sent = True
            refusal = await self._receive(nonce)
        except get_cancelled_exc_class():
            if sent and not self._is_stuck():
                self._unread.add(nonce)
            else:
                await self.end()
            raise
        except BaseException:
            await self.end()
            raise
        self._waiting_since = 0.0
        self._errors.close()
        return refusal

    async def run(self, hear: Callable[[bytes], object]) -> bytes:
        """Run the job that is prepared, and return its reply. If the caller is cancelled, the worker is killed.

        Raises:
            WorkerLostError: The worker is gone; the body may have begun.
        """
        nonce = os.urandom(16)
        try:
            await self._send(nonce, b"")
            return await self._receive(nonce, hear)
        except BaseException:
            await self.end()
            raise

    def kill(self) -> None:
        """Kill it. A caller that waits for it gets a WorkerLostError."""
        self._process.kill()

    async def end(self) -> None:
        """Kill it, and wait until it is gone."""
        if self not in self._living:
            return
        self.kill()
        with CancelScope(shield=True), anyio.move_on_after(_DEATH), suppress(WorkerLostError):
            while True:
                self._received.clear()
                await self._fill(1)
        self.reap()

    def reap(self) -> None:
        """Wait for it, dead as it is, and close everything."""
        self._living.discard(self)
        for each in (self._process.stdin, self._process.stdout):
            cast("Any", each).close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_DEATH)
        if not self._errors.closed:
            self._errors.seek(0)
            self._told = self._errors.read().decode(errors="replace").strip()[-_TOLD:]
            self._errors.close()

    def describe_end(self) -> str:
        """Describe its end, with its stderr if it ended before its first job."""
        code = self._process.returncode
        how = f"exited with status {code}" if code is None or code >= 0 else f"died of signal {-code}"
        return f"{how}: {self._told}" if self._told else how

    def _is_stuck(self) -> bool:
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        return now - self._waiting_since > _PATIENCE

    async def _send(self, nonce: bytes, body: bytes) -> None:
        rest = memoryview(HEADER.pack(nonce, len(body)) + body)
        while rest:
            try:
                rest = rest[os.write(self._in, rest) :]
            except BlockingIOError:
                await wait_writable(self._in)
            except OSError as exc:
                raise WorkerLostError("the worker has ended") from exc

    async def _receive(self, nonce: bytes, hear: Callable[[bytes], object] | None = None) -> bytes:
        while True:
            await self._fill(HEADER.size)
            answered, length = HEADER.unpack_from(self._received)
            is_step = bool(length & STEP)
            if (answered != nonce and answered not in self._unread) or (is_step and hear is None):
                raise WorkerLostError("the worker wrote what is no reply to this call")
            end = HEADER.size + (length & ~STEP)
            await self._fill(end)
            body = bytes(memoryview(self._received)[HEADER.size : end])
            del self._received[:end]
            if is_step and hear is not None:
                hear(body)
                continue
            if answered == nonce:
                return body
            self._unread.discard(answered)

    async def _fill(self, length: int) -> None:
        """Wait until so many bytes are received. A cancellation leaves them where they are."""
        while len(self._received) < length:
            try:
                part = os.read(self._out, _LARGEST_READ)
            except BlockingIOError:
                await wait_readable(self._out)
                continue
            if not part:
                raise WorkerLostError("the worker has ended")
            self._received += part


def _get_main() -> tuple[str, str]:
    """The ``__main__`` of this process for a worker: the name of its module, or its file."""
    main = sys.modules["__main__"]
    sys.modules.setdefault("__mp_main__", main)  # the name that results have which are of its classes
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":  # that is the name in an archive or a folder
        return spec.name, ""
    file = getattr(main, "__file__", None)
    return "", os.path.abspath(file) if file else ""  # noqa: PTH100  # as text
