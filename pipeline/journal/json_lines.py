"""A journal as lines of JSON, one call each: to move it, to keep it, to read it with other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from ..engine.report.json_form import VERSION, Form
from .database import JournalError, JournalFile

_NEEDED = ("form", "id", "name", "outcome", "kind", "stages", "attempts")


def write_lines(path: Path, output: IO[str]) -> int:
    """Write the calls of a journal as lines of JSON. Returns how many.

    Raises:
        JournalError: The journal cannot be read.
    """
    count = 0
    with JournalFile.read(path) as file:
        for form in file:
            output.write(json.dumps(form) + "\n")
            count += 1
    return count


def read_lines(path: Path) -> Iterator[Form]:
    """The calls in a file of lines.

    Raises:
        JournalError: The file cannot be read, or a line is none of them.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _read_line(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as exc:
        raise JournalError(f"{path}: {getattr(exc, 'strerror', None) or 'this is no text'}") from exc


def add_lines(path: Path, forms: Iterable[Form]) -> int:
    """Add calls to a journal, which is made if it is not there: all of them, or none if one is wrong.

    Raises:
        JournalError: The journal cannot be written, or the lines cannot be read.
    """
    found = list(forms)
    with JournalFile.open(path) as file:
        file.write(found)
    return len(found)


def read_forms(path: Path) -> tuple[Iterable[Form], int]:
    """All calls of a journal, or of a file of lines whose name ends with ``.jsonl``; and how many were dropped.

    Raises:
        JournalError: It cannot be read.
    """
    if path.suffix == ".jsonl":
        return read_lines(path), 0
    file = JournalFile.read(path)
    return file, file.dropped


def _read_line(line: str, place: str) -> Form:
    try:
        found: Any = json.loads(line)
    except ValueError as exc:
        raise JournalError(f"{place}: this is no JSON") from exc
    if not isinstance(found, dict) or any(name not in found for name in _NEEDED):
        raise JournalError(f"{place}: this is no call of a journal")
    form = cast("Form", found)
    if form["form"] > VERSION:
        raise JournalError(f"{place}: a call of the form {form['form']}, and this release reads up to {VERSION}")
    return form
