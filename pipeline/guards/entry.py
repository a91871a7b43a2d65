"""Entry: a stage or an executor that a call is in, and that may be the body of the tool itself."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, TypeVar, cast

import attrs
from returns.result import Failure, Success

from ..errors import Landed, NotExecuted
from .call_guards import Guards
from .guard import NotBegunError
from .landed import landed_of, landed_of_own_work

if TYPE_CHECKING:
    from ..call import Call, Outcome

C = TypeVar("C", bound="Call")


@attrs.define(eq=False)
class Entry:
    """A stage or an executor that a call is in.

    One that does not say when a body begins may be the body itself. It is ``alone`` and counts as one from its entry,
    until it calls on or a body begins through the call that it was given: then the inside decides.
    """

    guards: Guards  # those around it in which it counts
    call: Call
    stage: bool
    alone: bool = False
    left: bool = False
    closed: bool = False  # it failed: no body begins inside of it any more
    unknown: list[Call] = attrs.field(factory=lambda: cast("list[Call]", []))  # bodies of which nobody said yet

    def admit(self) -> None:
        """A body is to begin inside: it takes over. Called under the lock.

        Raises:
            NotBegunError: The stage has failed, so somebody was told that there will be no body.
        """
        if self.closed:
            raise NotBegunError(Failure(NotExecuted("the call has been answered")))
        if self.alone:
            self.alone = False
            if not self.left:
                for guard in self.guards.each:
                    guard.end(self.call)
            self._say(self.call, "no")

    def call_on(self) -> None:
        """It calls on, so the inside decides from now on.

        Raises:
            NotBegunError: It has failed before.
        """
        if self.alone or self.closed:
            with self.guards.lock or Lock():
                self.admit()

    def leave(self, outcome: Outcome | None) -> bool:
        """It answered; with None it raised, or was cancelled.

        The outcome tells whether the effect of the body happened, if just one body began inside and nobody said so
        yet. A stage speaks for itself only, and once it has failed no body begins inside of it any more.

        Returns:
            Whether it was the body itself.
        """
        with self.guards.lock or Lock():
            was_alone = self.alone
            if was_alone:
                for guard in self.guards.each:
                    guard.end(self.call)
            if self.stage:
                self.closed = type(outcome) is not Success
            self.alone, self.left = was_alone and self.stage and not self.closed, True
            if outcome is not None and len(self.unknown) == 1 and (was_alone or not self.stage):
                self._say(self.unknown[0], landed_of_own_work(outcome) if self.stage else landed_of(outcome))
            self.unknown.clear()  # it says no more; these calls hold the entry, which would never be freed at once
            return was_alone

    def forget(self, call: Call) -> None:
        """Somebody said what became of a body that began with this call; another one may have begun with it too."""
        for at, each in enumerate(self.unknown):
            if each is call:
                del self.unknown[at]
                return

    def _say(self, call: Call, landed: Landed) -> None:
        self.forget(call)
        self.guards.learn_landed(call, landed)


def enter(call: C, guards: Guards, *, marks: bool, stage: bool = False) -> tuple[Entry, C]:
    """A stage or an executor is entered that may run the body.

    Args:
        call: The call that it is given.
        guards: Those of the call. One of them counts bodies.
        marks: Whether it calls `Guards.begin` itself. If not, it counts as a body, until the inside takes over.
        stage: It may also call on. Before the params are known, guards that need them do not hear of it.

    Returns:
        The entry, which has to be left again, and the call to give to the stage: a body that begins through that call
        is known to the entry.

    Raises:
        NotBegunError: It would count as a body, and a guard refuses.
    """
    each = guards.each
    if stage and getattr(call, "params", None) is None:
        each = tuple(guard for guard in each if not guard.needs_params)
    entry = Entry(Guards(each, guards.lock, guards.entries), call, stage)
    entries = (*guards.entries, entry)
    if not marks:
        Guards(each, guards.lock, entries).begin(call)
        entry.alone = True
    return entry, call.under(call.report, Guards(guards.each, guards.lock, entries))
