"""CALLS, line by line as they are wanted: never held as a whole, and a broken line is only a broken line."""

from __future__ import annotations

import json
import os
import selectors
import sys
from collections import deque
from math import isnan
from typing import Any, NamedTuple, cast

import anyio

from ...call import Call
from ..loading import Refused

_CHUNK = 1 << 16  # bytes at a time: what is read ahead, and after how much of it others get their turn
_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line of CALLS."""

    number: int  # from 1
    id: str | int | float | None  # as it stands there
    name: str | None  # as it stands there; None where it is no text
    call: Call | None  # None: malformed
    wrong: str = ""  # what a malformed line has wrong


class Lines:
    """The lines that are not blank, with their numbers. Workers pull from it; whoever finds it empty reads on."""

    def __init__(self, fd: int) -> None:
        self.read = 0  # bytes so far
        self._fd = fd
        self._waits = _can_wait(fd)
        self._ready: deque[tuple[int, bytes]] = deque()
        self._begun: list[bytes] = []  # the parts of a line whose end was not read yet
        self._number = 0
        self._ended = False
        self._lock = anyio.Lock()
        self._waiting = anyio.CancelScope()

    async def next(self) -> tuple[int, bytes] | None:
        """The next line; None where there is none left. Raises Refused where it cannot be read."""
        while not self._ready:
            if self._ended:
                return None
            async with self._lock:  # also lets all others go on for a while
                if not self._ready and not self._ended:
                    await self._fill()
        return self._ready.popleft()

    def stop(self) -> None:
        """There are no more lines."""
        self._ended = True
        self._ready.clear()
        self._waiting.cancel()

    async def _fill(self) -> None:
        if self._waits:  # a pipe or a terminal may take its time, and the calls under way go on meanwhile
            self._waiting = anyio.CancelScope()
            with self._waiting:
                await anyio.wait_readable(self._fd)
        if self._ended:
            return
        try:
            chunk = os.read(self._fd, _CHUNK)
        except OSError as exc:
            raise Refused(f"CALLS cannot be read: {exc.strerror}") from exc
        self.read += len(chunk)
        *ended, begun = chunk.split(b"\n") if chunk else (b"", b"")  # the last line may lack its end
        for part in ended:
            self._begun.append(part)
            line = b"".join(self._begun)
            self._begun.clear()
            self._number += 1
            if line and not line.isspace():
                self._ready.append((self._number, line))
        if begun:
            self._begun.append(begun)
        self._ended = self._ended or not chunk


def _can_wait(fd: int) -> bool:
    """Whether the loop can be asked to wait for it; an ordinary file is always ready."""
    if sys.platform == "win32":
        return False
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(fd, selectors.EVENT_READ)
        except (OSError, ValueError):
            return False
    return True


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_no_json)


def parsed(number: int, raw: bytes) -> Line:
    """What stands in a line; never raises. The arguments are the pipeline's to judge, not ours."""
    try:
        found: object = _DECODER.decode((raw.removeprefix(_BOM) if number == 1 else raw).decode())
    except UnicodeDecodeError as exc:
        return Line(number, None, None, None, f"not UTF-8: byte 0x{raw[exc.start]:02x} in column {exc.start + 1}")
    except json.JSONDecodeError as exc:
        return Line(number, None, None, None, f"not JSON: {exc.msg}, in column {exc.colno}")
    except RecursionError:
        return Line(number, None, None, None, "not read: nested too deeply")
    except ValueError as exc:  # NaN; a number of more digits than python takes
        return Line(number, None, None, None, f"not JSON: {str(exc).partition(';')[0]}")
    if type(found) is not dict:
        return Line(number, None, None, None, "not a JSON object")
    return _line(number, cast("dict[str, Any]", found))


def _line(number: int, found: dict[str, Any]) -> Line:
    id_, name = found.get("id"), found.get("name")
    principal, finish_reason, timeout = found.get("principal"), found.get("finish_reason"), found.get("timeout")
    text = name if isinstance(name, str) else None
    wrong = ""
    if id_ is not None and not isinstance(id_, str) and not _is_number(id_):
        id_, wrong = None, '"id" is neither a text nor a number'
    elif "name" not in found:
        wrong = 'there is no "name"'
    elif principal is not None and not isinstance(principal, str):
        wrong = '"principal" is no text'
    elif finish_reason is not None and not isinstance(finish_reason, str):
        wrong = '"finish_reason" is no text'
    elif timeout is not None and not _is_number(timeout):
        wrong = '"timeout" is no number'
    if wrong:
        return Line(number, id_, text, None, wrong)
    call = Call(
        cast("str", name),  # as the model wrote it: if it is no text, the pipeline knows no such tool
        found.get("arguments"),
        "" if id_ is None else str(id_),
        principal or "",
        finish_reason=finish_reason,
        timeout=timeout,
    )
    return Line(number, id_, text, call)


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return not isnan(value) and abs(value) != float("inf")
    return type(value) is int
