"""A time limit around a part of the pipeline, for `Timeout` and for ``call(timeout=…)``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

from returns.result import Failure

from ...base import timing
from ...base.setup_error import SetupError
from ..call import Call, Outcome
from ..errors import TimedOut
from ..guards import Guards, TimeLimit

C = TypeVar("C", bound=Call)


async def run_within(seconds: float, call: C, call_next: Callable[[C], Awaitable[Outcome]]) -> Outcome:
    """Run the inside for at most so many seconds.

    The scope of this limit decides, so a TimeoutError of the tool stays the tool's. A tool that catches the
    cancellation and still answers has answered.

    Returns:
        The inside's outcome, or TimedOut. ``landed`` is "no" if no body had begun whose effect may have happened, and
        then none will begin. ``still_running`` says that a thread could not be stopped.
    """
    if type(seconds) is not float:
        seconds = _read_seconds(seconds)
    if not seconds > 0:  # callers compute what is left of their own time
        return Failure(TimedOut(0.0, landed="no"))
    limit, guards = TimeLimit(), call.guards
    guards = Guards.of(limit) if guards is None else guards.add(limit)
    with timing.move_on_after(seconds):
        return await call_next(call.under(call.report, guards))
    return Failure(limit.expire(guards.lock, seconds))


def _read_seconds(seconds: object) -> float:
    if not isinstance(seconds, (int, float)):
        raise SetupError(f"the `timeout` of a call must be a number of seconds, not {seconds!r}")
    try:
        return float(seconds)
    except OverflowError:  # an int of more than 308 digits
        return inf
