"""ResultsFile: RESULTS, to which each result is written when its call ends, and which a later run resumes.

CALLS may have been put in another order since: `Moves` finds the lines again.
"""

from __future__ import annotations

import json
import os
import re
import stat
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, cast

import attrs

from ...privacy import neutralise
from ..terminal_text import CommandError, fit_on_one_line
from .calls_file import CallLine
from .result_rows import MALFORMED, encode_row

SUCCESS = "success"  # the name of a success in the counts; its kind in a row is null
_ROW_START = b'{"line": '  # of every row, so a torn row is known by it
_PAGE = 1 << 12  # lines
_MALFORMED = 1  # the mark of a malformed line without a digest
_NEW = ".new"  # behind its name, while lines get new numbers
_MODE = 0o600  # of a new file: it contains arguments and results
# The line of a lock in fdinfo, with the process that took it: "lock:  1: FLOCK  ADVISORY  WRITE 123 fe:00:21 0 EOF".
_FLOCK = re.compile(r"^lock:.*\bFLOCK\b\s+\S+\s+\S+\s+(\d+)\s", re.MULTILINE)
_MAX_COMMAND = 80  # characters
_MOST_SHOWN = 5  # lines that an error names


class FinishedLines:
    """Eight bytes per line: 0 without a result, else its digest.

    Attributes:
        unmatched: Results whose line has not been read yet in this run.
        repaired: Lines that were malformed in an earlier run and are valid calls now.
        malformed: The numbers of malformed lines.
    """

    def __init__(self) -> None:
        self.unmatched = 0
        self.repaired = 0
        self.malformed: set[int] = set()
        self._pages: dict[int, array[int]] = {}

    def add(self, number: int, digest: str, *, malformed: bool) -> bool:
        """Note the result of a line. False if the line has one already."""
        mark = _MALFORMED if malformed and not digest else _to_mark(digest)  # "": of release 0.1.0
        page = self._pages.get(number // _PAGE)
        if page is None:
            page = self._pages[number // _PAGE] = array("Q", bytes(8 * _PAGE))
        if page[number % _PAGE]:
            return False
        page[number % _PAGE] = mark
        self.unmatched += 1
        if malformed:
            self.malformed.add(number)
        return True

    def __contains__(self, number: int) -> bool:
        """Whether the line has a result."""
        return self._get_mark(number) != 0

    def digest_at(self, number: int) -> str:
        """The digest of the line that has the result of that number."""
        return f"{self._get_mark(number):016x}"

    def is_result_of(self, number: int, digest: str) -> bool:
        """Whether the result of that number is that of such a line."""
        mark = self._get_mark(number)
        return mark == _MALFORMED or (mark != 0 and mark == _to_mark(digest))

    def numbers_behind(self, last: int) -> Iterator[int]:
        """The numbers of results above one."""
        for start in sorted(self._pages):
            if (start + 1) * _PAGE > last:
                marks = enumerate(self._pages[start], start * _PAGE)
                yield from (number for number, mark in marks if mark and number > last)

    def match(self, line: CallLine) -> bool:
        """Whether the line has a result. To be asked once for each line.

        Raises:
            CommandError: It has the result of another call, in a CALLS that can be read once only.
        """
        if line.number not in self:
            return False
        self.unmatched -= 1
        if line.number in self.malformed:
            self.repaired += line.call is not None
        elif not self.is_result_of(line.number, line.digest):
            raise CommandError(
                f"line {line.number} of CALLS is not the call that has its result: CALLS was changed or put in another "
                "order, which only a regular file may be"
            )
        return True

    def _get_mark(self, number: int) -> int:
        page = self._pages.get(number // _PAGE)
        return page[number % _PAGE] if page is not None else 0


def _to_mark(digest: str) -> int:
    """The digest of a line as a number above `_MALFORMED`."""
    return max(int(digest, 16), _MALFORMED + 1)


@attrs.define
class ResultsFile:
    """The open file. A row is written without a buffer: after that, not even SIGKILL loses it.

    Attributes:
        path: Its absolute path, as it was given.
        finished: The lines of CALLS that have a result from an earlier run.
        status: Of the file when it was opened.
        kinds: How many results there are of each kind, also from earlier runs.
    """

    path: Path
    fd: int
    finished: FinishedLines = attrs.field(factory=FinishedLines)
    kinds: Counter[str] = attrs.field(factory=lambda: cast("Counter[str]", Counter()))
    status: os.stat_result = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.status = os.fstat(self.fd)

    @classmethod
    def open(cls, path: Path, *, resume: bool) -> Self:
        """Create the file, or with ``resume`` read the results that are in it.

        Raises:
            CommandError: it cannot be opened, another run writes to it, it is not empty without ``resume``, or it
                contains something else.
        """
        fd = open_exclusively(path, os.O_RDWR if resume else os.O_WRONLY, f"-o {path}")
        results = cls(Path(os.path.abspath(path)), fd)  # noqa: PTH100  # resolve() would follow a link
        with closed_on_error(fd):
            results._prepare(path, resume=resume)
        return results

    def write(self, row: dict[str, Any]) -> None:
        """Append a row. Takes 0.8 us; a buffer would save 0.5 of them.

        Raises:
            CommandError: the file cannot be written, for example because the disk is full.
        """
        data = encode_row(row)
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError as exc:
            raise CommandError(f"RESULTS cannot be written: {exc.strerror}") from exc
        self.kinds[row["kind"] or SUCCESS] += 1

    def find_home(self) -> Path | None:
        """The path without links; None for what has no name to be found by: a pipe, a device, a removed file."""
        home = self.path.resolve()
        return home if stat.S_ISREG(self.status.st_mode) and is_named(home, self.status) else None

    def is_in_place(self) -> bool:
        """Whether the path still leads to the file."""
        return is_named(self.path, self.status)

    def renumber(self, numbers: Mapping[int, int], dropped: Collection[int]) -> None:
        """Give results the new numbers of their lines: in a new file, which takes the place of the old one at once.

        Args:
            numbers: The new number of each line that stands elsewhere, by the old one.
            dropped: Numbers of results of malformed lines that are gone.

        Raises:
            CommandError: It cannot be written; the old file is as it was.
        """
        home = self.find_home()
        if home is None:
            raise CommandError("RESULTS was renamed, replaced or removed")
        new = home.with_name(home.name + _NEW)
        new.unlink(missing_ok=True)  # of a run that was killed at this moment
        moved = ResultsFile(self.path, open_exclusively(new, os.O_RDWR, str(new)))
        with closed_on_error(moved.fd), open(self.fd, "rb", closefd=False) as file:
            os.fchmod(moved.fd, stat.S_IMODE(self.status.st_mode))
            file.seek(0)
            for line in file:
                row: dict[str, Any] = json.loads(line)
                if row["line"] not in dropped:
                    row["line"] = numbers.get(row["line"], row["line"])
                    moved.write(row)
                    moved.finished.add(row["line"], row["call"], malformed=row["kind"] == MALFORMED)
            new.replace(home)
        os.dup2(moved.fd, self.fd, inheritable=False)  # the lock is that of the open file, and comes along
        os.close(moved.fd)
        self.finished, self.kinds, self.status = moved.finished, moved.kinds, moved.status

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)

    def _prepare(self, path: Path, *, resume: bool) -> None:
        if resume:
            if not stat.S_ISREG(self.status.st_mode):
                raise CommandError(f"-o {path}: --resume needs a regular file")
            self._read(path)
        elif self.status.st_size:
            raise CommandError(f"-o {path} is not empty: write to a new file, or continue this one with --resume")

    def _read(self, path: Path) -> None:
        """Note what is finished. A torn last row is cut off; a whole one without a line end gets its line end."""
        whole, torn, number = 0, b"", 0
        with open(self.fd, "rb", closefd=False) as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n") and not self._add(line):
                    torn = line
                    break
                if line.endswith(b"\n") and not self._add(line):
                    raise CommandError(f"-o {path}: line {number} is not a result, or repeats that of an earlier line")
                whole += len(line)
                torn = b"" if line.endswith(b"\n") else line
        if not torn:
            return
        if whole == os.fstat(self.fd).st_size:
            os.write(self.fd, b"\n")
        elif torn.startswith(_ROW_START) or _ROW_START.startswith(torn):
            os.ftruncate(self.fd, whole)
        else:
            raise CommandError(f"-o {path}: line {number} is not a result")

    def _add(self, line: bytes) -> bool:
        """Note the result in a line; False if it is not a result, or not the first one of its call."""
        try:
            row: Any = json.loads(line)
            number, kind = row["line"], row["kind"]
            if type(number) is not int or number < 1 or not (kind is None or isinstance(kind, str)):
                return False
            new = self.finished.add(number, row["call"], malformed=kind == MALFORMED)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        self.kinds[kind or SUCCESS] += new
        return new


def open_exclusively(path: Path, flags: int, label: str) -> int:
    """Open a file to append to it, create it with mode 0600 if there is none, and keep other runs away from it.

    Only regular files are locked. The lock belongs to the open file and not to the process, so it stays when a tool
    opens and closes the same file. A process that a tool forks has the file open as well, and the lock with it.

    Args:
        path: The file.
        flags: For `os.open`, besides those to create and to append.
        label: How an error names the file.

    Returns:
        The file descriptor.

    Raises:
        CommandError: The file cannot be opened, is locked, or was replaced at this moment.
    """
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_APPEND, _MODE)
    except OSError as exc:
        raise CommandError(f"{label}: {exc.strerror}") from None
    with closed_on_error(fd):
        if stat.S_ISREG(os.fstat(fd).st_mode):
            _lock(path, fd, label)
    return fd


@contextmanager
def closed_on_error(fd: int) -> Generator[None]:
    """Close the file descriptor if the block raises."""
    with ExitStack() as stack:
        stack.callback(os.close, fd)
        yield
        stack.pop_all()


def is_named(path: Path, status: os.stat_result) -> bool:
    """Whether the path still leads to the file of that status. Asked for each call that is marked: be quick."""
    try:
        found = os.stat(path)  # noqa: PTH116  # a third faster
    except OSError:
        return False
    return found.st_ino == status.st_ino and found.st_dev == status.st_dev


def _lock(path: Path, fd: int, label: str) -> None:
    try:
        import fcntl
    except ImportError:  # on Windows
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CommandError(f"{label}: {_explain_holder(fd)}") from None
    except OSError:  # a file system without locks
        return
    if not is_named(path, os.fstat(fd)):  # another run, which has ended, removed it after it was opened here
        raise CommandError(f"{label}: it was replaced at this moment; run the command again")


def _explain_holder(fd: int) -> str:
    """The holder of the lock: a run, or a process that a tool has forked and that outlived its run."""
    holders = _find_holders(os.fstat(fd))
    if not holders:
        return "another run is writing to it, or a process that it started still has it open"
    for pid, locked_by in holders.items():
        if pid == locked_by:
            return f"another run is writing to it: {_describe_process(pid)}"
    named = " and ".join(map(_describe_process, holders))
    return f"the run that wrote to it has ended, but {named}, which it started, still has it open: end it first"


def _find_holders(status: os.stat_result) -> dict[int, int]:
    """Each process that holds the lock, with the process that took it. Only Linux shows it; elsewhere empty."""
    holders: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for entry in (process / "fd").iterdir():
                if not os.path.samestat(entry.stat(), status):
                    continue
                found = _FLOCK.search((process / "fdinfo" / entry.name).read_text())
                if found is not None:
                    holders[int(process.name)] = int(found[1])
        except OSError:  # it has ended, has closed the file, or belongs to another user
            continue
    return holders


def _describe_process(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        command = ""
    text = neutralise(fit_on_one_line(command, _MAX_COMMAND))
    return f"process {pid} ({text})" if text else f"process {pid}"


@attrs.frozen
class Moves:
    """The lines that stand elsewhere, each with its new number.

    Attributes:
        results: Those with a result.
        begun: Those that had begun and have none.
        dropped: Malformed lines that are gone, and in whose place another line stands that has a result.
    """

    results: dict[int, int]
    begun: dict[int, int]
    dropped: frozenset[int]

    @staticmethod
    def find(read: Callable[[], Iterable[tuple[int, str]]], finished: FinishedLines, begun: Mapping[int, str]) -> Moves:
        """Find each line again: in its place if the line there is the same, else wherever an equal one stands.

        Args:
            read: Reads the numbers and the digests of the lines of CALLS.
            finished: The lines with a result.
            begun: The digests of the lines that had begun and have none, by number.

        Raises:
            CommandError: CALLS no longer has one of them: it was changed or removed.
        """
        results, waiting, last = dict[int, str](), dict(begun), 0
        for last, digest in read():  # its last value is read behind the loop
            if waiting.get(last) == digest:
                del waiting[last]
            elif last in finished and not finished.is_result_of(last, digest):
                results[last] = finished.digest_at(last)
        results |= {number: finished.digest_at(number) for number in finished.numbers_behind(last)}
        moved, moved_begun = dict[int, int](), dict[int, int]()
        if results or waiting:
            by_digest, begun_by_digest = _group(results), _group(waiting)
            for number, digest in read():
                if begun.get(number) == digest or finished.is_result_of(number, digest):
                    continue  # it is in its place
                if found := by_digest.get(digest):
                    moved[found.pop(0)] = number
                elif found := begun_by_digest.get(digest):
                    moved_begun[found.pop(0)] = number
        gone = results.keys() - moved.keys()
        malformed = {number for number in gone if number in finished.malformed}
        _refuse(gone - malformed, "result has a line", "results have lines")
        _refuse(
            waiting.keys() - moved_begun.keys(), "call that had begun has a line", "calls that had begun have lines"
        )
        taken = {*moved.values(), *moved_begun.values()}
        return Moves(moved, moved_begun, frozenset(number for number in malformed if number in taken or number > last))


def _group(lines: Mapping[int, str]) -> dict[str, list[int]]:
    grouped = defaultdict[str, list[int]](list)
    for number in sorted(lines):
        grouped[lines[number]].append(number)
    return grouped


def _refuse(numbers: Iterable[int], one: str, several: str) -> None:
    gone = sorted(numbers)
    if gone:
        shown = f"{', '.join(map(str, gone[:_MOST_SHOWN]))}{', …' if len(gone) > _MOST_SHOWN else ''}"
        have, lines = (one, "line") if len(gone) == 1 else (several, "lines")
        raise CommandError(f"{len(gone):,} {have} that CALLS no longer has, changed or removed since: {lines} {shown}")
