"""Guards: what decides whether the body of a tool may begin. They are asked in one place, right before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import Unavailable
from .guard import Guard, NotBegunError
from .one_effect import OneEffect
from .open_tools import Gate, OpenTools

if TYPE_CHECKING:
    from ..call import Call
    from ..tools.definition import Tool
    from .entry import Entry


@attrs.frozen
class _FixedGate:
    closed: Mapping[str, Unavailable]


_NONE_CLOSED = _FixedGate({})
_SOME_CLOSED = _FixedGate({"": Unavailable("", "unknown")})  # so that the guards are asked


@attrs.frozen(eq=False)
class Guards:
    """The guards of one call. They travel on it as ``call.guards``, and a copy of the call shares them."""

    each: tuple[Guard, ...]
    lock: Lock | None  # None: no guard counts bodies, so there is nothing to lock
    entries: tuple[Entry, ...] = ()  # the stages and executors that the call is in, outermost first
    gate: Gate = _SOME_CLOSED  # while it is empty and there is no lock, `begin` refuses nothing

    @staticmethod
    def of(*guards: Guard, outer: Guards | None = None) -> Guards:
        """Guards for a call, in addition to those that are around it. One call has one lock."""
        lock = None if outer is None else outer.lock
        if lock is None and any(guard.counts_bodies for guard in guards):
            lock = Lock()
        return Guards(guards, lock) if outer is None else Guards((*outer.each, *guards), lock, outer.entries)

    @staticmethod
    def of_reads(gates: Sequence[Gate]) -> Guards:
        """Guards for all calls of reads that have no other guards: they ask whether the tool is still open."""
        if not gates:
            return Guards((), None, gate=_NONE_CLOSED)
        return Guards((OpenTools(gates),), None, gate=gates[0] if len(gates) == 1 else _SOME_CLOSED)

    def begin(self, call: Call) -> None:
        """The body begins now.

        Raises:
            NotBegunError: A guard refuses, or the call has been answered. The body must not begin.
        """
        if self.lock is None:
            if not self.gate.closed:
                return
            for guard in self.each:
                if (outcome := guard.refuse(call)) is not None:
                    raise NotBegunError(outcome)
            return
        with self.lock:
            for entry in self.entries:
                entry.admit()
            for guard in self.each:
                if (outcome := guard.refuse(call)) is not None:
                    raise NotBegunError(outcome)
            for guard in self.each:
                guard.begin(call)
            for entry in self.entries:
                entry.unknown.append(call)

    def end(self, call: Call) -> None:
        """The body returned or raised; once for each `begin` that did not raise."""
        if self.lock is not None:
            with self.lock:
                for guard in self.each:
                    guard.end(call)

    def find(self, tool: Tool[..., Any]) -> None:
        """A check found the tool of the call."""
        for guard in self.each:
            if isinstance(guard, OneEffect) and guard.tool is None:
                guard.tool = tool

    @property
    def count_effects(self) -> bool:
        """Whether one of them counts bodies; only calls of a read have none."""
        return self.lock is not None and any(isinstance(guard, OneEffect) for guard in self.each)

    @property
    def lost(self) -> Tool[..., Any] | None:
        """The mutating tool of which a body began in this call that may have taken effect; None: there is none."""
        return next(
            (guard.lost for guard in self.each if isinstance(guard, OneEffect) and guard.lost is not None), None
        )
