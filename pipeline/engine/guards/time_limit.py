"""TimeLimit: the guard against a body that would begin after its time is up."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import attrs
from returns.result import Failure

from ..errors import Landed, TimedOut
from .guard import Bodies

if TYPE_CHECKING:
    from ..call import Call, Outcome


@attrs.define(eq=False)
class TimeLimit(Bodies):
    """Refuses a body whose time is up, and knows what the bodies inside of it have come to.

    The body of a sync tool begins in another thread than the one that waits for the time; under the lock of the
    call the first of the two wins.
    """

    expired: bool = False

    def refuse(self, call: Call) -> Outcome | None:  # noqa: ARG002
        """TimedOut once the time is up; by then the answer is not awaited."""
        return Failure(TimedOut(0.0, landed="no")) if self.expired else None

    def expire(self, lock: Lock | None, seconds: float) -> TimedOut:
        """The time is up: no body begins from now on. The error says what is known of those that did."""
        with lock or Lock():
            self.expired = True
            landed: Landed = "maybe" if self.undecided else "no"
            return TimedOut(seconds, still_running=self.running > 0, landed=landed)
