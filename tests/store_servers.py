"""Redis and PostgreSQL as stores: processes, kills, lost connections, full servers. ``make test-stores`` runs this."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import attrs
import pytest

from cancelled_groups import GROUPS, TRIALS, run_groups
from database_servers import Server, find_program, postgres_server, redis_server
from far_shop import kill_workers
from ledger_kills import kill_processes, kill_server, race
from limit_cases import CASES, check_rate, check_units
from stalling_relay import StallingRelay
from store_cases import contend, kill
from store_worker import MAKE, add_to_pair
from support import PATIENT
from toolcall_pipeline import SetupError, Switchboard, ToolRegistry, Unavailable, is_success
from toolcall_pipeline.executors import Process
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.stores import Change, Postgres, Redis, StoreError
from toolcall_pipeline.stores.batched import get_each
from toolcall_pipeline.testing import check_store

Kind = Literal["redis", "postgres"]
NEEDS = {"redis": ("redis-server", "redis-server"), "postgres": ("initdb", "postgresql")}
KINDS: tuple[Kind, ...] = tuple(kind for kind in ("redis", "postgres") if find_program(NEEDS[kind][0]) is not None)


@attrs.frozen
class Running:
    """A server, and how to reach it by some port."""

    kind: Kind
    server: Server

    def address(self, port: int | None = None) -> str:
        port = port or self.server.port
        if self.kind == "redis":
            return f"redis://127.0.0.1:{port}/0"
        return f"postgresql://tester@127.0.0.1:{port}/postgres"


@contextmanager
def run(kind: Kind) -> Generator[Running]:
    with postgres_server() if kind == "postgres" else redis_server("--appendonly", "yes") as server:
        yield Running(kind, server)


@pytest.fixture(params=KINDS)
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    with run(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[Kind, Running]]:
    with ExitStack() as stack:
        yield {kind: stack.enter_context(run(kind)) for kind in KINDS}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def test_they_keep_the_rules(running: Running) -> None:
    """Each keeps every rule of a store, on each event loop."""
    check_store(MAKE[running.kind](running.address()))


async def test_keys_are_read_together_as_alone(running: Running) -> None:
    """Several keys in one step are what `get` says of each, in their order."""
    async with MAKE[running.kind](running.address()) as store:
        await store.write(Change("each/a", b"1"), Change("each/b", b""))
        names = ["each/b", "each/none", "each/a", "each/b"]
        assert await get_each(store, *names) == [await store.get(name) for name in names]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_processes_share_a_server(running: Running) -> None:
    """Four processes that change two keys at once, by what they read, lose nothing and do nothing twice."""
    await contend(running.kind, running.address())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_killed_process_leaves_nothing_half_written(running: Running) -> None:
    """There are both keys of a write or none, and all that was confirmed."""
    await kill(running.kind, running.address(), kills=10)


@pytest.mark.parametrize("case", CASES)
async def test_limits_share_a_server(servers: dict[Kind, Running], kind: Kind, case: str) -> None:
    """Each rule of a shared limit holds over each server."""
    with anyio.fail_after(PATIENT):
        async with MAKE[kind](servers[kind].address()) as store:
            await CASES[case](store)
            async for key, _ in store.scan():
                await store.write(Change(key, None))


async def test_a_switch_reaches_every_pipeline(servers: dict[Kind, Running], kind: Kind) -> None:
    """What is paused over one connection is closed over another one, and open again after."""
    tools = ToolRegistry()

    @tools.tool
    async def pay() -> None: ...

    stores = [MAKE[kind](servers[kind].address()) for _ in range(2)]
    with anyio.fail_after(PATIENT):
        async with standard(tools, store=stores[0]) as pipeline, Switchboard(stores[1]) as board:
            assert is_success(await pipeline.call("pay", {}))
            await board.pause("pay", by="ann", why="it burns")
            while "pay" not in tools.closed:  # noqa: ASYNC110  # a store sends no event
                await anyio.sleep(0.01)
            assert (await pipeline.call("pay", {})).failure() == Unavailable("pay", "paused")
            assert (await board.resume("pay", by="ann")).standing == ()
            while tools.closed:  # noqa: ASYNC110  # as above
                await anyio.sleep(0.01)
            assert is_success(await pipeline.call("pay", {}))


@pytest.mark.parametrize("name", TRIALS)
async def test_cancelled_groups_over_a_server(servers: dict[Kind, Running], kind: Kind, name: str) -> None:
    """Whichever callers are cancelled, the others get their answers and nothing is lost."""
    async with MAKE[kind](servers[kind].address()) as store:
        async for key, _ in store.scan():
            await store.write(Change(key, None))
        await run_groups(name, store, range(GROUPS), 7, threads=True)


def test_four_processes_keep_a_limit(servers: dict[Kind, Running], kind: Kind) -> None:
    """Never more than the limit, and at least nine tenths of a rate are used."""
    check_rate(kind, servers[kind].address())
    check_units(kind, servers[kind].address())


def spec_of(running: Running) -> str:
    return f"{running.kind}:{running.address()}"


def test_no_effect_happens_twice_when_processes_are_killed(running: Running, tmp_path: Path) -> None:
    """50 kills, 8 calls at once; then all deliveries again, in another order, by another process."""
    kill_processes(spec_of(running), tmp_path, kills=50, workers=2)


def test_no_effect_happens_twice_when_the_server_is_killed(running: Running, tmp_path: Path) -> None:
    """20 kills of the server while a process works; then all deliveries again."""
    kill_server(spec_of(running), tmp_path, running.server, kills=20)


@pytest.mark.parametrize("where", ["sqlite", *KINDS])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_effect_happens_twice_when_workers_are_killed(
    servers: dict[Any, Running], tmp_path: Path, where: str
) -> None:
    """20 kills of the processes that run the bodies, 8 calls at once; then all deliveries again, in this process."""
    address = str(tmp_path / "ledger.db") if where == "sqlite" else servers[where].address()
    async with Process(2) as workers:
        tally = await kill_workers(lambda: MAKE[where](address), workers, tmp_path, kills=20)
    assert 0 < tally.unknown <= 40  # a lost call, and the equal one that was refused beside it


@pytest.mark.parametrize("workers", [2, 4])
def test_one_delivery_in_several_processes_at_once(running: Running, tmp_path: Path, workers: int) -> None:
    """1,000 deliveries, each to all processes at the same moment: one effect, and equal answers."""
    race(spec_of(running), tmp_path, workers=workers)


async def test_a_server_that_crashes(running: Running) -> None:
    """Calls fail within the time limit while it is away, and go on when it is back; each write is whole or missing."""
    async with MAKE[running.kind](running.address()) as store:
        confirmed = 0
        for _ in range(3):
            for _ in range(20):
                confirmed = await add_to_pair(store)
            with anyio.fail_after(PATIENT):
                async with anyio.create_task_group() as tasks:
                    failed: list[StoreError] = []

                    async def write(number: int, failed: list[StoreError] = failed) -> None:
                        while not failed:
                            try:
                                await store.write(Change(f"l{number}", b"1"), Change(f"r{number}", b"1"))
                            except StoreError as exc:
                                failed.append(exc)

                    for number in range(10):
                        tasks.start_soon(write, number)
                    await anyio.to_thread.run_sync(running.server.crash)
                with pytest.raises(StoreError) as caught:
                    await store.get("left")
                assert running.kind.title() in str(caught.value)
                assert not caught.value.maybe_written
                await anyio.to_thread.run_sync(running.server.start)
                while True:
                    try:
                        left, right = await store.get("left"), await store.get("right")
                        break
                    except StoreError:
                        await anyio.sleep(0.02)
            assert left == right
            assert left is not None
            assert int(left.value) == confirmed
            keys = [key async for key, _ in store.scan()]
            assert sorted(key[1:] for key in keys if key[0] == "l" and key != "left") == sorted(
                key[1:] for key in keys if key[0] == "r" and key != "right"
            )


async def test_a_connection_that_is_cut_while_a_write_is_answered(running: Running) -> None:
    """The write may have taken place, and says so; the next call connects anew."""
    with StallingRelay(running.server.port) as relay:
        async with MAKE[running.kind](running.address(relay.port)) as store:
            await store.write(Change("a", b"1"))
            relay.stall()
            with anyio.fail_after(PATIENT):
                async with anyio.create_task_group() as tasks:

                    async def write() -> None:
                        with pytest.raises(StoreError) as caught:
                            await store.write(Change("a", b"2"), Change("b", b"2"))
                        assert caught.value.maybe_written

                    tasks.start_soon(write)
                    await _until_written(running, "b")
                    relay.cut()
                relay.go_on()
                assert (found := await _get_patiently(store, "a")) is not None
                assert found.value == b"2"


async def _until_written(running: Running, key: str) -> None:
    async with MAKE[running.kind](running.address()) as store:
        while await store.get(key) is None:  # noqa: ASYNC110  # written by another client
            await anyio.sleep(0.01)


async def _get_patiently(store: Any, key: str) -> Any:
    while True:
        try:
            return await store.get(key)
        except StoreError:
            await anyio.sleep(0.02)


async def test_a_server_that_does_not_answer(running: Running) -> None:
    """A call ends at its time limit, the next ones at once; the store works again when answers come."""
    make: Any = Redis if running.kind == "redis" else Postgres
    with StallingRelay(running.server.port) as relay:
        async with make(running.address(relay.port), timeout=0.5) as store:
            await store.write(Change("a", b"1"))
            relay.stall()
            began = anyio.current_time()
            with pytest.raises(StoreError, match=r"did not answer within 0\.5 seconds|[Tt]ime"):
                await store.get("a")
            for _ in range(20):
                with pytest.raises(StoreError):
                    await store.write(Change("a", b"2"))
            assert anyio.current_time() - began < 5
            relay.go_on()
            relay.cut()
            with anyio.fail_after(PATIENT):
                assert await _get_patiently(store, "a") is not None


async def test_a_connection_that_was_closed_meanwhile(running: Running) -> None:
    """A server that was restarted between two calls costs neither of them."""
    async with MAKE[running.kind](running.address()) as store:
        version = await store.write(Change("a", b"1"))
        await anyio.to_thread.run_sync(running.server.crash)
        await anyio.to_thread.run_sync(running.server.start)
        await _until_written(running, "a")
        assert await store.get("a") == (b"1", version)


async def test_a_server_that_is_away_when_it_is_opened(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """The store opens, says so once in the log, and works as soon as the server is there."""
    await anyio.to_thread.run_sync(running.server.crash)
    async with MAKE[running.kind](running.address()) as store:
        with pytest.raises(StoreError):
            await store.get("a")
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        await anyio.to_thread.run_sync(running.server.start)
        with anyio.fail_after(PATIENT):
            assert await _get_patiently(store, "a") is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind == "redis"])
async def test_a_redis_that_is_full(kind: Kind) -> None:
    """A write that finds no memory changes nothing, and reads go on."""
    del kind
    with redis_server("--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as server:
        async with Redis(f"redis://127.0.0.1:{server.port}") as store:
            written = await _fill(store)
            assert written > 3


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind == "postgres"])
async def test_a_postgres_that_is_full(kind: Kind) -> None:
    """A write for which the server finds no disk changes nothing, and reads go on."""
    import psycopg

    with run(kind) as running:
        async with Postgres(running.address()) as store:
            await store.write(Change("l0", b"1"))
            # As a full disk is reported; the trigger refuses the second key of a pair.
            with psycopg.connect(running.address(), autocommit=True) as connection:
                connection.execute("""
                    create function refuse() returns trigger language plpgsql as
                    $$ begin if new.key = 'r40' then raise exception 'no space left' using errcode = '53100'; end if;
                    return new; end $$
                """)
                connection.execute("""
                    create trigger full_disk before insert on toolcall_store for each row execute function refuse()
                """)
            await store.write(Change("l0", None))
            assert await _fill(store) == 40


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind == "postgres"])
async def test_a_postgres_whose_old_keys_are_not_removed_in_time(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written stays written where another process holds the lock before keys without time are removed."""
    import psycopg

    with run(kind) as running, psycopg.connect(running.address(), autocommit=True) as other:
        async with Postgres(running.address(), timeout=1.0) as store:
            inside: Any = store
            remove = inside._remove_ended

            def remove_late(*given: Any) -> None:
                other.execute("select pg_advisory_lock(%s)", (inside._lock_id,))
                remove(*given)

            monkeypatch.setattr(store, "_remove_ended", remove_late)
            monkeypatch.setattr(store, "_writes", 1_000_000)
            version = await store.write(Change("a", b"1"))
            assert await store.get("a") == (b"1", version)


async def _fill(store: Any) -> int:
    written = 0
    while True:
        try:
            await store.write(Change(f"l{written}", b"x" * 100_000), Change(f"r{written}", b"x" * 100_000))
        except StoreError as exc:
            maybe_written = exc.maybe_written
            break
        written += 1
    assert not maybe_written
    keys = [key async for key, _ in store.scan()]
    assert sorted(keys) == sorted(f"{side}{n}" for n in range(written) for side in "lr")
    assert await store.get("l0") is not None
    return written


async def test_a_newer_schema_is_a_mistake_of_set_up(running: Running) -> None:
    """Opening a store of a newer version raises one SetupError that says what to do."""
    async with MAKE[running.kind](running.address()):
        pass
    if running.kind == "redis":
        import redis

        with redis.Redis(port=running.server.port) as client:
            client.set("toolcall:schema", "2")
    else:
        import psycopg

        with psycopg.connect(running.address(), autocommit=True) as connection:
            connection.execute("comment on table toolcall_store is 'toolcall-pipeline store, schema 2'")
    with pytest.raises(SetupError, match=r"schema .*2.* of a newer toolcall-pipeline.*upgrade it"):
        async with MAKE[running.kind](running.address()):
            raise AssertionError


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind == "postgres"])
async def test_a_table_or_a_login_that_is_no_store(kind: Kind) -> None:
    """A table of another program, an unknown database and a login that is refused are mistakes of set-up."""
    import psycopg

    with run(kind) as running:
        with psycopg.connect(running.address(), autocommit=True) as connection:
            connection.execute("create table toolcall_store (id int)")
        for dsn, text in (
            (running.address(), "is a table of another program"),
            (running.address().replace("/postgres", "/nowhere"), "does not exist"),
            (running.address().replace("tester@", "stranger:hunter2@"), "stranger"),
        ):
            with pytest.raises(SetupError, match=text) as caught:
                async with Postgres(dsn):
                    raise AssertionError
            assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind == "redis"])
async def test_a_password_that_is_refused(kind: Kind) -> None:
    """A login that Redis refuses is a mistake of set-up, and no text holds the password."""
    del kind
    with redis_server("--requirepass", "secret") as server:
        for url in (f"redis://:hunter2@127.0.0.1:{server.port}", f"redis://127.0.0.1:{server.port}"):
            with pytest.raises(SetupError) as caught:
                async with Redis(url):
                    raise AssertionError
            assert "hunter2" not in str(caught.value) + repr(Redis(url))
        async with Redis(f"redis://:secret@127.0.0.1:{server.port}") as store:
            assert await store.write(Change("a", b"1"))


OPTIONS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (Redis, {"url": "http://localhost"}),
    (Redis, {"url": 7}),
    (Redis, {"url": "redis://localhost", "prefix": None}),
    (Redis, {"url": "redis://localhost", "timeout": -1}),
    (Postgres, {"dsn": "hunter2=hunter2"}),
    (Postgres, {"dsn": None}),
    (Postgres, {"dsn": "dbname=a", "table": "a; drop table b"}),
    (Postgres, {"dsn": "dbname=a", "timeout": "1"}),
)


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_an_option_that_is_not_allowed_is_refused(kind: Any, options: dict[str, Any]) -> None:
    """A wrong option raises SetupError when the store is made, without what may be a password."""
    with pytest.raises(SetupError, match=f"{kind.__name__}: `") as caught:
        kind(**options)
    assert "hunter2=" not in str(caught.value)
