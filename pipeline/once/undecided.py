"""Conversations: the intents of each conversation that are undecided, in this process and without a store.

An intent is undecided once a body began for it and what came out says nothing of landing. Known ends leave nothing
here. It stays for an hour, or until it is known what became of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from os import urandom
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import attrs

from ..base import timing
from ..base.forking import register_after_fork
from .digests import join_digest
from .intents import read_asked, write_arguments

if TYPE_CHECKING:
    from ..engine.call import ResolvedCall
    from ..tools.definition import Tool

_FORGET_AFTER = 3600.0  # seconds
_MAX_BYTES = 16 * 2**20
_BYTES_EACH = 700  # of one record with its two digests, measured
_SECRET = urandom(32)  # no digest of this process tells what a model sent


@attrs.define(eq=False)
class Lost:
    """A call that may have taken effect.

    Attributes:
        strict: The digest of its params by strict equality; "": nothing is strictly equal to it.
        names: The digests of its params by loose equality, and of its arguments as written: a call that shares one asks
            for the same.
        key: The idempotency key that its body had.
        tool: Its tool.
        liftable: An exception said what was wrong, so once another tool has changed something the call is honest again.
        at: When it was lost, in seconds of ``timing.monotonic``.
        size: Bytes that it takes, roughly.
        call: The call without its report and guards, for ``verify=``; None for a tool without one.
    """

    strict: str
    names: tuple[str, ...]
    key: str
    tool: ReferenceType[Tool[..., Any]]
    liftable: bool
    at: float
    size: int = _BYTES_EACH
    call: Any = None

    def is_another_try_of(self, other: Lost) -> bool:
        """Whether both had one idempotency key: for the backend they are one."""
        return bool(self.key) and self.key == other.key and self.tool == other.tool

    @staticmethod
    def of(call: ResolvedCall, params: Mapping[str, object] | None, key: str, *, liftable: bool) -> Lost:
        """The record of a call that was lost just now."""
        strict, names, length = _name(call, params)
        tool = ref(_own(call.tool))
        if call.tool.verify is None:
            return Lost(strict, names, key, tool, liftable, timing.monotonic())
        size = _BYTES_EACH + 8 * length
        return Lost(strict, names, key, tool, liftable, timing.monotonic(), size, call.under(None, None))


@attrs.define(eq=False)
class Conversation:
    """The undecided intents of one conversation, or of one turn without one. Threads may share it."""

    lost: tuple[Lost, ...] = ()
    _lock: Any = attrs.field(factory=Lock, repr=False)

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        return sum(each.size for each in self.lost)

    def find(self, call: ResolvedCall, params: Mapping[str, object] | None) -> Lost | None:
        """The undecided intent that is loosely equal to that of a call, a strictly equal one first; None: none is."""
        tool, oldest = _own(call.tool), timing.monotonic() - _FORGET_AFTER
        same = [each for each in self.lost if each.tool() is tool and each.at > oldest]
        if not same:
            return None
        strict, names, _ = _name(call, params)
        same = [each for each in same if not frozenset(names).isdisjoint(each.names)]
        exact = (each for each in same if strict and each.strict == strict)
        return next(exact, same[0] if same else None)

    def is_equal(self, lost: Lost, call: ResolvedCall, params: Mapping[str, object] | None) -> bool:
        """Whether a call is strictly equal to a lost one, whose key and answer are its own then."""
        return bool(lost.strict) and lost.strict == _name(call, params)[0]

    def add(self, lost: Lost) -> None:
        """Remember a lost call, in place of an earlier one with its key."""
        self._change(lambda each: (*(one for one in each if not lost.is_another_try_of(one)), lost))

    def decide(self, lost: Lost) -> None:
        """It is known what became of a lost call."""
        self._change(lambda each: tuple(one for one in each if one is not lost))

    def lift(self, tool: Tool[..., Any]) -> None:
        """A tool changed something: what an exception of another tool said may be wrong by now."""
        own = _own(tool)
        self._change(lambda each: tuple(one for one in each if not one.liftable or one.tool() is own))

    def drop(self, *, before: float, above: int) -> None:
        """Forget what was lost before a time, and the oldest while they take more than so many bytes."""

        def keep(each: tuple[Lost, ...]) -> tuple[Lost, ...]:
            kept, size = list[Lost](), 0
            for one in reversed(each):
                size += one.size
                if one.at > before and (size <= above or not kept):
                    kept.append(one)
            return tuple(reversed(kept))

        self._change(keep)

    def _change(self, change: Callable[[tuple[Lost, ...]], tuple[Lost, ...]]) -> None:
        with self._lock:
            self.lost = change(self.lost)


class Conversations:
    """The conversations of this process that had an undecided intent within the last hour. Threads may share it.

    Args:
        max_bytes: Estimated bytes of all of them; the oldest are forgotten first.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._sizes: dict[tuple[str, str], int] = {}  # of each, when it lost a call last
        self._bytes = 0  # the sum of these
        self.held: OrderedDict[tuple[str, str], Conversation] = OrderedDict()  # the one that lost a call last, last
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def __len__(self) -> int:
        return len(self.held)

    def find(self, call: ResolvedCall) -> Conversation | None:
        """The conversation of a call, if something in it is undecided."""
        found = self.held.get((call.principal, call.conversation)) if self.held else None
        return found if found is not None and found.lost else None

    def add(self, call: ResolvedCall, lost: Lost) -> Conversation:
        """Remember a lost call, in its conversation."""
        name = call.principal, call.conversation
        with self._lock:
            held = self.held.setdefault(name, Conversation())
            oldest = timing.monotonic() - _FORGET_AFTER
            held.add(lost)
            held.drop(before=oldest, above=self._max_bytes)
            self.held.move_to_end(name)
            self._bytes -= self._sizes.get(name, 0)
            self._sizes[name] = held.size + len(name[0]) + len(name[1])
            self._bytes += self._sizes[name]
            while len(self.held) > 1:
                first, each = next(iter(self.held.items()))
                if each.lost and each.lost[-1].at > oldest and self._bytes <= self._max_bytes:
                    break
                del self.held[first]
                self._bytes -= self._sizes.pop(first)
        return held

    def _restart_in_child(self) -> None:
        self._lock = Lock()


CONVERSATIONS = Conversations()


def _name(call: ResolvedCall, params: Mapping[str, object] | None) -> tuple[str, tuple[str, ...], int]:
    """The strict digest, the loose ones, and the length of what was written."""
    written = write_arguments(call)
    asked = read_asked(call, params, written)
    loose = join_digest(asked.loose, secret=_SECRET)
    strict = loose if asked.strict == asked.loose else asked.strict and join_digest(asked.strict, secret=_SECRET)
    as_written = join_digest("written:" + written, secret=_SECRET)
    return strict, (loose,) if loose == as_written else (loose, as_written), len(written)


def _own(tool: Tool[..., Any]) -> Tool[..., Any]:
    while tool.overrides is not None:
        tool = tool.overrides
    return tool
