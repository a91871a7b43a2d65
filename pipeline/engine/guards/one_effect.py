"""OneEffect: the guard against a second body of a call whose first one may have taken effect, as its outcome says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
from returns.result import Failure, Success

from ..errors import Landed, NotExecuted, OutcomeUnknown, TimedOut, Transient, Unavailable
from .guard import Bodies, tool_of

if TYPE_CHECKING:
    from ...tools.definition import Tool
    from ..call import Call, Outcome


E = TypeVar("E")
# An exception of the author may say it by an attribute of its class: ``landed = False``.
_BY_ANSWER: dict[object, Landed] = {"yes": "yes", "no": "no", "maybe": "maybe", True: "yes", False: "no"}


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
    # Only where `ask` is set, or the tool has ``verify=``.
    begun_params: Any = attrs.field(default=None, repr=False)
    happened: bool = False  # a body said so
    raised: bool = False  # that body raised an exception, which is no `ToolFailed`
    said: Outcome | None = attrs.field(default=None, repr=False)  # what that body answered, if it failed
    # Middlewares that the call entered and that did not call on, and do not say whether they run bodies.
    unsure: int = 0
    closed: bool = False  # the call was answered with a failure: no body begins any more
    lock: Lock = attrs.field(factory=Lock)  # of the call; `Guards.add` sets it
    is_settled: bool = False  # ``verify=`` was asked what became of it
    # Told what ``verify=`` found, by what its conversation or its ledger remembers of it.
    forget: Callable[[Outcome], Awaitable[None]] | None = None
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

    def close(self) -> None:
        """The call is answered with a failure, or cut off: what its stages have left behind begins no body any more."""
        with self.lock:
            self.closed = True

    def hear(self, call: Call, outcome: Outcome) -> None:
        """Learn what a body answered that failed."""
        if self._counts(call):
            self.said = outcome

    def sum_up(self, error: Any) -> tuple[Tool[..., Any] | None, bool]:
        """Close the effect of a failed call: the tool that may have taken effect, and whether the error is believed."""
        self.close()
        believed = self.believes(error)
        self.said = None  # its traceback holds the call, which would never be freed at once
        return self.lost, believed

    def believes(self, error: Any) -> bool:
        """Whether an error tells no more than is known: it denies no effect that may have happened.

        Only the body itself may, or a stage that reads what the body said.
        """
        if self.lost is not None and isinstance(error, Unavailable):
            return False  # a body began, and where it did not land, it would have said so
        if self.lost is None or not denies_effect(error):
            return True
        said: Any = self.said.failure() if type(self.said) is Failure else None
        if said is None or said is error:
            return said is not None
        if (cause := getattr(said, "cause", None)) is not None and cause is getattr(error, "cause", None):
            return True
        return (type(said), landed_of(self.said)) == (type(error), landed_of(Failure(error)))

    def refuse(self, call: Call) -> Outcome | None:
        """OutcomeUnknown after an effect that may have landed, TimedOut beside an idempotent body that still runs."""
        if self.closed:
            return Failure(NotExecuted("the call has been answered"))
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
            self.raised, self.said = False, None
            if self.ask is not None or (tool is not None and tool.verify is not None):
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


def landed_of(outcome: object, tool: Tool[..., Any] | None = None, *, began: bool = False) -> Landed:
    """Whether the side effect of a body happened, as far as the outcome of that body says it.

    Args:
        outcome: The outcome.
        tool: Whose body it was. Default None: not known, so nothing that it declares counts.
        began: Whether the body is known to have begun. Default: an `Unavailable` that says nothing else means that it
            has not.
    """
    if type(outcome) is Success:
        return "yes"
    error: Any = cast("Failure[Any]", outcome).failure() if type(outcome) is Failure else None
    if type(error) is Unavailable:
        return "no" if error.body_landed == "maybe" and not began else error.body_landed
    if type(error) is NotExecuted:
        return "no"
    witness = error if hasattr(error, "landed") else getattr(error, "cause", None)  # a ToolFailed is a cause, and knows
    landed: Any = getattr(witness, "landed", "maybe")
    found = _BY_ANSWER.get(landed, "maybe") if landed.__hash__ else "maybe"
    if found == "maybe" and tool is not None and tool.proves_no_effect(error):
        return "no"
    return found


def as_outcome_unknown(error: Any, tool: Tool[..., Any]) -> OutcomeUnknown:
    """Replace an error that does not say that the tool may have taken effect."""
    if isinstance(error, (TimedOut, Transient)):
        return OutcomeUnknown(error.changed(landed="maybe"), tool.verify_with)
    if type(error) is Unavailable:
        landed: Landed = "yes" if error.body_landed == "yes" else "maybe"
        told = Transient(None, error.retry_after, landed, error.message, error.details)
        return OutcomeUnknown(told, tool.verify_with)
    return OutcomeUnknown(Transient(getattr(error, "cause", None), landed="maybe"), tool.verify_with)


def as_not_landed(error: E) -> E:
    """Make ``landed`` of an error "no" where it says "maybe", for a call without a body that may have taken effect."""
    if isinstance(error, (TimedOut, Transient)) and error.landed == "maybe":
        return cast("E", error.changed(landed="no"))
    return error


def as_maybe_landed(error: E) -> E:
    """Make ``landed`` of an error "maybe", for a call with a body that may have taken effect."""
    return cast("E", cast("Any", error).changed(landed="maybe"))


def denies_effect(error: Any) -> bool:
    """Whether an error that a stage puts in place of the inside's answer lets the model believe that nothing ran."""
    said = landed_of(Failure(error))
    landed = said if type(error) is Unavailable or said == "yes" else getattr(error, "landed", "no")
    return getattr(error, "body", "unsaid") != "ran" and landed == "no"
