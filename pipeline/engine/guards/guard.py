"""Guard: one reason why the body of a tool may not begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..errors import Landed

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
