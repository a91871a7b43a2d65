"""RESULTS: one row for each line of CALLS, written when its call ends; after an interruption it says what is done."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import attrs

from ...call import is_failure
from ...messages import render
from ...report import CallReport
from ..loading import Refused
from .calls_file import Line

MALFORMED = "malformed_line"  # the kind of a line that holds no call: no kind of ToolError, since nothing was called
SUCCESS = "success"  # in counts; a row's kind is null then
_HEAD = b'{"line": '  # how each row begins
_PAGE = 1 << 12  # lines
_NO_CALL = 1  # the mark of a malformed line, which had no id and name to go by


def row_of(line: Line, report: CallReport) -> dict[str, Any]:
    """The row of a line whose call has ended."""
    outcome = report.outcome
    assert outcome is not None  # a report that was handed out is complete
    error = outcome.failure() if is_failure(outcome) else None
    return {
        "line": line.number,
        "id": line.id,
        "name": line.name,
        "tool": report.tool.name if report.tool is not None else None,
        "ok": error is None,
        "kind": error.kind if error is not None else None,
        "told": render(outcome, limit=None),
        "attempts": len(report.attempts),
        "ms": round(report.seconds * 1000, 3),
        "repairs": [
            {"path": each.path, "rule": each.rule, "before": _plain(each.before), "after": _plain(each.after)}
            for each in report.repairs
        ],
    }


def row_without_report(line: Line, kind: str, told: str, attempts: int = 0, seconds: float = 0) -> dict[str, Any]:
    """The row of a line that holds no call, or whose call ended in a way that no pipeline survives."""
    start = {"line": line.number, "id": line.id, "name": line.name, "tool": None, "ok": False}
    return start | {"kind": kind, "told": told, "attempts": attempts, "ms": round(seconds * 1000, 3), "repairs": []}


def _plain(value: object) -> object:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # from a stage that repairs by rules of its own
        return repr(value)
    return value


def _encoded(row: dict[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a character, which JSON can say and UTF-8 cannot
        return json.dumps(row).encode() + b"\n"


class Done:
    """The lines that have a row, in one byte each: 0, or a checksum of the line's id and name, if it had such."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self.left = 0  # rows whose line was not met yet
        self.mended = 0  # lines that are calls by now and have the row of a malformed one

    def add(self, number: int, mark: int) -> bool:
        """Whether it was new."""
        page = self._pages.setdefault(number // _PAGE, bytearray(_PAGE))
        if page[number % _PAGE]:
            return False
        page[number % _PAGE] = mark
        self.left += 1
        return True

    def meet(self, line: Line) -> bool:
        """Whether the line has a row. Raises Refused where that is the row of another id or name."""
        page = self._pages.get(line.number // _PAGE)
        mark = page[line.number % _PAGE] if page is not None else 0
        if not mark:
            return False
        if mark == _NO_CALL:
            self.mended += line.call is not None
        elif mark != _mark(line.id, line.name):
            raise Refused(
                f"line {line.number} has another id or name than its result: CALLS is not what RESULTS was made from"
            )
        self.left -= 1
        return True


def _mark(id_: object, name: object) -> int:
    return crc32(f"{id_!r} {name!r}".encode("utf-8", "surrogatepass")) % 254 + 2


@attrs.define
class Results:
    """The file, open. Each row is written at once: past that even a SIGKILL loses it no more."""

    fd: int
    done: Done = attrs.field(factory=Done)
    kinds: Counter[str] = attrs.field(factory=lambda: cast("Counter[str]", Counter()))  # rows of earlier runs included

    @classmethod
    def open(cls, path: Path, *, resume: bool) -> Results:
        """Raises Refused for a file that holds something, unless it is to be resumed, and holds results."""
        if str(path) == "-":
            raise Refused("-o -: write -o /dev/stdout for standard output")
        try:
            fd = os.open(path, (os.O_RDWR if resume else os.O_WRONLY) | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as exc:
            raise Refused(f"-o {path}: {exc.strerror}") from None
        results = cls(fd)
        try:
            results._begin(path, resume=resume)
        except BaseException:
            os.close(fd)
            raise
        return results

    def write(self, row: dict[str, Any]) -> None:
        """Unbuffered: 0.8 us for a row, of which a buffer would save 0.5. Raises Refused where there is no room."""
        data = _encoded(row)
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError as exc:
            raise Refused(f"RESULTS cannot be written: {exc.strerror}") from exc
        self.kinds[row["kind"] or SUCCESS] += 1

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)

    def _begin(self, path: Path, *, resume: bool) -> None:
        _lock(self.fd, path)
        facts = os.fstat(self.fd)
        if resume:
            if not stat.S_ISREG(facts.st_mode):
                raise Refused(f"-o {path} is no ordinary file: --resume reads what is there")
            self._read(path)
        elif facts.st_size:
            raise Refused(f"-o {path} holds something already; --resume goes on with what it lacks")

    def _read(self, path: Path) -> None:
        """What is done. A last row that was cut off is cut away; if it lacks its line's end only, it gets that."""
        whole, torn, number = 0, b"", 0
        with open(self.fd, "rb", closefd=False) as file:  # closing any other of this file would give up the lock
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n") and not self._take(line):
                    torn = line
                    break
                if line.endswith(b"\n") and not self._take(line):
                    raise Refused(f"-o {path}: line {number} is no result, or a second one of the same line")
                whole += len(line)
                torn = b"" if line.endswith(b"\n") else line
        if not torn:
            return
        if whole == os.fstat(self.fd).st_size:
            os.write(self.fd, b"\n")
        elif torn.startswith(_HEAD) or _HEAD.startswith(torn):
            os.ftruncate(self.fd, whole)
        else:
            raise Refused(f"-o {path}: line {number} is no result")

    def _take(self, line: bytes) -> bool:
        try:
            row: Any = json.loads(line)
            number, kind = row["line"], row["kind"]
            if type(number) is not int or number < 1 or not (kind is None or isinstance(kind, str)):
                return False
            mark = _mark(row["id"], row["name"])  # also asks whether they are there
            new = self.done.add(number, _NO_CALL if kind == MALFORMED else mark)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        self.kinds[kind or SUCCESS] += new
        return new


def _lock(fd: int, path: Path) -> None:
    """Two runs that resume one file would both give a line its result."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of the process: a child that outlives it does not keep it
    except (BlockingIOError, PermissionError):
        raise Refused(f"-o {path}: another run is writing it") from None
    except OSError:  # a pipe, or a file system that has no locks
        return
