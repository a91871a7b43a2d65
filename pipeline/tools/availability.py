"""Availability: which tools are closed and why, as locks, and as the gate that readers ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ..engine.errors import Unavailable

if TYPE_CHECKING:
    from .view import ToolView

_Key: TypeAlias = tuple[str, Hashable]  # reason and owner


@attrs.frozen
class ToolLock:
    """One reason why a tool is closed."""

    why: Unavailable  # the error that a call gets
    seconds_left: Callable[[], float] | None = None  # it is open from 0 on; None: it holds until it is removed

    def check(self) -> Unavailable | None:
        """The reason why the tool is closed, with the seconds that remain now; None once the lock has expired."""
        if self.seconds_left is None:
            return self.why
        seconds = self.seconds_left()
        return self.why.changed(retry_after=seconds) if seconds > 0 else None


class DynamicGate(Mapping[str, Unavailable]):
    """A gate that computes each answer when it is asked. A subclass defines `get` and ``__iter__``."""

    def __getitem__(self, name: str) -> Unavailable:
        why: Unavailable | None = self.get(name)
        if why is None:
            raise KeyError(name)
        return why

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # every call asks `if closed and …`; counting would ask every lock


class ExpiringGate(DynamicGate):
    """The gate of locks, at least one of them with a time at which it opens by itself.

    Args:
        locks: The locks of each tool, oldest first. They may change meanwhile.
    """

    def __init__(self, locks: Mapping[str, tuple[ToolLock, ...]]) -> None:
        self._locks = locks

    @property
    def size(self) -> int:
        """Number of locks."""
        return sum(map(len, list(self._locks.values())))

    def get(self, name: str, default: Any = None, /) -> Any:  # every call asks; Mapping.get raises and catches KeyError
        """The reason why the tool is closed, by its oldest lock that still holds; ``default`` for an open tool."""
        for lock in self._locks.get(name, ()):
            if (why := lock.check()) is not None:
                return why
        return default

    def __iter__(self) -> Iterator[str]:
        return (name for name in list(self._locks) if name in self)

    def count_expired(self) -> int:
        """Number of locks that have opened by now."""
        return sum(lock.check() is None for locks in list(self._locks.values()) for lock in locks)


class RemovalGate(DynamicGate):
    """The gate of a registry from which tools were removed: a call that was resolved before must not begin any more.

    Removed tools are not listed, since a model cannot call them; a name that is registered again is open.
    """

    def __init__(self, own: Mapping[str, Unavailable], removed: Mapping[str, object]) -> None:
        self._own, self._removed = own, removed

    def get(self, name: str, default: Any = None, /) -> Any:  # every call asks, as in ExpiringGate
        """The reason why the tool is closed; ``default`` for an open tool."""
        if name in self._removed:
            return Unavailable(name, "unregistered")
        return self._own.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._own))

    def __bool__(self) -> bool:
        return bool(self._own) or bool(self._removed)


class ViewGate(DynamicGate):
    """The gate of a view. Its own locks come first, then the tools it leaves out, then the locks of the registry."""

    def __init__(self, whole: ToolView, shown: frozenset[str], own: Mapping[str, Unavailable]) -> None:
        self._whole, self._shown, self._own = whole, shown, own

    def get(self, name: str, default: Any = None, /) -> Any:  # every call asks, as in ExpiringGate
        """The reason why the tool is closed in this view; ``default`` for an open tool."""
        if (why := self._own.get(name)) is not None:
            return why
        if name not in self._shown and name in self._whole.tools:
            return Unavailable(name, "disabled")
        return self._whole.closed.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._whole.tools if name in self)


class ToolLocks:
    """The locks of one registry, one for each tool, reason and owner. A tool is open when its last lock is gone.

    A writer holds the mutex of the registry while it calls any of these methods; reading ``state`` needs none.
    """

    def __init__(self) -> None:
        self._locks: dict[str, dict[_Key, ToolLock]] = {}  # by tool, then by reason and owner, oldest first
        # The two gates for them, changed in place: to build one anew would take as long as there are closed tools.
        self._held: dict[str, tuple[ToolLock, ...]] = {}
        self._oldest: dict[str, Unavailable] = {}
        self._expiring = 0  # locks that open by themselves
        self._size = 0  # locks
        self._most = 0  # since the last change was counted
        # Changes so far, and the gate if locks expire. One tuple, replaced as a whole: a version must never mix the
        # count of one state with the gate of another.
        self.state: tuple[int, ExpiringGate | None] = (0, None)

    def add(self, lock: ToolLock, owner: Hashable, expired: Collection[_Key]) -> None:
        """Add a lock in place of one of the same tool, reason and owner, and of those that `find_expired` found."""
        locks = self._locks.setdefault(lock.why.tool, {})
        for key in expired:
            locks.pop(key, None)
        locks[lock.why.reason, owner] = lock
        self._update(lock.why.tool)

    def find_expired(self, name: str) -> list[_Key]:
        """The locks of a tool that have opened: an owner that is gone never removes its own. Needs no mutex."""
        return [key for key, lock in list(self._locks.get(name, {}).items()) if lock.check() is None]

    def remove(self, name: str, reason: str, owner: Hashable) -> None:
        """Remove a lock, if the tool has it."""
        self._locks.get(name, {}).pop((reason, owner), None)
        self._update(name)

    def forget(self, name: str) -> None:
        """Remove all locks of a tool that is gone."""
        self._locks.pop(name, None)
        self._update(name)

    def find_gate(self, *, asked: bool = False) -> Mapping[str, Unavailable]:
        """The gate for the locks: a plain dict, unless one of the locks expires, or each call has to ask it."""
        return ExpiringGate(self._held) if self._expiring or asked else self._oldest

    def count_change(self, gate: Mapping[str, Unavailable] | None = None) -> None:
        """Start a new version, higher than any that the locks before may have produced."""
        changes, expiring = self.state
        changes += 1 if expiring is None else 1 + self._most
        if gate is not None:
            expiring = gate if isinstance(gate, ExpiringGate) else None
        self.state, self._most = (changes, expiring), self._size

    def _update(self, name: str) -> None:
        """Bring the gates up to the locks of one tool."""
        before, now = self._held.get(name, ()), tuple(self._locks.get(name, {}).values())
        self._size += len(now) - len(before)
        self._most = max(self._most, self._size)
        self._expiring += _count_expiring(now) - _count_expiring(before)
        if now:
            self._held[name], self._oldest[name] = now, now[0].why
        elif before:
            del self._held[name], self._oldest[name]
            self._locks.pop(name, None)


def _count_expiring(locks: Collection[ToolLock]) -> int:
    return sum(lock.seconds_left is not None for lock in locks)
