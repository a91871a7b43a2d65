"""The metric of how long the operations of a store take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.metrics import MeterProvider as AnyProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from global_meters import as_global_provider, read_points
from toolcall_pipeline.base.semconv import STORE_METRIC
from toolcall_pipeline.stores import Change, Memory, SQLite, Store, StoreError, batched
from toolcall_pipeline.stores.batched import BatchedStore, Get, Job

ADVISED = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)  # seconds, by the conventions for clients of databases


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    """Reads what goes to the global meter provider."""
    found = InMemoryMetricReader()
    with as_global_provider(MeterProvider([found], shutdown_on_exit=False)):
        yield found


class Clock:
    """Stands in for `monotonic` of batched stores."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Paced(BatchedStore[object]):
    """A store whose every step takes some seconds of a clock, or fails."""

    def __init__(self, clock: Clock, *, seconds: float = 0.0, fails: bool = False, timeout: float = 30.0) -> None:
        super().__init__("paced", timeout)
        self.clock, self.seconds, self.fails = clock, seconds, fails

    def _connect(self) -> object:
        return object()

    def _run(self, connection: object, jobs: Sequence[Job]) -> None:
        if jobs:
            self.clock.now += self.seconds
            if self.fails:
                raise OSError
        for job in jobs:
            if isinstance(job, Get):
                job.answer = [None for _ in job.keys]

    def _disconnect(self, connection: object) -> None: ...


async def use(store: Store) -> None:
    """One write, one read, and one look at all keys."""
    await store.write(Change("a", b""))
    await store.get("a")
    assert [key async for key, _ in store.scan()] == ["a"]


async def test_each_operation_is_one_point(reader: InMemoryMetricReader, tmp_path: Path) -> None:
    """An operation is a point with the class of the store and its name, in the buckets that the conventions advise."""
    async with SQLite(tmp_path / "a.db") as store:
        await use(store)
    found = {labels["toolcall.store.operation"]: (labels, point) for labels, point in read_points(reader, STORE_METRIC)}
    assert sorted(found) == ["get", "scan", "write"]
    for name, (labels, point) in found.items():
        assert labels == {"toolcall.store": "SQLite", "toolcall.store.operation": name}
        assert (point.count, point.explicit_bounds) == (1, ADVISED)


async def test_the_duration_is_what_the_caller_waited(
    reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value is in seconds, from the request to the answer."""
    clock = Clock()
    monkeypatch.setattr(batched, "monotonic", clock)
    async with Paced(clock, seconds=0.75) as store:
        await store.get("a")
    ((_, point),) = read_points(reader, STORE_METRIC)
    assert point.sum == 0.75


async def fail(clock: Clock) -> None:
    async with Paced(clock, fails=True) as store:
        with pytest.raises(StoreError):
            await store.get("a")


async def refuse(clock: Clock) -> None:
    async with Paced(clock, fails=True, seconds=1.0) as store:
        for _ in range(2):  # the second one is refused at once
            with pytest.raises(StoreError):
                await store.get("a")


class Stuck(Paced):
    """A store that answers nothing before its caller has given up."""

    def __init__(self, clock: Clock, *, timeout: float) -> None:
        super().__init__(clock, timeout=timeout)
        self.begun, self.let_go = anyio.Event(), False

    def _submit(self, job: Job) -> Any:
        if job.operation:
            self.begun.set()
            job = type(job)(job.loop, job.loop.make_signal())  # another one is answered in its place
        return super()._submit(job)


async def time_out(clock: Clock) -> None:
    async with Stuck(clock, timeout=0.01) as store:
        with pytest.raises(StoreError, match="did not answer"):
            await store.get("a")


async def cancel(clock: Clock) -> None:
    async with Stuck(clock, timeout=30.0) as store, anyio.create_task_group() as tasks:
        tasks.start_soon(store.get, "a")
        await store.begun.wait()
        tasks.cancel_scope.cancel()


ENDS = {
    "unavailable": (fail, 1),
    "unavailable, refused while away": (refuse, 2),
    "timeout": (time_out, 1),
    "cancelled": (cancel, 1),
}


@pytest.mark.parametrize("end", ENDS)
async def test_what_fails_is_a_point_with_its_kind(
    reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """No answer in time is `timeout`, no store `unavailable`, and a caller who left `cancelled`."""
    clock, (run, count) = Clock(), ENDS[end]
    monkeypatch.setattr(batched, "monotonic", clock)
    await run(clock)
    ((labels, point),) = read_points(reader, STORE_METRIC)
    assert (labels["error.type"], point.count) == (end.partition(",")[0], count)


async def test_a_store_in_memory_is_not_measured(reader: InMemoryMetricReader) -> None:
    """A store in memory waits for nothing, so it has no points."""
    await use(Memory())
    assert read_points(reader, STORE_METRIC) == []


class Broken(MeterProvider):
    def get_meter(self, *args: object, **options: object) -> Any:
        raise RuntimeError("broken")


async def test_a_provider_that_raises_disturbs_no_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a meter provider raises is logged, and the operation has its answer."""
    provider: AnyProvider = Broken(shutdown_on_exit=False)
    with as_global_provider(provider):
        async with SQLite(tmp_path / "a.db") as store:
            await use(store)
    assert "The duration of a store could not be measured" in caplog.messages


def test_a_provider_that_is_set_later_gets_the_points(tmp_path: Path) -> None:
    """The API itself leads the instrument to a provider that is set after the store was used."""
    script = f"""
import anyio
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from toolcall_pipeline.stores import SQLite
reader = InMemoryMetricReader()
async def main():
    async with SQLite({str(tmp_path / "a.db")!r}) as store:
        await store.get("a")
        metrics.set_meter_provider(MeterProvider([reader]))
        await store.get("a")
anyio.run(main)
(metric,) = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
print(metric.name, [point.count for point in metric.data.data_points])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == f"{STORE_METRIC} [1]"
