"""Retry: runs the inside again while the failure may pass and repeating it is safe."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import anyio
import attrs
from returns.result import Failure

from pipeline import Effect, Handler, Outcome, SetupError, TimedOut, ToolError, Transient, ValidCall
from pipeline.chain import unless_landed

_UNENDING_THREAD = ("read", "keyed")  # may run beside a first one that could not be ended


@attrs.frozen
class Retry:
    """Repeats ``timeout`` and ``transient`` only, and of a mutating tool only what cannot have landed.

    Waits grow by full jitter, ``dice() * first_delay * 2 ** n`` up to ``max_delay`` (AWS Architecture Blog,
    "Exponential Backoff and Jitter"); a ``retry_after`` is the least that is waited. Where the wait would be longer
    than ``max_delay`` or end past the deadline, the failure is given back at once.
    """

    repeats = True  # what it repeats is an attempt: the composer gives each one its span
    attempts: int = 3  # in all, the first one included
    first_delay: float = 0.1  # seconds
    max_delay: float = attrs.field(default=30.0, kw_only=True)  # seconds
    dice: Callable[[], float] = attrs.field(default=random.random, kw_only=True, repr=False)  # 0 <= dice() < 1
    sleep: Callable[[float], Awaitable[None]] = attrs.field(default=anyio.sleep, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.attempts < 1 or self.first_delay < 0 or self.max_delay < 0:
            raise SetupError(f"{self}: at least one attempt, and no delay below zero")

    async def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        """The last attempt's outcome; OutcomeUnknown where a mutating call was lost and may have landed."""
        outcome = await call_next(call)
        while type(outcome) is Failure:
            error: ToolError = outcome.failure()
            if not isinstance(error, (TimedOut, Transient)):
                return outcome
            wait, reason = self._decide(error, call)
            if call.report is not None:
                call.report.decided(call.attempt, wait, reason)
            if wait is None:
                return unless_landed(outcome, call.tool)
            await self.sleep(wait)
            call = call.again()
            outcome = await call_next(call)
        return outcome

    def _decide(self, error: TimedOut | Transient, call: ValidCall) -> tuple[float | None, str]:
        """Seconds to wait before the next attempt, or None, and the reason for either."""
        effect: Effect = call.tool.effect
        if effect == "mutating" and error.landed != "no":
            return None, "not repeated: a mutating call that may have landed"
        if isinstance(error, TimedOut) and error.still_running and effect not in _UNENDING_THREAD:
            return None, "not repeated: the first one is still running"
        if call.attempt >= self.attempts:
            return None, f"not repeated: that was attempt {call.attempt} of {self.attempts}"
        wait = min(self.max_delay, self.first_delay * 2.0 ** min(call.attempt - 1, 60)) * self.dice()
        if isinstance(error, Transient) and error.retry_after is not None:
            wait = max(wait, error.retry_after)
        if wait > self.max_delay:
            return None, "not repeated: the wait asked for is too long"
        if anyio.current_time() + wait >= anyio.current_effective_deadline():
            return None, "not repeated: the deadline comes first"
        return wait, f"{error.kind}, and " + ("it did not land" if error.landed == "no" else f"the tool is {effect}")
