"""The main loop of a worker process: jobs come in through one pipe, replies leave through another, one at a time.

Each job takes two messages. The first brings the job: the worker imports the tool's module, unpickles the arguments,
and answers that it is ready, or why it cannot be. The second, which is empty, says that the body begins. So whatever is
lost before the second message did not land.

Every reply repeats the nonce of its message. A thread that a tool has left behind, a child that a tool has forked, or
bytes from anywhere else can therefore not be taken for the reply to another call.

Between the second message and its reply, the steps of the tool's progress leave through the same pipe, if a listener
listens: so all of them are there before the reply, and no further descriptor can leak. A step is written only where the
pipe has room for all of it, so no tool waits for a caller that does not read.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import select
import signal
import sys
import time
from contextvars import copy_context
from functools import cache, partial
from io import BytesIO
from queue import SimpleQueue
from struct import Struct
from threading import Lock, Thread
from typing import Any, NoReturn, cast

from .function_address import CALLER_MAIN, Function, load_function
from .job_runner import await_value, run_job
from .remote_call import Job, encode_not_begun, encode_reply
from .remote_progress import SentSteps, Step, encode_step

HEADER = Struct("!16sQ")  # of each message, both ways: the nonce, and the length of what follows
STEP = 1 << 63  # of the length, in the header of a step of progress
_PR_SET_PDEATHSIG = 1  # from linux/prctl.h
_LARGEST_READ = 1 << 20  # bytes


def serve() -> NoReturn:
    """Run jobs until the caller's process ends. The arguments of the command say who the caller is."""
    parent, main_name, main_file = sys.argv[1:4]
    del sys.argv[1:]
    _die_with(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the caller decides what it means
    CALLER_MAIN.set_source(main_name, main_file)
    channel = _Channel()
    prepared: tuple[Function, Job, float] | None = None
    while True:
        nonce, body = channel.messages.get()
        if body:
            prepared, refusal = _prepare(body)
            channel.send(nonce, refusal)
            channel.silence_stderr()  # what is left of it has said why a module does not import
        elif prepared is not None:
            function, job, since = prepared
            prepared = None
            reply = run_job(function, _age(job, since), _await_result, partial(_open_steps, channel, nonce))
            channel.send(nonce, encode_reply(reply))


def _prepare(body: bytes) -> tuple[tuple[Function, Job, float] | None, bytes]:
    """Read a job and find its function. Returns them and b"", or None and the reply that says why not."""
    since = time.monotonic()
    try:
        job = cast("Job", _Unpickler(BytesIO(body)).load())
        return (_load(job[0]), job, since), b""
    except BaseException as exc:  # noqa: BLE001  # foreign code is imported and unpickled; it may even call sys.exit
        return None, encode_not_begun(exc)


def _age(job: Job, since: float) -> Job:
    """Take the time that the import took from the seconds that the tool has left."""
    function, params, fields, headers = job
    if fields is None or (left := fields[3]) is None:
        return job
    return function, params, (*fields[:3], left - (time.monotonic() - since), *fields[4:]), headers


def _open_steps(channel: _Channel, nonce: bytes, token: str) -> SentSteps:
    del token  # there is one job at a time
    return SentSteps(partial(channel.try_send_step, nonce))


def _await_result(value: Any) -> Any:
    # A context of its own: a Runner keeps the one of its first use, with the trace and the variables of that call.
    return _get_runner().run(await_value(value), context=copy_context())


@cache
def _get_runner() -> asyncio.Runner:
    """One event loop for all tools of this worker, so that the clients that they keep live from call to call."""
    return asyncio.Runner()


@cache
def _load(encoded: str | bytes) -> Function:
    if isinstance(encoded, bytes):
        return cast("Function", _Unpickler(BytesIO(encoded)).load())
    if encoded.startswith("__main__:"):
        CALLER_MAIN.load()
    return load_function(encoded)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            CALLER_MAIN.load()
        return super().find_class(module, name)


class _Channel:
    """The two pipes to the caller, on descriptors of their own: 0, 1 and 2 belong to tools and lead nowhere."""

    def __init__(self) -> None:
        self.messages: SimpleQueue[tuple[bytes, bytes]] = SimpleQueue()
        self._in, self._out = os.dup(0), os.dup(1)  # a program that a tool starts does not inherit these
        self._pipes = {fd: _identify(fd) for fd in (self._in, self._out)}
        self._forked = self._silent = False
        self._writing = Lock()
        self._room = select.poll()
        self._room.register(self._out, select.POLLOUT)
        _point_to_devnull(0, 1)
        os.register_at_fork(after_in_child=self._close_in_child)
        Thread(target=self._receive, daemon=True, name="toolcall-messages").start()

    def send(self, nonce: bytes, body: bytes) -> None:
        """Send a reply. A child that a tool has forked, and that returned from the tool as well, ends here."""
        if self._forked:
            os._exit(0)
        rest = memoryview(HEADER.pack(nonce, len(body)) + body)
        try:
            with self._writing:
                while rest:
                    self._check(self._out)
                    rest = rest[os.write(self._out, rest) :]
        except OSError:  # the caller has gone, or a tool has closed the pipe
            os._exit(1)

    def try_send_step(self, nonce: bytes, step: Step) -> bool:
        """Send a step of progress, if the pipe has room for it now. Returns whether it had.

        A pipe that is ready to be written to has room for ``PIPE_BUF`` bytes, and takes so many as a whole (POSIX).
        """
        if self._forked:
            return True  # the steps of a child that a tool has forked are lost
        body = encode_step(step, select.PIPE_BUF - HEADER.size)
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if not self._room.poll(0):
                return False
            self._check(self._out)
            os.write(self._out, HEADER.pack(nonce, len(body) | STEP) + body)
        except OSError:  # the caller has gone, or a tool has closed the pipe: the reply will show it
            return True
        finally:
            self._writing.release()
        return True

    def silence_stderr(self) -> None:
        """Lead descriptor 2 nowhere. A pipe there would fill up and block."""
        if not self._silent:
            self._silent = True
            _point_to_devnull(2)

    def _receive(self) -> None:
        """Read messages, also while a tool runs: the end of the pipe says that the caller is gone, however it went."""
        try:
            while True:
                nonce, length = HEADER.unpack(self._read(HEADER.size))
                self.messages.put((nonce, self._read(length)))
        except (OSError, EOFError):
            os._exit(1)

    def _read(self, length: int) -> bytes:
        read = bytearray()
        while len(read) < length:
            self._check(self._in)
            part = os.read(self._in, min(length - len(read), _LARGEST_READ))
            if not part:
                raise EOFError
            read += part
        return bytes(read)

    def _check(self, fd: int) -> None:
        """Raise OSError unless the descriptor still is the pipe: a tool may have closed it and opened a file there."""
        if _identify(fd) != self._pipes[fd]:
            raise OSError

    def _close_in_child(self) -> None:
        """In a child that a tool forks: keep no pipe open, or the caller would not see that the worker ended."""
        self._forked = True
        for fd, pipe in self._pipes.items():
            try:
                if _identify(fd) == pipe:
                    os.close(fd)
            except OSError:  # a tool has closed it
                continue


def _identify(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino


def _point_to_devnull(*fds: int) -> None:
    devnull = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(devnull, fd)
    os.close(devnull)


def _die_with(parent: int) -> None:
    """End with the caller's process, even if a tool never lets another thread run.

    Only Linux has this. Elsewhere the end of the pipe has to do, which a thread notices as soon as it may run.
    """
    if sys.platform == "linux":
        import ctypes

        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        except (OSError, AttributeError):  # a C library without it
            return
    if os.getppid() != parent:  # it had gone before
        os._exit(1)
