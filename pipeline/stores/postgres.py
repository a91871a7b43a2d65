"""Postgres: a store in a table of a PostgreSQL database, for several machines."""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from ..base.options import check_type, refuse
from ..base.setup_error import SetupError
from .batched import BatchedStore, Get, Job, Page, Write, end_of
from .store import ANY, Entry, StoreError

if TYPE_CHECKING:
    from psycopg import Connection

    Client: TypeAlias = Connection[tuple[Any, ...]]

_SCHEMA = 1
_ABOUT = "toolcall-pipeline store, schema "  # the comment of the table
_PAGE = 500  # keys
_SWEEP_AFTER, _SWEPT = 250, 1_000  # writes, and the keys that are looked at then
_LEAST_CONNECT_TIMEOUT = 2  # seconds, of libpq
_CREATE = """
    create table if not exists {t} (
        key bytea primary key, version bigint not null, until timestamptz, value bytea not null
    )
"""
_GET = "select value, version from {t} where key = %s and (until is null or until > clock_timestamp())"
# One statement a write, so that a batch needs one round trip. No other process writes meanwhile: see `_lock_writes`.
_WRITE = """
    with given as (
        select * from unnest(%s::bytea[], %s::bytea[], %s::bigint[], %s::float8[]) as given(key, value, expect, ttl)
    ), wrong as (
        select 1 from given left join {t} as held
        on held.key = given.key and (held.until is null or held.until > clock_timestamp())
        where given.expect <> -1 and given.expect <> coalesce(held.version, 0)
    ), deleted as (
        delete from {t} using given
        where {t}.key = given.key and given.value is null and not exists (select from wrong)
    ), put as (
        insert into {t} (key, version, until, value)
        select key, %s, clock_timestamp() + make_interval(secs => ttl), value from given
        where value is not null and not exists (select from wrong)
        on conflict (key) do update set version = excluded.version, until = excluded.until, value = excluded.value
    )
    select not exists (select from wrong)
"""
_PAGE_OF = """
    select key, value, version from {t}
    where key >= %s and key < %s and (until is null or until > clock_timestamp()) order by key limit %s
"""
_LIMITS = """
    select set_config('statement_timeout', %s, true), set_config('idle_in_transaction_session_timeout', %s, true)
"""
_SLICE_END = "select key from {t} where key >= %s order by key offset %s limit 1"
_SWEEP = "delete from {t} where key >= %s and key < %s and until <= clock_timestamp()"
# A server says these of itself, and not of the login. It speaks the language that it is set to.
_PASSING = re.compile("starting up|shutting down|recovery mode|too many|connection slots")


class Postgres(BatchedStore["Client"]):
    """A store in a table of a PostgreSQL database, version 12 or later.

    All waiting reads go in one round trip, and so do all waiting writes, in one transaction with one commit.
    Processes write one after the other.

    Args:
        dsn: The database, such as ``"postgresql://user@host/database"`` or ``"host=… dbname=…"``; what it does not say
            is read from the environment, ``PGHOST`` and the like.
        table: The name of the table, which is made if it is missing. Default ``"toolcall_store"``.
        timeout: Seconds that a call waits at most. Default 5.

    Raises:
        SetupError: An option is of another type or out of its range, or psycopg is not installed. Opening it raises
            SetupError as well: the login is refused, there is no such database, or the table is not a store, or one of
            a newer schema.
    """

    def __init__(self, dsn: str, *, table: str = "toolcall_store", timeout: float = 5.0) -> None:
        check_type("Postgres", "dsn", dsn, str, name="text")
        if type(table) is not str or re.fullmatch(r"[a-z_][a-z0-9_]{0,49}", table) is None:
            refuse("Postgres", "table", "a name of up to 50 of the characters a-z, 0-9 and _, not first a digit", table)
        try:
            from psycopg import ProgrammingError
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as exc:
            raise SetupError("psycopg is not installed: pip install 'toolcall-pipeline[postgres]'") from exc
        try:
            parts = conninfo_to_dict(dsn)
        except ProgrammingError:  # whose text may hold the password
            refuse("Postgres", "dsn", "a connection string, such as postgresql://user@host/database", "(a text)")
        shown = " ".join(f"{name}={parts[name]}" for name in ("host", "port", "dbname") if parts.get(name))
        super().__init__(f"Postgres({shown!r}, table={table!r})", timeout)
        self._dsn = dsn
        self._table = table
        self._lock_id = int.from_bytes(sha256(f"toolcall-pipeline store {table}".encode()).digest()[:8], signed=True)
        self._get, self._put, self._page, self._slice_end, self._sweep = (
            sql.format(t=table) for sql in (_GET, _WRITE, _PAGE_OF, _SLICE_END, _SWEEP)
        )
        self._writes = 0  # since keys were looked at whose time is over
        self._swept = b""  # up to this key

    def _connect(self) -> Client:
        import psycopg

        milliseconds = math.ceil(self._timeout * 1000)
        connect_timeout = max(_LEAST_CONNECT_TIMEOUT, math.ceil(self._timeout))
        try:
            connection = psycopg.connect(
                self._dsn, autocommit=True, connect_timeout=connect_timeout, tcp_user_timeout=milliseconds
            )
        except psycopg.OperationalError as exc:
            if "FATAL" in str(exc) and not _PASSING.search(str(exc)):
                raise SetupError(self._explain(exc)) from exc
            raise
        with ExitStack() as undo:
            undo.callback(connection.close)
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # sees what came before it had the lock
            try:
                self._prepare(connection)
            except psycopg.errors.InsufficientPrivilege as exc:
                raise SetupError(self._explain(exc)) from exc
            undo.pop_all()
        return connection

    def _prepare(self, connection: Client) -> None:
        """Make the table, if it is missing. Raises SetupError for one that is not a store of this schema."""
        with connection.transaction():
            self._lock_writes(connection)
            found = connection.execute(
                "select to_regclass(%s) is not null, obj_description(to_regclass(%s), 'pg_class')", (self._table,) * 2
            ).fetchone()
            exists, about = found or (False, None)
            if not exists:
                self._refuse_missing()
                connection.execute(_CREATE.format(t=self._table).encode())
                connection.execute(f"comment on table {self._table} is '{_ABOUT}{_SCHEMA}'".encode())
                return
        schema = (about or "").removeprefix(_ABOUT)
        if about is None or schema == about or not schema.isdecimal():
            raise SetupError(f"{self._name} is a table of another program: use another table")
        if int(schema) > _SCHEMA:
            raise SetupError(
                f"{self._name} has schema {schema}, of a newer toolcall-pipeline; this one knows {_SCHEMA}: "
                "upgrade it, or use another table"
            )

    def _lock_writes(self, connection: Client) -> None:
        """Begin to write: until the end of the transaction no other process does, so no two wait for each other.

        The server ends a transaction that takes too long, also if this process is stopped in it.
        """
        limit = f"{math.ceil(800 * self._timeout)}ms"  # less than a caller waits, so that it hears of it
        connection.execute(_LIMITS, (limit, limit))
        connection.execute("select pg_advisory_xact_lock(%s)", (self._lock_id,))

    def _run(self, connection: Client, jobs: Sequence[Job]) -> None:
        writes = [job for job in jobs if isinstance(job, Write)]
        if writes and (error := self._transact(connection, writes)) is not None:
            for job in writes:
                job.error = error
        gets = [job for job in jobs if isinstance(job, Get)]
        if gets:
            with connection.pipeline():
                answers = [
                    [connection.execute(self._get.encode(), (key,), prepare=True, binary=True) for key in job.keys]
                    for job in gets
                ]
            for get, each in zip(gets, answers, strict=True):
                rows = [answer.fetchone() for answer in each]
                get.answer = [None if row is None else Entry(*row) for row in rows]
        for page in jobs:
            if isinstance(page, Page):
                self._read_page(connection, page)

    def _transact(self, connection: Client, writes: Sequence[Write]) -> StoreError | None:
        """Make all writes in one transaction; the error, if nothing was written.

        Raises:
            psycopg.Error: The connection is lost, and it is not known what was written.
        """
        import psycopg

        try:
            # Not transaction(), which waits for the server before it commits: all of this is sent at once.
            with connection.pipeline():
                connection.execute("begin isolation level read committed")
                self._lock_writes(connection)
                answers = [
                    connection.execute(self._put.encode(), _parameters_of(job), prepare=True, binary=True)
                    for job in writes
                ]
                connection.execute("commit")
            for job, answer in zip(writes, answers, strict=True):
                row = answer.fetchone()
                job.answer = job.version if row is not None and row[0] else None
        except psycopg.Error as exc:
            if connection.broken:
                raise
            connection.rollback()
            return StoreError(self._explain(exc))
        try:
            self._remove_ended(connection, len(writes))
        except psycopg.Error:  # the writes are made, and another process may remove these keys
            if connection.broken:
                raise
        return None

    def _remove_ended(self, connection: Client, writes: int) -> None:
        """Remove keys whose time is over, a slice of all keys at a time: four for each write, so it keeps up."""
        self._writes += writes
        if self._writes < _SWEEP_AFTER:
            return
        self._writes = 0
        with connection.transaction():
            self._lock_writes(connection)
            row = connection.execute(self._slice_end.encode(), (self._swept, _SWEPT), binary=True).fetchone()
            connection.execute(self._sweep.encode(), (self._swept, b"\xff" if row is None else row[0]))
        self._swept = b"" if row is None else row[0]

    def _read_page(self, connection: Client, job: Page) -> None:
        start = job.prefix if job.position is None else job.position
        answer = connection.execute(self._page.encode(), (start, end_of(job.prefix), _PAGE), binary=True)
        rows = answer.fetchall()
        job.found = [(key, Entry(value, version)) for key, value, version in rows]
        job.answer = rows[-1][0] + b"\x00" if len(rows) == _PAGE else None

    def _is_lost(self, connection: Client) -> bool:
        import psycopg

        try:
            for _ in range(2):  # the last words of the server, and the end
                connection.pgconn.consume_input()
        except psycopg.OperationalError:
            return True
        return bool(connection.closed)

    def _disconnect(self, connection: Client) -> None:
        connection.close()

    def _abort(self, connection: Client) -> None:
        # Not close(): libpq is not for two threads.
        with socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)


def _parameters_of(job: Write) -> tuple[Any, ...]:
    changes = [change for _, change in job.changes]
    return (
        [key for key, _ in job.changes],
        [change.value for change in changes],
        [-1 if change.expect is ANY else change.expect or 0 for change in changes],
        [None if change.ttl is None else float(change.ttl) for change in changes],
        job.version,
    )
