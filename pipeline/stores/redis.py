"""Redis: a store in a Redis server, for several machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..base.options import check_type, refuse
from ..base.setup_error import SetupError
from .batched import BatchedStore, Get, Job, Page, Write
from .store import ANY, Change, Entry, StoreError

if TYPE_CHECKING:
    from redis import Redis as Client

_SCHEMA = b"1"
_VERSION = 8  # bytes at the beginning of each value
_COUNT = 500  # keys that the server looks at for one page
# A script runs alone and, with the version inside of the value, each key changes at once. KEYS are the keys; ARGV is
# the version, then for each key what is expected ("*": anything, "": no key), the value, and the ttl in milliseconds
# ("": none, "-": delete).
_WRITE = """
for i, key in ipairs(KEYS) do
  local expect = ARGV[3 * i - 1]
  if expect ~= '*' and redis.call('GETRANGE', key, 0, 7) ~= expect then return 0 end
end
for i, key in ipairs(KEYS) do
  local value, ttl = ARGV[1] .. ARGV[3 * i], ARGV[3 * i + 1]
  if ttl == '-' then redis.call('DEL', key)
  elseif ttl == '' then redis.call('SET', key, value)
  else redis.call('SET', key, value, 'PX', ttl) end
end
return 1
"""


class Redis(BatchedStore["Client"]):
    """A store in a Redis server, version 4 or later, or one that understands it, such as Valkey.

    All waiting reads and writes go in one round trip. How much a crash of the server loses is set there:
    ``appendonly yes`` with ``appendfsync always`` loses no confirmed write. With a limit of memory the server must run
    with ``maxmemory-policy noeviction``, or it drops keys. Not for a Redis Cluster, which keeps the keys of one write
    apart.

    Args:
        url: The server and database, such as ``"redis://localhost:6379/0"``, ``"rediss://…"`` or ``"unix://…"``.
        prefix: The beginning of all keys, so that several stores can share a database. Default ``"toolcall:"``.
        timeout: Seconds that a call waits at most. Default 5.

    Raises:
        SetupError: An option is of another type or out of its range, or redis-py is not installed. Opening it raises
            SetupError as well: the login is refused, or the store has a newer schema.
    """

    def __init__(self, url: str, *, prefix: str = "toolcall:", timeout: float = 5.0) -> None:
        check_type("Redis", "url", url, str, name="text")
        check_type("Redis", "prefix", prefix, str, name="text")
        try:
            from redis import connection as parts
        except ImportError as exc:
            raise SetupError("redis is not installed: pip install 'toolcall-pipeline[redis]'") from exc
        shown = _without_secrets(url)
        untyped: Any = parts  # this function has no types
        try:
            self._options: dict[str, Any] = dict(untyped.parse_url(url))
        except ValueError:
            refuse("Redis", "url", "the URL of a server, redis://HOST:PORT/DATABASE, rediss://… or unix://…", shown)
        super().__init__(f"Redis({shown!r})", timeout)
        self._schema_key = (prefix + "schema").encode()
        self._prefix = (prefix + "key:").encode()

    def _connect(self) -> Client:
        from redis import Redis as Client
        from redis.backoff import NoBackoff
        from redis.connection import ConnectionPool
        from redis.exceptions import AuthenticationError, ResponseError
        from redis.retry import Retry

        ours: dict[str, Any] = {
            "socket_timeout": self._timeout,
            "socket_connect_timeout": self._timeout,
            "retry": Retry(NoBackoff(), 0),  # a write that was sent may have been made
            "decode_responses": False,
        }
        pool: Any = ConnectionPool
        client = Client(connection_pool=pool(**{**self._options, **ours}))
        try:
            if self.makes_itself:
                client.set(self._schema_key, _SCHEMA, nx=True)
            schema: Any = client.get(self._schema_key)
        except AuthenticationError as exc:
            raise SetupError(self._explain(exc)) from exc
        except ResponseError as exc:
            if _is_passing(exc):
                raise
            raise SetupError(self._explain(exc)) from exc
        if schema is None:
            self._refuse_missing()
        if schema != _SCHEMA:
            raise SetupError(
                f"{self._name} has schema {schema!r} of a newer toolcall-pipeline, and this one knows {_SCHEMA!r}: "
                "upgrade it, or use another prefix"
            )
        return client

    def _run(self, connection: Client, jobs: Sequence[Job]) -> None:
        sent = [job for job in jobs if isinstance(job, (Get, Write))]
        if sent:
            client: Any = connection  # most methods of redis-py have no types
            pipeline = client.pipeline(transaction=False)
            for job in sent:
                if isinstance(job, Get):
                    pipeline.mget([self._prefix + key for key in job.keys])
                else:
                    keys = [self._prefix + key for key, _ in job.changes]
                    pipeline.eval(_WRITE, len(keys), *keys, *_arguments_of(job))
            for job, reply in zip(sent, pipeline.execute(raise_on_error=False), strict=True):
                self._take_reply(job, reply)
        for page in jobs:
            if isinstance(page, Page):
                self._read_page(connection, page)

    def _take_reply(self, job: Get | Write, reply: Any) -> None:
        if isinstance(reply, Exception):
            job.error = StoreError(self._explain(reply))  # an answer of the server, which did not begin to write
        elif isinstance(job, Get):
            job.answer = [_read(value) for value in reply]
        else:
            job.answer = job.version if reply else None

    def _read_page(self, client: Any, job: Page) -> None:
        pattern = b"".join(b"\\" + bytes((c,)) if c in b"*?[]\\^-" else bytes((c,)) for c in self._prefix + job.prefix)
        position, keys = client.scan(job.position or 0, match=pattern + b"*", count=_COUNT)
        values: list[bytes | None] = client.mget(keys) if keys else []
        found = ((key[len(self._prefix) :], _read(value)) for key, value in zip(keys, values, strict=True))
        job.found = [(key, entry) for key, entry in found if entry is not None]
        job.answer = position or None

    def _disconnect(self, connection: Client) -> None:
        connection.close()
        connection.connection_pool.disconnect()


def _arguments_of(job: Write) -> list[bytes]:
    version = job.version.to_bytes(_VERSION)
    return [version, *(part for _, change in job.changes for part in _describe(change))]


def _describe(change: Change) -> tuple[bytes, bytes, bytes]:
    expect = b"*" if change.expect is ANY else b"" if change.expect is None else _pack(change.expect)
    if change.value is None:
        return expect, b"", b"-"
    return expect, change.value, b"" if change.ttl is None else b"%d" % max(1, round(change.ttl * 1000))


def _pack(version: int) -> bytes:
    # A version that no store made fits no key; it must not raise.
    return version.to_bytes(_VERSION) if 0 < version < 1 << 63 else b"none"


def _read(value: bytes | None) -> Entry | None:
    return None if value is None else Entry(value[_VERSION:], int.from_bytes(value[:_VERSION]))


def _is_passing(exc: Exception) -> bool:
    """Whether the server may answer otherwise later: it loads its data, follows another one, or is out of memory."""
    return str(exc).startswith(("LOADING", "READONLY", "MASTERDOWN", "MISCONF", "OOM", "BUSY", "command not allowed"))


def _without_secrets(url: str) -> str:
    """The URL without user, password and options."""
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        return "(a URL)"
    return f"{parts.scheme}://{host}{parts.path}"
