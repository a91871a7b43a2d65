"""Journal: a sink that keeps the report of each call, as rows of an SQLite file."""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self, TypeAlias, cast
from weakref import WeakSet, WeakValueDictionary

import anyio.to_thread

from ..base.foreign_values import FaultBarrier
from ..base.forking import register_after_fork
from ..base.options import check_number, check_type
from ..base.setup_error import SetupError
from ..engine.report import CallReport
from ..engine.report.json_form import snapshot, write_form
from ..privacy import get_logger
from .database import JournalError, JournalFile, Row, make_row

_LOG = get_logger()
_WRITES = FaultBarrier(_LOG, "a call could not be written into the journal")
_MOST_QUEUED: Final = 20_000  # calls
_MOST_BYTES: Final = 67_108_864  # characters of arguments and results that wait
_WAITING: Final = 0.05  # seconds that a caller waits for room
_BATCH: Final = 500  # rows of one transaction
_SOON: Final = 100  # calls that wait before the writer is woken
_PAUSE: Final = 0.1  # seconds between two looks at a queue that fills slowly; a kill loses no more than these
_TURN: Final = 0.001  # seconds for the writer, once in 100 calls
_RETRY: Final = 1.0  # seconds until a file that cannot be written is tried again
_LAST_TRIES: Final = 5  # at the end


_NOTHING: Final = (None, None, 0)
_Kept: TypeAlias = tuple[object, object, int]
_Queued: TypeAlias = tuple[CallReport, _Kept, int]


class Journal:
    """Keeps the report of each call. It is a sink of `Trace`, and ``standard(tools, journal=…)`` makes one of a path.

    A call is put into a queue, and a thread writes it, after 100 calls or a tenth of a second. ``async with
    pipeline`` opens and closes the journal; without it the first call opens it, and the end of the process closes it.
    Nothing that was queued is lost then. A process that is killed loses what waits.

    If 20,000 calls wait, or 64 MB of arguments and results, a caller waits for up to 50 ms, and then its call is
    dropped and counted. A file that cannot be written is logged, tried again, and costs the caller no more than that.

    Several pipelines, threads and processes may write to one file. The secrets that a tool declares are masked in the
    arguments, the result and the texts; see ``content`` for the rest.

    Args:
        path: The file. It is made with the rights of its owner alone.
        content: Whether arguments, results and texts are kept. Default True. False: names, those of suggested tools
            too, kinds, reasons, times and stages.
        days: Calls that are older are removed; the log says so once. None: none is. Default 30.
        megabytes: A file that is larger loses its oldest calls; the log says so once. None: it may grow as it likes.
            Default 500.

    Attributes:
        dropped: How many calls this object has dropped.

    Raises:
        SetupError: An option is of another type, or out of its range.
    """

    opens_itself: ClassVar[bool] = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        content: bool = True,
        days: float | None = 30,
        megabytes: float | None = 500,
    ) -> None:
        if not isinstance(cast("object", path), (str, os.PathLike)) or not str(path):
            raise SetupError(f"Journal: `path` must be the path of a file, not {path!r}")
        check_type("Journal", "content", content, bool)
        check_number("Journal", "days", days, above=0, optional=True, unit="days")
        check_number("Journal", "megabytes", megabytes, above=0, optional=True, unit="megabytes")
        self.path = Path(path)
        self.dropped = 0
        self._content, self._days, self._megabytes = content, days, megabytes
        self._users = 0  # blocks that hold it open
        self._has_removed = False
        self._restart_in_child()
        register_after_fork(self._restart_in_child)
        _OPEN.add(self)

    def _restart_in_child(self) -> None:
        """A child of a fork has neither the thread nor what its parent still writes."""
        self._queue: deque[_Queued] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._room = threading.Condition()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._uncounted = 0  # dropped, and not in the file yet
        self._waiting = 0  # callers that wait for room

    def __call__(self, report: CallReport) -> None:
        """Queue the report of a call that has ended. Never raises."""
        kept = snapshot(report) if self._content else _NOTHING
        size = kept[2]
        if (len(self._queue) >= _MOST_QUEUED or self._bytes + size > _MOST_BYTES) and not self._wait_for_room(size):
            return
        self._bytes += size
        self._queue.append((report, kept, size))
        if self._thread is None:
            self._start()
        elif len(self._queue) % _SOON == 0:
            self._wake.set()
            time.sleep(_TURN)  # a loop of calls would not let the thread run

    async def __aenter__(self) -> Self:
        """Open it.

        Raises:
            SetupError: The file is something else, of a later version, locked, read-only, or cannot be made.
        """
        await anyio.to_thread.run_sync(self._check)
        self._users += 1
        self._start()
        return self

    def _check(self) -> None:
        with JournalFile.open(self.path) as file:
            self._trim(file, now=True)

    def _trim(self, file: JournalFile, *, now: bool = False) -> None:
        if file.trim(self._days, self._megabytes, now=now) and not self._has_removed:
            self._has_removed = True
            bounds = [] if self._days is None else [f"older than {self._days:g} days"]
            bounds += [] if self._megabytes is None else [f"the oldest of more than {self._megabytes:g} MB"]
            _LOG.warning(
                "the journal removes calls, %s; `days=` and `megabytes=` of Journal say when: %s",
                " and ".join(bounds),
                self.path,
            )

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write what is queued, and close it."""
        self._users -= 1
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close if self._users == 0 else self.flush)

    def flush(self) -> None:
        """Return when all that was queued until now is in the file, or cannot be written to it."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            self._closing = True
            self._wake.set()
            thread.join()
            self._closing = False
        if self._queue:
            self._start()

    def close(self) -> None:
        """Write what is queued, and close the file. The next call opens it again."""
        self.flush()  # whose thread closes the file when it ends

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="toolcall-journal", daemon=True)
                self._thread.start()

    def _wait_for_room(self, size: int) -> bool:
        """Whether there is room for a call, after 50 ms at most. If there is none, it is dropped."""
        end = time.monotonic() + _WAITING
        self._wake.set()
        with self._room:
            self._waiting += 1
            while len(self._queue) >= _MOST_QUEUED or self._bytes + size > _MOST_BYTES:
                if not self._queue:  # it is larger than all that may wait, and alone
                    break
                left = end - time.monotonic()
                if left <= 0 or not self._room.wait(left):
                    self._waiting -= 1
                    self.dropped += 1
                    self._uncounted += 1
                    if self.dropped == 1:
                        _LOG.warning("the journal cannot follow, so calls are dropped from it: %s", self.path)
                    return False
            self._waiting -= 1
        return True

    def _write(self) -> None:
        """In the thread: write until it is closed, and the queue is empty."""
        file: JournalFile | None = None
        failures = 0
        try:
            file = self._try_open()
            while self._queue or not self._closing:
                if len(self._queue) < _SOON and not self._closing:
                    self._wake.wait(_PAUSE)
                self._wake.clear()
                try:
                    file = file or JournalFile.open(self.path)
                    self._write_batch(file)
                    failures = 0
                except (sqlite3.Error, JournalError) as exc:
                    failures += 1
                    if failures == 1:
                        _LOG.error("the journal cannot be written: %s: %s", self.path, exc)  # no stack
                    if self._closing and failures >= _LAST_TRIES:
                        self._give_up()
                        return
                    self._wake.wait(_RETRY if not self._closing else _RETRY / 10)
        finally:
            if file is not None:
                file.close()

    def _try_open(self) -> JournalFile | None:
        """The file, before the first call needs it; None: `_write` says why not."""
        try:
            return JournalFile.open(self.path)
        except JournalError:
            return None

    def _write_batch(self, file: JournalFile) -> None:
        """Write up to 500 calls. They leave the queue once they are in the file."""
        batch = [self._queue[place] for place in range(min(_BATCH, len(self._queue)))]
        dropped = self._uncounted
        if not batch and not dropped:
            return
        file.write_rows([row for each in batch if (row := self._make(each)) is not None], dropped)
        self._uncounted -= dropped
        for each in batch:
            self._queue.popleft()
            self._bytes -= each[2]
        if self._waiting:
            with self._room:
                self._room.notify_all()
        self._trim(file)

    def _make(self, queued: _Queued) -> Row | None:
        with _WRITES:  # a value of the user's that cannot be described must not end the thread
            return make_row(write_form(queued[0], queued[1], content=self._content))
        return None

    def _give_up(self) -> None:
        lost, self._bytes = len(self._queue), 0
        self._queue.clear()
        self.dropped += lost
        self._uncounted += lost
        _LOG.error("the journal cannot be written, and %s calls are lost: %s", lost, self.path)

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"


_OPEN: WeakSet[Journal] = WeakSet()
_SHARED: WeakValueDictionary[str, Journal] = WeakValueDictionary()


def get_journal(path: str | os.PathLike[str]) -> Journal:
    """The journal of this path that the pipelines of this process share."""
    key = str(Path(path).resolve())
    found = _SHARED.get(key)
    if found is None:
        found = _SHARED[key] = Journal(path)
    return found


@atexit.register
def _close_all() -> None:
    for journal in list(_OPEN):
        journal.close()
