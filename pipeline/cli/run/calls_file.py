"""Reads CALLS line by line, as the workers ask for lines. The file is never held in memory as a whole."""

from __future__ import annotations

import json
import os
import selectors
import stat
import sys
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from math import inf, isfinite
from typing import Any, NamedTuple, cast

import anyio

from ...base.nesting import TooDeepError, refuse_deep
from ...engine.call import Call
from ...parameters.exact_json import TwinError, build_object
from ..terminal_text import CommandError

_CHUNK = 1 << 16  # bytes to read at once; other tasks run between two chunks
_BOM = b"\xef\xbb\xbf"


class CallLine(NamedTuple):
    """One line of CALLS."""

    number: int  # from 1
    id: str | int | float | None  # as in the line
    name: str | None  # as in the line; None if it is not a string
    call: Call | None  # None if the line is malformed
    problem: str = ""  # why it is malformed
    digest: str = ""  # of the whole line: by it a later run knows the line, wherever it stands


class LineReader:
    """Hands out the lines that are not blank. A worker that finds none ready reads the next chunk."""

    def __init__(self, fd: int) -> None:
        self.bytes_read = 0
        self._fd = fd
        self._can_wait = _can_wait(fd)
        self._ready: deque[tuple[int, bytes]] = deque()
        self._incomplete: list[bytes] = []  # the parts of a line whose end has not been read yet
        self._number = 0
        self._ended = False
        self._lock = anyio.Lock()
        self._waiting = anyio.CancelScope()

    async def next(self) -> tuple[int, bytes] | None:
        """The number and the bytes of the next line; None after the last one."""
        while not self._ready:
            if self._ended:
                return None
            async with self._lock:  # waiting for it lets the other tasks run
                if not self._ready and not self._ended:
                    await self._read_chunk()
        return self._ready.popleft()

    def stop(self) -> None:
        """Hand out no more lines."""
        self._ended = True
        self._ready.clear()
        self._waiting.cancel()

    async def _read_chunk(self) -> None:
        if self._can_wait:  # a pipe or a terminal may be slow, and running calls go on meanwhile
            self._waiting = anyio.CancelScope()
            with self._waiting:
                await anyio.wait_readable(self._fd)
        if self._ended:
            return
        try:
            chunk = os.read(self._fd, _CHUNK)
        except OSError as exc:
            raise CommandError(f"CALLS cannot be read: {exc.strerror}") from exc
        self.bytes_read += len(chunk)
        *complete, incomplete = chunk.split(b"\n") if chunk else (b"", b"")  # the last line may lack its line end
        for part in complete:
            self._incomplete.append(part)
            line = b"".join(self._incomplete)
            self._incomplete.clear()
            self._number += 1
            if line and not line.isspace():
                self._ready.append((self._number, line))
        if incomplete:
            self._incomplete.append(incomplete)
        self._ended = self._ended or not chunk


def _can_wait(fd: int) -> bool:
    """Whether the event loop can wait until the file is readable. A regular file always is."""
    if sys.platform == "win32":
        return False
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(fd, selectors.EVENT_READ)
        except (OSError, ValueError):
            return False
    return True


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=build_object)


def parse_line(number: int, raw: bytes) -> CallLine:
    """The call in a line, or what is wrong with the line. Never raises. The pipeline judges name and arguments."""
    line = _read_line(number, raw)
    return line if line.call is not None else line._replace(digest=compute_digest(raw))


def _read_line(number: int, raw: bytes) -> CallLine:
    try:
        found: object = _DECODER.decode(refuse_deep((raw.removeprefix(_BOM) if number == 1 else raw).decode()))
    except UnicodeDecodeError as exc:
        return _malformed(number, f"not UTF-8: byte 0x{raw[exc.start]:02x} in column {exc.start + 1}")
    except json.JSONDecodeError as exc:
        return _malformed(number, f"not JSON: {exc.msg}, in column {exc.colno}")
    except (TooDeepError, TwinError) as exc:
        return _malformed(number, str(exc))
    except ValueError as exc:  # NaN, or a number of more digits than Python converts
        return _malformed(number, f"not JSON: {str(exc).partition(';')[0]}")
    if type(found) is not dict:
        return _malformed(number, "not a JSON object")
    return _parse_object(number, cast("dict[str, Any]", found), compute_digest(raw))


def compute_digest(raw: bytes) -> str:
    """The digest of a line: equal for equal lines, whatever blanks stand around them."""
    return blake2b(raw.strip(), digest_size=8).hexdigest()


def can_read_twice(fd: int) -> bool:
    """Whether the lines can be looked through before the first is run."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


def read_digests(fd: int) -> Iterator[tuple[int, str]]:
    """The number and the digest of each line that is not blank, of a file that can be read twice."""
    try:
        with open(fd, "rb", closefd=False) as file:
            yield from ((number, compute_digest(line)) for number, line in enumerate(file, 1) if not line.isspace())
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError as exc:
        raise CommandError(f"CALLS cannot be read: {exc.strerror}") from exc


def _malformed(number: int, problem: str) -> CallLine:
    return CallLine(number, None, None, None, problem)


def _parse_object(number: int, found: dict[str, Any], digest: str) -> CallLine:
    id_, name = found.get("id"), found.get("name")
    timeout = found.get("timeout")
    texts = {key: found.get(key) for key in ("principal", "conversation", "finish_reason")}
    wrong = next((key for key, value in texts.items() if value is not None and not isinstance(value, str)), None)
    text = name if isinstance(name, str) else None
    problem = ""
    if id_ is not None and not isinstance(id_, str) and not _is_number(id_):
        id_, problem = None, '"id" is neither a string nor a number'
    elif "name" not in found:
        problem = '"name" is missing'
    elif wrong is not None:
        problem = f'"{wrong}" is not a string'
    elif timeout is not None and not _is_number(timeout):
        problem = '"timeout" is not a number'
    elif timeout is not None and not isfinite(_as_float(timeout)):
        problem = '"timeout" is too large'
    if problem:
        return CallLine(number, id_, text, None, problem)
    call = Call(
        cast("str", name),  # as the model wrote it: a name that is not a string is an unknown tool
        found.get("arguments"),
        "" if id_ is None else str(id_),
        texts["principal"] or "",
        finish_reason=texts["finish_reason"],
        timeout=timeout,
        conversation=texts["conversation"] or "",
    )
    return CallLine(number, id_, text, call, digest=digest)


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and isfinite(value))


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf
