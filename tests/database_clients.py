"""Real clients of databases, gRPC and AWS: refused, closed in the middle of a query, hung, and what else they raise.

``make test-clients`` runs this, in an environment of its own and with servers of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent import futures
from importlib import import_module
from threading import Thread
from typing import Any

import pytest

from client_names import find_missing
from database_servers import find_program, postgres, redis, silent
from faulty_server import CLOSED, FAULTS, FaultyServer
from support import a_tool
from toolcall_pipeline import Call, Effect, ToolRegistry
from toolcall_pipeline.middlewares import Retry, standard
from toolcall_pipeline.tools import is_async

CLIENTS = (
    "asyncpg",
    "psycopg",
    "psycopg2",
    "psycopg_pool",
    "pymysql",
    "redis",
    "pymongo",
    "sqlalchemy",
    "botocore",
    "grpc",
)
SLEEP = "select pg_sleep(60)"


def require(package: str, program: str) -> None:
    """Leave out a test whose server is not on this machine."""
    if find_program(program) is None:
        pytest.skip(f"apt-get install {package}")


@pytest.fixture(scope="module")
def database() -> Iterator[int]:
    require("postgresql", "initdb")
    with postgres() as port:
        yield port


@pytest.fixture(scope="module")
def store() -> Iterator[int]:
    require("redis-server", "redis-server")
    with redis() as port:
        yield port


@pytest.fixture(scope="module")
def hung() -> Iterator[int]:
    with silent() as port:
        yield port


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # that of asyncpg


@pytest.mark.parametrize("package", CLIENTS)
def test_each_name_of_the_table_exists(package: str) -> None:
    """Each class that the table names is in the installed package."""
    assert find_missing(package) == set()


async def kinds_of(body: Callable[[], Any]) -> tuple[str, int, str, int]:
    """Kind and attempts of a read, then of a mutating tool. The waits between attempts are left out."""
    found: list[Any] = []

    async def no_wait(_seconds: float) -> None:
        pass

    async def in_loop(**_: object) -> None:
        await body()

    def in_thread(**_: object) -> None:
        body()

    effects: tuple[Effect, ...] = ("read", "mutating")
    for effect in effects:
        tools = ToolRegistry()
        tools.register(a_tool(fn=in_loop if is_async(body) else in_thread, effect=effect))
        report = await standard(tools).replace("retry", Retry(2, sleep=no_wait)).report(Call("probe", {}))
        assert report.outcome is not None
        found += [report.outcome.failure().kind, len(report.attempts)]
    return tuple(found)


PASSING = ("transient", 2, "outcome_unknown", 1)
LATE = ("timeout", 2, "outcome_unknown", 1)
BUG = ("internal", 1, "internal", 1)
SETUP = ("configuration", 1, "configuration", 1)
REFUSED = ("permission", 1, "permission", 1)


def by_asyncpg(port: int, query: str, name: str = "postgres", timeout: int = 60) -> Callable[[], Any]:
    async def run() -> None:
        client = await import_module("asyncpg").connect(
            host="127.0.0.1", port=port, user="tester", database=name, timeout=timeout
        )
        try:
            for each in query.split(";"):
                await client.execute(each)
        finally:
            client.terminate()

    return run


def by_psycopg(port: int, query: str, name: str = "postgres", timeout: int = 60) -> Callable[[], Any]:
    def run() -> None:
        address = f"host=127.0.0.1 port={port} user=tester dbname={name} connect_timeout={timeout}"
        with import_module("psycopg").connect(address, autocommit=True) as client:
            for each in query.split(";"):
                client.execute(each)

    return run


def by_psycopg2(port: int, query: str, name: str = "postgres", timeout: int = 60) -> Callable[[], Any]:
    def run() -> None:
        address = f"host=127.0.0.1 port={port} user=tester dbname={name} connect_timeout={timeout}"
        client = import_module("psycopg2").connect(address)
        try:
            client.cursor().execute(query)
        finally:
            client.close()

    return run


def by_sqlalchemy(port: int, query: str, name: str = "postgres", timeout: int = 60) -> Callable[[], Any]:
    def run() -> None:
        alchemy = import_module("sqlalchemy")
        address = f"postgresql+psycopg://tester@127.0.0.1:{port}/{name}?connect_timeout={timeout}"
        engine = alchemy.create_engine(address)
        try:
            with engine.connect() as client:
                for each in query.split(";"):
                    client.execute(alchemy.text(each))
        finally:
            engine.dispose()

    return run


def by_async_sqlalchemy(port: int, query: str, name: str = "postgres", timeout: int = 60) -> Callable[[], Any]:
    async def run() -> None:
        engine = import_module("sqlalchemy.ext.asyncio").create_async_engine(
            f"postgresql+asyncpg://tester@127.0.0.1:{port}/{name}", connect_args={"timeout": timeout}
        )
        try:
            async with engine.connect() as client:
                for each in query.split(";"):
                    await client.execute(import_module("sqlalchemy").text(each))
        finally:
            await engine.dispose()

    return run


POSTGRES: dict[str, Callable[..., Callable[[], Any]]] = {
    "asyncpg": by_asyncpg,
    "psycopg": by_psycopg,
    "psycopg2": by_psycopg2,
    "sqlalchemy": by_sqlalchemy,
    "sqlalchemy with asyncpg": by_async_sqlalchemy,
}
every_client = pytest.mark.parametrize("client", POSTGRES)


@every_client
async def test_postgres_is_refused(client: str) -> None:
    """Nobody listens: the service may be back soon."""
    assert await kinds_of(POSTGRES[client](CLOSED, "select 1")) == PASSING


@every_client
async def test_postgres_hangs_while_connecting(client: str, hung: int) -> None:
    """The server takes the connection and says nothing, until the client's own limit."""
    assert await kinds_of(POSTGRES[client](hung, "select 1", timeout=1)) == LATE


@every_client
async def test_postgres_hangs_in_a_query(client: str, database: int) -> None:
    """The query takes longer than the server allows."""
    assert await kinds_of(POSTGRES[client](database, f"set statement_timeout = 50;{SLEEP}")) == LATE


@every_client
async def test_postgres_closes_in_the_middle_of_a_query(client: str, database: int) -> None:
    """The server ends the connection while a query runs."""
    done = False

    def end_each_query() -> None:
        with import_module("psycopg").connect(
            f"host=127.0.0.1 port={database} user=tester dbname=postgres", autocommit=True
        ) as admin:
            while not done:
                admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where pid <> pg_backend_pid() and wait_event = 'PgSleep'"
                )
                time.sleep(0.01)

    killer = Thread(target=end_each_query, daemon=True)
    killer.start()
    try:
        assert await kinds_of(POSTGRES[client](database, SLEEP)) == PASSING
    finally:
        done = True
        killer.join()


OTHER = {
    "no such table": ("select * from nothing", "postgres", BUG),
    "a unique key": (
        "create temp table t (a int unique); insert into t values (1); insert into t values (1)",
        "postgres",
        BUG,
    ),
    "no such database": ("select 1", "nothing", SETUP),
    "no right": ("create temp table t (a int); set role pg_monitor; select * from t", "postgres", REFUSED),
}


@pytest.mark.parametrize(("query", "name", "expected"), OTHER.values(), ids=OTHER)
@every_client
async def test_what_else_postgres_says(client: str, database: int, query: str, name: str, expected: Any) -> None:
    """A mistake in a query is a bug of the tool, a missing database one of the operator."""
    assert await kinds_of(POSTGRES[client](database, query, name)) == expected


async def test_a_pool_of_sqlalchemy_is_empty(database: int) -> None:
    """No connection of the pool becomes free in time."""
    alchemy = import_module("sqlalchemy")
    address = f"postgresql+psycopg://tester@127.0.0.1:{database}/postgres"
    engine = alchemy.create_engine(address, pool_size=1, max_overflow=0, pool_timeout=0.05)
    with engine.connect():
        assert await kinds_of(engine.connect) == LATE
    engine.dispose()


async def test_a_connection_was_closed_between_two_queries(database: int) -> None:
    """A connection of a pool that the server has closed in the meantime is a disconnect for SQLAlchemy."""
    alchemy = import_module("sqlalchemy")
    engine = alchemy.create_engine(f"postgresql+psycopg://tester@127.0.0.1:{database}/postgres")

    def query() -> None:
        with engine.connect() as one:
            pid = one.execute(alchemy.text("select pg_backend_pid()")).scalar()
            with engine.connect() as other:
                other.execute(alchemy.text(f"select pg_terminate_backend({pid})"))
            one.execute(alchemy.text("select 1"))

    assert await kinds_of(query) == PASSING
    engine.dispose()


def by_redis(port: int, *command: Any, **options: Any) -> Callable[[], Any]:
    def run() -> None:
        no_retry = import_module("redis.retry").Retry(import_module("redis.backoff").NoBackoff(), 0)
        with import_module("redis").Redis("127.0.0.1", port, retry=no_retry, **options) as client:
            client.execute_command(*command)

    return run


def by_async_redis(port: int, *command: Any, **options: Any) -> Callable[[], Any]:
    async def run() -> None:
        no_retry = import_module("redis.asyncio.retry").Retry(import_module("redis.backoff").NoBackoff(), 0)
        client = import_module("redis.asyncio").Redis(host="127.0.0.1", port=port, retry=no_retry, **options)
        try:
            await client.execute_command(*command)
        finally:
            await client.aclose()

    return run


@pytest.mark.parametrize("client", [by_redis, by_async_redis])
async def test_redis(client: Any, store: int, hung: int) -> None:
    """Redis refused, hung, closed in the middle of a command, and asked for what is wrong."""
    assert await kinds_of(client(CLOSED, "PING")) == PASSING
    assert await kinds_of(client(hung, "PING", socket_timeout=0.1)) == LATE
    assert await kinds_of(client(store, "BLPOP", "nothing", "60", socket_timeout=0.1)) == LATE
    assert await kinds_of(client(store, "PING", username="nobody", password="wrong")) == SETUP
    assert await kinds_of(client(store, "NONSENSE")) == BUG
    admin, done = import_module("redis").Redis("127.0.0.1", store), False

    def end_each_command() -> None:
        while not done:
            for each in admin.client_list():
                if each["cmd"] == "blpop":
                    admin.client_kill_filter(_id=each["id"])
            time.sleep(0.01)

    killer = Thread(target=end_each_command, daemon=True)
    killer.start()
    try:
        assert await kinds_of(client(store, "BLPOP", "nothing", "60")) == PASSING
    finally:
        done = True
        killer.join()
        admin.close()


async def test_mongo_is_refused() -> None:
    """A server that cannot be found in time."""

    def run() -> None:
        with import_module("pymongo").MongoClient("127.0.0.1", CLOSED, serverSelectionTimeoutMS=50) as client:
            client.admin.command("ping")

    assert await kinds_of(run) in (PASSING, LATE)


@pytest.mark.parametrize("fault", FAULTS)
async def test_botocore(fault: str) -> None:
    """A client of AWS that does not repeat by itself meets each fault as the HTTP clients do."""
    config = import_module("botocore.config").Config(
        retries={"total_max_attempts": 1},
        read_timeout=0.2 if fault in ("hang", "stalled") else 30,
        s3={"addressing_style": "path"},
    )
    with FaultyServer() as server:
        address, _, bucket = server.url(fault, "run")[:-4].rpartition("/")

        def run() -> None:
            session = import_module("botocore.session").get_session()
            session.set_credentials("key", "secret")
            client = session.create_client("s3", "eu-west-1", endpoint_url=address, config=config)
            client.get_object(Bucket=bucket, Key="run")["Body"].read()

        single = {"401": SETUP, "403": REFUSED, "404": "not_found", "410": "not_found", "418": "execution"}
        known = single.get(fault, LATE if fault in ("hang", "stalled") else PASSING)
        expected = (known, 1, known, 1) if isinstance(known, str) else known
        found = await kinds_of(run)
        assert found == expected if fault != "429 at a date" else found[2:] == PASSING[2:]


GRPC = {
    "UNAVAILABLE": PASSING,
    "RESOURCE_EXHAUSTED": PASSING,
    "ABORTED": PASSING,
    "DEADLINE_EXCEEDED": LATE,
    "UNAUTHENTICATED": SETUP,
    "PERMISSION_DENIED": REFUSED,
    "NOT_FOUND": ("not_found", 1, "not_found", 1),
    "INVALID_ARGUMENT": ("execution", 1, "execution", 1),
}


@pytest.fixture(scope="module")
def grpc_port() -> Iterator[int]:
    grpc = import_module("grpc")

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc, name-defined, unused-ignore]
        def service(self, details: Any) -> Any:
            code = details.method.rpartition("/")[2]

            def answer(_request: bytes, context: Any) -> bytes:
                if code == "HANG":
                    time.sleep(0.5)
                    return b""
                context.abort(grpc.StatusCode[code], "hunter2")
                return b""

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(0).wait()


@pytest.mark.parametrize("code", [*GRPC, "HANG", "REFUSED"])
@pytest.mark.parametrize("in_loop", [False, True])
async def test_grpc(grpc_port: int, code: str, in_loop: bool) -> None:
    """A call of gRPC has the kind of its status code."""
    grpc = import_module("grpc")
    port = CLOSED if code == "REFUSED" else grpc_port
    limit = 0.2 if code == "HANG" else 30

    def in_thread() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            channel.unary_unary(f"/test/{code}")(b"", timeout=limit)

    async def by_aio() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.unary_unary(f"/test/{code}")(b"", timeout=limit)

    expected = {**GRPC, "HANG": LATE, "REFUSED": PASSING}[code]
    assert await kinds_of(by_aio if in_loop else in_thread) == expected
