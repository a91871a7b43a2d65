"""A time limit around a part of the pipeline, for `Timeout` and for ``call(timeout=…)``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from returns.result import Failure

from ..call import Call, Outcome
from ..errors import TimedOut
from ..time_limit import TimeLimit

C = TypeVar("C", bound=Call)


async def run_within(
    seconds: float, call: C, call_next: Callable[[C], Awaitable[Outcome]], limit: TimeLimit | None = None
) -> Outcome:
    """Run the inside for at most so many seconds.

    The scope of this limit decides, so a TimeoutError of the tool stays the tool's. A tool that catches the
    cancellation and still answers has answered.

    Args:
        seconds: The limit. Not above 0: the inside does not run.
        call: The call for the inside.
        call_next: The inside.
        limit: The record of this limit, if the caller wants to read it afterwards. None: a new one.

    Returns:
        The inside's outcome, or TimedOut. ``landed`` is "no" if the body had not begun, and then it never will.
        ``still_running`` says that a thread could not be stopped.
    """
    if not seconds > 0:  # callers compute what is left of their own time
        return Failure(TimedOut(0.0, landed="no"))
    limit = limit or TimeLimit(call.time_limit)
    with anyio.move_on_after(seconds):
        return await call_next(call.under(call.report, limit))
    limit.expire()
    return Failure(
        TimedOut(seconds, still_running=limit.running > 0, landed="maybe" if limit.began else "no"),
    )
