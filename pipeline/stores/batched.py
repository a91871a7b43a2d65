"""BatchedStore: a store behind one thread, which does all that waits for it in one step.

A thread makes a client that only blocks usable from every event loop. While it writes, further calls queue up; they
become the next batch, with one commit or one round trip for all of them (group commit).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import anyio
import attrs

from ..base.event_loops import EventLoop, get_event_loop
from ..base.forking import register_after_fork
from ..base.options import check_number
from ..base.setup_error import SetupError
from ..privacy.safe_logs import get_logger
from .durations import record_duration
from .store import Change, Entry, Store, StoreError, check_changes, make_version

C = TypeVar("C")  # a connection
_MOST = 256  # jobs of one batch
_PAUSE = 5.0  # seconds: the longest pause between two attempts to reach a store that is away
_PAUSE_PER_SECOND = 10.0  # a quick refusal is tried again at once, and a slow one is not
_log = get_logger("stores")
_kept_by_parent: list[Any] = []  # see `_restart_in_child`


@attrs.define(eq=False)
class Job:
    """A request whose caller waits. The thread sets ``answer`` or ``error``."""

    operation: ClassVar[str] = ""  # in the metric of durations; "": it is not measured
    loop: EventLoop
    signal: Any
    error: Exception | None = None
    begun: bool = False
    answered: bool = False
    given_up: bool = False  # its caller no longer waits


@attrs.define(eq=False)
class Opening(Job):
    """Connect, unless that was done."""


@attrs.define(eq=False)
class Get(Job):
    """Read some keys, and answer with their entries."""

    operation = "get"
    keys: Sequence[bytes] = ()
    answer: Sequence[Entry | None] = ()


@attrs.define(eq=False)
class Write(Job):
    """Make the changes if all keys are as expected, and answer with the version, or None."""

    operation = "write"
    version: int = 0
    changes: Sequence[tuple[bytes, Change]] = ()
    answer: int | None = None


@attrs.define(eq=False)
class Page(Job):
    """Read some of the keys with a prefix, and answer with the position behind them; None: these were the last."""

    operation = "scan"
    prefix: bytes = b""
    position: Any = None  # None: at the beginning
    found: list[tuple[bytes, Entry]] = attrs.field(factory=list[tuple[bytes, Entry]])
    answer: Any = None


J = TypeVar("J", bound=Job)


@attrs.define(eq=False)
class _Worker(Generic[C]):
    """One thread with its queue and its connection, from one opening to its closing."""

    jobs: SimpleQueue[Job | None] = attrs.field(factory=SimpleQueue[Job | None])  # None: the end
    connection: C | None = None
    ended: list[Callable[[], object]] = attrs.field(factory=list[Callable[[], object]])  # called at the end


class BatchedStore(ABC, Generic[C]):
    """The part that stores behind a thread share. A subclass connects, runs a batch, and disconnects, in that thread.

    Args:
        name: Its name in errors, without secrets.
        timeout: Seconds that a call waits for an answer at most.

    Attributes:
        makes_itself: Whether opening it makes what is missing. False, for a command that looks: that is a SetupError.
    """

    def __init__(self, name: str, timeout: float) -> None:
        check_number(type(self).__name__, "timeout", timeout, above=0, unit="seconds")
        self.makes_itself = True
        self._name = name
        self._timeout = timeout
        self._users = 0
        self._worker: _Worker[C] | None = None
        self._away: str | None = None  # why the last attempt to connect failed; None: it succeeded
        self._try_at = 0.0  # when a call may try again, by `monotonic`
        self._lock = Lock()
        register_after_fork(self._restart_in_child)

    def __repr__(self) -> str:
        return self._name

    async def get(self, key: str, /) -> Entry | None:
        """See `Store.get`."""
        return (await self.get_each(key))[0]

    async def get_each(self, *keys: str) -> Sequence[Entry | None]:
        """As `get` of each key, in one step."""
        loop = get_event_loop()
        return (await self._do(Get(loop, loop.make_signal(), keys=[encode_key(key) for key in keys]))).answer

    async def write(self, *changes: Change) -> int | None:
        """See `Store.write`. A call that is cancelled before the write has begun writes nothing."""
        check_changes(changes)
        loop = get_event_loop()
        keyed = [(encode_key(change.key), change) for change in changes]
        return (await self._do(Write(loop, loop.make_signal(), version=make_version(), changes=keyed))).answer

    async def scan(self, prefix: str = "", /) -> AsyncIterator[tuple[str, Entry]]:
        """See `Store.scan`."""
        loop, position, seen = get_event_loop(), None, set[bytes]()
        while True:
            page = await self._do(Page(loop, loop.make_signal(), prefix=encode_key(prefix), position=position))
            for key, entry in page.found:
                if key not in seen:
                    seen.add(key)
                    yield key.decode(errors="surrogatepass"), entry
            position = page.answer
            if position is None:
                return

    async def __aenter__(self) -> Self:
        """Open it. A server that does not answer is logged, and tried again by the calls that need it.

        Raises:
            SetupError: This cannot be a store: a newer schema, another program's data, a refused login.
        """
        with self._lock:
            self._users += 1
        loop = get_event_loop()
        try:
            self._try_at = 0.0
            await self._do(Opening(loop, loop.make_signal()))
        except StoreError as exc:
            _log.warning("%s: opened without an answer, so calls that need it get none: %s", self._name, exc)
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it once each `__aenter__` has its end. Writes that have been asked for are made before."""
        await self._leave()

    async def _leave(self) -> None:
        loop = get_event_loop()
        ended = loop.make_signal()
        with self._lock:
            self._users -= 1
            worker = None if self._users else self._worker
            if worker is None:
                return
            self._worker = None
            worker.ended.append(partial(loop.call_soon, loop.set, ended))
            worker.jobs.put(None)
        with anyio.move_on_after(self._timeout):
            await ended

    async def _do(self, job: J) -> J:
        """Have a job done in the thread, and wait for it.

        Raises:
            StoreError: No answer came.
            SetupError: It is not open.
        """
        began, failed = monotonic(), "unavailable"
        try:
            self._refuse_while_away()
            worker = self._submit(job)
            failed = "cancelled"
            try:
                await job.loop.wait(job.signal, self._timeout)
            finally:
                if not job.answered:
                    self._give_up(job)
            if not job.answered:
                failed = "timeout"
                text = f"{self._name} did not answer within {self._timeout:g} seconds"
                if job.begun:
                    self._away, self._try_at = text, monotonic() + _PAUSE
                    self._interrupt(worker)
                raise StoreError(text, maybe_written=job.begun and isinstance(job, Write))
            failed = "" if job.error is None else "unavailable"
            if job.error is not None:
                raise job.error
            return job
        finally:
            if job.operation:
                record_duration(type(self).__name__, job.operation, monotonic() - began, failed)

    def _refuse_while_away(self) -> None:
        """While the store is away one call tries, and the others are refused at once."""
        if (away := self._away) is None:
            return
        now = monotonic()
        if now < self._try_at:
            raise StoreError(away)
        self._try_at = now + self._timeout

    def _submit(self, job: Job) -> _Worker[C]:
        with self._lock:
            if not self._users:
                raise SetupError(f"{self._name} is not open: use it inside of `async with`, or name it in `resources`")
            worker = self._worker
            if worker is None:
                worker = self._worker = _Worker[C]()
                Thread(target=self._serve, args=(worker,), name=f"toolcall-{type(self).__name__}", daemon=True).start()
            worker.jobs.put(job)
            return worker

    def _give_up(self, job: Job) -> None:
        with self._lock:
            job.given_up = True
            if not job.begun:
                self._try_at = 0.0  # it may have been the one that tries

    def _interrupt(self, worker: _Worker[C]) -> None:
        connection = worker.connection
        if connection is not None:
            with suppress(Exception):
                self._abort(connection)

    # In the thread.

    def _serve(self, worker: _Worker[C]) -> None:
        ends = False
        while not ends:
            jobs, ends = _take(worker.jobs)
            with self._lock:
                jobs = [job for job in jobs if not job.given_up]
                for job in jobs:
                    job.begun = True
            if jobs:
                self._run_on_connection(worker, jobs)
                _answer(jobs)
        self._drop(worker)
        for wake in worker.ended:
            wake()

    def _run_on_connection(self, worker: _Worker[C], jobs: list[Job]) -> None:
        """Run a batch. Errors are put on its jobs, and a connection that raised one is dropped."""
        began = monotonic()
        try:
            if worker.connection is not None and self._is_lost(worker.connection):
                self._drop(worker)
            if worker.connection is None:
                worker.connection = self._connect()
        except SetupError as exc:
            self._fail(jobs, StoreError(str(exc)), began)
            for job in jobs:
                if isinstance(job, Opening):
                    job.error = exc
            return
        except Exception as exc:  # noqa: BLE001  # of any client
            self._fail(jobs, StoreError(self._explain(exc)), began)
            return
        try:
            self._run(worker.connection, [job for job in jobs if not isinstance(job, Opening)])
            self._away = None
        except Exception as exc:  # noqa: BLE001  # of any client
            text = self._explain(exc)
            self._drop(worker)
            self._fail(jobs, StoreError(text), began)
            for job in jobs:
                if isinstance(job, Write):
                    job.error = StoreError(text, maybe_written=True)

    def _fail(self, jobs: list[Job], error: StoreError, began: float) -> None:
        now = monotonic()
        self._away = str(error)
        self._try_at = now + min(_PAUSE, _PAUSE_PER_SECOND * (now - began))
        for job in jobs:
            job.error = error

    def _drop(self, worker: _Worker[C]) -> None:
        connection, worker.connection = worker.connection, None
        if connection is not None:
            with suppress(Exception):
                self._disconnect(connection)

    def _refuse_missing(self) -> None:
        """Called where nothing was kept yet."""
        if not self.makes_itself:
            raise SetupError(f"{self._name} holds no store")

    def _explain(self, exc: BaseException) -> str:
        return f"{self._name}: {type(exc).__name__}: {' '.join(str(exc).split())}"

    def _restart_in_child(self) -> None:
        """After a fork the thread is in the parent only. Its connection is left alone: closing it ends the parent's."""
        self._lock = Lock()
        if self._worker is not None:
            _kept_by_parent.append(self._worker)
        self._worker, self._away = None, None

    @abstractmethod
    def _connect(self) -> C:
        """Connect, and check that this is a store.

        Raises:
            SetupError: It is not, and will not be later.
            Exception: The connection failed.
        """

    @abstractmethod
    def _run(self, connection: C, jobs: Sequence[Job]) -> None:
        """Do all jobs, and set the answer or the error of each.

        Raises:
            Exception: The connection is lost, and it is unknown whether the writes were made.
        """

    def _is_lost(self, connection: C) -> bool:
        """Whether the server has closed the connection since the last batch. By default the client looks itself."""
        del connection
        return False

    @abstractmethod
    def _disconnect(self, connection: C) -> None:
        """Close a connection, which may be lost."""

    def _abort(self, connection: C) -> None:
        """End what the thread waits for, called in another thread. By default the client has a time limit itself."""


async def get_each(store: Store, *keys: str) -> Sequence[Entry | None]:
    """Read keys, in one step where the store can; each is read no sooner than those before it.

    A store whose ``get`` is somebody's own is asked by that alone: it may decipher, count or refuse.

    Raises:
        StoreError: The store gave no answer.
    """
    ours: Any = BatchedStore
    if isinstance(store, BatchedStore) and cast("Any", type(cast("Any", store))).get is ours.get:
        return await store.get_each(*keys)
    return [await store.get(key) for key in keys]


def encode_key(key: str) -> bytes:
    """A key as bytes: databases refuse some characters in texts, and compare others by the rules of a language."""
    return key.encode(errors="surrogatepass")


def end_of(prefix: bytes) -> bytes:
    """A text behind all keys with a prefix: no byte of UTF-8 is so high."""
    return prefix + b"\xff"


def _take(queue: SimpleQueue[Job | None]) -> tuple[list[Job], bool]:
    """Wait for a job, and return it with those behind it, and whether the end has come."""
    jobs: list[Job] = []
    job = queue.get()
    with suppress(Empty):
        while job is not None:
            jobs.append(job)
            if len(jobs) == _MOST:
                return jobs, False
            job = queue.get_nowait()
        return jobs, True
    return jobs, False


def _answer(jobs: list[Job]) -> None:
    """Wake the callers, with one step for each event loop."""
    by_loop: dict[int, list[Job]] = {}
    for job in jobs:
        by_loop.setdefault(id(job.loop), []).append(job)
    for each in by_loop.values():
        each[0].loop.call_soon(_wake, each)


def _wake(jobs: list[Job]) -> None:
    for job in jobs:
        job.answered = True
        job.loop.set(job.signal)
