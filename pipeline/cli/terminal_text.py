"""Text for a terminal: safe to print, short, and with paths relative to the current directory."""

from __future__ import annotations

from pathlib import Path


def make_printable(text: str, *, keep_lines: bool = False) -> str:
    """Replace each character that a terminal would obey: a description may come from a server that nobody here wrote.

    Other white space than a blank becomes a blank; with ``keep_lines``, line ends stay.
    """
    return "".join(
        char
        if char.isprintable() or (keep_lines and char == "\n")
        else " "
        if char.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def fit_on_one_line(text: str, limit: int) -> str:
    """The text on one line, cut after ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def shorten_path(file: str) -> str:
    """The path relative to the current directory, if the file is in it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def format_count(count: int, noun: str) -> str:
    """``1 tool``, ``2 tools``, ``1,000 tools``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
