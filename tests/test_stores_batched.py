"""A store behind a thread: its batches, its pages, and what a caller hears while its server is away."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest

from support import PATIENT
from toolcall_pipeline import SetupError
from toolcall_pipeline.stores import ANY, Change, Entry, Memory, SQLite, StoreError, batched
from toolcall_pipeline.stores.batched import BatchedStore, Get, Job, Page, Write
from toolcall_pipeline.testing import FakeClock


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 513])
def test_a_batch_takes_what_waits_up_to_a_bound(count: int, ends: bool) -> None:
    """At most 256 jobs, in their order; the end comes with the jobs before it, or by itself behind a full batch."""
    queue: SimpleQueue[Any] = SimpleQueue()
    for number in range(count):
        queue.put(number)
    if ends:
        queue.put(None)
    module: Any = batched
    taken: list[Any] = []
    while not queue.empty():
        jobs, is_end = module._take(queue)
        taken += jobs
        assert len(jobs) == min(256, count - len(taken) + len(jobs))
        assert is_end is (ends and queue.empty())
    assert taken == list(range(count))


async def test_an_entry_ends_with_its_last_second() -> None:
    """A key is there before its time is over, and gone at that moment: for a look, a list and an expectation."""
    with FakeClock() as clock:
        store = Memory()
        await store.write(Change("a", b"1", ANY, 8.0), Change("b", b"2"))
        clock.advance(7.5)
        assert [key async for key, _ in store.scan()] == ["a", "b"]
        assert await store.write(Change("a", b"3", None)) is None
        clock.advance(0.5)
        assert await store.get("a") is None
        assert [key async for key, _ in store.scan()] == ["b"]
        assert await store.write(Change("a", b"3", None)) is not None


async def test_memory_is_swept_when_the_keys_have_doubled() -> None:
    """Fewer than 1,024 keys are left where they are; then those whose time is over go, and again at twice the rest."""
    with FakeClock() as clock:
        store = Memory()
        for number in range(1_023):
            await store.write(Change(f"old{number}", b"", ANY, 1.0))
        clock.advance(1.0)
        assert repr(store) == "Memory(1023 keys)"
        await store.write(Change("a", b""))
        assert repr(store) == "Memory(1 keys)"
        for number in range(1_023):
            await store.write(Change(f"new{number}", b""))
        assert repr(store) == "Memory(1024 keys)"
        for number in range(1_022):
            await store.write(Change(f"old{number}", b"", ANY, 1.0))
            if number == 1_000:
                clock.advance(1.0)  # to look for them now would be to look at all keys with each write
        clock.advance(1.0)
        await store.write(Change("b", b""))
        assert repr(store) == "Memory(2047 keys)"
        await store.write(Change("c", b""))
        assert repr(store) == "Memory(1026 keys)"


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1_000])
async def test_a_list_of_a_file_has_each_key_once(count: int, tmp_path: Path) -> None:
    """A list is read in pages of 500 keys, in the order of their bytes; keys without the prefix are not in it."""
    names = [f"p/{number:04}" for number in range(count)]
    async with SQLite(tmp_path / "a.db") as store:
        await store.write(Change("p", b""), Change("p0", b""), *(Change(name, name.encode()) for name in names))
        assert [(key, entry.value) async for key, entry in store.scan("p/")] == [
            (name, name.encode()) for name in names
        ]
        assert len([key async for key, _ in store.scan()]) == count + 2


@pytest.mark.parametrize("count", [1, 2, 3, 511, 512, 513, 1_025])
async def test_one_write_expects_of_many_keys(count: int, tmp_path: Path) -> None:
    """However many keys a write has, the one that is not as expected, wherever it stands, keeps all of it back."""
    async with SQLite(tmp_path / "a.db") as store:
        version = await store.write(*(Change(f"{number}", b"1") for number in range(count)))
        for wrong in {0, count // 2, count - 1}:
            changes = [Change(f"{number}", b"2", None if number == wrong else version) for number in range(count)]
            assert await store.write(*changes) is None
        assert await store.write(*(Change(f"{number}", b"2", version) for number in range(count))) is not None


class Line:
    """A connection of `Far`."""


class Far(BatchedStore[Line]):
    """A store behind a thread whose server does as the test says."""

    def __init__(self) -> None:
        super().__init__("Far", 5.0)
        self.connecting: Exception | None = None  # raised by the next attempt to connect
        self.running: Exception | None = None  # raised by the next batch
        self.lines: list[Line] = []
        self.ended: list[Line] = []
        self.is_lost = False

    def try_now(self) -> None:
        """Let the next call try, as it may after a pause."""
        self._try_at = 0.0

    def _connect(self) -> Line:
        error, self.connecting = self.connecting, None
        if error is not None:
            raise error
        self.lines.append(Line())
        return self.lines[-1]

    def _run(self, connection: Line, jobs: Sequence[Job]) -> None:
        assert connection is self.lines[-1]
        error, self.running = self.running, None
        if error is not None:
            raise error
        for job in jobs:
            if isinstance(job, Get):
                job.answer = [Entry(key, 1) for key in job.keys]
            elif isinstance(job, Write):
                job.answer = job.version
            elif isinstance(job, Page):
                job.answer = None

    def _is_lost(self, connection: Line) -> bool:
        was_lost, self.is_lost = self.is_lost, False
        return was_lost

    def _disconnect(self, connection: Line) -> None:
        self.ended.append(connection)


async def test_an_error_of_a_batch_says_what_may_have_been_written() -> None:
    """After a connection that broke a write may be made, and a read has done nothing; the next call connects anew."""
    async with Far() as store:
        for maybe_written in (True, False):
            store.running = OSError("the  line\nbroke")
            with pytest.raises(StoreError, match=r"^Far: OSError: the line broke$") as caught:
                await (store.write(Change("a", b"")) if maybe_written else store.get("a"))
            assert caught.value.maybe_written is maybe_written
            store.try_now()
            assert await store.get("a") == (b"a", 1)
        assert len(store.lines) == 3
        assert store.ended == store.lines[:2]
    assert store.ended == store.lines


async def test_a_line_that_the_server_has_closed_is_made_again() -> None:
    """A caller does not hear of it: the connection is dropped before its batch, and the next one answers."""
    async with Far() as store:
        assert await store.get("a") is not None
        store.is_lost = True
        assert await store.get("a") is not None
        assert (len(store.lines), store.ended) == (2, store.lines[:1])


async def test_opening_a_store_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and a call that comes later finds the store; what cannot be a store is a mistake at once."""
    far = Far()
    far.connecting = OSError("away")
    async with far as store:
        assert "opened without an answer" in caplog.text
        store.try_now()
        assert await store.get("a") is not None
    far.connecting = SetupError("of another program")
    with pytest.raises(SetupError, match="of another program"):
        await far.__aenter__()
    with pytest.raises(SetupError, match="is not open"):
        await far.get("a")
    async with far as store:
        store.running = OSError("broke")
        with pytest.raises(StoreError):
            await store.get("a")
        store.try_now()
        store.connecting = SetupError("of another program")
        with pytest.raises(StoreError, match="of another program"):  # a call of a model has no mistake of set-up
            await store.get("a")


async def test_while_a_store_is_away_one_call_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure calls are refused at once for ten times as long as it took, five seconds at most."""
    now = [100.0]
    monkeypatch.setattr(batched, "monotonic", lambda: now[0])
    for took, pause in ((0.1, 1.0), (0.4, 4.0), (0.5, 5.0), (3.0, 5.0)):
        async with Far() as store:
            failed = _Slow("away", now, took)
            store.running = failed
            with pytest.raises(StoreError, match="away"):
                await store.get("a")
            tried, store.running = now[0], OSError("tried")
            for since in (0.0, 0.5 * pause, 0.99 * pause):
                now[0] = tried + since
                with pytest.raises(StoreError, match="away"):
                    await store.get("a")
            now[0] = tried + pause + 0.001
            with pytest.raises(StoreError, match="tried"):
                await store.get("a")
            assert await store.get("a") is not None  # a quick refusal is tried again at once
            assert await store.get("b") is not None


async def test_while_one_call_tries_the_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused at once for as long as that call may wait, and then the next one tries."""
    now = [1_000.0]
    monkeypatch.setattr(batched, "monotonic", lambda: now[0])
    async with Far() as store:
        inside: Any = store
        store.running = OSError("away")
        with pytest.raises(StoreError, match="away"):
            await store.get("a")
        inside._refuse_while_away()  # this one tries, and gets no answer
        for since in (0.0, 2.5, 4.9):
            now[0] = 1_000.0 + since
            with pytest.raises(StoreError, match="away"):
                await store.get("a")
        now[0] = 1_005.0
        assert await store.get("a") is not None


class Stuck(Far):
    """A store whose server does not answer until the wait for it is ended."""

    def __init__(self) -> None:
        super().__init__()
        self._timeout = 0.02
        self.asked: list[Sequence[Job]] = []
        self.aborted: list[Line] = []
        self._go = Event()

    def _run(self, connection: Line, jobs: Sequence[Job]) -> None:
        if jobs:
            self.asked.append(jobs)
            assert self._go.wait(PATIENT)

    def _abort(self, connection: Line) -> None:
        self.aborted.append(connection)
        self._go.set()


async def test_a_file_is_known_by_its_head(tmp_path: Path) -> None:
    """Four letters stand where SQLite keeps the number of a program, and only its owner may read the file."""
    path = tmp_path / "a.db"
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
    head = path.read_bytes()[:100]
    assert (head[:15], head[68:72]) == (b"SQLite format 3", b"tcps")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("writes", [True, False])
async def test_a_server_that_does_not_answer_is_away(writes: bool) -> None:
    """Its caller waits no longer than it may, the thread is freed, and the next call is refused without a try."""
    async with Stuck() as store:
        with pytest.raises(StoreError, match=r"Far did not answer within 0.02 seconds") as raised:
            await (store.write(Change("a", b"")) if writes else store.get("a"))
        assert raised.value.maybe_written is writes
        assert store.aborted == store.lines
        with pytest.raises(StoreError, match=r"did not answer") as refused:
            await store.write(Change("b", b""))
        assert refused.value.maybe_written is False
        assert len(store.asked) == 1


class _Slow(OSError):
    """An error that takes its time to be told."""

    def __init__(self, text: str, now: list[float], took: float) -> None:
        super().__init__(text)
        self.now, self.took = now, took

    def __str__(self) -> str:
        self.now[0], self.took = self.now[0] + self.took, 0.0
        return "away"


@pytest.mark.parametrize("count", [1, 500, 511, 512, 513, 1_025])
async def test_a_statement_has_less_than_a_thousand_values(count: int, tmp_path: Path) -> None:
    """SQLite of before 3.32 takes 999; and a list of so many keys reads each page once."""
    pages = list[Job]()

    class Old(SQLite):
        def _connect(self) -> sqlite3.Connection:
            db = super()._connect()
            db.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
            return db

        def _run(self, connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
            pages.extend(job for job in jobs if isinstance(job, Page))
            super()._run(connection, jobs)

    async with Old(tmp_path / "a.db") as store:
        changes = [Change(f"{number:04}", b"1", None) for number in range(count)]
        assert await store.write(*changes) is not None
        assert len([key async for key, _ in store.scan()]) == count
        assert len(pages) == count // 500 + 1
