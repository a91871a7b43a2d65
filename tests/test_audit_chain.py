"""The chain of an audit's rows: its ends, its pages, its secret, and what its verdict says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import groupby, product
from operator import itemgetter
from typing import Any

import anyio
import pytest

from toolcall_pipeline import SetupError
from toolcall_pipeline.audit import AuditLog, Row
from toolcall_pipeline.stores import ANY, Change, Entry, Memory, Store, StoreError


async def read(store: Store, secret: bytes = b"") -> list[Row]:
    return [row async for row in AuditLog(store, secret).read()]


async def test_a_store_without_a_chain_has_no_rows() -> None:
    """A missing head is one fault, the number of rows is 0, and nothing is read; after the opening it is whole."""
    log = AuditLog(store := Memory())
    missing = "the head is missing: nobody has opened an audit here, or the head was removed"
    assert await log.verify() == (0, "", (missing,))
    assert await read(store) == []
    assert not await log.has_begun()
    await log.begin()
    assert await log.verify() == (0, "", ())
    assert await read(store) == []
    assert await log.has_begun()


@pytest.mark.parametrize("count", [19, 20, 21, 22, 25])
async def test_a_verdict_shows_twenty_faults(count: int) -> None:
    """All up to twenty; of more the first nineteen, and how many others there are."""
    store = Memory()
    await AuditLog(store).begin()
    for number in range(1, count + 1):
        await store.write(Change(f"audit/{number:015d}", b"[]"))
    faults = [f"row {number}: it is not a row that was written here" for number in range(1, count + 1)]
    faults += [f"row {number}: it was inserted after the head, which names 0 rows" for number in range(1, count + 1)]
    verdict = await AuditLog(store).verify()
    assert verdict.faults == (*faults[:19], f"… and {2 * count - 19} more")
    for number in range(10, count + 1):
        await store.write(Change(f"audit/{number:015d}", None))
    assert len((await AuditLog(store).verify()).faults) == 18


async def test_faults_along_the_chain_are_named_by_their_rows() -> None:
    """Each gap is a fault, with its first and last row, wherever it is; a row that follows a gap is no fault."""
    for kept in product((True, False), repeat=5):
        log = AuditLog(store := Memory())
        places = [await log.append({"n": number}) for number in range(5)]
        faults: list[str] = []
        for there, group in groupby(enumerate(kept, 1), itemgetter(1)):
            if there:
                continue
            gap = [number for number, _ in group]
            await store.write(*(Change(f"audit/{number:015d}", None) for number in gap))
            faults.append(f"rows {gap[0]} to {gap[-1]}: removed" if gap[1:] else f"row {gap[0]}: removed")
        assert await log.verify() == (5, places[-1], tuple(faults))


async def test_a_chain_begins_with_a_row_that_follows_no_other() -> None:
    """Without the rows before them others are no whole chain, though the head has their digest."""
    log: Any = AuditLog(store := Memory())
    await log.append({"n": 0})
    row = {"number": 1, "before": "the digest of another row", "n": 0}
    written = json.dumps(row, separators=(",", ":")).encode()
    head = json.dumps(log._seal(1, log._digest(written))).encode()
    await store.write(Change(f"audit/{1:015d}", written, ANY), Change("audit-head", head, ANY))
    assert (await log.verify()).faults == ("row 0: changed, or row 1 is not the one that followed it",)


class Listed(Memory):
    """A store that keeps what was listed of it."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def scan(self, prefix: str = "", /) -> AsyncIterator[tuple[str, Entry]]:
        self.listed.append(prefix)
        return super().scan(prefix)


async def test_rows_are_read_in_their_order_over_pages() -> None:
    """A thousand numbers are listed at a time, up to the head's: no row is left out, and none comes twice."""
    log = AuditLog(store := Listed())
    async with anyio.create_task_group() as tasks:
        for number in range(999):
            tasks.start_soon(log.append, {"n": number})
    pages = ["audit/000000000000"]
    for count in (999, 1_000, 1_001):
        store.listed.clear()
        assert [each["number"] for each in await read(store)] == list(range(1, count + 1))
        assert store.listed == pages
        await log.append({})
        pages = ["audit/000000000000", "audit/000000000001"]
    assert (await AuditLog(store).verify())[::2] == (1_002, ())


async def test_a_chain_takes_rows_of_its_secret_alone() -> None:
    """With another secret than the chain has a row is refused, and there are no changes for a write with others."""
    for secret, other, told in ((b"key", b"", "with"), (b"", b"key", "without")):
        store = Memory()
        assert list(await AuditLog(store, secret).changes_for({})) == []  # there is no chain to append to
        first = await AuditLog(store, secret).append({"n": 0})
        with pytest.raises(StoreError, match=f"is written {told} a secret"):
            await AuditLog(store, other).append({"n": 1})
        for wrong in (other, b"another key"):
            assert list(await AuditLog(store, wrong).changes_for({"n": 1})) == []
        assert await store.write(*await AuditLog(store, secret).changes_for({"n": 1})) is not None
        assert [row["n"] for row in await read(store, secret)] == [0, 1]
        assert (await AuditLog(store, secret).verify(first))[::2] == (2, ())


class Refusing(Memory):
    """A store that counts the writes that it refuses."""

    refused = 0

    async def write(self, *changes: Change) -> int | None:
        version = await super().write(*changes)
        self.refused += version is None
        return version


async def test_a_row_under_the_next_number_ends_the_attempts() -> None:
    """A row that the head does not name stands in the way of the next one: after 51 attempts that is an error."""
    log = AuditLog(store := Refusing())
    await log.append({"n": 0})
    await store.write(Change(f"audit/{2:015d}", b"{}"))
    for _ in range(2):
        store.refused = 0
        with pytest.raises(StoreError, match="do not follow on its head"):
            await log.append({"n": 1})
        assert store.refused == 51
    await store.write(Change(f"audit/{2:015d}", None))
    await log.append({"n": 2})
    assert [row["n"] for row in await read(store)] == [0, 2]


@pytest.mark.parametrize("expect", ["0:", "x:y", "-1:y", "1:y", "²:y", "2:", ":"])
async def test_an_expected_digest_that_no_row_has(expect: str) -> None:
    """Whatever stands in place of a number or of its digest, the chain does not hold it, and says so."""
    log = AuditLog(Memory())
    await log.append({"n": 0})
    (fault,) = (await log.verify(expect)).faults
    assert (
        fault == f"row {expect.partition(':')[0]}: the chain does not hold the expected digest {expect[-1:].strip(':')}"
    )


@pytest.mark.parametrize("options", [{"store": Memory}, {"store": 5}, {"secret": "text"}, {"secret": b"x" * 65}])
def test_a_log_needs_a_store_and_a_short_secret(options: dict[str, Any]) -> None:
    """A class in place of a store, and a secret that is longer than a key of BLAKE2b, are mistakes of set-up."""
    given: dict[str, Any] = {"store": Memory(), "secret": b"x" * 64}
    AuditLog(**given)
    with pytest.raises(SetupError):
        AuditLog(**{**given, **options})
