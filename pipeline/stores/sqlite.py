"""SQLite: a store in one file, for the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Self, cast

from ..base.options import check_type, refuse
from ..base.setup_error import SetupError
from .batched import BatchedStore, Get, Job, Page, Write, end_of
from .file_time import FileTime
from .store import ANY, Entry, StoreError

_MODE = 0o600  # of a new file: it contains arguments and results
_APPLICATION = 0x74637073  # "tcps": by it a file is known as a store
_SCHEMA = 1
_PAGE = 500  # keys
_SWEEP_AFTER, _SWEPT = 250, 1_000  # writes, and the keys that are looked at then
_WAL_PAUSE = 0.02  # seconds
# `until` before `value`: to look for it, SQLite need not walk over a long value.
_CREATE = """
    create table entries (key blob primary key, version integer not null, until real, value blob not null) without rowid
"""
_GET = "select value, version from entries where key = ? and (until is null or until > ?)"
_VERSIONS = "select key, version from entries where key in ({}) and (until is null or until > ?)"
_KEYS = 512  # of one such statement
_DELETE = "delete from entries where key = ?"
_PUT = "insert or replace into entries (key, version, until, value) values (?, ?, ?, ?)"
_PAGE_OF = """
    select key, value, version from entries
    where key >= ? and key < ? and (until is null or until > ?) order by key limit ?
"""
_HEADER = """
    select application_id, user_version, (select count(*) from sqlite_master)
    from pragma_application_id, pragma_user_version
"""
_SLICE_END = "select key from entries where key >= ? order by key limit 1 offset ?"
_SWEEP = "delete from entries where key >= ? and key < ? and until <= ?"
_HARMLESS = frozenset(  # after these the transaction was rolled back, and the connection is as good as before
    (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_IOERR_WRITE,  # a limit on the size of files
        sqlite3.SQLITE_IOERR_SHMSIZE,
    )
)
IN_USE = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))
_NO_STORE = frozenset((sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT))
_BESIDE = ("", "-wal", "-shm")  # the file itself, and those beside it
_CLOSED = frozenset((sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY))


class SQLite(BatchedStore[sqlite3.Connection]):
    """A store in one file, shared by the processes of one machine.

    A confirmed write survives a process that is killed. Writes that wait become one transaction. The file is made with
    rights for its owner alone; beside it lie a ``-wal`` and a ``-shm`` file while it is open. Not for network file
    systems: there SQLite cannot lock.

    Args:
        path: The file; it is made if it is missing.
        survives_power_cut: Whether a write is confirmed only once it is on the disk, also if the machine loses power.
            A write then takes about twice as long. Default False: such a loss may undo the last writes, all or none of
            the keys of each.
        timeout: Seconds that a call waits at most, for instance while another process writes. Default 5.

    Raises:
        SetupError: An option is of another type or out of its range. Opening it raises SetupError as well: the file
            is not a store, has a newer schema, or cannot be made there.
    """

    def __init__(self, path: str | os.PathLike[str], *, survives_power_cut: bool = False, timeout: float = 5.0) -> None:
        check_type("SQLite", "path", path, str if isinstance(path, str) else os.PathLike, name="path")
        check_type("SQLite", "survives_power_cut", survives_power_cut, bool)
        self._path = os.fspath(path)
        if self._path in ("", ":memory:"):
            refuse("SQLite", "path", "the path of a file; for a store in memory use Memory()", path)
        super().__init__(f"SQLite({self._path!r})", timeout)
        self._path = str(Path(self._path).absolute())  # a program may change its directory later
        self._synchronous = "full" if survives_power_cut else "normal"
        # Device and inode of each file: of the file itself from the first opening to the last closing, of those beside
        # it as long as a connection is open, for SQLite removes them at the end.
        self._files: dict[str, tuple[int, int]] = {}
        self._lost = ""  # which of them was removed or replaced
        self._time: FileTime | None = None
        self._writes = 0  # since keys were looked at whose time is over
        self._swept = b""  # up to this key

    async def __aenter__(self) -> Self:
        """See `Store.__aenter__`."""
        if not self._users:
            self._files, self._lost, self._time = {}, "", None
        return await super().__aenter__()

    def _is_lost(self, connection: sqlite3.Connection) -> bool:
        """Raise FileNotFoundError if a file is gone or another one: it lacks what was confirmed."""
        del connection
        self._check_files()
        return False

    def _check_files(self, *ends: str) -> None:
        for end in ends or self._files:
            if not self._lost and end in self._files and _identify(self._path + end) != self._files[end]:
                self._lost = "the file" if not end else f"the file {end} beside it"
        if self._lost:
            raise FileNotFoundError(f"{self._lost} was removed or replaced while it was open")

    def _connect(self) -> sqlite3.Connection:
        self._check_files()
        if not self.makes_itself and not os.path.isfile(self._path):  # noqa: PTH113  # as above
            raise SetupError(f"{self._path}: no such file")
        try:
            with suppress(FileExistsError):  # files beside it get the same rights
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))
        except OSError as exc:
            raise SetupError(f"{self._name} cannot be made: {exc.strerror}") from exc
        try:
            # Less than a caller waits, so that it hears of the lock.
            db = sqlite3.connect(self._path, isolation_level=None, timeout=0.8 * self._timeout)
            with ExitStack() as undo:
                undo.callback(db.close)
                self._prepare(db)
                self._check_files()
                self._files = {end: found for end in _BESIDE if (found := _identify(self._path + end)) is not None}
                undo.pop_all()
        except sqlite3.Error as exc:
            if code_of(exc) in _NO_STORE:
                raise SetupError(f"{self._name} is not a SQLite database, or a damaged one") from exc
            if code_of(exc) in _CLOSED:
                raise SetupError(f"{self._name} cannot be used: {exc}") from exc
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        if self._check_schema(db):
            self._refuse_missing()
        change_to_wal(db, 0.8 * self._timeout)
        db.execute(f"pragma synchronous = {self._synchronous}")
        db.execute("begin immediate")
        try:
            if self._check_schema(db):
                db.execute(_CREATE)
                db.execute(f"pragma application_id = {_APPLICATION}")
                db.execute(f"pragma user_version = {_SCHEMA}")
            read = self._time or FileTime(db, _identify(self._path))
            db.execute("commit")
            self._time = read
        finally:
            if db.in_transaction:
                db.execute("rollback")

    def _check_schema(self, db: sqlite3.Connection) -> bool:
        """Whether the file is empty. Raises SetupError for one that is not a store of this schema."""
        application, schema, tables = read_header(db)
        if application == _APPLICATION and schema > _SCHEMA:
            raise SetupError(
                f"{self._name} has schema {schema}, of a newer toolcall-pipeline; this one knows {_SCHEMA}: "
                "upgrade it, or use another file"
            )
        if application != _APPLICATION and (application or schema or tables):
            raise SetupError(f"{self._name} is a database of another program: use another file")
        return bool(application != _APPLICATION)

    def _run(self, connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
        writes = [job for job in jobs if isinstance(job, Write)]
        if writes and (error := self._transact(connection, writes)) is not None:
            for job in writes:
                job.error = error
        if writes:
            self._check_files("-wal")  # what went into a file that is gone is not confirmed
        reads = [job for job in jobs if not isinstance(job, Write)]
        now = self._read_time(connection) if reads else 0.0
        for read in reads:  # after the writes, so that a read sees every write that was asked for before it
            if isinstance(read, Get):
                rows = [connection.execute(_GET, (key, now)).fetchone() for key in read.keys]
                read.answer = [None if row is None else Entry(*row) for row in rows]
            elif isinstance(read, Page):
                _read_page(connection, read, now)

    def _transact(self, db: sqlite3.Connection, writes: Sequence[Write]) -> StoreError | None:
        """Make all writes in one transaction; the error, if nothing was written.

        Raises:
            sqlite3.Error: It is not known what was written.
        """
        try:
            db.execute("begin immediate")
            now = self._read_time(db)
            _write_all(db, writes, now)
            self._sweep(db, len(writes), now)
            cast("FileTime", self._time).mark(db)
            db.execute("commit")
        except sqlite3.Error as exc:
            if not _HARMLESS.intersection((code_of(exc), getattr(exc, "sqlite_errorcode", 0))):
                raise
            if db.in_transaction:
                db.execute("rollback")
            return StoreError(self._explain(exc))
        return None

    def _read_time(self, db: sqlite3.Connection) -> float:
        return cast("FileTime", self._time).read(db)

    def _sweep(self, db: sqlite3.Connection, writes: int, now: float) -> None:
        """Remove keys whose time is over, a slice of all keys at a time: four for each write, so it keeps up."""
        self._writes += writes
        if self._writes < _SWEEP_AFTER:
            return
        self._writes = 0
        row = db.execute(_SLICE_END, (self._swept, _SWEPT)).fetchone()
        db.execute(_SWEEP, (self._swept, b"\xff" if row is None else row[0], now))
        self._swept = b"" if row is None else row[0]

    def _disconnect(self, connection: sqlite3.Connection) -> None:
        with suppress(FileNotFoundError):
            self._check_files()  # once more: the last connection to a file removes those beside it
        self._watch_file_alone()
        connection.close()

    def _restart_in_child(self) -> None:
        super()._restart_in_child()
        self._watch_file_alone()  # once the parent has closed it, the files beside it are gone

    def _watch_file_alone(self) -> None:
        self._files = {end: known for end, known in self._files.items() if not end}

    def _abort(self, connection: sqlite3.Connection) -> None:
        connection.interrupt()


def _write_all(db: sqlite3.Connection, writes: Sequence[Write], now: float) -> None:
    """Make each write whose keys are as expected, in their order: the versions are read once, and rows written once."""
    expected = {key for job in writes for key, change in job.changes if change.expect is not ANY}
    versions: dict[bytes, int | None] = dict(_read_versions(db, list(expected), now))
    rows: dict[bytes, tuple[bytes, int, float | None, bytes] | None] = {}
    for job in writes:
        if any(change.expect is not ANY and versions.get(key) != change.expect for key, change in job.changes):
            continue
        for key, (_, value, _, ttl) in job.changes:
            row = None if value is None else (key, job.version, None if ttl is None else now + ttl, value)
            rows[key], versions[key] = row, None if row is None else job.version
        job.answer = job.version
    db.executemany(_PUT, [row for row in rows.values() if row is not None])
    db.executemany(_DELETE, [(key,) for key, row in rows.items() if row is None])


def _read_versions(db: sqlite3.Connection, keys: list[bytes], now: float) -> Iterator[tuple[bytes, int]]:
    """Read the versions of those keys that exist."""
    for start in range(0, len(keys), _KEYS):
        some = keys[start : start + _KEYS]
        most = 1 << (len(some) - 1).bit_length()  # few lengths, so that a statement is prepared once
        some += some[-1:] * (most - len(some))
        yield from db.execute(_VERSIONS.format(",".join("?" * most)), (*some, now))


def _read_page(db: sqlite3.Connection, job: Page, now: float) -> None:
    start = job.prefix if job.position is None else job.position
    rows = db.execute(_PAGE_OF, (start, end_of(job.prefix), now, _PAGE)).fetchall()
    job.found = [(key, Entry(value, version)) for key, value, version in rows]
    job.answer = rows[-1][0] + b"\x00" if len(rows) == _PAGE else None


def _identify(path: str) -> tuple[int, int] | None:
    """The device and inode of a file; None: there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # a third faster
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def read_header(db: sqlite3.Connection) -> tuple[int, int, int]:
    """The application, its schema's version, and the number of tables and indexes; 0, 0 and 0 of an empty file.

    They are read in one statement: between two, another process may make the file.
    """
    application, version, tables = db.execute(_HEADER).fetchone()
    return application, version, tables


def change_to_wal(db: sqlite3.Connection, seconds: float) -> None:
    """Set the journal mode, which a file keeps. This does not wait for a writer by itself, as other statements do.

    Raises:
        sqlite3.OperationalError: Another process held the file for so many seconds, or it cannot be changed.
    """
    end = monotonic() + seconds
    while True:
        try:
            db.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as exc:
            if code_of(exc) not in IN_USE or monotonic() > end:
                raise
            sleep(_WAL_PAUSE)
        else:
            return


def code_of(exc: sqlite3.Error) -> int:
    """The primary result code of SQLite; the upper bits say more."""
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF
