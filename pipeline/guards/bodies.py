"""Bodies: how many bodies of a call run, and how many may have taken effect."""

from __future__ import annotations

import attrs

from ..errors import Landed


@attrs.define(eq=False)
class Bodies:
    """What is known of the bodies that began."""

    running: int = 0  # a thread that was left behind still runs
    undecided: int = 0  # bodies whose effect may have happened: all but those of which it is known that it did not

    def begin(self) -> None:
        """A body begins."""
        self.running += 1
        self.undecided += 1

    def end(self) -> None:
        """A body returned or raised."""
        self.running -= 1

    def learn_landed(self, landed: Landed) -> None:
        """The outcome of a body is known."""
        if landed == "no":
            self.undecided -= 1
