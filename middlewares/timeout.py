"""Timeout: limits the time of everything that stands inside of it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, ClassVar, TypeVar

import attrs

from pipeline import Handler, Outcome, Placement, ResolvedCall, SetupError
from pipeline.compose import run_within

R = TypeVar("R", bound=ResolvedCall)


@attrs.frozen
class Timeout:
    """A middleware that limits the seconds of everything inside of it.

    Inside of Retry it limits each attempt, outside of it the whole call. With both, one of them needs ``name=``. An
    async tool that suppresses cancellation is waited for, since it runs in the caller's own task.

    Args:
        seconds: The limit, > 0. None: no limit, and no cancel scope is opened.
        tools: Seconds by the name of a tool. They come before the tool's own ``timeout=``, which comes before
            ``seconds``. Default: none.

    Raises:
        SetupError: A limit is not a number > 0.
    """

    placement: ClassVar[Placement] = Placement(
        kind="timeout",
        reason="inside of retry it limits each attempt, outside of retry the whole call",
        marks=True,
    )

    seconds: float | None
    tools: Mapping[str, float | None] = attrs.field(factory=dict[str, "float | None"], kw_only=True, hash=False)

    def __attrs_post_init__(self) -> None:
        given: dict[str, Any] = {"`seconds`": self.seconds}
        given |= {f"`tools` for {name!r}": seconds for name, seconds in self.tools.items()}
        for name, seconds in given.items():
            if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
                raise SetupError(f"Timeout: {name} must be a number of seconds > 0 or None, not {seconds!r}")

    def __call__(self, call: R, call_next: Handler[R]) -> Awaitable[Outcome]:
        """The inside's outcome, or TimedOut; see `pipeline.compose.run_within`."""
        tool = call.tool
        seconds = self.tools.get(tool.name, self.seconds if tool.timeout is None else tool.timeout)
        return call_next(call) if seconds is None else run_within(seconds, call, call_next)
