"""FileTime: the time of one file, which runs on whatever the clocks on the wall say.

It is kept in the file as a high-water mark. A process that has the file open adds what has passed for itself; one that
opens it adds what has passed since the mark, by the clock of the machine that counts from its boot. Only over a boot,
of which that clock says nothing, the clock on the wall is believed, for one lease at most: a clock that is 8 days ahead
would else forget answers that must be kept. Time is then behind, and what is kept is kept for longer.
"""

from __future__ import annotations

import sqlite3
import time
from math import inf
from pathlib import Path

from ..base import timing

_LEASE = 15.0  # seconds, of a ledger
_MARK_EVERY = 1.0  # seconds
_MANY = 256  # files
_CREATE = """
    create table if not exists clock
    (id integer primary key check (id = 1), at real not null, wall real not null, boot text not null, up real not null)
"""
_READ = "select at from clock"
_READ_ALL = "select at, wall, boot, up from clock"
_MARK = "insert or replace into clock values (1, ?, ?, ?, ?)"

_LAST: dict[object, FileTime] = {}  # of each file that this process had open


class FileTime:
    """The time of a file as one process reads it, from its first opening to its last closing.

    Args:
        db: A connection, in a transaction that may write.
        file: What tells the file from others.
    """

    def __init__(self, db: sqlite3.Connection, file: object) -> None:
        db.execute(_CREATE)
        found = db.execute(_READ_ALL).fetchone()
        self.at: float = timing.wall_time() if found is None else found[0] + _passed(*found[1:])
        self.read_at, self.source = timing.monotonic(), timing.now
        before = _LAST.get(file)
        if before is not None and before.source is self.source:  # also where that is the clock of a test
            self.at = max(self.at, before.at + self.read_at - before.read_at)
        if len(_LAST) >= _MANY:
            _LAST.clear()
        _LAST[file] = self
        self._marked = -inf
        if found is None:  # who only reads leaves the file as it is
            self.mark(db)

    def read(self, db: sqlite3.Connection) -> float:
        """Seconds since the epoch, by the file; never less than any process has noted there."""
        moment = timing.monotonic()
        self.at += max(0.0, moment - self.read_at)
        self.read_at = moment
        (marked,) = db.execute(_READ).fetchone()
        self.at = max(self.at, marked)
        return self.at

    def mark(self, db: sqlite3.Connection) -> None:
        """Note in the file what was read, in a transaction that writes."""
        if self.at >= self._marked + _MARK_EVERY:
            self._marked = self.at
            db.execute(_MARK, (self.at, timing.wall_time(), *_find_boot()))


def _passed(wall: float, boot: str, up: float) -> float:
    """The seconds since a mark."""
    now_boot, now_up = _find_boot()
    if boot and boot == now_boot and now_up >= up:
        return now_up - up
    return min(max(0.0, timing.wall_time() - wall), _LEASE)


def _find_boot() -> tuple[str, float]:
    """The boot of this machine, and the seconds since then, also those for which it slept; "" where none is known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return boot, time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):
        return "", 0.0
