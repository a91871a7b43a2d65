"""Bodies: how many bodies of a call run, and how many may have taken effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from ..errors import Landed
from .guard import Guard

if TYPE_CHECKING:
    from ..call import Call


@attrs.define(eq=False)
class Bodies(Guard):
    """A guard that counts the bodies that began."""

    counts_bodies: ClassVar[bool] = True
    needs_params: ClassVar[bool] = False

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
