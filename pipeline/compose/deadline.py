"""A time limit around a part of the pipeline, for Timeout and for ``call(timeout=…)``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from returns.result import Failure

from ..call import Call, Outcome
from ..errors import TimedOut
from ..time_limit import Marker

C = TypeVar("C", bound=Call)


async def within(
    seconds: float, call: C, call_next: Callable[[C], Awaitable[Outcome]], marker: Marker | None = None
) -> Outcome:
    """Give the inside so many seconds; what comes too late becomes TimedOut, and with none left it does not begin.

    Judged by the limit's own scope: a TimeoutError of the tool is the tool's. A tool that catches the cancellation
    and still answers is answered for. ``landed`` is "no" where the body had not begun, and then it never will; a
    thread cannot be stopped, only left behind, and is reported as ``still_running``.
    """
    if not seconds > 0:  # callers compute what is left of theirs
        return Failure(TimedOut(0.0, landed="no"))
    marker = marker or Marker(call.marker)
    with anyio.move_on_after(seconds):
        return await call_next(call.riding(call.report, marker))
    marker.over()
    return Failure(
        TimedOut(
            seconds,
            still_running=marker.running > 0,
            landed="maybe" if marker.began else "no",
        )
    )
