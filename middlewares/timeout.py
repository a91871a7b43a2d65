"""Timeout: gives the inside so many seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, ClassVar, TypeVar

import attrs

from pipeline import Handler, Outcome, Placement, ResolvedCall, SetupError
from pipeline.compose import run_within

R = TypeVar("R", bound=ResolvedCall)


@attrs.frozen
class Timeout:
    """Inside of Retry it limits each attempt, outside of it the whole call. With both, one of them needs ``name=``.

    An async tool that suppresses cancellation is waited for, since it runs in the caller's own task.

    Args:
        seconds: The limit. None: no limit, and no cancel scope is opened.
        tools: The limit of a tool, by its name, in place of ``seconds``.

    Raises:
        SetupError: A limit is not above zero.
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
                raise SetupError(f"Timeout: a limit must be a number of seconds > 0, or None, not {seconds!r}")

    def __call__(self, call: R, call_next: Handler[R]) -> Awaitable[Outcome]:
        """The inside's outcome, or TimedOut; see `pipeline.compose.run_within`."""
        seconds = self.tools.get(call.tool.name, self.seconds)
        return call_next(call) if seconds is None else run_within(seconds, call, call_next)
