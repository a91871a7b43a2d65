"""Guard: one reason why the body of a tool may not begin, such as that its time is up, or that the tool was closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs
from returns.result import Failure

from ..errors import Landed, TimedOut, Unavailable

if TYPE_CHECKING:
    from ...tools.definition import Tool
    from ..call import Call, Outcome


class NotBegunError(Exception):
    """The body must not begin; ``outcome`` is the answer in its place."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("the body of the tool must not begin")
        self.outcome = outcome


class Guard:
    """One reason why a body may not begin. This one refuses nothing and learns nothing.

    Its methods may be called from any thread; if it counts bodies, under the lock of the call.
    """

    __slots__ = ()

    counts_bodies: ClassVar[bool] = False  # whether it has to learn of each body, or is only asked

    @property
    def may_pass_secrets(self) -> bool:
        """Whether calls that the tool makes through its pipeline may hold declared secrets. By default they do not."""
        return False

    def refuse(self, call: Call) -> Outcome | None:  # noqa: ARG002
        """The answer in place of the body; None: it may begin."""
        return None

    def begin(self, call: Call) -> None:
        """The body begins: no guard refused."""

    def end(self, call: Call) -> None:
        """The body returned or raised, perhaps in a thread that was left behind."""

    def conclude(self, call: Call, landed: Landed) -> None:
        """The body that began with this very call returned or raised, and its outcome is known."""
        self.end(call)
        self.learn_landed(call, landed)

    def learn_landed(self, call: Call, landed: Landed) -> None:
        """The outcome of a body that began says whether its effect happened."""


def tool_of(call: Call) -> Tool[..., Any] | None:
    """The tool of a call in any phase: the end of a stack may take a call that was not resolved."""
    tool: Tool[..., Any] | None = getattr(call, "tool", None)
    return tool


@attrs.define(eq=False)
class Bodies(Guard):
    """A guard that counts the bodies that began."""

    counts_bodies: ClassVar[bool] = True
    running: int = attrs.field(default=0, kw_only=True)  # a thread that was left behind still runs
    undecided: int = attrs.field(default=0, kw_only=True)  # may have taken effect: all but those known not to have

    def begin(self, call: Call) -> None:  # noqa: ARG002
        """A body begins."""
        self.running += 1
        self.undecided += 1

    def end(self, call: Call) -> None:  # noqa: ARG002
        """It returned or raised."""
        self.running -= 1

    def learn_landed(self, call: Call, landed: Landed) -> None:  # noqa: ARG002
        """Its outcome is known."""
        if landed == "no":
            self.undecided -= 1

    def conclude(self, call: Call, landed: Landed) -> None:  # noqa: ARG002
        """As the base does, in one step."""
        self.running -= 1
        if landed == "no":
            self.undecided -= 1


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


class Gate(Protocol):
    """A list of the tools that are closed, with the reasons: a registry."""

    @property
    def closed(self) -> Mapping[str, Unavailable]:
        """By the name of the tool. It is false in the common case that none is closed, to nobody."""
        ...

    def find_closed(self, name: str, principal: object) -> Unavailable | None:
        """Why the tool is closed to who asks; None: it is open."""
        ...


class Board(Protocol):
    """A stage that closes tools from outside of the process, such as a `Switchboard`."""

    @property
    def until(self) -> float:
        """How long what it knows may be gone by, by `timing.now`. From then on each body asks it."""
        ...

    def find_closed(self, name: str, principal: object) -> Unavailable | None:
        """As `Gate.find_closed`, once it knows."""
        ...

    async def renew(self) -> None:
        """Wait until it knows anew, and let other tasks run meanwhile; not for long where it cannot know."""
        ...


@attrs.define(eq=False)
class OpenTools(Guard):
    """Refuses a tool that was closed after `Available` let the call pass, as while it waited in a queue."""

    gates: Sequence[Gate]
    board: Board | None = None

    def refuse(self, call: Call) -> Outcome | None:
        """Unavailable with the reason, if the tool is closed now."""
        if (tool := tool_of(call)) is None:
            return None
        if self.board is not None and (reason := self.board.find_closed(tool.name, call.principal)) is not None:
            return Failure(reason)
        for gate in self.gates:
            if gate.closed and (reason := gate.find_closed(tool.name, call.principal)) is not None:
                return Failure(reason)
        return None
