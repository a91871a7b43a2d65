"""SQLite as a store: processes, kills, full disks, locks, and files that are no store."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from sqlite_meanwhile import make_meanwhile, write_meanwhile
from store_cases import contend, kill, start
from support import PATIENT
from toolcall_pipeline import Call, Outcome, SetupError, ToolRegistry
from toolcall_pipeline.base import timing
from toolcall_pipeline.engine.compose import Handler
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.stores import ANY, Change, Memory, SQLite, Store, StoreError, file_time
from toolcall_pipeline.testing import FakeClock, assert_success, check_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.mark.long
@pytest.mark.parametrize("survives_power_cut", [False, True])
def test_it_keeps_the_rules(path: Path, survives_power_cut: bool) -> None:
    """A store in a file keeps each rule, on each event loop, also if it waits for the disk."""
    check_store(SQLite(path, survives_power_cut=survives_power_cut))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "sqlite-full"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_processes_share_a_file(path: Path, kind: str) -> None:
    """Four processes that change two keys at once, by what they read, lose nothing and do nothing twice."""
    await contend(kind, str(path))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "sqlite-full"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_killed_process_leaves_nothing_half_written(path: Path, kind: str) -> None:
    """There are both keys of a write or none, and all that was confirmed."""
    await kill(kind, str(path), kills=10)


def test_a_full_disk_is_an_error_and_nothing_is_written_in_part(path: Path) -> None:
    """A write that finds no room says that nothing was written; there are both keys of each write, and reads go on."""
    with start("sqlite", str(path), "fill", 300_000) as child:
        printed = child.communicate(timeout=PATIENT)[0].split()
    written, maybe_written, are_pairs, pairs = printed
    assert (child.returncode, maybe_written, are_pairs, pairs) == (0, "False", "True", written)
    assert int(written) > 5


async def test_a_file_is_for_its_owner(path: Path) -> None:
    """The file and those beside it can be read by their owner alone: they hold arguments and results."""
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
        assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}


async def test_what_was_written_is_there_for_the_next_one(path: Path) -> None:
    """Values, versions and ends outlive the store object."""
    async with SQLite(path) as store:
        version = await store.write(Change("a", b"1"), Change("b", b"2", ttl=3600))
    async with SQLite(path) as store:
        assert await store.get("a") == (b"1", version)
        assert await store.get("b") == (b"2", version)


def _text(path: Path) -> None:
    path.write_text("not a database" * 100)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _run(*statements: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        db = sqlite3.connect(path)
        for each in statements:
            db.execute(each)
        db.commit()
        db.close()

    return make


NO_STORES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a text": (_text, "is not a SQLite database"),
    "a folder": (Path.mkdir, "cannot be"),
    "in no folder": (lambda path: path.parent.rmdir(), "cannot be made"),
    "of another program": (_run("create table users (name)"), "of another program"),
    "marked by another program": (_run("pragma application_id = 7"), "of another program"),
    "marked by another program, higher": (_run("pragma application_id = 2000000000"), "of another program"),
    "newer": (
        _run("create table entries (x)", "pragma application_id = 1952673907", "pragma user_version = 2"),
        "has schema 2, of a newer toolcall-pipeline; this one knows 1",
    ),
}


@pytest.mark.parametrize("case", NO_STORES)
async def test_a_file_that_is_no_store_is_a_mistake_of_set_up(path: Path, case: str) -> None:
    """Opening it raises one SetupError that names the file and says what it is; the file is not changed."""
    make, text = NO_STORES[case]
    make(path)
    before = _read(path)
    with pytest.raises(SetupError, match=text) as caught:
        async with SQLite(path):
            raise AssertionError
    assert str(path) in str(caught.value)
    assert _read(path) == before


@pytest.mark.parametrize("before", range(1, 7))
async def test_another_process_makes_the_file_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """A store opens, before whichever of its statements another process makes the file."""
    async with SQLite(path.with_name("made.db")):
        pass
    numbers = make_meanwhile(monkeypatch, path, path.with_name("made.db"), before)
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
    assert next(numbers) > before


async def test_another_process_writes_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store opens also if another process writes to a new file just when this one is to change it to WAL."""
    tries = write_meanwhile(monkeypatch, path, 3)
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
    assert next(tries) == 5


OPTIONS: tuple[dict[str, Any], ...] = (
    {"path": 7},
    {"path": ":memory:"},
    {"path": ""},
    {"path": "a.db", "survives_power_cut": "yes"},
    {"path": "a.db", "timeout": 0},
    {"path": "a.db", "timeout": None},
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_option_that_is_not_allowed_is_refused(options: dict[str, Any]) -> None:
    """A wrong option raises SetupError when the store is made."""
    with pytest.raises(SetupError, match="SQLite: `"):
        SQLite(**options)


async def test_a_locked_file_is_an_error_within_the_time_limit(path: Path) -> None:
    """While another process holds the lock a write ends with StoreError, has written nothing, and reads go on."""
    async with SQLite(path, timeout=1.0) as store:
        await store.write(Change("a", b"1"))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin immediate")
        with anyio.fail_after(PATIENT):
            is_heard = False
            while not is_heard:  # a slow machine tells of the limit of the caller before it tells of the lock
                with pytest.raises(StoreError) as caught:
                    await store.write(Change("a", b"2"))
                is_heard = not caught.value.maybe_written
            assert (found := await store.get("a")) is not None
            assert found.value == b"1"
            other.execute("rollback")
            other.close()
            assert await store.write(Change("a", b"3"))


@pytest.mark.parametrize("replaced", [True, False])
async def test_a_file_that_is_removed_while_it_is_open(path: Path, tmp_path: Path, *, replaced: bool) -> None:
    """Nothing is confirmed that the next process would not find; who opens it again has the file that is there."""
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
        await anyio.Path(path).rename(tmp_path / "elsewhere.db")
        if replaced:
            async with SQLite(path) as other:
                await other.write(Change("b", b"1"))
        for _ in range(2):
            with pytest.raises(StoreError, match="removed or replaced") as caught:
                await store.write(Change("a", b"2"))
            assert not caught.value.maybe_written
            with pytest.raises(StoreError):
                await store.get("a")
    async with store:
        assert await store.get("a") is None
        assert (await store.get("b") is not None) is replaced
        assert await store.write(Change("a", b"1"))


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize("replaced", [True, False])
async def test_a_file_beside_it_that_is_removed_while_it_is_open(path: Path, end: str, *, replaced: bool) -> None:
    """It gives no more answers: others would not find what it confirms from now on. Who opens it again may go on."""
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
        beside = path.with_name(path.name + end)
        beside.unlink()
        if replaced:
            beside.write_bytes(b"")
        for _ in range(2):
            with pytest.raises(StoreError, match=f"{end} beside it was removed or replaced"):
                await store.write(Change("a", b"2"))
            with pytest.raises(StoreError):
                await store.get("a")
        beside.unlink(missing_ok=True)  # as the next one to open it does, or it is told by SQLite
    async with store:
        assert await store.write(Change("a", b"3"))


async def test_a_file_beside_it_that_is_removed_within_a_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is confirmed that went into a file which is gone by then; it says that it may be written."""
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
        inside: Any = store
        transact = inside._transact

        def remove_meanwhile(*given: Any) -> Any:
            path.with_name(path.name + "-wal").unlink()
            return transact(*given)

        monkeypatch.setattr(store, "_transact", remove_meanwhile)
        with pytest.raises(StoreError, match="-wal") as caught:
            await store.write(Change("a", b"2"))
        assert caught.value.maybe_written


DAYS = 86400.0


class Clocks:
    """The clocks of a machine: what is on the wall may be wrong, and a boot begins another count."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.up, self.boot = 1_800_000_000.0, 5_000.0, "first"
        monkeypatch.setattr(timing, "monotonic", lambda: self.up)
        monkeypatch.setattr(timing, "wall_time", lambda: self.wall)
        monkeypatch.setattr(file_time, "_find_boot", lambda: (self.boot, self.up))

    def advance(self, seconds: float) -> None:
        self.wall, self.up = self.wall + seconds, self.up + seconds


@pytest.mark.parametrize("ahead", [8 * DAYS, -8 * DAYS])
@pytest.mark.parametrize("boots", [True, False])
@pytest.mark.parametrize("opens", [True, False])
async def test_a_clock_on_the_wall_that_is_wrong(
    path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float, *, boots: bool, opens: bool
) -> None:
    """A key stays for its time and no shorter, whatever clock another process has, and is gone soon after it."""
    clocks = Clocks(monkeypatch)
    store = SQLite(path)
    async with store:
        await store.write(Change("a", b"1", ttl=7 * DAYS))
        clocks.wall += ahead
        if not opens:
            assert await store.get("a") is not None
    if boots:
        clocks.boot, clocks.up = "second", 10.0
    async with SQLite(path) as other:
        assert await other.get("a") is not None
        assert [key async for key, _ in other.scan()] == ["a"]
        assert await other.write(Change("a", b"2", None)) is None
        clocks.advance(7 * DAYS - 60)
        assert await other.get("a") is not None
        clocks.advance(61)
        assert await other.get("a") is None
        await other.write(Change("b", b"1"))
    async with store:  # no process goes back behind another
        assert await store.get("a") is None


@pytest.mark.parametrize(
    ("boot", "up", "wall", "passed"),
    [
        pytest.param("first", 150.0, 1e9, 50.0, id="in the same boot"),
        pytest.param("first", 100.0, 1e9, 0.0, id="at the same moment"),
        pytest.param("first", 90.0, 3.0, 3.0, id="a count that went back"),
        pytest.param("second", 150.0, 3.0, 3.0, id="in another boot"),
        pytest.param("second", 150.0, -3.0, 0.0, id="and a clock that went back"),
        pytest.param("second", 150.0, 1e9, 15.0, id="and a clock that is ahead"),
        pytest.param("", 150.0, 3.0, 3.0, id="where no boot is known"),
    ],
)
def test_what_passes_since_a_mark(
    monkeypatch: pytest.MonkeyPatch, boot: str, up: float, wall: float, passed: float
) -> None:
    """Within a boot its own count tells; else the clock on the wall, from nothing to one lease."""
    clocks = Clocks(monkeypatch)
    marked, before = clocks.wall, str(b"first" if boot else b"", "ascii")  # read from a file, so another object
    clocks.boot, clocks.up, clocks.wall = boot, up, clocks.wall + wall
    assert vars(file_time)["_passed"](marked, before, 100.0) == passed


@pytest.mark.parametrize(("survives_power_cut", "level"), [(False, 1), (True, 2)])
async def test_what_survives_a_power_cut_is_written_through(
    path: Path, monkeypatch: pytest.MonkeyPatch, level: int, *, survives_power_cut: bool
) -> None:
    """Its connection is `synchronous` as far as the option asks: 1 is NORMAL, 2 is FULL."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def note(*args: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*args, **{**options, "check_same_thread": False}))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", note)
    async with SQLite(path, survives_power_cut=survives_power_cut) as store:
        await store.write(Change("a", b"1"))
        assert [db.execute("pragma synchronous").fetchone() for db in made] == [(level,)]


async def test_what_passes_while_no_process_has_it_open(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one boot of the machine it counts in full, and over a boot as one lease."""
    clocks = Clocks(monkeypatch)
    async with SQLite(path) as store:
        await store.write(Change("a", b"1", ttl=100), Change("b", b"1", ttl=200))
    clocks.advance(150)
    async with store:
        assert await store.get("a") is None
        assert await store.get("b") is not None
        await store.write(Change("c", b"1"))  # who only reads notes no time
    clocks.advance(1000)
    clocks.boot, clocks.up = "second", 10.0
    async with store:
        assert await store.get("b") is not None
        clocks.advance(50)
        assert await store.get("b") is None


@pytest.mark.parametrize("ahead", [8 * DAYS, -8 * DAYS])
async def test_a_delivered_call_never_runs_again_by_a_wrong_clock(
    path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """A process whose clock is 8 days off gives the same delivery its answer."""
    clocks, ran = Clocks(monkeypatch), list[int]()
    tools = ToolRegistry()

    @tools.tool
    async def pay(amount: int) -> int:
        ran.append(amount)
        return len(ran)

    for _ in range(3):
        async with standard(tools, store=SQLite(path)) as pipeline:
            assert assert_success(await pipeline.call("pay", {"amount": 7}, id="1", conversation="c")) == 1
        clocks.wall += ahead
    assert ran == [7]


async def test_a_program_that_changes_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is where its path led when it was made."""
    monkeypatch.chdir(tmp_path)
    store = SQLite("a.db")
    (tmp_path / "inside").mkdir()
    async with store:
        await store.write(Change("a", b"1"))
        monkeypatch.chdir("inside")
        await store.write(Change("a", b"2"))
    async with store:
        assert (entry := await store.get("a")) is not None
        assert entry.value == b"2"


async def test_it_must_be_open() -> None:
    """A store that was not opened, or is closed again, says so to the programmer."""
    store = SQLite("unused.db")
    with pytest.raises(SetupError, match="is not open"):
        await store.get("a")


async def test_the_last_user_closes_it(path: Path) -> None:
    """Stages, pipelines and users may open one store; it stays open until each of them has left."""
    store = SQLite(path)
    async with store:
        async with store:
            await store.write(Change("a", b"1"))
        assert await store.get("a") is not None
    with pytest.raises(SetupError, match="is not open"):
        await store.get("a")


async def test_a_write_that_is_cancelled_in_the_queue_is_not_made(path: Path) -> None:
    """What was cancelled before it began has no effect; so a cancelled call leaves nothing behind."""
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("begin immediate")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.write, Change("first", b"1"))
            await anyio.wait_all_tasks_blocked()
            while not _has_begun(store):  # noqa: ASYNC110  # in another thread
                await anyio.sleep(0.001)
            async with anyio.create_task_group() as inner:
                inner.start_soon(store.write, Change("second", b"1"))
                await anyio.wait_all_tasks_blocked()
                inner.cancel_scope.cancel()
            other.execute("rollback")
            other.close()
        assert [key async for key, _ in store.scan()] == ["a", "first"]


def _has_begun(store: Any) -> bool:
    return bool(store._worker.jobs.empty())


async def test_waiting_writes_become_one_commit(path: Path) -> None:
    """While one transaction waits, further writes queue up, and the next transaction makes all of them."""
    async with SQLite(path) as store:
        go_on = threading.Event()
        commits = _count_commits(store, go_on)
        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(store.write, Change(f"k{number}", b""))
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert sum(commits) == 200
        assert len(commits) <= 2  # the first may have some of them


def _count_commits(store: Any, go_on: threading.Event | None = None) -> list[int]:
    """The number of writes of each transaction; with an event, each waits for it."""
    commits: list[int] = []
    transact = store._transact

    def count(db: Any, writes: Any) -> Any:
        assert go_on is None or go_on.wait(PATIENT)
        commits.append(len(writes))
        return transact(db, writes)

    store._transact = count
    return commits


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio starts tasks in any order
async def test_a_batch_is_made_as_if_one_by_one(path: Path) -> None:
    """Writes that go to the file together come to what they come to in memory, where each is made by itself."""
    dice, go_on = Random(7), threading.Event()
    stores: tuple[Any, Any] = Memory(), SQLite(path)
    commits = _count_commits(stores[1], go_on)

    async def write_all(store: Any, wanted: list[dict[str, tuple[str, float]]]) -> list[bool]:
        """Make writes at once; whether each was made."""
        kept, made = {key: await store.get(key) for key in "abcdef"}, [False] * len(wanted)

        async def write(number: int) -> None:
            changes = list[Change]()
            for key, (name, luck) in wanted[number].items():
                now = kept[key] and kept[key].version
                expect: Any = {"any": ANY, "none": None, "old": 7, "now": now}[name]
                value, ttl = None if luck < 0.3 else b"%d" % number, 60 if luck > 0.8 else None
                changes.append(Change(key, value, expect, ttl))
            made[number] = await store.write(*changes) is not None

        go_on.clear()
        async with anyio.create_task_group() as tasks:
            for number in range(len(wanted)):
                tasks.start_soon(write, number)
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        return made

    async with stores[1]:
        for _ in range(30):
            wanted = [
                {key: (dice.choice(("any", "none", "old", "now", "now")), dice.random()) for key in keys}
                for keys in (dice.sample("abcdef", dice.randint(1, 3)) for _ in range(20))
            ]
            one, other = [await write_all(store, wanted) for store in stores]
            assert one == other
            for key in "abcdef":
                one, other = [await store.get(key) for store in stores]
                assert (one and one.value) == (other and other.value)
    assert sum(commits) == 600
    assert len(commits) <= 60


async def test_event_loops_of_several_threads_share_it(path: Path) -> None:
    """One store object serves every event loop of the process."""
    async with SQLite(path) as store:

        async def write(name: str) -> None:
            for number in range(20):
                await store.write(Change(f"{name}{number}", b""))

        loops = [threading.Thread(target=anyio.run, args=(write, name)) for name in "abc"]
        for each in loops:
            each.start()
        await write("d")
        for each in loops:
            await anyio.to_thread.run_sync(each.join)
        assert len([key async for key, _ in store.scan()]) == 80


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_works_in_the_child_of_a_fork(path: Path) -> None:
    """A child that is forked while the store is open gets a thread and a connection of its own."""
    async with SQLite(path) as store:
        await store.write(Change("parent", b"1"))
        pid = os.fork()
        if not pid:
            code = 1
            try:
                thread = threading.Thread(target=anyio.run, args=(store.write, Change("child", b"1")))
                thread.start()
                thread.join(PATIENT)
                code = 0
            finally:
                os._exit(code)
        assert await anyio.to_thread.run_sync(os.waitpid, pid, 0) == (pid, 0)
        await store.write(Change("parent", b"2"))
        assert [key async for key, _ in store.scan()] == ["child", "parent"]


async def test_keys_whose_time_is_over_are_removed(path: Path) -> None:
    """They do not fill the file: their number stays bounded by that of the keys that live."""
    with FakeClock() as clock:
        async with SQLite(path) as store:
            for start_at in range(0, 6_000, 50):
                await store.write(*(Change(f"{n:05}", b"", ANY, 1.0) for n in range(start_at, start_at + 50)))
                await store.write(Change("n", b""))
                clock.advance(0.5)
                for _ in range(10):
                    await store.write(Change("n", b""))
        db = sqlite3.connect(path)
        assert db.execute("select count(*) from entries").fetchone()[0] < 3_000
        db.close()


async def test_a_pipeline_opens_and_closes_the_store_that_a_stage_names(path: Path) -> None:
    """A stage lists its store in `resources`."""

    class Counting:
        def __init__(self, store: Store) -> None:
            self.resources = (store,)

        async def __call__(self, call: Call, call_next: Handler[Call]) -> Outcome:
            await self.resources[0].write(Change(call.id, b""))
            return await call_next(call)

    tools = ToolRegistry()

    @tools.tool(effect="read")
    def probe() -> int:
        return 7

    store = SQLite(path)
    pipeline = standard(tools).before("retry", Counting(store))
    async with pipeline:
        assert_success(await pipeline.call("probe", {}, id="call_1"))
        assert await store.get("call_1") is not None
    with pytest.raises(SetupError, match="is not open"):
        await store.get("call_1")


@pytest.mark.parametrize("boots", [True, False])
@pytest.mark.parametrize("passed", [-100.0, 0.0, 5.0, 15.0, 1000.0])
async def test_what_passes_between_two_processes(
    path: Path, monkeypatch: pytest.MonkeyPatch, passed: float, *, boots: bool
) -> None:
    """A process that begins counts what the machine has counted since the mark; over a boot the wall, up to a lease."""
    clocks = Clocks(monkeypatch)
    async with SQLite(path) as store:
        await store.write(Change("a", b"1"))
    began = clocks.wall
    monkeypatch.setattr(file_time, "_LAST", {})
    clocks.wall += passed
    if boots:
        clocks.boot, clocks.up = "second", 10.0
    else:
        clocks.up += max(0.0, passed)
    async with SQLite(path) as store:
        inside: Any = store
        counted = min(15.0, max(0.0, passed)) if boots else max(0.0, passed)
        assert inside._time.at - began == counted


def test_the_time_of_so_many_files_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that tells no boot loses no time of 256 files that one process had open, and keeps no more."""
    clocks, remembered = Clocks(monkeypatch), dict[object, object]()
    monkeypatch.setattr(file_time, "_LAST", remembered)
    clocks.boot = ""
    db = sqlite3.connect(":memory:")
    first = file_time.FileTime(db, 0).at
    for number in range(1, 256):
        file_time.FileTime(db, number)
    clocks.up += 1000.0
    assert file_time.FileTime(db, 0).at == first + 1000.0
    for number in range(1000):
        file_time.FileTime(db, f"{number}")
        assert len(remembered) <= 256
    db.close()


async def test_a_file_is_marked_once_a_second(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark is less than a second behind a confirmed write, and is not written with each of them."""
    clocks = Clocks(monkeypatch)
    async with SQLite(path) as store:
        began, marks = clocks.wall, list[float]()
        for _ in range(9):
            await store.write(Change("a", b"1"))
            db = sqlite3.connect(path)
            marks.append(db.execute("select at from clock").fetchone()[0] - began)
            db.close()
            clocks.advance(0.25)
    assert marks == [0.0] * 4 + [1.0] * 4 + [2.0]


async def test_a_connection_that_broke_is_made_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store goes on, and still knows its file: it takes no other one for it that came meanwhile."""
    async with SQLite(path) as store:
        inside: Any = store
        for is_replaced in (False, True):
            await store.write(Change("a", b"1"))
            with monkeypatch.context() as patch:
                patch.setattr(store, "_transact", _break)
                with pytest.raises(StoreError, match="broke"):
                    await store.write(Change("a", b"2"))
            inside._try_at = 0.0
            if not is_replaced:
                assert await store.get("a") is not None
                continue
            await anyio.Path(path).unlink()
            with pytest.raises(StoreError, match="removed or replaced"):
                await store.get("a")


def _break(*_: object) -> None:
    raise sqlite3.OperationalError("broke")
