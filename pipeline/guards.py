"""Guards: what decides whether the body of a tool may begin. They are asked in one place, right before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from returns.result import Failure

from .errors import Landed, NotExecuted, OutcomeUnknown, TimedOut, ToolError, Transient, Unavailable

if TYPE_CHECKING:
    from .call import Call, Outcome
    from .tools.definition import Tool


class NotBegunError(Exception):
    """The body must not begin; ``outcome`` is the answer in its place."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("the body of the tool must not begin")
        self.outcome = outcome


class Guard(Protocol):
    """One reason why a body may not begin. Its methods are called under the lock of the call, from any thread."""

    @property
    def stateful(self) -> bool:
        """Whether it has to learn of each body; one that is not is only asked."""
        ...

    def refuse(self, call: Call) -> Outcome | None:
        """The answer in place of the body; None: it may begin."""
        ...

    def begin(self, call: Call) -> None:
        """The body begins: no guard refused."""
        ...

    def end(self, call: Call) -> None:
        """The body returned or raised, perhaps in a thread that nobody waits for any more."""
        ...

    def settle(self, call: Call, landed: Landed) -> None:
        """The outcome of a body that began says whether its effect happened."""
        ...


@attrs.frozen(eq=False)
class Guards:
    """The guards of one call. They travel on it as ``call.guards``, and a copy of the call shares them."""

    each: tuple[Guard, ...]
    lock: Lock | None  # None: no guard has a state, so there is nothing to lock

    @staticmethod
    def of(*guards: Guard, outer: Guards | None = None) -> Guards:
        """Guards for a call, in addition to those that are around it. One call has one lock."""
        each = guards if outer is None else (*outer.each, *guards)
        lock = None if outer is None else outer.lock
        if lock is None and any(guard.stateful for guard in guards):
            lock = Lock()
        return Guards(each, lock)

    def begin(self, call: Call) -> None:
        """The body begins now.

        Raises:
            NotBegunError: A guard refuses. The body must not begin.
        """
        if self.lock is None:
            self._ask(call)
            return
        with self.lock:
            self._ask(call)
            for guard in self.each:
                guard.begin(call)

    def end(self, call: Call) -> None:
        """The body returned or raised; once for each `begin` that did not raise."""
        if self.lock is not None:
            with self.lock:
                for guard in self.each:
                    guard.end(call)

    def settle(self, call: Call, landed: Landed) -> None:
        """The outcome of a body that began is known, and says whether its effect happened."""
        if self.lock is not None:
            with self.lock:
                for guard in self.each:
                    guard.settle(call, landed)

    def find(self, tool: Tool[..., Any]) -> None:
        """A check found the tool of the call."""
        for guard in self.each:
            if isinstance(guard, OneEffect) and guard.tool is None:
                guard.tool = tool

    def enter_unmarked(self) -> tuple[TimeLimit, ...]:
        """A stage is entered that does not say when a body begins; the limits that count it."""
        limits = tuple(guard for guard in self.each if isinstance(guard, TimeLimit))
        self._count_unmarked(limits, 1)
        return limits

    def leave_unmarked(self, limits: tuple[TimeLimit, ...]) -> None:
        """That stage called on, or answered."""
        self._count_unmarked(limits, -1)

    def _count_unmarked(self, limits: tuple[TimeLimit, ...], number: int) -> None:
        if limits and self.lock is not None:
            with self.lock:
                for limit in limits:
                    limit.unmarked += number

    def correct(self, outcome: Failure[ToolError]) -> Outcome:
        """The failure that a stage answered with in place of the inside's answer.

        OutcomeUnknown, if it says that nothing ran and a body of a mutating tool began that may have taken effect.
        """
        for guard in self.each:
            if isinstance(guard, OneEffect) and guard.tool is not None and guard.tool.effect == "mutating":
                error = outcome.failure()
                if guard.may_have_landed and says_not_begun(error):
                    cause = error if isinstance(error, (TimedOut, Transient)) else Transient(landed="maybe")
                    return Failure(OutcomeUnknown(cause, guard.tool.verify_with))
        return outcome

    @property
    def begun(self) -> int:
        """How many bodies began in the innermost time limit or, without one, in the call."""
        counts = [guard.bodies.begun for guard in self.each if isinstance(guard, (TimeLimit, OneEffect))]
        return counts[-1] if counts else 0

    def _ask(self, call: Call) -> None:
        for guard in self.each:
            if (outcome := guard.refuse(call)) is not None:
                raise NotBegunError(outcome)


@attrs.define(eq=False)
class Bodies:
    """What is known of the bodies that began."""

    begun: int = 0
    running: int = 0  # a thread that was left behind still runs
    unsettled: int = 0  # bodies whose effect may have happened: all but those of which it is known that it did not

    def begin(self) -> None:
        """A body begins."""
        self.begun += 1
        self.running += 1
        self.unsettled += 1

    def end(self) -> None:
        """A body returned or raised."""
        self.running -= 1

    def settle(self, landed: Landed) -> None:
        """The outcome of a body is known."""
        if landed == "no":
            self.unsettled -= 1


@attrs.define(eq=False)
class OpenTools:
    """Refuses a tool that was closed after `Available` let the call pass, as while it waited in a queue."""

    gates: Sequence[_Gate]
    stateful: bool = False

    def refuse(self, call: Call) -> Outcome | None:
        """Unavailable with the reason, if the tool is closed now."""
        for gate in self.gates:
            tool = tool_of(call) if gate.closed else None
            if tool is not None and (reason := gate.closed.get(tool.name)) is not None:
                return Failure(reason)
        return None

    def begin(self, call: Call) -> None:
        """Nothing to learn."""

    def end(self, call: Call) -> None:
        """Nothing to learn."""

    def settle(self, call: Call, landed: Landed) -> None:
        """Nothing to learn."""


class _Gate(Protocol):
    @property
    def closed(self) -> Mapping[str, Unavailable]: ...


@attrs.define(eq=False)
class OneEffect:
    """Refuses a second body of a call whose first one may have taken effect.

    A mutating tool runs again only after it is known that it did not land. An idempotent one runs again only after its
    first body has ended: two at once are not the same as one. Reads and keyed tools may run beside themselves.
    """

    bodies: Bodies = attrs.field(factory=Bodies)
    tool: Tool[..., Any] | None = None  # the tool of the call, once it is known
    stateful: bool = True

    @property
    def may_have_landed(self) -> bool:
        """Whether a body of this call may have taken effect."""
        return self.bodies.unsettled > 0

    def refuse(self, call: Call) -> Outcome | None:
        """OutcomeUnknown for a mutating tool, NotExecuted for an idempotent one whose body still runs."""
        tool = tool_of(call)
        if tool is None:
            return None
        if tool.effect == "mutating" and self.bodies.unsettled:
            return Failure(OutcomeUnknown(Transient(landed="maybe"), tool.verify_with))
        if tool.effect == "idempotent" and self.bodies.running:
            return Failure(NotExecuted("an earlier run of the same call has not ended"))
        return None

    def begin(self, call: Call) -> None:
        """A body of this call begins."""
        self.tool = tool_of(call)
        self.bodies.begin()

    def end(self, call: Call) -> None:  # noqa: ARG002
        """It returned or raised."""
        self.bodies.end()

    def settle(self, call: Call, landed: Landed) -> None:  # noqa: ARG002
        """Its outcome is known."""
        self.bodies.settle(landed)


@attrs.define(eq=False)
class TimeLimit:
    """Refuses a body whose time is up, and knows what the bodies inside of it have come to.

    The body of a sync tool begins in another thread than the one in which the time runs out; under the lock of the
    call the first of the two wins.
    """

    bodies: Bodies = attrs.field(factory=Bodies)
    unmarked: int = 0  # stages inside that do not say when a body begins, and that have not called on yet
    expired: bool = False
    stateful: bool = True

    def refuse(self, call: Call) -> Outcome | None:  # noqa: ARG002
        """TimedOut once the time is up; by then nobody waits for the answer."""
        return Failure(TimedOut(0.0, landed="no")) if self.expired else None

    def begin(self, call: Call) -> None:  # noqa: ARG002
        """A body begins inside."""
        self.bodies.begin()

    def end(self, call: Call) -> None:  # noqa: ARG002
        """It returned or raised."""
        self.bodies.end()

    def settle(self, call: Call, landed: Landed) -> None:  # noqa: ARG002
        """Its outcome is known."""
        self.bodies.settle(landed)

    def expire(self, lock: Lock | None, seconds: float) -> TimedOut:
        """The time is up: no body begins from now on. The error says what is known of those that did."""
        with lock or Lock():
            self.expired = True
            landed: Landed = "maybe" if self.bodies.unsettled or self.unmarked else "no"
            return TimedOut(seconds, still_running=self.bodies.running > 0, landed=landed)


def tool_of(call: Call) -> Tool[..., Any] | None:
    """The tool of a call in any phase: the end of a stack may take a call that nobody has resolved."""
    tool: Tool[..., Any] | None = getattr(call, "tool", None)
    return tool


def says_not_begun(error: ToolError) -> bool:
    """Whether an error tells the model that the tool did not run."""
    return (
        isinstance(error, (Unavailable, NotExecuted)) or getattr(error, "landed", "") == "no" or error.kind in _REFUSED
    )


_REFUSED = frozenset(("unknown_tool", "malformed_call", "validation", "needs_input", "permission"))
