"""Guards: what decides whether the body of a tool may begin. They are asked in one place, right before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import attrs
from returns.result import Success

from ..errors import Landed, Unavailable
from .guard import Guard, NotBegunError
from .landed import landed_of
from .one_effect import OneEffect
from .open_tools import Gate, OpenTools

if TYPE_CHECKING:
    from ..call import Call, Outcome
    from ..tools.definition import Tool
    from .entry import Entry


@attrs.frozen
class _FixedGate:
    closed: Mapping[str, Unavailable]


_NONE_CLOSED = _FixedGate({})
_SOME_CLOSED = _FixedGate({"": Unavailable("", "unknown")})  # so that the guards are asked


@attrs.define(eq=False)  # not frozen, though nobody changes one: it is made for each call, in a third of the time
class Guards:
    """The guards of one call. They travel on it as ``call.guards``, and a copy of the call shares them."""

    each: tuple[Guard, ...]
    lock: Lock | None  # None: no guard counts bodies, so there is nothing to lock
    entries: tuple[Entry, ...] = ()  # the stages and executors that the call is in, outermost first
    gate: Gate = _SOME_CLOSED  # while it is empty, no guard refuses but those that count bodies
    effect: OneEffect | None = None  # if only this one counts bodies, and the call is in no stage or executor

    @staticmethod
    def of(*guards: Guard, outer: Guards | None = None) -> Guards:
        """Guards for a call, in addition to those that are around it. One call has one lock."""
        lock = None if outer is None else outer.lock
        if lock is None:
            for guard in guards:  # here and below: a generator takes twice as long
                if guard.counts_bodies:
                    lock = Lock()
                    break
        return Guards(guards, lock) if outer is None else Guards((*outer.each, *guards), lock, outer.entries)

    @staticmethod
    def of_reads(gates: Sequence[Gate]) -> Guards:
        """Guards for all calls of reads that have no other guards: they ask whether the tool is still open."""
        if not gates:
            return Guards((), None, gate=_NONE_CLOSED)
        return Guards((OpenTools(gates),), None, gate=gates[0] if len(gates) == 1 else _SOME_CLOSED)

    def with_effect(self, effect: OneEffect) -> Guards:
        """These, made by `of_reads`, and what guards the effect of one call."""
        return Guards((*self.each, effect), Lock(), (), self.gate, effect)

    def begin(self, call: Call) -> None:  # noqa: C901  # one frame
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
            effect = self.effect
            if effect is not None and not self.gate.closed:  # a call that changes something: a loop costs more
                if effect.begun and (outcome := effect.refuse(call)) is not None:
                    raise NotBegunError(outcome)
                effect.begin(call)
                return
            for entry in self.entries:
                entry.admit()
            for guard in self.each:
                if (outcome := guard.refuse(call)) is not None:
                    raise NotBegunError(outcome)
            for guard in self.each:
                guard.begin(call)
            for entry in self.entries:
                if not entry.left:  # else nobody asks it again
                    entry.unknown.append(call)

    def end(self, call: Call) -> None:
        """The body returned or raised; once for each `begin` that did not raise."""
        if self.lock is not None:
            with self.lock:
                for guard in self.each:
                    guard.end(call)

    def conclude(self, call: Call, outcome: Outcome) -> Outcome:
        """The body that began with this very call has ended in this outcome: `end`, and what it says of the effect.

        For one who runs the body itself. Others do not know which body an outcome is of: see `Entry`.

        Returns:
            The outcome.
        """
        lock, effect = self.lock, self.effect
        if lock is None:
            return outcome
        if effect is not None and type(outcome) is Success:  # nothing else would hear more of it than its end
            with lock:
                effect.end(call)
            return outcome
        self.end(call)
        landed = landed_of(outcome)  # not under the lock: it reads attributes of the tool's exception
        with lock:
            self.learn_landed(call, landed)
        return outcome

    def learn_landed(self, call: Call, landed: Landed) -> None:
        """Somebody says of a body whether its effect happened, so those around it need not. Called under the lock."""
        for entry in self.entries:
            entry.forget(call)
        for guard in self.each:
            guard.learn_landed(call, landed)

    def find(self, tool: Tool[..., Any]) -> None:
        """A check found the tool of the call."""
        for guard in self.each:
            if isinstance(guard, OneEffect) and guard.tool is None:
                guard.tool = tool

    def count(self, tool: Tool[..., Any]) -> bool:
        """Whether one of them counts the effects of such a tool. Those of a read need not be counted.

        Guards without any are those of reads; another tool came to them by a stage that put it in their place.
        """
        if self.effect is not None or tool.effect == "read":
            return True
        for guard in self.each:  # noqa: SIM110
            if isinstance(guard, OneEffect):
                return True
        return False

    @property
    def lost(self) -> Tool[..., Any] | None:
        """The mutating tool of which a body began in this call that may have taken effect; None: there is none."""
        for guard in self.each:
            if isinstance(guard, OneEffect) and (lost := guard.lost) is not None:
                return lost
        return None
