"""Timeout: gives the inside so many seconds."""

from __future__ import annotations

from typing import TypeVar

import attrs

from pipeline import Handler, Outcome, ResolvedCall, SetupError
from pipeline.deadline import within

R = TypeVar("R", bound=ResolvedCall)


@attrs.frozen
class Timeout:
    """Inside of Retry it limits each attempt, outside of it the whole call."""

    seconds: float

    def __attrs_post_init__(self) -> None:
        if not self.seconds > 0:
            raise SetupError(f"a time limit is more than zero seconds, not {self.seconds!r}")

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome, or TimedOut; see `pipeline.deadline.within`."""
        return await within(self.seconds, call, call_next)
