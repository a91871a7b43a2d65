"""Another process that makes a SQLite file while this one opens it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest


def make_meanwhile(patch: pytest.MonkeyPatch, path: Path, made: Path, before: int) -> Iterator[int]:
    """Make a file like `made` before that statement of the connection that opens it; the numbers of the next ones."""
    with closing(sqlite3.connect(made)) as there:
        header = [
            f"pragma {name} = {there.execute(f'pragma {name}').fetchone()[0]}"
            for name in ("application_id", "user_version")
        ]
        schema = [
            sql for (sql,) in there.execute("select sql from sqlite_master where sql > '' and name not like 'sqlite%'")
        ]
    connect, numbers = sqlite3.connect, count(1)

    class Opening(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            if next(numbers) == before:  # a lock keeps the other one out
                with (
                    closing(connect(path, timeout=0, isolation_level=None)) as other,
                    suppress(sqlite3.OperationalError),
                ):
                    for statement in ("begin immediate", *schema, *header, "commit"):
                        other.execute(statement)
            return super().execute(sql, *rest)

    patch.setattr(sqlite3, "connect", partial(connect, factory=Opening))
    return numbers


def write_meanwhile(patch: pytest.MonkeyPatch, path: Path, tries: int) -> Iterator[int]:
    """Hold the lock of a writer while a connection tries that often to change to WAL; the numbers of its next tries."""
    connect, numbers = sqlite3.connect, count(1)
    other: list[sqlite3.Connection] = []

    class Opening(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            if "journal_mode" in sql.lower():
                number = next(numbers)
                if number == 1:
                    other.append(connect(path, timeout=0, isolation_level=None))
                    other[0].execute("begin immediate")
                elif number > tries:
                    other.pop().close()
            return super().execute(sql, *rest)

    patch.setattr(sqlite3, "connect", partial(connect, factory=Opening))
    return numbers
