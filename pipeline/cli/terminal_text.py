"""Text for a terminal: short, and with paths relative to the current directory. `neutralise` makes it safe to print."""

from __future__ import annotations

from pathlib import Path


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
