"""OneEffect: the guard against a second body of a call whose first one may have taken effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from returns.result import Failure

from ..errors import Landed, OutcomeUnknown, TimedOut, Transient
from .bodies import Bodies
from .guard import Guard, tool_of

if TYPE_CHECKING:
    from ..call import Call, Outcome
    from ..tools.definition import Tool


@attrs.define(eq=False)
class OneEffect(Guard):
    """Refuses a second body of a call whose first one may have taken effect.

    A mutating tool runs again only after it is known that it did not land; so does a keyed one whose key is another
    one than that of the body before. An idempotent tool runs again only after its first body has ended: two at once
    are not the same as one. Reads are not counted, also those that a stage makes on the way to another tool.
    """

    counts_bodies: ClassVar[bool] = True
    needs_params: ClassVar[bool] = False

    tool: Tool[..., Any] | None = None  # the tool of the call, once it is known
    bodies: Bodies = attrs.field(factory=Bodies)
    begun: Call | None = None  # the one of which a body began last

    @property
    def lost(self) -> Tool[..., Any] | None:
        """The mutating tool of this call that may have taken effect; None: there is none."""
        tool = tool_of(self.begun) if self.begun is not None and self.bodies.undecided else None
        return tool if tool is not None and tool.effect == "mutating" else None

    def refuse(self, call: Call) -> Outcome | None:
        """OutcomeUnknown after an effect that may have landed, TimedOut beside an idempotent body that still runs."""
        tool = tool_of(call)
        if tool is None or self.begun is None:
            return None
        if self.bodies.undecided and (tool.effect == "mutating" or self._has_another_key(call, tool)):
            return Failure(OutcomeUnknown(Transient(landed="maybe"), tool.verify_with))
        if tool.effect == "idempotent" and self.bodies.running:
            return Failure(TimedOut(still_running=True))
        return None

    def _has_another_key(self, call: Call, tool: Tool[..., Any]) -> bool:
        key = getattr(call, "idempotency_key", "")
        return tool.effect == "keyed" and (not key or key != getattr(self.begun, "idempotency_key", ""))

    def begin(self, call: Call) -> None:
        """A body of this call begins."""
        if _changes(call):
            self.begun = call
            self.bodies.begin()

    def end(self, call: Call) -> None:
        """It returned or raised."""
        if _changes(call):
            self.bodies.end()

    def learn_landed(self, call: Call, landed: Landed) -> None:
        """Its outcome is known."""
        if _changes(call):
            self.bodies.learn_landed(landed)


def _changes(call: Call) -> bool:
    tool = tool_of(call)
    return tool is None or tool.effect != "read"
