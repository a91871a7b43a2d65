"""Tools that end in every way that an alert asks about, called while a live Prometheus exporter listens."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio.from_thread import start_blocking_portal
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry, start_http_server

from global_meters import as_global_provider
from toolcall_pipeline import Pipeline, Tool, ToolRegistry, watch_store
from toolcall_pipeline.middlewares import Approve, Retry, Trace, standard
from toolcall_pipeline.stores import Change, SQLite, Store, StoreError
from toolcall_pipeline.testing import FakeClock

Exporter = tuple[str, Callable[[], Awaitable[None]]]  # the URL of its metrics, and a round of calls


class KeyRefused(Exception):
    status_code = HTTPStatus.UNAUTHORIZED


FAILURES: dict[str, type[Exception]] = {
    "lose": ConnectionResetError,
    "hang": TimeoutError,
    "crash": ZeroDivisionError,
    "search": KeyRefused,
}
CALLS: tuple[tuple[str, dict[str, object] | str], ...] = (  # a name, and its arguments
    ("look_up", {"limit": "3"}),
    ("look_up", {"limit": "many"}),
    ("look_up", '{"limit": '),
    ("closed", {}),
    ("no_such_tool", {}),
    ("pay", {}),
    *((name, {}) for name in FAILURES),
)


def make_pipeline(trace: Trace) -> Pipeline:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look_up(limit: int = 1) -> int:
        """Answer."""
        return limit

    @tools.tool(effect="read")
    async def closed() -> None:
        """Be switched off."""

    @tools.tool
    async def pay() -> None:
        """Lose the answer after the order went out."""
        raise ConnectionResetError

    def fails(name: str, exception: type[Exception]) -> None:
        async def fail() -> None:
            raise exception

        tools.register(Tool.from_schema(name=name, parameters=None, handler=fail, description=name, effect="read"))

    for name, exception in FAILURES.items():
        fails(name, exception)
    tools.disable("closed")
    return standard(tools).replace("trace", trace).replace("retry", Retry(sleep=FakeClock().sleep))


async def leave_waiting(store: Store) -> None:
    """Leave an approval and an undecided call in a store, both two hours old."""
    tools = ToolRegistry()

    @tools.tool
    async def pay() -> None:
        """Lose the answer after the order went out."""
        raise ConnectionResetError

    @tools.tool
    async def transfer() -> None:
        """Transfer money."""

    with FakeClock() as clock:
        clock.advance(-7200)
        approve = Approve(store, tools=["transfer"])
        async with standard(tools, store=store).before("ledger", approve) as pipeline:
            await pipeline.call("pay", {})
            await pipeline.call("transfer", {})


async def write_locked(path: Path) -> None:
    """Write to a file that another connection holds locked, so that there is no answer."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with SQLite(path, timeout=0.1) as store:
            with suppress(StoreError):
                await store.write(Change("a", b""))


@contextmanager
def live_exporter() -> Generator[Exporter]:
    """An exporter that listens, of a pipeline whose calls all lose their deferred spans, and of stores in trouble."""
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(registry=registry)
    meters, tracers = MeterProvider([reader], shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
    trace = Trace(tracer_provider=tracers, meter_provider=meters, defer=True, stage_durations=True)
    assert trace.deferred is not None
    trace.deferred.max_queue = 0
    pipeline = make_pipeline(trace)
    opened = ExitStack()
    folder = Path(opened.enter_context(TemporaryDirectory()))
    store = SQLite(folder / "waiting.db")

    async def call_all() -> None:
        for name, arguments in CALLS:
            await pipeline.call(name, arguments)
        await write_locked(folder / "locked.db")

    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        opened.enter_context(as_global_provider(meters))
        anyio.run(leave_waiting, store)
        portal = opened.enter_context(start_blocking_portal())
        opened.enter_context(portal.wrap_async_context_manager(watch_store(store)))
        yield f"127.0.0.1:{server.server_port}", call_all
    finally:
        opened.close()
        server.shutdown()
        thread.join()
        server.server_close()
        meters.shutdown()
        tracers.shutdown()
