"""Owner: a process that runs bodies, and the proof that it lives.

On its own host a process is known by boot, namespace of process ids, process id and start time: its death is seen at
once, and a stopped process is never taken for dead. On another host, and where it cannot be seen, only its lease in the
store shows that it lives.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from threading import Event, Thread

import anyio

from ..base import timing
from ..engine.call import make_uuid
from ..privacy import get_logger
from ..stores import Change, Memory, Store, StoreError

LEASE = b"2"  # the version of the rows that this process writes; the release before left its lease empty
_RENEWALS = 4  # in the time of one lease
_SAFE = 0.8  # of a lease, after which its owner begins no body: the clocks of others may run faster
_RUNNING: dict[str, set[str]] = {}  # the deliveries that run in this process, by owner
_logger = get_logger()


class Owner:
    """This process, as one ledger in it. A thread of its own renews the lease, so a busy event loop lets none end.

    Args:
        store: Where the lease is kept. One in memory needs none.
        lease: Seconds.
        at_each: Awaited at each renewal.
    """

    def __init__(self, store: Store, lease: float, at_each: Callable[[], Awaitable[None]]) -> None:
        self._store, self._lease, self._at_each = store, lease, at_each
        self.pid = os.getpid()
        self.name = f"{make_uuid()}|{self.pid}|{_find_start(self.pid)}|{_find_host()}"
        self.running = _RUNNING.setdefault(self.name, set())
        self._until = inf if isinstance(store, Memory) else -inf
        self._closing = Event()
        self._thread: Thread | None = None

    async def open(self) -> None:
        """Take the lease. While the store is away there is none, so no body begins, and the thread tries again."""
        if self._until == inf:
            return
        try:
            await self._renew()
        except StoreError as exc:
            _logger.warning("A ledger has no lease yet, so calls that change something are refused: %s", exc)
        self._thread = Thread(target=self._keep, name="toolcall-ledger", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Give the lease back."""
        self._closing.set()
        if self._thread is not None:
            with suppress(Exception):  # the lease ends by itself
                await self._store.write(Change(f"o/{self.name}", None))
        self._until = -inf
        _RUNNING.pop(self.name, None)

    @property
    def may_begin(self) -> bool:
        """Whether a body may begin now: by the lease no other process takes this one for dead."""
        return timing.monotonic() < self._until and os.getpid() == self.pid

    async def _renew(self) -> None:
        began = timing.monotonic()
        await self._store.write(Change(f"o/{self.name}", LEASE, ttl=self._lease))
        self._until = began + self._lease * _SAFE

    def _keep(self) -> None:
        while not self._closing.wait(self._lease / _RENEWALS):
            try:
                anyio.run(self._renew)
                anyio.run(self._at_each)
            except Exception:  # the lease ends by itself, and then no body begins
                _logger.warning("The lease of a ledger could not be renewed", exc_info=True)


async def lives(store: Store, name: str, delivery: str) -> bool:
    """Whether an owner may still run a delivery.

    Args:
        store: Where owners on other hosts keep their leases.
        name: Of the owner.
        delivery: The id of the delivery.

    Raises:
        StoreError: The store gave no answer.
    """
    _, pid, start, host = name.split("|")
    if host and host == _find_host():
        if int(pid) == os.getpid() and start == str(_find_start(os.getpid())):
            return delivery in _RUNNING.get(name, ())
        if (seen := _sees(int(pid), int(start))) is not None:
            return seen
    return await store.get(f"o/{name}") is not None


def _sees(pid: int, start: int) -> bool | None:
    """Whether a process of this host lives that began then; None: it cannot be seen from here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user
        pass
    found = _find_start(pid)
    return None if 0 in (found, start) else found == start


def _find_start(pid: int) -> int:
    """The start of a process, in ticks since the boot; -1: it is dead; 0: that cannot be seen here."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return -1 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


def _find_host() -> str:
    """The scope of process ids: this boot, and this namespace, since containers share a boot. "": not known."""
    if not _HOST:
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            _HOST.append(f"{boot}{Path('/proc/self/ns/pid').readlink()}")
        except OSError:
            _HOST.append("")
    return _HOST[0]


_HOST: list[str] = []
