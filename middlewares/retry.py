"""Retry: runs the inside again while the failure may pass and repeating it is safe."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from math import inf
from typing import ClassVar

import anyio
import attrs
from returns.result import Failure

from pipeline import Handler, Outcome, Placement, TimedOut, ToolError, Transient, ValidCall
from pipeline.compose.chain import unless_landed
from pipeline.retries import KINDS, Kind, Plan, RetryBudget, RetryPolicy, Rules, plan


class _Owner:
    """An attempt that is a repetition, seen by all that it calls."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


# Never put back: it ends by saying so itself, which what the attempt left running sees too, in contexts of its own.
_OWNER: ContextVar[_Owner | None] = ContextVar("toolcall_retry_owner", default=None)


@attrs.frozen
class Retry:
    """Repeats ``timeout`` and ``transient`` only, and of a mutating tool only what cannot have landed.

    What is decided, and why, is told at `pipeline.retries`. ``tools`` says by a tool's name what is other for it:
    ``Retry(3, tools={"search": Policy(attempts=5), "pay": Policy(kinds={"transient"})})``. ``budget`` limits the
    retries of all calls together; None: no limit. While a repeated attempt runs, the pipelines that it calls repeat
    nothing: three attempts in each of three layers would be 27.

    Every attempt is given the same arguments: a tool that changes a list or an object that it was given has changed
    it for its next attempt.
    """

    placement: ClassVar[Placement] = Placement(
        kind="retry",
        reason="inside of the checks: a bad name never gets better",
        inside_of={
            "cache": "an answer from the cache is no attempt, and a failure is not stored",
            "loop_guard": "LoopGuard counts what the model repeats, not what the runtime does",
        },
        repeats=True,
    )

    attempts: int = 3  # in all, the first one included
    first_delay: float = 0.1  # seconds; doubles after each failure
    max_delay: float = attrs.field(default=30.0, kw_only=True)  # seconds; where more is asked for, none
    kinds: Collection[Kind] = attrs.field(default=KINDS, kw_only=True, hash=False)
    tools: Mapping[str, RetryPolicy] = attrs.field(factory=dict[str, RetryPolicy], kw_only=True, hash=False)
    budget: RetryBudget | None = attrs.field(factory=RetryBudget, kw_only=True, eq=False)
    dice: Callable[[], float] = attrs.field(default=random.random, kw_only=True, repr=False)  # 0 <= dice() < 1
    sleep: Callable[[float], Awaitable[None]] = attrs.field(default=anyio.sleep, kw_only=True, repr=False)
    _rules: Rules = attrs.field(init=False, repr=False, eq=False)
    _of_tools: Mapping[str, Rules] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        rules = Rules(self.attempts, self.first_delay, self.max_delay, self.kinds)
        object.__setattr__(self, "_rules", rules)
        object.__setattr__(self, "_of_tools", {name: rules.but(name, policy) for name, policy in self.tools.items()})

    async def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        """The last attempt's outcome; OutcomeUnknown where a mutating call was lost and may have landed."""
        outcome = await call_next(call)
        while type(outcome) is Failure:
            error: ToolError = outcome.failure()
            if not isinstance(error, (TimedOut, Transient)):
                return outcome
            wait, reason = self._plan(error, call)
            if call.report is not None:
                call.report.decided(call.attempt, wait, reason)
            if wait is None:
                return unless_landed(outcome, call.tool)
            if self.budget is not None:
                self.budget.take()
            await self.sleep(wait)
            call = call.again()
            outcome = await self._owning(call, call_next)
        return outcome

    def _plan(self, error: TimedOut | Transient, call: ValidCall) -> Plan:
        owner, deadline = _OWNER.get(), anyio.current_effective_deadline()
        return plan(
            error,
            call.tool.effect,
            call.attempt,
            self._of_tools.get(call.tool.name, self._rules),
            dice=self.dice(),
            remaining=inf if deadline == inf else deadline - anyio.current_time(),
            tokens=inf if self.budget is None else self.budget.left,
            owned=owner is not None and not owner.over,
        )

    async def _owning(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        """A repeated attempt, which is the only one to be marked: most calls never come to it."""
        owner = _Owner()
        _OWNER.set(owner)
        try:
            outcome = await call_next(call)
        finally:
            owner.over = True
        if self.budget is not None and not _may_pass(outcome):
            self.budget.give_back()
        return outcome


def _may_pass(outcome: Outcome) -> bool:
    return type(outcome) is Failure and isinstance(outcome.failure(), (TimedOut, Transient))
