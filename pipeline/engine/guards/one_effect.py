"""OneEffect: the guard against a second body of a call whose first one may have taken effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
from returns.result import Failure

from ..errors import Landed, OutcomeUnknown, TimedOut, Transient
from .guard import Bodies, tool_of

if TYPE_CHECKING:
    from ...tools.definition import Tool
    from ..call import Call, Outcome


@attrs.define(eq=False)
class OneEffect(Bodies):
    """Refuses a second body of a call whose first one may have taken effect.

    A mutating tool runs again only after it is known that it did not land; so does a keyed one whose key differs from
    the key of the body before. An idempotent tool runs again only after its first body has ended: two at once are not
    the same as one. Reads are not counted, also those that a stage makes on the way to another tool.
    """

    tool: Tool[..., Any] | None = None  # the tool of the call, once it is known
    # Of the body that began last. Not its call: that one holds its guards, and the two would never be freed at once.
    begun_tool: Tool[..., Any] | None = None
    begun_key: str = ""
    begun_params: Any = None  # only where `ask` is set
    happened: bool = False  # a body said so
    raised: bool = False  # that body raised an exception, which is no `ToolFailed`
    ask: Callable[[Call], Outcome | None] | None = None  # refuses the first body for what is known of other calls

    @property
    def lost(self) -> Tool[..., Any] | None:
        """The mutating tool of this call that may have taken effect; None: there is none."""
        tool = self.begun_tool
        return tool if self.undecided and tool is not None and tool.effect == "mutating" else None

    @property
    def landed(self) -> Landed:
        """See `Guards.landed`."""
        if not self.undecided:
            return "no"
        return "yes" if self.happened else "maybe"

    def refuse(self, call: Call) -> Outcome | None:
        """OutcomeUnknown after an effect that may have landed, TimedOut beside an idempotent body that still runs."""
        if not (self.undecided or self.running):
            return None if self.ask is None else self.ask(call)
        if (tool := tool_of(call)) is None:
            return None
        if self.undecided and (tool.effect == "mutating" or self._has_another_key(call, tool)):
            return Failure(OutcomeUnknown(Transient(landed="maybe"), tool.verify_with))
        if tool.effect == "idempotent" and self.running:
            return Failure(TimedOut(still_running=True))
        return None

    def _has_another_key(self, call: Call, tool: Tool[..., Any]) -> bool:
        key = getattr(call, "idempotency_key", "")
        return tool.effect == "keyed" and (not key or key != self.begun_key)

    def begin(self, call: Any) -> None:
        """A body of this call begins."""
        try:
            tool, key = call.tool, call.idempotency_key
        except AttributeError:  # an end may take a call in an earlier phase
            tool, key = tool_of(call), ""
        if tool is None or tool.effect != "read":
            self.begun_tool = tool
            self.begun_key = key
            self.raised = False
            if self.ask is not None:
                self.begun_params = getattr(call, "params", None)
            self.running += 1
            self.undecided += 1

    def end(self, call: Call) -> None:
        """It returned or raised."""
        if self._counts(call):
            self.running -= 1

    def learn_landed(self, call: Call, landed: Landed) -> None:
        """Its outcome is known."""
        if landed == "no" and self._counts(call):
            self.undecided -= 1
        elif landed == "yes" and self._counts(call):
            self.happened = True

    def conclude(self, call: Call, landed: Landed) -> None:
        """As the base does, in one step."""
        tool = getattr(call, "tool", None)
        if tool is None or tool.effect != "read":
            self.running -= 1
            if landed == "no":
                self.undecided -= 1
            elif landed == "yes":
                self.happened = True

    def _counts(self, call: Call) -> bool:
        tool = tool_of(call)
        return tool is None or tool.effect != "read"
