"""MarksFile: a file beside RESULTS that names each call whose tool may have changed something.

The mark of a call is written before the tool's body begins, and its result when it has ended. After a kill, a mark
without a result is a call that may have taken effect.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self, cast

import attrs
from returns.result import Failure

from ...call import Call, Outcome, ResolvedCall
from ...compose.pipeline import Pipeline
from ...errors import NotExecuted
from ...foreign_values import or_default
from ...guards import Guard, tool_of
from ...tools.definition import Tool
from ..terminal_text import CommandError, format_count
from .calls_file import CallLine
from .results_file import FinishedLines, ResultsFile, closed_on_error, is_named, open_exclusively

_SUFFIX = ".begun"
_MOVED = "RESULTS was renamed, replaced or removed during the run, which wrote its results to the file that it was"
_OWNER = "results"  # the key of the lines that name the file of results, by its inode
# Not "keyed": its key is another one in another run, and the service may have forgotten the key when a run is resumed.
_REPEATABLE = ("read", "idempotent")


class Mark(NamedTuple):
    """A call that began."""

    call: str  # the digest of its line of CALLS
    tool: str | None  # None for a pipeline that does not look for tools


@attrs.define
class MarksFile:
    """The open file. A mark is written without a buffer: after that, not even SIGKILL loses it.

    It is not forced to the disk, which would take milliseconds for each call, so a power failure may lose marks, as it
    may lose results.

    Attributes:
        unknown: The marks of an earlier run without a result, by line.
        complete: Whether the run came to its end, so that each line has a result. `close` then removes the file.
    """

    path: Path
    fd: int
    results: ResultsFile
    unknown: dict[int, Mark] = attrs.field(factory=dict[int, Mark])
    complete: bool = False
    _failure: CommandError | None = None
    _lock: Lock = attrs.field(init=False, factory=Lock)
    _status: os.stat_result = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._status = os.fstat(self.fd)

    @classmethod
    def open(cls, results: ResultsFile, *, resume: bool) -> Self | None:
        """Open or create the file that belongs to RESULTS. None if RESULTS is a pipe or a device, without a place.

        Raises:
            CommandError: It cannot be opened, contains something else, or, without ``resume``, calls have begun.
        """
        home = results.find_home()
        if home is None:
            return None
        path = home.with_name(home.name + _SUFFIX)
        # A link that another user has put there would lead the marks into another file.
        fd = open_exclusively(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), str(path))
        marks = cls(path, fd, results)
        with closed_on_error(fd):
            marks._prepare(resume=resume)
        return marks

    def write(self, line: CallLine, tool: str | None) -> None:
        """Note that the call of a line begins, from any thread. If this raises, it must not begin.

        Raises:
            CommandError: The mark cannot be written, or RESULTS was moved, so that the mark would not be found.
        """
        with self._lock:
            if self._failure is None and not self.results.is_in_place():
                self._failure = CommandError(_MOVED)
            if self._failure is None and not is_named(self.path, self._status):
                self._failure = CommandError(f"{self.path} was renamed, replaced or removed during the run")
            if self._failure is None:
                self._append({"line": line.number, "call": line.digest, "tool": tool})
            if self._failure is not None:
                raise self._failure

    def take(self, line: CallLine) -> Mark | None:
        """The mark of a line without a result, once.

        Raises:
            CommandError: It is the mark of another call.
        """
        self.check(line.number, line.digest)
        return self.unknown.pop(line.number, None)

    def check(self, number: int, digest: str) -> None:
        """Check that the mark of a line, if it has one, is of this very call.

        Raises:
            CommandError: It is of another call.
        """
        mark = self.unknown.get(number)
        if mark is not None and mark.call != digest:
            raise CommandError(
                f"line {number} of CALLS is not the call that has its mark: CALLS was changed or put in another "
                f"order, or {self.path} belongs to another file"
            )

    def check_end(self) -> None:
        """Check that nothing is left over when each line of CALLS has been read.

        Raises:
            CommandError: A mark has no line, or RESULTS was moved.
        """
        if self.unknown:
            have = "call that had begun has a line" if len(self.unknown) == 1 else "calls that had begun have lines"
            raise CommandError(f"{len(self.unknown):,} {have} that CALLS no longer has: see {self.path}")
        if not self.results.is_in_place():
            raise CommandError(_MOVED)

    def close(self) -> None:
        """Close the file, and remove it if each mark has its result."""
        done = self.complete and not self.unknown and self.results.is_in_place() and is_named(self.path, self._status)
        os.close(self.fd)
        if done:
            self.path.unlink()

    def _append(self, entry: dict[str, Any]) -> None:
        """Append a line. After a failure the file may end in a part of one, so nothing more is written."""
        data = json.dumps(entry).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError as exc:
            self._failure = CommandError(f"{self.path} cannot be written: {exc.strerror}")

    def _prepare(self, *, resume: bool) -> None:
        inode = self.results.status.st_ino
        owners = self._read(self.results.finished)
        if self.unknown and not resume:
            have = f"{format_count(len(self.unknown), 'call')} of an earlier run that may have taken effect"
            raise CommandError(f"{self.path} names {have}: continue that run with --resume, or remove the file")
        if resume and not owners:
            self._refuse_renamed(inode)
        if not self.unknown:
            os.ftruncate(self.fd, 0)
        if not self.unknown or inode not in owners:
            self._append({_OWNER: inode})
        if self._failure is not None:
            raise self._failure

    def _read(self, finished: FinishedLines) -> set[int]:
        """Note the marks without a result; returns the inodes of the files of results. Cuts off a torn last line."""
        owners: set[int] = set()
        with open(self.fd, "rb", closefd=False) as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):  # written in part: the body of this call has not begun
                    os.ftruncate(self.fd, os.fstat(self.fd).st_size - len(line))
                    break
                entry = _parse(line)
                if entry is None:
                    raise CommandError(f"{self.path}: line {number} is not a mark of toolcall run")
                if _OWNER in entry:
                    owners.add(entry[_OWNER])
                elif entry["line"] not in finished:
                    self.unknown[entry["line"]] = Mark(entry["call"], entry["tool"])
        return owners

    def _refuse_renamed(self, inode: int) -> None:
        """Raise CommandError if another file of marks in this directory belongs to this file of results."""
        if not self.results.finished.unmatched:
            return
        for other in sorted(self.path.parent.glob(f"*{_SUFFIX}")):
            if other != self.path and inode in _read_owners(other):
                raise CommandError(
                    f"RESULTS was renamed, and {other} has the marks of its calls: rename it to {self.path.name}, or "
                    "remove it if it belongs to another file"
                )


def _parse(line: bytes) -> dict[str, Any] | None:
    """A line of the file; None if it is something else."""
    try:
        entry: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    found = cast("dict[str, Any]", entry)
    if found.keys() == {_OWNER}:
        return found if type(found[_OWNER]) is int else None
    named = found.keys() == {"line", "call", "tool"} and type(found["line"]) is int and isinstance(found["call"], str)
    return found if named and isinstance(found["tool"], str | None) else None


def _read_owners(path: Path) -> set[int]:
    try:
        with path.open("rb") as file:
            entries = [_parse(line) for line in file]
    except OSError:  # not ours to read
        return set()
    return {entry[_OWNER] for entry in entries if entry is not None and _OWNER in entry}


@attrs.define(eq=False)
class BeginGuard(Guard):
    """Writes the mark of a line before its first body that is neither ``read`` nor ``idempotent``.

    Attributes:
        refusal: Why the mark could not be written, so that the body did not begin.
    """

    marks: MarksFile
    line: CallLine
    refusal: CommandError | None = None
    _marked: bool = False

    def refuse(self, call: Call) -> Outcome | None:
        """NotExecuted if the mark cannot be written. A body that another guard refuses after this one is marked too."""
        self.mark(tool_of(call))
        return None if self.refusal is None else Failure(NotExecuted("the run has to stop"))

    def mark(self, tool: Tool[..., Any] | None) -> None:
        """Write the mark if the line has none and the tool may need one; an end may run calls without a tool."""
        if self._marked or (tool is not None and tool.effect in _REPEATABLE):
            return
        try:
            self.marks.write(self.line, None if tool is None else tool.name)
            self._marked = True
        except CommandError as exc:
            self.refusal = exc


def works_unmarked(pipeline: Pipeline) -> bool:
    """Whether a middleware does not say when a body begins: it may do the work itself, and no guard is asked."""
    return any(stage.role == "wrap" and not stage.placement.announces_body for stage in pipeline.entries)


@or_default(None)
def find_tool(pipeline: Pipeline, call: Call) -> Tool[..., Any] | None:
    """The tool of a call that has not gone through the pipeline yet, or None."""
    found = pipeline.resolve(call)
    return found.tool if isinstance(found, ResolvedCall) else None
