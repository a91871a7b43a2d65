"""JournalFile: the SQLite file of a journal: its schema, its rows, and how old and how large it may become."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, cast

from ..base.setup_error import SetupError
from ..engine.report.json_form import Form
from ..stores.sqlite import IN_USE, change_to_wal, code_of, read_header

_APPLICATION: Final = 0x746F6F6C  # "tool", in the header of the file
_WAITING: Final = 5.0  # seconds for another process that writes
_SHARE: Final = 10  # a file that is too large loses the oldest of so many parts
_BETWEEN: Final = 2_000  # rows between two looks at the size

# Each brings a file from the version of its place to the next one. A file is never brought back.
_MIGRATIONS: Final = (
    """
    CREATE TABLE calls (
        n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, name TEXT NOT NULL, tool TEXT, principal TEXT NOT NULL,
        conversation TEXT NOT NULL, at INTEGER NOT NULL, outcome TEXT NOT NULL, kind TEXT, form TEXT NOT NULL
    );
    CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
    """,
    """
    CREATE INDEX calls_by_id ON calls (id);
    CREATE INDEX calls_by_time ON calls (at);
    CREATE INDEX calls_by_conversation ON calls (conversation, principal, n) WHERE conversation != '';
    """,
)
VERSION: Final = len(_MIGRATIONS)
_COLUMNS: Final = ("id", "name", "tool", "principal", "conversation", "at", "outcome", "kind")
_INSERT: Final = f"INSERT INTO calls ({', '.join(_COLUMNS)}, form) VALUES ({', '.join('?' * 9)})"  # noqa: S608
_COUNT: Final = (
    "INSERT INTO facts VALUES ('dropped', ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
)


Row: TypeAlias = tuple[Any, ...]  # the columns of a call


class JournalError(SetupError):
    """A file cannot be used as a journal. The text is one line, with its path."""


class JournalFile:
    """An open file.

    Args:
        connection: To it.
        path: Where it is.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self.path = connection, path
        self._since_look = 0

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file to write; it is made if it is not there, and brought to this version if it is older.

        Raises:
            JournalError: It is something else, of a later version, locked, read-only, or cannot be made.
        """
        is_new = not path.exists()
        try:
            if is_new:  # its owner alone reads what a model sent
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(path, timeout=_WAITING, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as exc:
            raise JournalError(f"{path}: the journal cannot be opened: {_say(exc)}") from exc
        with _telling(path), ExitStack() as undo:
            undo.callback(connection.close)
            version = _check(connection, path)
            if version < VERSION:
                _migrate(connection, path)
            change_to_wal(connection, _WAITING)
            # A killed process loses nothing, a power cut the last rows.
            connection.execute("PRAGMA synchronous = NORMAL")
            undo.pop_all()
        return cls(connection, path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open a file that is there, to read. Its rows are not changed.

        Raises:
            JournalError: It is not there, no journal, of another version, or locked.
        """
        if not path.is_file():
            raise JournalError(f"{path}: there is no such file")
        with _telling(path):
            # A process that was killed leaves rows beside the file, which only who may write takes into it.
            try:
                connection, version = _connect(path, "mode=rw")
            except sqlite3.OperationalError as exc:
                if code_of(exc) in IN_USE:
                    raise
                connection, version = _connect(path, "mode=ro&immutable=1")
            if version < VERSION:  # as an empty file is, whose writer was killed
                copy = sqlite3.connect(":memory:", isolation_level=None)
                connection.backup(copy)
                connection.close()
                _migrate(copy, path)
                connection = copy
        return cls(connection, path)

    def write(self, forms: Sequence[Form], dropped: int = 0) -> None:
        """Add rows, all or none of them, and count those that were dropped.

        Raises:
            sqlite3.Error: The disk is full, another process holds the file, or the like. Nothing is added.
        """
        self.write_rows([make_row(form) for form in forms], dropped)

    def write_rows(self, rows: Sequence[Row], dropped: int = 0) -> None:
        """As `write`, of what `make_row` returned."""
        with _transaction(self._connection):
            self._connection.executemany(_INSERT, rows)
            if dropped:
                self._connection.execute(_COUNT, (dropped,))
        self._since_look += len(rows)

    def trim(self, days: float | None, megabytes: float | None, *, now: bool = False) -> int:
        """Drop the oldest rows of a file that is too old or too large. Returns how many.

        Args:
            days: Rows that are older go. None: none.
            megabytes: A file that is larger loses a tenth of its rows, until it is not. None: it never does.
            now: Look in any case, and not only after 2,000 rows.
        """
        if not now and self._since_look < _BETWEEN:
            return 0
        self._since_look = 0
        connection = self._connection
        before = connection.total_changes
        if days is not None:
            connection.execute("DELETE FROM calls WHERE at < ?", (round((time.time() - days * 86_400) * 1e9),))
        while megabytes is not None and self._measure() > megabytes * 1e6:
            (rows,) = connection.execute("SELECT count(*) FROM calls").fetchone()
            if rows == 0:
                break
            most = max(1, rows // _SHARE)
            connection.execute("DELETE FROM calls WHERE n IN (SELECT n FROM calls ORDER BY n LIMIT ?)", (most,))
        removed = connection.total_changes - before
        if removed:
            connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return removed

    def _measure(self) -> int:
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def __iter__(self) -> Iterator[Form]:
        """All rows, oldest first.

        Raises:
            JournalError: The file is damaged.
        """
        yield from self._select("SELECT form FROM calls ORDER BY n", ())

    def find(self, call_id: str) -> list[Form]:
        """The rows with the id of a call, oldest first. A number is also the place of a row in the file."""
        found = list(self._select("SELECT form FROM calls WHERE id = ? ORDER BY n", (call_id,)))
        if not found and call_id.removeprefix("#").isdecimal() and len(call_id) < 19:  # noqa: PLR2004  # of a row
            place = int(call_id.removeprefix("#"))
            found = list(self._select("SELECT form FROM calls WHERE n = ?", (place,)))
        return found

    def list_conversation(self, form: Form) -> list[Form]:
        """The rows of a call's conversation, oldest first; that call alone if it has none."""
        if not form["conversation"]:
            return [form]
        query = "SELECT form FROM calls WHERE conversation = ? AND principal = ? ORDER BY n"
        return list(self._select(query, (form["conversation"], form["principal"])))

    @property
    def dropped(self) -> int:
        """Number of calls that were dropped, because the writer could not follow."""
        with _telling(self.path):
            row = self._connection.execute("SELECT value FROM facts WHERE name = 'dropped'").fetchone()
        return 0 if row is None else int(row[0])

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _select(self, query: str, values: tuple[Any, ...]) -> Iterator[Form]:
        with _telling(self.path), closing(self._connection.execute(query, tuple(map(_clean, values)))) as rows:
            for (text,) in rows:
                try:
                    yield cast("Form", json.loads(text))
                except ValueError as exc:
                    raise JournalError(f"{self.path}: the file is damaged: a row is no JSON") from exc


@contextmanager
def _telling(path: Path) -> Generator[None]:
    """Raise an error of SQLite as a `JournalError`."""
    try:
        yield
    except sqlite3.Error as exc:
        raise JournalError(f"{path}: {_say(exc)}") from exc


def _connect(path: Path, how: str) -> tuple[sqlite3.Connection, int]:
    """A connection to a file that is there, and its version. Raises as `_check` does, and sqlite3.Error."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", timeout=_WAITING, uri=True)
    with ExitStack() as undo:
        undo.callback(connection.close)
        version = _check(connection, path)
        undo.pop_all()
    return connection, version


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a file, 0 of an empty one; JournalError if it is something else, or of a later version."""
    application, version, tables = read_header(connection)
    if application != _APPLICATION and (tables or application):
        raise JournalError(f"{path}: this is a database of something else, and no journal")
    if version > VERSION:
        known = f"this release reads up to {VERSION}: install a later one"
        raise JournalError(f"{path}: the journal is of the version {version}, and {known}")
    return version


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a file to this version, in one transaction; one that another process has brought there stays.

    Raises:
        JournalError: Another process has brought it to a later version, or made something else of it.
    """
    if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only an empty file takes it
    with _transaction(connection):
        version = _check(connection, path)
        for script in _MIGRATIONS[version:]:
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def make_row(form: Form) -> Row:
    """The columns of a call. Its form is ASCII: JSON escapes halves of surrogate pairs, which UTF-8 cannot hold."""
    return (*_read_columns(form), json.dumps(form))


def _read_columns(form: Form) -> Row:
    return tuple(_clean(form[name]) if name != "name" else _clean(form["name"] or "") for name in _COLUMNS)


def _clean(value: Any) -> Any:
    """A text without halves of surrogate pairs, which UTF-8 cannot hold. In the form they are escaped."""
    return value.encode(errors="replace").decode() if isinstance(value, str) and not value.isascii() else value


def _say(exc: Exception) -> str:
    text = str(exc)
    if isinstance(exc, OSError):
        return exc.strerror or text
    known = {
        "file is not a database": "this is no journal, or the file is damaged",
        "database disk image is malformed": "the file is damaged or truncated",
        "database is locked": "another process holds the file",
        "attempt to write a readonly database": "the file cannot be written",
        "database or disk is full": "the disk is full",
        "unable to open database file": "the file cannot be opened",
    }
    return next((words for error, words in known.items() if error in text), text)
