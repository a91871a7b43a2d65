"""Timeout: gives the inside so many seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, ClassVar, TypeVar

import attrs

from pipeline import Handler, Outcome, Placement, ResolvedCall, SetupError
from pipeline.compose.deadline import within

R = TypeVar("R", bound=ResolvedCall)


@attrs.frozen
class Timeout:
    """Inside of Retry it limits each attempt, outside of it the whole call; one of two is given a ``name=``.

    ``tools`` says by a tool's name what its limit is; None, there or here: it has none, and no scope is opened.
    An async tool that holds cancellation off is waited for, since it runs in the caller's own task.
    """

    placement: ClassVar[Placement] = Placement(
        kind="timeout",
        reason="so many seconds for all that stands inside of it; inside of retry, for each attempt",
        marks=True,
    )

    seconds: float | None
    tools: Mapping[str, float | None] = attrs.field(factory=dict[str, "float | None"], kw_only=True, hash=False)

    def __attrs_post_init__(self) -> None:
        given: tuple[Any, ...] = (self.seconds, *self.tools.values())
        for seconds in given:
            if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
                raise SetupError(f"a time limit is more than zero seconds, or None, and not {seconds!r}")

    def __call__(self, call: R, call_next: Handler[R]) -> Awaitable[Outcome]:
        """The inside's outcome, or TimedOut; see `pipeline.compose.deadline.within`."""
        seconds = self.tools.get(call.tool.name, self.seconds)
        return call_next(call) if seconds is None else within(seconds, call, call_next)
