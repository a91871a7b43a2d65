"""The standard streams while the user's code runs: it neither prints to the command's stdout nor reads its stdin."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast


class _LossyStream:
    """Drops what cannot be written, because the reader has gone or the disk is full, instead of raising OSError."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        with self._drop_failed():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with self._drop_failed():
            self._file.flush()

    @contextmanager
    def _drop_failed(self) -> Generator[None]:
        try:
            yield
        except OSError:
            with suppress(OSError):  # Python flushes the buffer when it exits, and would fail if that cannot be written
                null = os.open(os.devnull, os.O_WRONLY)
                try:
                    os.dup2(null, self._file.fileno())
                finally:
                    os.close(null)


@contextmanager
def redirect_to_stderr() -> Generator[None]:
    """Send what the user's code prints to stderr. A stderr that is broken, full or closed raises nothing."""
    stderr = cast("TextIO | None", sys.stderr)
    with Path(os.devnull).open("w", encoding="utf-8") if stderr is None else nullcontext(stderr) as file:
        lossy = cast("TextIO", _LossyStream(file))
        with redirect_stdout(lossy), redirect_stderr(lossy):
            yield


@contextmanager
def take_stdout() -> Generator[int]:
    """Put standard error in the place of standard output, which is moved to the descriptor that is yielded."""
    if cast("TextIO | None", sys.__stdout__) is None:  # whatever has its number now is another file
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    fd = os.dup(1)
    try:
        with suppress(OSError):  # standard error is missing too
            os.dup2(2, 1)
        yield fd
    finally:
        os.dup2(fd, 1)
        os.close(fd)


@contextmanager
def take_stdin() -> Generator[int]:
    """Put an empty one in the place of standard input, which is moved to the descriptor that is yielded."""
    fd = os.dup(0)
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        yield fd
    finally:
        os.dup2(fd, 0)
        os.close(fd)
