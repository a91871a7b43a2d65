"""Guards of one call: decide whether the body of a tool may begin. They are asked in one place, right before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from returns.result import Success

from ..errors import Landed, Unavailable
from .guard import Guard, NotBegunError
from .landed import as_not_landed, landed_of
from .one_effect import OneEffect
from .open_tools import Gate, OpenTools

if TYPE_CHECKING:
    from ...tools.definition import Tool
    from ..call import Call, Outcome
    from .stage_entry import StageEntry


E = TypeVar("E")


@attrs.frozen
class _FixedGate:
    closed: Mapping[str, Unavailable]


_NO_LOCK = nullcontext()
_NONE_CLOSED = _FixedGate({})
_SOME_CLOSED = _FixedGate({"": Unavailable("", "unknown")})  # so that the guards are asked


@attrs.define(eq=False)  # never changed, and not frozen: one is made for each call, in a third of the time
class Guards:
    """The guards of one call. They travel on it as ``call.guards``, and a copy of the call shares them.

    Attributes:
        each: All of them, outermost first.
        counting: Those that count bodies.
        lock: Held while these count; one for each call. None: no guard counts, so there is nothing to lock.
        entries: The stages, ends and executors that the call is in, outermost first.
        gate: While it is empty, only guards that count bodies can refuse.
    """

    each: tuple[Guard, ...]
    counting: tuple[Guard, ...]
    lock: Lock | None
    entries: tuple[StageEntry, ...] = ()
    gate: Gate = _SOME_CLOSED

    @staticmethod
    def of(*guards: Guard, outer: Guards | None = None) -> Guards:
        """Guards for a call, in addition to those that are around it."""
        each = guards if outer is None else (*outer.each, *guards)
        counting = tuple(guard for guard in each if guard.counts_bodies)
        lock = None if outer is None else outer.lock
        if lock is None and counting:
            lock = Lock()
        return Guards(each, counting, lock, () if outer is None else outer.entries)

    @staticmethod
    def of_reads(gates: Sequence[Gate]) -> Guards:
        """Guards for all calls of reads that have no other guards: they ask whether the tool is still open."""
        if not gates:
            return Guards((), (), None, gate=_NONE_CLOSED)
        return Guards((OpenTools(gates),), (), None, gate=gates[0] if len(gates) == 1 else _SOME_CLOSED)

    def with_effect(self, effect: OneEffect) -> Guards:
        """These, made by `of_reads`, and the guard of the effect of one call."""
        return Guards((*self.each, effect), (effect,), Lock(), (), self.gate)

    def within(self, entry: StageEntry) -> Guards:
        """The same guards for a call inside of one more stage, end or executor."""
        return Guards(self.each, self.counting, self.lock, (*self.entries, entry), self.gate)

    def without_params(self) -> Guards:
        """Those that may be asked before the params are known."""
        if not any(guard.needs_params for guard in self.each):
            return self
        each = tuple(guard for guard in self.each if not guard.needs_params)
        counting = tuple(guard for guard in self.counting if not guard.needs_params)
        return Guards(each, counting, self.lock, self.entries, self.gate)

    def begin(self, call: Call) -> None:
        """Begin the body now.

        Raises:
            NotBegunError: A guard refuses, or the call has been answered. The body must not begin.
        """
        with self.lock or _NO_LOCK:
            for entry in self.entries:
                if entry.alone or entry.closed:
                    entry.admit()
            for guard in self.each if self.gate.closed else self.counting:
                if (outcome := guard.refuse(call)) is not None:
                    if call.report is not None:
                        call.report.has_body = False
                    raise NotBegunError(outcome)
            for guard in self.counting:
                guard.begin(call)
            for entry in self.entries:
                if not entry.is_stage and not entry.left:  # an end, which will speak for the body
                    entry.undecided = (*entry.undecided, call)

    def end(self, call: Call) -> None:
        """End the body: it returned or raised; once for each `begin` that did not raise."""
        if self.lock is not None:
            with self.lock:
                self.count_end(call)

    def count_end(self, call: Call) -> None:
        """Count one running body less. Called under the lock."""
        for guard in self.counting:
            guard.end(call)

    def withdraw(self, call: Call) -> None:
        """Take a begin back: a stage counted as the body, and has called on. Called under the lock."""
        for entry in self.entries:
            if entry.undecided:
                entry.forget(call)
        for guard in self.counting:
            guard.conclude(call, "no")

    def conclude(self, call: Call, outcome: Outcome) -> Outcome:
        """End the body that began with this very call, and learn from its outcome whether it landed.

        Only who runs the body itself knows which body an outcome is of; others leave that to a `StageEntry`.

        Returns:
            The outcome.
        """
        if self.lock is None:
            return outcome
        # Not under the lock: it reads attributes of the tool's exception.
        landed: Landed = "yes" if type(outcome) is Success else landed_of(outcome)
        with self.lock:
            for entry in self.entries:
                if entry.undecided:
                    entry.forget(call)
            for guard in self.counting:
                guard.conclude(call, landed)
        return outcome

    def learn_landed(self, call: Call, landed: Landed) -> None:
        """Learn whether the effect of a body happened, so that those around it need not say it. Under the lock."""
        for entry in self.entries:
            if entry.undecided:
                entry.forget(call)
        for guard in self.counting:
            guard.learn_landed(call, landed)

    def learn_raised(self, exc: BaseException | None) -> None:
        """Learn that a body raised: what a stage makes of that says nothing of landing. A `ToolFailed` does."""
        if not hasattr(exc, "landed"):
            for guard in self.counting:
                if isinstance(guard, OneEffect):
                    guard.raised = True

    @property
    def landed(self) -> Landed:
        """Whether the effect of this call happened, as far as its bodies said: "no" before any began, and of a read.

        "maybe" while a body runs, and after one that did not say it.
        """
        for guard in reversed(self.counting):
            if isinstance(guard, OneEffect):
                return guard.landed
        return "no"

    def find(self, tool: Tool[..., Any]) -> None:
        """Learn the tool of the call, from the check that found it."""
        for guard in self.counting:
            if isinstance(guard, OneEffect) and guard.tool is None:
                guard.tool = tool

    def counts_effect_of(self, tool: Tool[..., Any]) -> bool:
        """Whether the effects of such a tool are counted. The effects of a read need not be.

        Guards of a read count none; another tool comes to them only by a stage that put it in the place of the read.
        """
        if tool.effect == "read":
            return True
        for guard in self.counting:  # noqa: SIM110  # a generator takes twice as long
            if isinstance(guard, OneEffect):
                return True
        return False

    def correct_landed(self, error: E) -> E:
        """The error, with ``landed`` "no" in place of "maybe" if no body of this call may have taken effect.

        A stage that answers in place of its inside does not know that nothing began there.
        """
        for guard in reversed(self.counting):  # the guard of this call is inside of its callers' guards
            if isinstance(guard, OneEffect):
                return error if guard.undecided else as_not_landed(error)
        return error

    @property
    def lost(self) -> Tool[..., Any] | None:
        """The mutating tool that may already have taken effect in this call, or None."""
        for guard in self.counting:
            if isinstance(guard, OneEffect) and (lost := guard.lost) is not None:
                return lost
        return None
