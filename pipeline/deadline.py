"""A time limit around a part of the pipeline, for Timeout and for ``call(timeout=…)``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from returns.result import Failure

from .call import Call, Marker, Outcome, ResolvedCall
from .errors import TimedOut

C = TypeVar("C", bound=Call)


async def within(seconds: float, call: C, call_next: Callable[[C], Awaitable[Outcome]]) -> Outcome:
    """Give the inside so many seconds; what comes too late becomes TimedOut.

    Judged by the limit's own scope: a TimeoutError of the tool is the tool's. A tool that catches the cancellation
    and still answers is answered for. ``landed`` is "no" where the body had not begun; a thread cannot be stopped,
    only left behind, and is reported as ``still_running``.
    """
    marker = Marker(call.marker)
    with anyio.move_on_after(seconds):
        return await call_next(call.riding(call.report, marker))
    threaded = isinstance(call, ResolvedCall) and call.tool.run_in != "loop"
    return Failure(
        TimedOut(
            seconds,
            still_running=threaded and marker.began and not marker.ended,
            landed="maybe" if marker.began else "no",
        )
    )
