"""Guards: what decides whether the body of a tool may begin. They are asked in one place, right before it begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import attrs
from returns.result import Failure, Success

from .errors import Crashed, Landed, NotExecuted, OutcomeUnknown, SetupError, TimedOut, Transient, Unavailable

if TYPE_CHECKING:
    from .call import Call, Outcome
    from .tools.definition import Tool

C = TypeVar("C", bound="Call")


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
    entries: tuple[Entry, ...] = ()  # the stages and executors that the call is in, outermost first

    @staticmethod
    def of(*guards: Guard, outer: Guards | None = None) -> Guards:
        """Guards for a call, in addition to those that are around it. One call has one lock."""
        lock = None if outer is None else outer.lock
        if lock is None and any(guard.stateful for guard in guards):
            lock = Lock()
        return Guards(guards, lock) if outer is None else Guards((*outer.each, *guards), lock, outer.entries)

    def begin(self, call: Call) -> None:
        """The body begins now.

        Raises:
            NotBegunError: A guard refuses, or the call has been answered. The body must not begin.
        """
        if self.lock is None:
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
                entry.untold.append(call)

    def end(self, call: Call) -> None:
        """The body returned or raised; once for each `begin` that did not raise."""
        if self.lock is not None:
            with self.lock:
                for guard in self.each:
                    guard.end(call)

    def enter(self, call: C, *, marks: bool, stage: bool = False) -> tuple[Entry, C]:
        """A stage or an executor is entered that may run the body. Only for guards with a lock.

        Args:
            call: The call that it is given.
            marks: Whether it calls `begin` itself. If not, it counts as a body, until the inside takes over.
            stage: It may also call on. Before the params are known, only guards that need none hear of it.

        Returns:
            What has to be left again, and the call to give it: a body that begins through that call is known there.

        Raises:
            NotBegunError: It would count as a body, and a guard refuses.
        """
        each = self.each
        if stage and getattr(call, "params", None) is None:
            each = tuple(guard for guard in each if isinstance(guard, (OneEffect, TimeLimit, OpenTools)))
        entry = Entry(Guards(each, self.lock, self.entries), call, stage)
        entries = (*self.entries, entry)
        if not marks:
            Guards(each, self.lock, entries).begin(call)
            entry.alone = True
        return entry, call.under(call.report, Guards(self.each, self.lock, entries))

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
    untold: list[Call] = attrs.field(factory=lambda: cast("list[Call]", []))  # of bodies with no outcome yet

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
            self._tell(self.call, "no")

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

        The outcome tells whether the effect of the body happened, if just one body began inside and nobody told of it
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
            if outcome is not None and len(self.untold) == 1 and (was_alone or not self.stage):
                self._tell(self.untold[0], _landed_alone(outcome) if self.stage else landed_of(outcome))
            return was_alone

    def _tell(self, call: Call, landed: Landed) -> None:
        for entry in (*self.guards.entries, self):
            entry.untold = [each for each in entry.untold if each is not call]
        for guard in self.guards.each:
            guard.settle(call, landed)


async def run_inside(run: Callable[[C], Awaitable[Outcome]], call: C, *, marks: bool) -> Outcome:
    """Run an end of a stack, or an executor, between `Guards.enter` and `Entry.leave`.

    Returns:
        What it answers; what the guard answers that refused the body.
    """
    guards = call.guards
    try:
        if guards is None:
            return await run(call)
        if (tool := tool_of(call)) is not None and tool.effect != "read" and not guards.count_effects:
            return refuse_swap(call, tool)
        if guards.lock is None:
            if not marks:
                guards.begin(call)
            return await run(call)
        entry, call = guards.enter(call, marks=marks)
    except NotBegunError as exc:
        return exc.outcome
    outcome: Outcome | None = None
    try:
        return (outcome := await run(call))
    except NotBegunError as exc:
        return exc.outcome
    finally:
        entry.leave(outcome)


def refuse_swap(call: Call, tool: Tool[..., Any]) -> Outcome:
    """The answer to a stage that put another tool in place of a read: nobody counts how often its body begins."""
    return Failure(
        Crashed(SetupError(f"{call.name} is a read, and a stage handed on the {tool.effect} tool {tool.name}"))
    )


@attrs.define(eq=False)
class Bodies:
    """What is known of the bodies that began."""

    running: int = 0  # a thread that was left behind still runs
    unsettled: int = 0  # bodies whose effect may have happened: all but those of which it is known that it did not

    def begin(self) -> None:
        """A body begins."""
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
            closed = gate.closed
            tool = tool_of(call) if closed else None
            if tool is not None and (reason := closed.get(tool.name)) is not None:
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

    A mutating tool runs again only after it is known that it did not land; so does a keyed one whose key is another
    one than that of the body before. An idempotent tool runs again only after its first body has ended: two at once
    are not the same as one. Reads are not counted, also those that a stage makes on the way to another tool.
    """

    tool: Tool[..., Any] | None = None  # the tool of the call, once it is known
    bodies: Bodies = attrs.field(factory=Bodies)
    begun: Call | None = None  # the one of which a body began last
    stateful: bool = True

    @property
    def lost(self) -> Tool[..., Any] | None:
        """The mutating tool of this call that may have taken effect; None: there is none."""
        tool = tool_of(self.begun) if self.begun is not None and self.bodies.unsettled else None
        return tool if tool is not None and tool.effect == "mutating" else None

    def refuse(self, call: Call) -> Outcome | None:
        """OutcomeUnknown after an effect that may have landed, TimedOut beside an idempotent body that still runs."""
        tool = tool_of(call)
        if tool is None or self.begun is None:
            return None
        if self.bodies.unsettled and (tool.effect == "mutating" or self._has_another_key(call, tool)):
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

    def settle(self, call: Call, landed: Landed) -> None:
        """Its outcome is known."""
        if _changes(call):
            self.bodies.settle(landed)


@attrs.define(eq=False)
class TimeLimit:
    """Refuses a body whose time is up, and knows what the bodies inside of it have come to.

    The body of a sync tool begins in another thread than the one in which the time runs out; under the lock of the
    call the first of the two wins.
    """

    bodies: Bodies = attrs.field(factory=Bodies)
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
            landed: Landed = "maybe" if self.bodies.unsettled else "no"
            return TimedOut(seconds, still_running=self.bodies.running > 0, landed=landed)


def tool_of(call: Call) -> Tool[..., Any] | None:
    """The tool of a call in any phase: the end of a stack may take a call that nobody has resolved."""
    tool: Tool[..., Any] | None = getattr(call, "tool", None)
    return tool


def landed_of(outcome: object) -> Landed:
    """Whether the side effect of a body that ran happened, as far as the outcome of that body tells."""
    if type(outcome) is Success:
        return "yes"
    error: Any = cast("Failure[Any]", outcome).failure() if type(outcome) is Failure else None
    if type(error) is Unavailable:  # refused before the body began, or by the tool itself
        return "no"
    witness = error if hasattr(error, "landed") else getattr(error, "cause", None)  # a ToolFailed is a cause, and knows
    landed: Landed = getattr(witness, "landed", "maybe")
    return landed


def unknown(error: Any, tool: Tool[..., Any]) -> OutcomeUnknown:
    """What to tell in place of an error that does not say that the tool may have taken effect."""
    if isinstance(error, (TimedOut, Transient)):
        return OutcomeUnknown(attrs.evolve(error, landed="maybe"), tool.verify_with)
    return OutcomeUnknown(Transient(getattr(error, "cause", None), landed="maybe"), tool.verify_with)


def hides_effect(error: Any) -> bool:
    """Whether an error that a stage puts in place of the inside's answer lets the model believe that nothing ran."""
    return getattr(error, "kind", "internal") not in _TELL_OF_A_RUN and getattr(error, "landed", "no") == "no"


def _landed_alone(outcome: Outcome) -> Landed:
    """What the outcome of a stage that did not call on says of its own work: most such stages only refuse."""
    if type(outcome) is Failure and getattr(outcome.failure(), "kind", "") in _REFUSED:
        return "no"
    return landed_of(outcome)


def _changes(call: Call) -> bool:
    tool = tool_of(call)
    return tool is None or tool.effect != "read"


_TELL_OF_A_RUN = frozenset(("execution", "outcome_unknown"))
_REFUSED = frozenset(
    (
        "unknown_tool",
        "unavailable",
        "not_executed",
        "malformed_call",
        "validation",
        "needs_input",
        "permission",
    )
)
