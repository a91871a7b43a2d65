"""Conversations: the intents of each conversation that are undecided, in this process and without a store.

An intent is undecided once a body began for it and what came out of it says nothing of landing. Known ends leave
nothing here. It is known by the name of its tool, and stays for an hour, or until it is known what became of it.
Nothing is dropped before: a conversation that has too many gets no further calls of that tool.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from os import urandom
from threading import Lock
from typing import TYPE_CHECKING, Any

import attrs

from ..base import timing
from ..base.forking import register_after_fork
from .digests import join_digest
from .intents import read_asked, write_arguments

if TYPE_CHECKING:
    from ..engine.call import Call, ResolvedCall
    from ..tools.definition import Tool

FORGET_AFTER = 3600.0  # seconds
_MAX_LOST = 10_000  # in one conversation
_MAX_BYTES = 64 * 2**20  # in all of them
_BYTES_EACH = 1_000  # of one record with its digests, measured
_SECRET = urandom(32)  # no digest of this process tells what a model sent


@attrs.define(eq=False)
class Lost:
    """A call that may have taken effect.

    Attributes:
        tool: The name of its tool.
        strict: The digest of its params by strict equality; "": nothing is strictly equal to it.
        names: The digests of its params by loose equality, and of its arguments as written: a call that shares one asks
            for the same.
        key: The idempotency key that its body had.
        liftable: An exception said what was wrong, so once another tool has changed something the call is honest again.
        at: When it was lost, in seconds of ``timing.monotonic``.
        call: The call without its report and guards, for ``verify=``; None for a tool without one, and once there was
            no room for it.
        payload: Bytes that this call takes, roughly.
    """

    tool: str
    strict: str
    names: tuple[str, ...]
    key: str
    liftable: bool
    at: float
    call: Any = None
    payload: int = 0

    @staticmethod
    def of(call: ResolvedCall, params: Mapping[str, object] | None, key: str, *, liftable: bool) -> Lost:
        """The record of a call that was lost just now."""
        strict, names, length = _name(call, params)
        own = name_of(call.tool)
        if call.tool.verify is None:
            return Lost(own, strict, names, key, liftable, timing.monotonic())
        return Lost(own, strict, names, key, liftable, timing.monotonic(), call.under(None, None), 8 * length)


class Conversation:
    """The undecided intents of one conversation, or of one turn without one. Threads may share it.

    Args:
        keeper: The memory that it is in, whose lock it takes and which is told of each record that goes. Default: none.
    """

    def __init__(self, keeper: Conversations | None = None) -> None:
        self._keeper, self._own_lock = keeper, Lock()
        self.lost: dict[int, Lost] = {}  # by identity, oldest first
        self.full: dict[str, float] = {}  # by the name of a tool: when a lost call of it found no room
        self._by_name: dict[tuple[str, str], list[Lost]] = {}

    def __bool__(self) -> bool:
        return bool(self.lost or self.full)

    @property
    def _lock(self) -> Lock:
        return self._own_lock if self._keeper is None else self._keeper.lock

    def find(self, call: ResolvedCall, params: Mapping[str, object] | None) -> tuple[Lost, bool] | None:
        """The undecided intent that is loosely equal to that of a call, and whether it is so strictly.

        One that is strictly equal comes first. None: there is none.
        """
        if not self.lost:
            return None
        own, oldest = name_of(call.tool), timing.monotonic() - FORGET_AFTER
        strict, names, _ = _name(call, params)
        same = [each for name in names for each in self._by_name.get((own, name), ()) if each.at > oldest]
        exact = next((each for each in same if strict and each.strict == strict), None)
        if exact is not None:
            return exact, True
        return (same[0], False) if same else None

    def is_full(self, tool: Tool[..., Any]) -> bool:
        """Whether a lost call of a tool found no room here within the last hour."""
        return bool(self.full) and self.full.get(name_of(tool), float("-inf")) > timing.monotonic() - FORGET_AFTER

    def add(self, lost: Lost) -> None:
        """Remember a lost call, in place of an earlier one with its key."""
        with self._lock:
            self.add_locked(lost)

    def add_locked(self, lost: Lost) -> None:
        """As `add`, under the lock."""
        if len(self.lost) >= _MAX_LOST:
            self.full[lost.tool] = lost.at
            return
        same = [one for name in lost.names for one in self._by_name.get((lost.tool, name), ())]
        self.lost[id(lost)] = lost
        for name in lost.names:
            self._by_name.setdefault((lost.tool, name), []).append(lost)
        self.drop([one for one in same if lost.key and one.key == lost.key])  # last: one that is empty is not kept

    def decide(self, lost: Lost) -> None:
        """It is known what became of a lost call."""
        with self._lock:
            self.drop([lost])

    def lift(self, tool: Tool[..., Any]) -> None:
        """A tool changed something: what an exception of another tool said may be wrong by now."""
        own = name_of(tool)
        with self._lock:
            self.drop([one for one in self.lost.values() if one.liftable and one.tool != own])

    def forget(self, before: float) -> None:
        """Let the tools go on whose lost calls found no room before that time."""
        self.full = {tool: at for tool, at in self.full.items() if at > before}

    def drop(self, gone: list[Lost]) -> None:
        """Forget records, under the lock."""
        for one in [each for each in gone if self.lost.pop(id(each), None) is not None]:
            for name in one.names:
                left = [each for each in self._by_name[one.tool, name] if each is not one]
                if left:
                    self._by_name[one.tool, name] = left
                else:
                    del self._by_name[one.tool, name]
            if self._keeper is not None:
                self._keeper.let_go(one)


class Conversations:
    """The conversations of this process that had an undecided intent within the last hour. Threads may share it.

    Args:
        max_bytes: Estimated bytes of all of them. Calls that are kept for ``verify=`` go first, the oldest first; a
            record never does: its conversation gets no further calls of the tool. Default 64 MiB.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._order: OrderedDict[int, tuple[tuple[str, str], Lost]] = OrderedDict()  # oldest first
        self._payloads: OrderedDict[int, Lost] = OrderedDict()
        self._full: OrderedDict[tuple[str, str], float] = OrderedDict()  # conversations that have no room, by when
        self.held: dict[tuple[str, str], Conversation] = {}
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def __len__(self) -> int:
        return len(self.held)

    def find(self, call: ResolvedCall) -> Conversation | None:
        """The conversation of a call, if something in it is undecided."""
        found = self.held.get(_place_of(call)) if self.held else None
        return found or None

    def add(self, call: ResolvedCall, lost: Lost) -> Conversation:
        """Remember a lost call, in its conversation."""
        name = _place_of(call)
        with self.lock:
            self._forget_old()
            if name not in self.held:
                self.held[name] = Conversation(self)
            held = self.held[name]
            self._order[id(lost)] = name, lost
            self._bytes += _BYTES_EACH + lost.payload
            if lost.call is not None:
                self._payloads[id(lost)] = lost
            held.add_locked(lost)
            if id(lost) not in held.lost:
                self.let_go(lost)
                self._note_full(name)
            while self._bytes > self._max_bytes and self._payloads:
                _, oldest = self._payloads.popitem(last=False)
                self._bytes -= oldest.payload
                oldest.call, oldest.payload = None, 0
            if self._bytes > self._max_bytes:
                held.full[lost.tool] = lost.at
                held.drop([lost])
                self._note_full(name)
            return held

    def _note_full(self, name: tuple[str, str]) -> None:
        self._full[name] = timing.monotonic()
        self._full.move_to_end(name)

    def _forget_old(self) -> None:
        """Forget what was lost an hour ago."""
        before = timing.monotonic() - FORGET_AFTER
        while self._order:
            name, lost = next(iter(self._order.values()))
            if lost.at > before:
                break
            if (held := self.held.get(name)) is not None:
                held.drop([lost])
            self.let_go(lost)
        while self._full and next(iter(self._full.values())) <= before:
            name, _ = self._full.popitem(last=False)
            if (held := self.held.get(name)) is not None:
                held.forget(before)
            self._leave(name)

    def let_go(self, lost: Lost) -> None:
        """Count a record no more, under the lock."""
        name, _ = self._order.pop(id(lost), (None, None))
        if name is None:
            return
        self._bytes -= _BYTES_EACH + lost.payload
        self._payloads.pop(id(lost), None)
        self._leave(name)

    def _leave(self, name: tuple[str, str]) -> None:
        if name in self.held and not self.held[name]:
            del self.held[name]

    def _restart_in_child(self) -> None:
        self.lock = Lock()


CONVERSATIONS = Conversations()


def _place_of(call: Call) -> tuple[str, str]:
    """The principal and the conversation of a call; without one, its reply is all that is known of it."""
    return call.principal, call.conversation or f"reply:{call.reply}"


def _name(call: ResolvedCall, params: Mapping[str, object] | None) -> tuple[str, tuple[str, ...], int]:
    """The strict digest, the loose ones, and the length of what was written."""
    written = write_arguments(call)
    asked = read_asked(call, params, written)
    loose = join_digest(asked.loose, secret=_SECRET)
    strict = loose if asked.strict == asked.loose else asked.strict and join_digest(asked.strict, secret=_SECRET)
    as_written = join_digest("written:" + written, secret=_SECRET)
    return strict, (loose,) if loose == as_written else (loose, as_written), len(written)


def name_of(tool: Tool[..., Any]) -> str:
    """The name by which a tool is remembered: that of the tool that it stands for."""
    while tool.overrides is not None:
        tool = tool.overrides
    return tool.name
