"""Lines: what goes over a pipe, one message each, in bounded memory."""

from __future__ import annotations

import os
import select
import stat
from collections import deque

import anyio
import anyio.lowlevel
import attrs

from ..privacy import get_logger

_LOG = get_logger()
_CHUNK = 65_536  # bytes; what a pipe of Linux holds
_END = 4_096  # bytes kept of each end of a line that is too long
_HUNG_UP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)  # the latter is Linux's, for sockets
_PIECE = 4_096  # bytes; PIPE_BUF: a pipe that is writable takes so many without blocking


@attrs.frozen
class LongLine:
    """A line that was longer than the limit, and was thrown away."""

    head: bytes  # its first bytes
    tail: bytes  # its last bytes
    size: int  # in bytes


def tell_long(line: LongLine, limit: int) -> str:
    """Log that a line was longer than the limit. Returns the text for its sender, or for its reader."""
    text = f"the message of {line.size:,} bytes is longer than {limit:,}"
    _LOG.warning("%s, and was thrown away", text)
    return text


class LineReader:
    """Reads lines from a file descriptor, which may be blocking. It holds one line and one chunk at most.

    Args:
        fd: The file descriptor of a pipe, a socket, a terminal or a file.
        limit: Bytes of a line, its end not counted. A longer one is thrown away while it comes.
    """

    def __init__(self, fd: int, limit: int) -> None:
        self._fd = fd
        self._limit = limit
        self._can_wait = not stat.S_ISREG(os.fstat(fd).st_mode)
        self._ready: deque[bytes | LongLine] = deque()
        self._parts: list[bytes] = []  # of the line that is not complete
        self._size = 0  # bytes of that line
        self._head = self._tail = b""  # of that line, once it is too long
        self._ended = False

    def is_hung_up(self) -> bool:
        """Whether the other end was closed, be there more to read or not."""
        poll = select.poll()
        poll.register(self._fd, _HUNG_UP)
        return bool(poll.poll(0))

    async def read(self) -> bytes | LongLine | None:
        """The next line, with its line end. The last one may have none. None: the input has ended."""
        while not self._ready:
            if self._ended:
                return None
            await self._read_chunk()
        return self._ready.popleft()

    async def _read_chunk(self) -> None:
        try:
            if self._can_wait:
                await anyio.wait_readable(self._fd)
            else:
                await anyio.lowlevel.checkpoint()
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        except (OSError, anyio.ClosedResourceError):  # the other end is gone, or we closed this one
            chunk = b""
        if not chunk:
            self._ended = True
            if self._size:
                self._finish_line()
            return
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._add(chunk[start : end + 1])
            self._finish_line()
            start = end + 1
        if start < len(chunk):
            self._add(chunk[start:])

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size - part.endswith(b"\n") <= self._limit:
            self._parts.append(part)
            return
        if self._parts:
            held = b"".join(self._parts)
            self._head, self._tail = held[:_END], held[-_END:]
            self._parts.clear()
        if len(self._head) < _END:
            self._head += part[: _END - len(self._head)]
        self._tail = (self._tail + part)[-_END:]

    def _finish_line(self) -> None:
        is_long = bool(self._head)
        self._ready.append(LongLine(self._head, self._tail, self._size) if is_long else b"".join(self._parts))
        self._parts.clear()
        self._size, self._head, self._tail = 0, b"", b""


class BrokenLineError(Exception):
    """The reader of the output has gone; ``begun``: a part of the line was taken before."""

    def __init__(self, *, begun: bool) -> None:
        super().__init__("the other end is gone")
        self.begun = begun


class LineWriter:
    """Writes whole lines to a file descriptor, in the order of the calls.

    The descriptor stays as blocking as it is, since other processes may share it: it is asked before each piece.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = anyio.Lock(fast_acquire=True)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._rest = memoryview(b"")  # of a line whose writer was cancelled
        self._waiting = 0  # bytes of the lines that wait to be written
        self._less_waits = anyio.Event()

    async def write(self, line: bytes) -> None:
        """Write a line. If the caller is cancelled in the middle, the next caller writes the rest first.

        Raises:
            BrokenLineError: The reader has gone.
        """
        self._waiting += len(line)
        try:
            await self._write(line)
        finally:
            self._waiting -= len(line)
            self._less_waits.set()

    async def wait_for_room(self, most: int) -> None:
        """Wait until the lines that wait to be written have no more than so many bytes."""
        while self._waiting > most:
            self._less_waits = anyio.Event()
            await self._less_waits.wait()

    async def _write(self, line: bytes) -> None:
        async with self._lock:
            await self._write_rest()
            self._rest = memoryview(line)
            begun = False
            try:
                await self._write_rest()
                begun = True
            finally:
                if not begun and len(self._rest) == len(line):
                    self._rest = memoryview(b"")  # nothing of it was written, so nothing has to follow

    async def _write_rest(self) -> None:
        begun = False
        while self._rest:
            try:
                if not self._poll.poll(0):
                    await anyio.wait_writable(self._fd)
                written = os.write(self._fd, self._rest[:_PIECE])
            except BlockingIOError:
                await anyio.lowlevel.checkpoint()
                continue
            except (OSError, anyio.ClosedResourceError) as exc:
                raise BrokenLineError(begun=begun) from exc
            begun = True
            self._rest = self._rest[written:]
