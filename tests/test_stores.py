"""The stores: what holds for each of them, and a check that finds what does not hold."""

from __future__ import annotations

from typing import Any

import pytest

from toolcall_pipeline import SetupError
from toolcall_pipeline.stores import ANY, Change, Entry, Memory, StoreError
from toolcall_pipeline.testing import FakeClock, check_store


def test_memory_keeps_the_rules() -> None:
    """The store in memory keeps each rule, on each event loop."""
    check_store(Memory())


class WithoutComparing(Memory):
    async def write(self, *changes: Change) -> int | None:
        return await super().write(*(each._replace(expect=ANY) for each in changes))


class OneAfterTheOther(Memory):
    async def write(self, *changes: Change) -> int | None:
        version = None
        for each in changes:
            version = await super().write(each)
            if version is None:
                return None
        return version


class WithoutExpiry(Memory):
    async def write(self, *changes: Change) -> int | None:
        return await super().write(*(each._replace(ttl=None) for each in changes))


class Counting(Memory):
    counted = 0

    async def write(self, *changes: Change) -> int | None:
        return await super().write(*changes) and 1

    async def get(self, key: str, /) -> Entry | None:
        found = await super().get(key)
        return None if found is None else Entry(found.value, 1)


class Failing(Memory):
    async def get(self, key: str, /) -> Entry | None:
        raise StoreError("away")


BROKEN = {
    WithoutComparing: "expect=None replaces a key that is there",
    OneAfterTheOther: "do not have its version alike",
    WithoutExpiry: "a key whose time is over",
    Counting: "an equal value gives no version of its own",
    Failing: "it raises StoreError(away) though nothing is wrong",
}


@pytest.mark.parametrize(("kind", "text"), BROKEN.items())
def test_a_store_that_breaks_a_rule_is_found(kind: type[Memory], text: str) -> None:
    """The check names the store, the loop and the rule."""
    with pytest.raises(AssertionError) as caught:
        check_store(kind(), loops=("asyncio",))
    assert str(caught.value).startswith(f"{kind.__name__}, on asyncio: ")
    assert text in str(caught.value)


unchecked: Any = Change  # as a stage without types may call it
WRONG: tuple[tuple[Change, ...], ...] = (
    (),
    (Change("a", b""), Change("a", None)),
    (unchecked("a", "text"),),
    (unchecked(b"a", b""),),
    (Change("a", b"", True),),
    (unchecked("a", b"", "1"),),
    (Change("a", b"", ANY, 0),),
    (Change("a", b"", ANY, -1.0),),
    (Change("a", b"", ANY, float("nan")),),
    (Change("a", b"", ANY, float("inf")),),
)


@pytest.mark.parametrize("changes", WRONG)
async def test_a_write_that_no_store_could_make_is_refused(changes: tuple[Change, ...]) -> None:
    """It is a mistake of the stage that writes, and changes nothing."""
    store = Memory()
    with pytest.raises(SetupError):
        await store.write(*changes)
    assert [key async for key, _ in store.scan()] == []


async def test_memory_forgets_keys_whose_time_is_over() -> None:
    """Keys whose time is over are removed when the number of keys has doubled, so that it stays bounded."""
    with FakeClock() as clock:
        store = Memory()
        for number in range(10_000):
            await store.write(Change(f"k{number}", b"", ANY, 1.0))
            clock.advance(0.01)
        assert int(repr(store).removeprefix("Memory(").split()[0]) < 1_200
