"""Timeout: limits the time of everything that stands inside of it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import ClassVar, TypeVar

import attrs

from ..base.options import check_number, is_number, maps_names
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement, run_within
from ..engine.guards import keeps_guards

R = TypeVar("R", bound=ResolvedCall)


@attrs.frozen
class Timeout:
    """A middleware that limits the seconds of everything inside of it.

    Inside of Retry it limits each attempt, outside of it the whole call. With both, one of them needs ``name=``. An
    async tool that suppresses cancellation is waited for, since it runs in the caller's own task.

    Args:
        seconds: The limit, > 0 and finite. None: no limit, and no cancel scope is opened.
        tools: Seconds by the name of a tool. They come before the tool's own ``timeout=``, which comes before
            ``seconds``. Default: none.

    Raises:
        SetupError: A limit is not a number > 0, or ``tools`` is not a mapping by name.
    """

    placement: ClassVar[Placement] = Placement(
        kind="timeout",
        reason="inside of retry it limits each attempt, outside of retry the whole call",
        decides=("timeout",),
        runs_body=False,
        inside_of={"circuit_breaker": "CircuitBreaker counts time-outs, and would see only cancelled calls"},
        tool_options=("tools",),
    )

    seconds: float | None = attrs.field(validator=is_number(above=0, optional=True, unit="seconds"))
    tools: Mapping[str, float | None] = attrs.field(
        factory=dict[str, "float | None"],
        validator=maps_names(check_number, above=0, optional=True, unit="seconds"),
        kw_only=True,
        hash=False,
    )

    @keeps_guards
    def __call__(self, call: R, call_next: Handler[R]) -> Awaitable[Outcome]:
        """The inside's outcome, or TimedOut; see `toolcall_pipeline.engine.compose.run_within`."""
        tool = call.tool
        seconds = self.tools.get(tool.name, self.seconds if tool.timeout is None else tool.timeout)
        return call_next(call) if seconds is None else run_within(seconds, call, call_next)
