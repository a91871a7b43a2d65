"""ResultsFile: RESULTS, to which each result is written when its call ends, and which a later run resumes."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any, Self, cast

import attrs

from ..command_error import CommandError
from .exclusive_file import is_named, open_exclusively
from .finished_lines import FinishedLines
from .result_rows import MALFORMED, encode_row

SUCCESS = "success"  # the name of a success in the counts; its kind in a row is null
_ROW_START = b'{"line": '  # of every row, so a torn row is known by it


@attrs.define
class ResultsFile:
    """The open file. A row is written without a buffer: after that, not even SIGKILL loses it.

    Attributes:
        path: Its absolute path, as it was given.
        finished: The lines of CALLS that have a result from an earlier run.
        status: Of the file when it was opened.
        kinds: How many results there are of each kind, those of earlier runs included.
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
        try:
            results._prepare(path, resume=resume)
        except BaseException:
            os.close(fd)
            raise
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
            new = self.finished.add(number, row["id"], row["name"], malformed=kind == MALFORMED)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        self.kinds[kind or SUCCESS] += new
        return new
