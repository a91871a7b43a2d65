"""Guards of one call: decide whether the body of a tool may begin. They are asked in one place, right before it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from returns.result import Success

from ...base import timing
from ..errors import Landed
from .guard import Board, Gate, Guard, NotBegunError, OpenTools, tool_of
from .one_effect import OneEffect, as_maybe_landed, as_not_landed, landed_of

if TYPE_CHECKING:
    from ...tools.definition import Tool
    from ..call import Call, Outcome
    from .stage_entry import StageEntry


E = TypeVar("E")


_NO_LOCK = nullcontext()


@attrs.define(eq=False)  # never changed, and not frozen: one is made for each call, in a third of the time
class Guards:
    """The guards of one call. They travel on it as ``call.guards``, and a copy of the call shares them.

    Attributes:
        each: All of them, outermost first.
        counting: Those that count bodies.
        lock: Held while these count; one for each call. None: no guard counts, so there is nothing to lock.
        gate: While it is empty, only guards that count bodies can refuse. None: each guard is always asked.
        board: Each guard is asked as well once what it knows is too old. None: there is none.
        effect: The one of the effect of this call; those of its callers are outside of it. None: the tool is a read.
        entries: The ends, executors and stages that run the body, that the call is in, outermost first.
    """

    each: tuple[Guard, ...]
    counting: tuple[Guard, ...] = ()
    lock: Lock | None = None
    gate: Gate | None = None
    effect: OneEffect | None = None
    entries: tuple[StageEntry, ...] = ()
    board: Board | None = None

    @staticmethod
    def of(*guards: Guard, outer: Guards | None = None) -> Guards:
        """Guards for a call, in addition to those that are around it."""
        made = _NO_GUARDS if outer is None else outer
        for guard in guards:
            made = made.add(guard)
        return made

    @staticmethod
    def of_calls(gates: Sequence[Gate], *unasked: Guard, board: Board | None = None) -> Guards:
        """Guards for all calls that have no guards of a caller: they ask whether the tool is still open.

        Args:
            gates: The lists of tools that are closed. With more than one, all are asked for each body.
            unasked: Guards that never refuse.
            board: What else closes tools. Default None: nothing.
        """
        asked = (OpenTools(gates, board),) if gates or board is not None else ()
        return Guards((*unasked, *asked), gate=gates[0] if len(gates) == 1 else None, board=board)

    def add(self, guard: Guard) -> Guards:
        """These, and one more inside of them."""
        each = (*self.each, guard)
        if not guard.counts_bodies:
            return Guards(each, self.counting, self.lock, None, self.effect, self.entries, self.board)  # all are asked
        counting = (*self.counting, guard)
        if isinstance(guard, OneEffect):
            lock = guard.lock = self.lock or guard.lock
            return Guards(each, counting, lock, self.gate, guard, self.entries, self.board)
        return Guards(each, counting, self.lock or Lock(), self.gate, self.effect, self.entries, self.board)

    def within(self, entry: StageEntry) -> Guards:
        """The same guards for a call inside of one more end, executor or stage that runs the body."""
        entries = (*self.entries, entry)
        return Guards(self.each, self.counting, self.lock, self.gate, self.effect, entries, self.board)

    def begin(self, call: Call) -> None:
        """Begin the body now.

        Raises:
            NotBegunError: A guard refuses, or the call has been answered. The body must not begin.
        """
        with self.lock or _NO_LOCK:
            for entry in self.entries:
                if entry.alone:
                    entry.give_way()
            gate, board = self.gate, self.board
            asks_all = gate is None or gate.closed or (board is not None and timing.now() >= board.until)
            for guard in self.each if asks_all else self.counting:
                if (outcome := guard.refuse(call)) is not None:
                    if call.report is not None:
                        call.report.has_body = False
                    raise NotBegunError(outcome)
            for guard in self.counting:
                guard.begin(call)
            for entry in self.entries:
                if not entry.left:  # it will speak for the body
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
        landed: Landed = "yes" if type(outcome) is Success else landed_of(outcome, tool_of(call), began=True)
        with self.lock:
            for entry in self.entries:
                if entry.undecided:
                    entry.forget(call)
            for guard in self.counting:
                guard.conclude(call, landed)
                if landed != "yes" and isinstance(guard, OneEffect):
                    guard.hear(call, outcome)
        return outcome

    def learn_end(self, call: Call, outcome: Outcome) -> None:
        """Learn the outcome of a body, so that those around it need not say it. Under the lock."""
        landed = landed_of(outcome, tool_of(call), began=True)
        for entry in self.entries:
            if entry.undecided:
                entry.forget(call)
        for guard in self.counting:
            guard.learn_landed(call, landed)
            if isinstance(guard, OneEffect):
                guard.hear(call, outcome)

    def learn_raised(self, exc: BaseException | None) -> None:
        """Learn that a body raised: what a stage makes of that says nothing of landing. A `ToolFailed` does."""
        if not hasattr(exc, "landed"):
            for guard in self.counting:
                if isinstance(guard, OneEffect):
                    guard.raised = True

    def learn_meaning(self, outcome: Outcome, read: Outcome) -> None:
        """Learn what the answer of a body means, from the stage that reads its exception, or the end its value."""
        for guard in self.counting:
            if isinstance(guard, OneEffect) and (guard.said is outcome or type(outcome) is Success):
                guard.said = read

    @property
    def landed(self) -> Landed:
        """Whether the effect of this call happened, as far as its bodies said: "no" before any began, and of a read.

        "maybe" while a body runs, and after one that did not say it.
        """
        return "no" if self.effect is None else self.effect.landed

    def find(self, tool: Tool[..., Any]) -> None:
        """Learn the tool of the call, from the check that found it."""
        if self.effect is not None and self.effect.tool is None:
            self.effect.tool = tool

    @property
    def counts_only_effect(self) -> bool:
        """Whether nothing but the effect of this call is counted, which a read has not."""
        return not self.entries and len(self.counting) == 1 and self.counting[0] is self.effect

    def counts_effect_of(self, tool: Tool[..., Any]) -> bool:
        """Whether the effects of such a tool are counted. The effects of a read need not be.

        Guards of a read count none; another tool comes to them only by a stage that put it in the place of the read.
        """
        return self.effect is not None or tool.effect == "read"

    def correct_landed(self, error: E) -> E:
        """The error, with ``landed`` "no" in place of "maybe" if no body of this call may have taken effect.

        A stage that answers in place of its inside does not know that nothing began there, nor that something did.
        """
        if self.effect is None:
            return error
        if not self.effect.undecided:
            return as_not_landed(error)
        return error if self.effect.believes(error) else as_maybe_landed(error)

    @property
    def lost(self) -> Tool[..., Any] | None:
        """The mutating tool that may already have taken effect in this call, or None."""
        for guard in self.counting:
            if isinstance(guard, OneEffect) and (lost := guard.lost) is not None:
                return lost
        return None


_NO_GUARDS = Guards(())
