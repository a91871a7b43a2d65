"""The standard streams while the user's own code runs: what it prints, or reads, is not the command's."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast


class _Heedless:
    """A stream whose reader may have gone, or whose disk may be full: what cannot be written is dropped."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        with self._dropping():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with self._dropping():
            self._file.flush()

    @contextmanager
    def _dropping(self) -> Generator[None]:
        try:
            yield
        except OSError:
            with suppress(OSError):  # what is buffered would make Python's own exit fail, if it had nowhere to go
                null = os.open(os.devnull, os.O_WRONLY)
                try:
                    os.dup2(null, self._file.fileno())
                finally:
                    os.close(null)


@contextmanager
def printing_to_stderr() -> Generator[None]:
    """Nothing but the command itself prints to stdout; a stderr that is broken, full or closed harms nobody."""
    stderr = cast("TextIO | None", sys.stderr)
    with Path(os.devnull).open("w", encoding="utf-8") if stderr is None else nullcontext(stderr) as file:
        heedless = cast("TextIO", _Heedless(file))
        with redirect_stdout(heedless), redirect_stderr(heedless):
            yield


@contextmanager
def stdin_taken() -> Generator[int]:
    """Standard input under another number, and nothing to read where it was. Raises OSError where there is none."""
    fd = os.dup(0)
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        yield fd
    finally:
        os.dup2(fd, 0)
        os.close(fd)
