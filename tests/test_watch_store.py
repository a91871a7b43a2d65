"""The metrics of what waits in a store for a person."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from global_meters import as_global_provider, read_points
from support import PATIENT
from toolcall_pipeline import Approvals, Pipeline, SetupError, ToolRegistry, watch_store
from toolcall_pipeline.middlewares import Approve, Ledger, standard
from toolcall_pipeline.stores import Entry, Memory, SQLite, Store, StoreError
from toolcall_pipeline.testing import FakeClock

PENDING, PENDING_AGE = "toolcall.approvals.pending", "toolcall.approvals.pending_age"
UNDECIDED, UNDECIDED_AGE = "toolcall.calls.undecided", "toolcall.calls.undecided_age"
METRICS = (PENDING, PENDING_AGE, UNDECIDED, UNDECIDED_AGE)
HOUR = 3600.0


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    """Reads what goes to the global meter provider."""
    found = InMemoryMetricReader()
    with as_global_provider(MeterProvider([found], shutdown_on_exit=False)):
        yield found


def show(reader: InMemoryMetricReader, *, store: str) -> dict[str, float]:
    """The values of the metrics of stores of a class."""
    return {name: value for name in METRICS for labels, value in read_points(reader, name) if labels == labeled(store)}


def labeled(store: str) -> dict[str, str]:
    return {"toolcall.store": store}


def make_pipeline(store: Store) -> Pipeline:
    """Payments whose answer is lost, and transfers that wait for a person."""
    tools = ToolRegistry()

    @tools.tool
    async def pay(amount: int) -> None:
        """Pay."""
        raise ConnectionResetError

    @tools.tool
    async def transfer(amount: int) -> None:
        """Transfer."""

    approve = Approve(store, tools=["transfer"], expires=100 * HOUR)
    return standard(tools, store=store).before("ledger", approve)


async def ask(store: Store, tool: str, amount: int) -> None:
    """Call a tool in a process of its own, as it were: the lease of one that stays would end with the hours."""
    async with make_pipeline(store) as pipeline:
        await pipeline.call(tool, {"amount": amount}, id=f"{tool}{amount}")


@pytest.mark.parametrize("kind", ["Memory", "SQLite"])
async def test_what_waits_is_counted_and_has_an_age(reader: InMemoryMetricReader, tmp_path: Path, kind: str) -> None:
    """Of the approvals that wait, and of the calls that may have taken effect, there are the number and the age."""
    store: Store = Memory() if kind == "Memory" else SQLite(tmp_path / "a.db")
    with FakeClock() as clock:
        await ask(store, "transfer", 1)
        clock.advance(HOUR)
        await ask(store, "pay", 1)
        await ask(store, "transfer", 2)
        clock.advance(HOUR)
        async with watch_store(store):
            found = show(reader, store=kind)
    assert (found[PENDING], found[UNDECIDED]) == (2, 1)
    assert found[PENDING_AGE] == pytest.approx(2 * HOUR)
    assert found[UNDECIDED_AGE] == pytest.approx(HOUR, rel=0.01)  # retries may have waited


async def test_where_nothing_waits_the_values_are_zero(reader: InMemoryMetricReader) -> None:
    """A store without records has zeros, so that a series is there; after the block there is none."""
    async with watch_store(Memory()):
        assert show(reader, store="Memory") == dict.fromkeys(METRICS, 0)
    assert show(reader, store="Memory") == {}


async def test_two_stores_of_a_class_are_one_series(reader: InMemoryMetricReader) -> None:
    """The counts are added, and the age is that of the oldest."""
    with FakeClock() as clock:
        stores = Memory(), Memory()
        for number, store in enumerate(stores):
            await ask(store, "transfer", number)
            clock.advance(HOUR)
        async with watch_store(stores[0], every=7 * HOUR), watch_store(stores[1], every=7 * HOUR):
            found = show(reader, store="Memory")
    assert found[PENDING] == 2
    assert found[PENDING_AGE] >= 2 * HOUR


class Looked(Memory):
    """A store that notes when a look begins, and gives no answer to some of them."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.clock: Any = None
        self.at: list[float] = []
        self.away: frozenset[int] = frozenset()
        self.looked: dict[int, anyio.Event] = {}

    async def scan(self, prefix: str = "", /) -> AsyncIterator[tuple[str, Entry]]:
        if prefix.startswith("i/"):  # the second half of a look
            number = len(self.at)
            self.at.append(self.clock())
            if number in self.looked:
                self.looked[number].set()
                await anyio.sleep_forever()
            if number in self.away:
                raise StoreError("away")
        async for each in super().scan(prefix):
            yield each


async def test_it_looks_once_in_each_period(reader: InMemoryMetricReader) -> None:
    """The first look is at the beginning of the block, and one follows in each period."""
    with FakeClock() as clock, anyio.fail_after(PATIENT):
        store = Looked()
        store.clock, store.looked = clock, {3: anyio.Event()}
        async with watch_store(store, every=30):
            await store.looked[3].wait()
    start = store.at[0]
    assert [at - start for at in store.at] == [0, 30, 60, 90]


async def test_a_store_without_an_answer_has_no_values(
    reader: InMemoryMetricReader, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing stale is shown; the log says once that the store is away, and the values come back with it."""
    with FakeClock() as clock, anyio.fail_after(PATIENT):
        store = Looked()
        store.clock, store.away, store.looked = clock, frozenset((1, 2)), {3: anyio.Event(), 5: anyio.Event()}
        async with watch_store(store):
            assert show(reader, store="Looked") == dict.fromkeys(METRICS, 0)
            await store.looked[3].wait()  # within the third look the result of the second one is shown
            assert show(reader, store="Looked") == {}
            clock.advance(31)  # its time is over
            await store.looked[5].wait()
            assert show(reader, store="Looked") == dict.fromkeys(METRICS, 0)
    assert len([each for each in caplog.messages if each.startswith("watch_store:")]) == 1


class Odd(Exception):
    pass


async def test_an_exception_of_the_block_comes_out_as_it_is(reader: InMemoryMetricReader) -> None:
    """What the block raises is raised, in no group, and the metrics end with it."""
    with pytest.raises(Odd):
        async with watch_store(Memory()):
            raise Odd
    assert show(reader, store="Memory") == {}


@pytest.mark.parametrize("every", [0, -1, float("nan"), "30", True])
async def test_a_period_that_is_none_is_refused(every: Any) -> None:
    """The period is a number of seconds above 0."""
    with pytest.raises(SetupError, match="every"):
        async with watch_store(Memory(), every=every):
            raise AssertionError


async def test_a_decision_ends_what_was_counted(reader: InMemoryMetricReader) -> None:
    """An approval that is decided and a call that is resolved are not counted."""
    store = Memory()
    await ask(store, "transfer", 1)
    await ask(store, "pay", 1)
    (waiting,) = await Approvals(store).pending()
    assert await Approvals(store).approve(waiting.id, by="boss")
    (lost,) = await Ledger(store).undecided()
    assert await Ledger(store).resolve(lost.id, landed=True)
    async with watch_store(store):
        assert show(reader, store="Memory") == dict.fromkeys(METRICS, 0)
