"""Text for a terminal: short, and with paths relative to the current directory. `neutralise` makes it safe to print."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_MAX_TEXT = 300  # characters of the exception's own text
_LIBRARIES = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_OURS = [str(Path(__file__).parents[1])]
_FOREIGN = ("<frozen", *(path + os.sep for path in _LIBRARIES + _OURS))  # how the names of foreign files begin


def make_console() -> Console:
    """A console that prints texts as they are: whoever wrote them, none of them is markup."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def fit_on_one_line(text: str, limit: int) -> str:
    """The text on one line, cut after ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def shorten_path(file: str) -> str:
    """The path relative to the current directory, if the file is in it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


class CommandError(Exception):
    """Ends a command with exit code 2. Its text is one line for the person who typed the command."""


def describe_exception(exc: BaseException) -> str:
    """The last line of the traceback, then the deepest place in the user's own code and the outermost one."""
    text = exc.msg if isinstance(exc, SyntaxError) else str(exc)
    line = f"{type(exc).__name__}: {fit_on_one_line(text, _MAX_TEXT)}" if text else type(exc).__name__
    places = [
        f"{shorten_path(frame.f_code.co_filename)}:{number}"
        for frame, number in traceback.walk_tb(exc.__traceback__)
        if not frame.f_code.co_filename.startswith(_FOREIGN)
    ]
    if isinstance(exc, SyntaxError) and exc.filename:
        places.append(f"{shorten_path(exc.filename)}:{exc.lineno}")
    if not places:
        return line
    return f"{line} ({places[-1]}{f', from {places[0]}' if places[0] != places[-1] else ''})"
