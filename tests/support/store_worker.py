"""What processes do with a store that they share: ``python store_worker.py KIND ADDRESS PROGRAM [NUMBER]``."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

from toolcall_pipeline.stores import Change, Postgres, Redis, SQLite, Store, StoreError

_PATIENCE = 30.0  # seconds: SQLite gives the lock to whoever asks at the right moment, so one of many may wait long
MAKE: dict[str, Callable[[str], Store]] = {
    "sqlite": lambda path: SQLite(path, timeout=_PATIENCE),
    "sqlite-full": lambda path: SQLite(path, survives_power_cut=True, timeout=_PATIENCE),
    "redis": Redis,
    "postgres": Postgres,
}


def _say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def add_to_pair(store: Store, times: int = 1) -> int:
    """Add 1 to two keys at once, so many times; their last value."""
    value = 0
    for _ in range(times):
        while True:
            left, right = await store.get("left"), await store.get("right")
            version = None if left is None else left.version
            value = 1 if left is None else int(left.value) + 1
            if left != right:
                continue  # another process wrote between the two reads
            changes = (Change(key, b"%d" % value, version) for key in ("left", "right"))
            if await store.write(*changes) is not None:
                break
    return value


async def add_forever(store: Store, _: int) -> None:
    """Print each value that is confirmed, until it is killed."""
    while True:
        _say(await add_to_pair(store))


async def fill(store: Store, limit: int) -> None:
    """Write pairs until files may not grow further; then read, delete, and write again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    written = 0
    while True:
        try:
            await store.write(Change(f"l{written}", b"x" * 5_000), Change(f"r{written}", b"x" * 5_000))
        except StoreError as exc:
            _say(written, exc.maybe_written)
            break
        written += 1
    halves = (
        sorted([key[1:] async for key, _ in store.scan("l")]),
        sorted([key[1:] async for key, _ in store.scan("r")]),
    )
    _say(halves[0] == halves[1], len(halves[0]))


PROGRAMS: dict[str, Callable[[Store, int], Coroutine[Any, Any, object]]] = {
    "add": add_to_pair,
    "forever": add_forever,
    "fill": fill,
}


async def main() -> None:
    """Run one program on one store."""
    kind, address, program, *number = sys.argv[1:]
    async with MAKE[kind](address) as store:
        await PROGRAMS[program](store, *(int(each) for each in number or ["0"]))


if __name__ == "__main__":
    anyio.run(main)
