"""check_store: checks that a store of one's own does what ledgers and shared limits rely on."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import attrs

from ..base import timing
from ..base.setup_error import SetupError
from ..stores import ANY, Change, Entry, Store, StoreError
from ..stores.store import Expected
from .probes import LOOPS, PATIENCE, WHEN_CANCELLED, Breaks, on_each_loop

_TTL = 0.15  # seconds; Redis counts milliseconds
_PAST_IT = 0.25
_MANY = 1_100  # keys: more than a page of ours
_TASKS, _STEPS = 8, 25
_VALUES = (b"", b"\x00\xff\n", b"x" * 100_000)
_ODD_KEYS = ("", "\x00", "%", "_", "*", "?", "[a", "\\", "'", '"', "{a}", "é", "\U0010ffff", "\ud800", " ", "k" * 500)


def check_store(store: Store, *, loops: Sequence[str] = LOOPS) -> None:
    """Check a store of one's own against the rules for stores.

    It is opened, checked and closed on each event loop, and keeps nothing of the check: each key begins with a text of
    its own, and is deleted at the end.

    - ``get`` returns the bytes that were written, under any key, and None for a key that is not there.
    - ``write`` compares versions, makes all changes or none, and gives each write a version that no key had before.
    - A key whose time is over is not there, for ``get``, ``scan`` and ``expect=None`` alike.
    - ``scan`` takes its text literally, and finds each key once, also of thousands.
    - Of writes at once that expect one version, one comes through.
    - It lets cancellation pass, works afterwards, and works again when it was closed and opened.
    - It starts no span, does not hold up the loop with `time.sleep`, and leaves no task running.

    A lost connection, a full disk and several processes are for tests of your own: they raise `StoreError`, and nothing
    is written in part.

    Args:
        store: The store. Other keys in it are left alone.
        loops: The event loops, those that are installed. Default ``("asyncio", "trio")``; ``("asyncio",)`` for a store
            that works on that one only.

    Raises:
        AssertionError: A rule is broken; the text names the store, the loop and the rule.
    """
    who = type(store).__name__

    async def check(breaks: Breaks) -> None:
        keys = _Keys(store, breaks, f"check/{secrets.token_hex(4)}/")
        with anyio.move_on_after(6 * PATIENCE) as limit:
            async with store:
                try:
                    for rule in _RULES:
                        await rule(keys)
                except StoreError as exc:
                    breaks.rule(f"it raises StoreError({exc}) though nothing is wrong")
                finally:
                    with anyio.CancelScope(shield=True):
                        await keys.delete_all()
            async with store:
                await keys.put("again", b"1")
                keys.must(await keys.get("again") is not None, "opened again, it does not keep what is written")
                await keys.delete_all()
        if limit.cancelled_caught:
            breaks.rule(f"it does not answer within {6 * PATIENCE:g} seconds")

    on_each_loop(who, loops, check)


@attrs.frozen
class _Keys:
    """The keys of one check, each with its prefix."""

    store: Store
    breaks: Breaks
    prefix: str

    async def get(self, key: str) -> Entry | None:
        return await self.store.get(self.prefix + key)

    async def write(self, *changes: Change) -> int | None:
        return await self.store.write(*(each._replace(key=self.prefix + each.key) for each in changes))

    async def put(self, key: str, value: bytes | None, expect: Expected = ANY, ttl: float | None = None) -> int | None:
        return await self.write(Change(key, value, expect, ttl))

    async def scan(self, prefix: str = "") -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        async for key, entry in self.store.scan(self.prefix + prefix):
            self.must(key.startswith(self.prefix + prefix), f"scan() finds {key!r}, which does not begin so")
            self.must(key[len(self.prefix) :] not in found, "scan() finds a key twice")
            found[key[len(self.prefix) :]] = entry
        return found

    async def delete_all(self) -> None:
        for key in await self.scan():
            await self.put(key, None)

    def must(self, holds: bool, rule: str) -> None:  # noqa: FBT001  # as assert
        if not holds:
            self.breaks.rule(rule)


async def _check_values(keys: _Keys) -> None:
    keys.must(await keys.get("a") is None, "get() of a key that is not there does not return None")
    for value in _VALUES:
        version = await keys.put("a", value)
        keys.must(type(version) is int, f"write() returns a {type(version).__name__}, and a version is an int")
        keys.must(
            await keys.get("a") == (value, version), f"get() does not return the {len(value)} bytes and the version"
        )
    for key in _ODD_KEYS:
        await keys.put(key, key.encode(errors="surrogatepass"))
    for key in _ODD_KEYS:
        found = await keys.get(key)
        keys.must(
            found is not None and found.value == key.encode(errors="surrogatepass"),
            f"it does not keep the key {key[:20]!r} apart from others",
        )
    await keys.delete_all()


async def _check_versions(keys: _Keys) -> None:
    first = await keys.put("v", b"1", None)
    keys.must(first is not None, "write() with expect=None refuses a key that is not there")
    keys.must(await keys.put("v", b"2", None) is None, "write() with expect=None replaces a key that is there")
    keys.must(await keys.put("v", b"2", (first or 0) + 1) is None, "write() takes a version that the key does not have")
    keys.must(await keys.get("v") == (b"1", first), "a write that returned None changed something")
    second = await keys.put("v", b"1", first)
    keys.must(second not in (None, first), "write() of an equal value gives no version of its own")
    keys.must(await keys.put("v", b"3", first) is None, "write() takes an earlier version of the key")
    keys.must(await keys.put("v", None, first) is None, "a deletion takes an earlier version of the key")
    keys.must(await keys.put("v", None, second) is not None, "a deletion refuses the version that the key has")
    keys.must(await keys.get("v") is None, "a deleted key is there")
    keys.must(await keys.put("v", b"4", second) is None, "write() takes the version of a deleted key")
    keys.must(
        await keys.put("v", None, None) is not None, "a deletion with expect=None refuses a key that is not there"
    )
    third = await keys.put("v", b"1", None)
    keys.must(third not in (None, first, second), "a version comes again after a deletion")
    keys.must(await keys.put("v", b"5", second) is None, "write() takes a version from before a deletion")


async def _check_all_or_none(keys: _Keys) -> None:
    both = await keys.write(Change("x", b"1", None), Change("y", b"1", None))
    keys.must(
        await keys.get("x") == await keys.get("y") == (b"1", both), "keys of one write do not have its version alike"
    )
    wrong = (
        (Change("x", b"2", both), Change("y", b"2", None)),
        (Change("x", None), Change("y", b"2", (both or 0) + 1)),
        (Change("z", b"2"), Change("x", b"2", None)),
        (Change("z", b"2", both), Change("x", b"2", both)),
    )
    for changes in wrong:
        keys.must(await keys.write(*changes) is None, "write() makes changes though one key is not as expected")
        keys.must(
            await keys.scan() == {**await keys.scan("v"), "x": (b"1", both), "y": (b"1", both)},
            "a write that returned None changed some of its keys",
        )
    after = await keys.write(Change("x", b"2", both), Change("y", None, both), Change("z", b"3"))
    left = await keys.get("x"), await keys.get("y"), await keys.get("z")
    keys.must(left == ((b"2", after), None, (b"3", after)), "write() does not make all changes")
    invalid: tuple[tuple[Change, ...], ...] = ((), (Change("x", b""), Change("x", b"")))
    for refused in invalid:
        try:
            await keys.write(*refused)
        except SetupError:
            continue
        keys.must(holds=False, rule="write() takes no changes, or two of one key: call `check_changes` first")


async def _check_expiry(keys: _Keys) -> None:
    version = await keys.put("short", b"1", ttl=_TTL)
    keys.must(await keys.get("short") == (b"1", version), "a key with a ttl is not there")
    await keys.put("kept", b"1", ttl=_TTL)
    await keys.put("kept", b"2")
    await keys.put("long", b"1", ttl=3600)
    await timing.sleep(_PAST_IT)  # for a store in memory, whose time is replaced here
    await anyio.sleep(_PAST_IT)
    keys.must(await keys.get("short") is None, "get() returns a key whose time is over")
    found = await keys.scan()
    keys.must("short" not in found, "scan() finds a key whose time is over")
    keys.must(
        {"kept", "long"} <= found.keys(), "a key is gone before its time; a write without ttl ends an earlier one"
    )
    keys.must(await keys.put("short", b"2", version) is None, "write() takes the version of a key whose time is over")
    keys.must(await keys.put("short", b"2", None) is not None, "a key whose time is over is there for expect=None")
    await timing.sleep(_PAST_IT)
    await anyio.sleep(_PAST_IT)
    keys.must(await keys.get("short") is not None, "a key that was written again has the ttl of the earlier one")


async def _check_scan(keys: _Keys) -> None:
    await keys.delete_all()
    names = {"i/a*", "i/ab", "i/é", "i/", "j/a", "i[x", "I/a", "i_", "i%b"}
    for name in names:
        await keys.put(name, name.encode())
    for prefix in ("", "i/", "i/a*", "i[", "i_", "i%", "none"):
        expected = {name: name.encode() for name in names if name.startswith(prefix)}
        found = {name: entry.value for name, entry in (await keys.scan(prefix)).items()}
        keys.must(found == expected, f"scan({prefix!r}) finds {sorted(found)} of {sorted(names)}")
    for start in range(0, _MANY, 100):
        await keys.write(*(Change(f"many/{n:05}", b"%d" % n) for n in range(start, start + 100)))
    found = {name: entry.value for name, entry in (await keys.scan("many/")).items()}
    keys.must(found == {f"many/{n:05}": b"%d" % n for n in range(_MANY)}, f"scan() finds {len(found)} of {_MANY} keys")
    for start in range(0, _MANY, 100):
        await keys.write(*(Change(f"many/{n:05}", None) for n in range(start, start + 100)))


async def _check_at_once(keys: _Keys) -> None:
    async def add() -> None:
        for _ in range(_STEPS):
            while True:
                entry = await keys.get("n")
                value = b"%d" % (int(entry.value if entry else 0) + 1)
                if await keys.put("n", value, entry.version if entry else None) is not None:
                    break
                await anyio.lowlevel.checkpoint()

    won: list[int | None] = []

    async def race() -> None:
        won.append(await keys.write(Change("p", b"", None), Change("q", b"", None)))

    await _at_once([add] * _TASKS)
    entry = await keys.get("n")
    keys.must(
        entry is not None and entry.value == b"%d" % (_TASKS * _STEPS),
        "of writes at once some were lost, or came twice",
    )
    await _at_once([race] * 50)
    through = 50 - won.count(None)
    keys.must(through == 1, f"of 50 writes at once that expect no such key {through} come through")


async def _check_cancelled(keys: _Keys) -> None:
    for number in range(20):
        raised: list[Exception] = []

        async def put(name: str = f"c{number}", raised: list[Exception] = raised) -> None:
            try:
                await keys.put(name, b"1")
            except Exception as exc:  # noqa: BLE001  # what is checked may raise anything
                raised.append(exc)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(put)
            for _ in range(number % 4):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        keys.must(not raised, f"it raises {type(raised[0]).__name__ if raised else ''} {WHEN_CANCELLED}")
    version = await keys.put("d", b"1")
    keys.must(await keys.get("d") == (b"1", version), "after a cancelled write it does not work")


async def _at_once(functions: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    async with anyio.create_task_group() as tasks:
        for function in functions:
            tasks.start_soon(function)


_RULES = (
    _check_values,
    _check_versions,
    _check_all_or_none,
    _check_expiry,
    _check_scan,
    _check_at_once,
    _check_cancelled,
)
