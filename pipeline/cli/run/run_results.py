"""RunResults: the results of a run. Each stands in a database beside RESULTS when its call ends, and in RESULTS then.

A line of CALLS is known by its content and by how many equal lines stand before it, so CALLS may be put in any order
between two runs, and no result has to be found again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import attrs

from ..terminal_text import CommandError
from .exclusive import open_exclusively
from .result_rows import MALFORMED, encode_row

SUCCESS = "success"  # the name of a success in the counts; its kind in a row is null
DATABASE, LEDGER = ".db", ".ledger"  # behind the name of RESULTS
_BESIDE = ("", "-wal", "-shm")  # the files of SQLite
_ROW_START = b'{"line": '  # of every row
_APPLICATION, _SCHEMA = 0x74637272, 1  # "tcrr": by it a file is known as the results of a run
_BUFFER = 1 << 16  # bytes
_MOST_SHOWN = 5  # lines that an error names
# A line without a row had begun. Digests are kept as texts: SQLite has no unsigned numbers of 64 bits.
_CREATE = f"""
    create table if not exists results (
        digest text not null, nth integer not null, line integer not null, kind text, row blob, unique (digest, nth)
    );
    create index if not exists by_line on results (line);
    create table if not exists askers (principal text not null, conversation text not null);
    pragma application_id = {_APPLICATION};
    pragma user_version = {_SCHEMA};
"""
_PREPARE = """
    pragma journal_mode = wal;
    pragma synchronous = normal;
    pragma wal_autocheckpoint = 10000;
    create temp table seen (digest text primary key, count integer not null) without rowid;
"""
_SEE = "insert into seen values (?, 1) on conflict do update set count = count + 1 returning count"
_PUT = "insert or replace into results values (?, ?, ?, ?, ?)"
_FIND = "select line, row is not null from results where digest = ? and nth = ?"
_MOVE = "update results set line = ? where digest = ? and nth = ?"
_UNSEEN = "nth > coalesce((select count from seen where seen.digest = results.digest), 0)"
_READ = "insert into results select digest, row_number() over (partition by digest order by line), line, kind, row from"


class Place(NamedTuple):
    """A line of CALLS, by which a later run knows it."""

    number: int  # from 1; it may be another one in a later run
    digest: str  # of the line
    nth: int  # which of the equal lines it is, from 1


@attrs.define(eq=False)
class RunResults:
    """The results of one run, and of those that it resumes.

    Args:
        path: RESULTS, without links.
        fd: The open file.
        db: Where each result is kept until the run ends, so that a killed one loses none. None: RESULTS is a pipe or a
            device, and cannot be resumed.
        follow: Whether a result is written to RESULTS at once.

    Attributes:
        kinds: How many results there are of each kind, also from earlier runs.
        has_earlier: Whether an earlier run left something.
        complete: Whether each line has its result, so that nothing has to be kept beside RESULTS.
    """

    path: Path
    fd: int
    db: sqlite3.Connection | None
    follow: bool
    kinds: Counter[str] = attrs.field(init=False, factory=lambda: cast("Counter[str]", Counter()))
    has_earlier: bool = attrs.field(init=False, default=False)
    complete: bool = attrs.field(init=False, default=False)

    @property
    def ledger_path(self) -> Path | None:
        """Where it is kept what began; None: nowhere."""
        return None if self.db is None else beside(self.path, LEDGER)

    def see(self, number: int, digest: str) -> tuple[Place, bool]:
        """The place of the next line of CALLS, and whether it has a result, which gets the number of the line."""
        if self.db is None:
            return Place(number, digest, 1), False
        with self._told():
            place = Place(number, digest, self.db.execute(_SEE, (digest,)).fetchone()[0])
            if not self.has_earlier:
                return place, False
            line, done = self.db.execute(_FIND, place[1:]).fetchone() or (number, False)
            if line != number:
                self.db.execute(_MOVE, place)
            return place, bool(done)

    def look_through(self, lines: Iterable[tuple[int, str]]) -> None:
        """Look through CALLS before the first call, and give results the numbers of their lines.

        Raises:
            CommandError: A line that has a result, or had begun, is gone. Malformed ones may go: they were no calls.
        """
        assert self.db is not None
        with self._told():
            self.db.execute("begin")
            for number, digest in lines:
                self.see(number, digest)
            self.db.execute(f"delete from results where kind = '{MALFORMED}' and {_UNSEEN}")  # noqa: S608  # ours
            self.check_seen("commit")
            self.db.execute("delete from seen")
            self.db.execute("commit")
            self._count()

    def check_seen(self, otherwise: str = "") -> None:
        """Raise CommandError if CALLS lacks a line that has a result or had begun."""
        if self.db is None or not self.has_earlier:
            return
        with self._told():
            for is_done, one, several in (
                ("not null", "result has a line", "results have lines"),
                ("null", "call that had begun has a line", "calls that had begun have lines"),
            ):
                where = f"from results where row is {is_done} and {_UNSEEN}"
                (count,) = self.db.execute(f"select count(*) {where}").fetchone()
                if count:
                    found = self.db.execute(f"select line {where} order by line limit {_MOST_SHOWN}").fetchall()
                    if otherwise:
                        self.db.execute(otherwise)
                    have, lines = (one, "line") if count == 1 else (several, "lines")
                    shown = f"{', '.join(str(line) for (line,) in found)}{', …' if count > _MOST_SHOWN else ''}"
                    raise CommandError(
                        f"{count:,} {have} that CALLS no longer has, changed or removed since: {lines} {shown}"
                    )

    def check_asker(self, principal: str, conversation: str) -> None:
        """Note for whom the lines are run that do not say it: they belong to a delivery.

        Raises:
            CommandError: The run that this one resumes had others, and none of its calls would be known again.
        """
        if self.db is None:
            return
        with self._told():
            found = self.db.execute("select principal, conversation from askers").fetchone()
            if found is None:
                self.db.execute("insert into askers values (?, ?)", (principal, conversation))
            elif found != (principal, conversation):
                named = f"--principal {found[0]!r} and --conversation {found[1]!r}"
                raise CommandError(f"the run that is resumed had {named}: give them again")

    def begin(self, place: Place) -> None:
        """Note that a call begins which may change something, so that its line cannot go unseen."""
        assert self.db is not None
        with self._told():
            self.db.execute(_PUT, (place.digest, place.nth, place.number, None, None))

    def write(self, place: Place, row: dict[str, Any]) -> None:
        """Keep the result of a line. Not even SIGKILL loses it; a power failure may lose the last ones."""
        data = encode_row(row)
        if self.db is not None:
            with self._told():
                self.db.execute(_PUT, (place.digest, place.nth, place.number, row["kind"], data[data.index(b",") :]))
        if self.follow:
            _append(self.fd, data)
        self.kinds[row["kind"] or SUCCESS] += 1

    def export(self) -> None:
        """Write all results to RESULTS, in the order of their lines."""
        if self.db is None:
            return
        with self._told():
            try:
                os.ftruncate(self.fd, 0)
            except OSError as exc:
                raise CommandError(f"RESULTS cannot be written: {exc.strerror}") from exc
            ready = bytearray()
            for line, row in self.db.execute("select line, row from results where row is not null order by line"):
                ready += b"%s%d%s" % (_ROW_START, line, row)
                if len(ready) >= _BUFFER:
                    _append(self.fd, ready)
                    ready.clear()
            _append(self.fd, ready)

    def finish(self) -> None:
        """Have all results in RESULTS, on the disk if nothing else holds them from now on."""
        if not self.follow:
            self.export()
        if self.complete:
            os.fsync(self.fd)

    def is_empty(self) -> bool:
        """Whether there is nothing to resume."""
        with self._told():
            return self.db is None or self.db.execute("select 1 from results limit 1").fetchone() is None

    def read_earlier(self) -> None:
        """Find what earlier runs left: in the database, or else in RESULTS, if each of its lines had a result."""
        assert self.db is not None
        if not self.is_empty():
            for number, line in enumerate(_read_lines(self.fd), 1):
                if not line.startswith(_ROW_START) and not _ROW_START.startswith(line):
                    raise CommandError(f"-o {self.path}: line {number} is not a result")
        else:
            with self._told():
                self.db.execute("create temp table given (digest, line, kind, row, unique (line))")
                self.db.execute("begin")
                try:
                    self.db.executemany("insert into given values (?, ?, ?, ?)", self._parse_rows())
                except sqlite3.IntegrityError:
                    raise CommandError(f"-o {self.path}: it is not a file of results: a line has two") from None
                self.db.execute(f"{_READ} given")
                self.db.execute("commit")
                self.db.execute("drop table given")
        self.has_earlier = not self.is_empty()
        self._count()

    def _parse_rows(self) -> Iterator[tuple[str, int, str | None, bytes]]:
        for number, line in enumerate(_read_lines(self.fd), 1):
            try:
                row: Any = json.loads(line)
                place, digest, kind = row["line"], row["call"], row["kind"]
                is_row = type(place) is int and place >= 1 and (kind is None or isinstance(kind, str))
                if is_row and (kind != MALFORMED or digest):  # of release 0.1.0, which runs it again for nothing
                    data = line[line.index(b",") :] if line.startswith(_ROW_START) else _dump_rest(row)
                    yield f"{int(digest, 16):016x}", place, kind, data.rstrip(b"\n") + b"\n"
            except (ValueError, TypeError, KeyError, RecursionError):
                is_row = not line.endswith(b"\n") and (line.startswith(_ROW_START) or _ROW_START.startswith(line))
            if not is_row:  # a torn last one may be
                raise CommandError(f"-o {self.path}: line {number} is not a result")

    def _count(self) -> None:
        assert self.db is not None
        found = self.db.execute("select kind, count(*) from results where row is not null group by kind")
        self.kinds = Counter({kind or SUCCESS: count for kind, count in found})

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise CommandError(f"{beside(self.path, DATABASE)}: {exc}") from exc


@contextmanager
def open_results(path: Path, *, resume: bool, follow: bool) -> Generator[RunResults]:
    """Open RESULTS and the database beside it. At the end the results stand in RESULTS, however the block ends.

    Raises:
        CommandError: It cannot be opened, another run writes to it, it is not empty without ``resume``, or it contains
            something else.
    """
    home = path.resolve()
    label = f"-o {path}"
    with ExitStack() as stack:
        fd = open_exclusively(path, os.O_RDWR if resume else os.O_WRONLY, label)
        stack.callback(os.close, fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            if resume:
                raise CommandError(f"{label}: --resume needs a regular file")
            yield RunResults(home, fd, None, follow=True)
            return
        if status.st_size and not resume:
            raise CommandError(f"{label} is not empty: write to a new file, or continue this one with --resume")
        is_new = not beside(home, LEDGER).exists()
        db = stack.enter_context(_open_database(home, resume=resume))
        results = RunResults(home, fd, db, follow)
        try:
            if resume:
                results.read_earlier()
            try:
                yield results
            except BaseException:
                with suppress(CommandError):
                    results.finish()
                raise
            results.finish()
        finally:
            nothing_began = is_new and results.is_empty()
            db.close()
            if results.complete or nothing_began:
                _remove(home)  # while the lock is held


def beside(path: Path, suffix: str) -> Path:
    """The file with that suffix beside RESULTS."""
    return path.with_name(path.name + suffix)


@contextmanager
def _open_database(home: Path, *, resume: bool) -> Generator[sqlite3.Connection]:
    path = beside(home, DATABASE)
    for each in (path, beside(home, LEDGER)):
        if each.is_symlink():  # who has put it there would have another file written
            raise CommandError(f"{each} is a link: remove it")
    earlier = next((each for each in (path, beside(home, LEDGER)) if each.exists()), None)
    with ExitStack() as stack:
        # Of the same file as the database: closed after it, for to close any would end the locks of SQLite.
        if earlier in (None, path) or resume:
            stack.callback(os.close, open_exclusively(path, os.O_RDWR, str(path)))
        if earlier is not None and not resume:
            raise CommandError(f"{earlier} is of an earlier run: continue that run with --resume, or remove the file")
        try:
            db = sqlite3.connect(path, isolation_level=None)
            stack.callback(db.close)
            application, tables = db.execute(
                "select application_id, (select count(*) from sqlite_master) from pragma_application_id"
            ).fetchone()
            if application != _APPLICATION and (application or tables):
                raise CommandError(f"{path} is a database of another program: move it elsewhere")
            db.executescript(_PREPARE)
            db.executescript(_CREATE)
        except sqlite3.Error as exc:
            raise CommandError(f"{path}: {exc}") from exc
        yield db


def _remove(home: Path) -> None:
    for suffix in (DATABASE, LEDGER):
        for part in _BESIDE:
            beside(home, suffix + part).unlink(missing_ok=True)


def _append(fd: int, data: bytes | bytearray) -> None:
    rest = memoryview(bytes(data))
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError as exc:
        raise CommandError(f"RESULTS cannot be written: {exc.strerror}") from exc


def _read_lines(fd: int) -> Iterator[bytes]:
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        yield from file


def _dump_rest(row: dict[str, Any]) -> bytes:
    del row["line"]
    return b", " + encode_row(row)[1:]
