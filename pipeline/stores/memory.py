"""Memory: a store in this process, for one process and for tests."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from threading import Lock
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeAlias

import attrs

from ..base import timing
from ..base.forking import register_after_fork
from .store import ANY, Change, Entry, Expected, check_changes, make_version

_MANY = 1024  # keys; with fewer of them, those whose time is over are left where they are
_Held: TypeAlias = tuple[Any, int | None, float]  # a value, its version, and until when it is there, by `timing.now`
_NOTHING: Final[_Held] = None, None, -math.inf


@attrs.define(eq=False, repr=False)
class Memory:
    """A store that lives as long as its process. It never fails, and needs no opening.

    A key whose time is over is removed when it is looked up, or when the number of keys has doubled.
    """

    opens_itself: ClassVar[bool] = True

    _held: dict[str, _Held] = attrs.field(init=False, factory=dict[str, _Held])
    _sweep_at: int = attrs.field(init=False, default=_MANY)
    _lock: Lock = attrs.field(init=False, factory=Lock)

    def __attrs_post_init__(self) -> None:
        register_after_fork(self._renew_lock)

    async def get(self, key: str, /) -> Entry | None:
        """See `Store.get`."""
        found = self.find(key)
        return None if found is None else Entry(bytes(found.value), found.version)

    async def write(self, *changes: Change) -> int | None:
        """See `Store.write`."""
        check_changes(changes)
        return self.put(*changes)

    def find(self, key: str, /) -> Entry | None:
        """As `get`, with the very value that was put there."""
        with self._lock:
            value, version, until = self._held.get(key, _NOTHING)
            if version is not None and until > timing.now():
                return Entry(value, version)
            self._held.pop(key, None)
            return None

    def put(self, *changes: tuple[str, object, Expected, float | None]) -> int | None:
        """As `write`. A value may be any object with ``__bytes__``, which others read; it must never change."""
        with self._lock:
            held, now = self._held, timing.now()
            for key, _, expect, _ in changes:
                if expect is not ANY:
                    _, version, until = held.get(key, _NOTHING)
                    if expect != (version if until > now else None):
                        return None
            made = make_version()
            for key, value, _, ttl in changes:
                if value is None:
                    held.pop(key, None)
                else:
                    held[key] = value, made, math.inf if ttl is None else now + ttl
            if len(held) >= self._sweep_at:
                self._held = {key: each for key, each in held.items() if each[2] > now}
                self._sweep_at = max(_MANY, 2 * len(self._held))
            return made

    async def scan(self, prefix: str = "", /) -> AsyncIterator[tuple[str, Entry]]:
        """See `Store.scan`. The keys come in order."""
        with self._lock:
            keys = sorted(key for key in self._held if key.startswith(prefix))
        for key in keys:
            if (entry := await self.get(key)) is not None:
                yield key, entry

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Keep everything: what is closed and opened again is the same store."""

    def __repr__(self) -> str:
        return f"Memory({len(self._held)} keys)"

    def _renew_lock(self) -> None:
        """After a fork. A write of another thread of the parent may be there in part, in this process."""
        self._lock = Lock()
