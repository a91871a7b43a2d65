"""Retry: repeats a failed attempt where that is safe and may help."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from math import inf
from typing import Any, ClassVar, cast

import attrs
from returns.result import Failure

from ..base import timing
from ..base.options import is_function, is_type, read_by_name
from ..engine.call import Outcome, ValidCall
from ..engine.compose import Handler, Placement
from ..engine.errors import TimedOut, ToolError, Transient
from ..engine.guards import keeps_guards
from ..engine.retries import (
    RETRYABLE_KINDS,
    Plan,
    RetryableKind,
    RetryBudget,
    RetryPolicy,
    RetryRules,
    downgrade_lost,
    plan,
)
from ..telemetry.logs import log_retry
from ..tools import Tool


class _Owner:
    """The owner of the retries: its mark is in the context of a repeated attempt and of all that the attempt calls."""

    over = False  # a task that the attempt left running copied the context, so the mark is never reset, only over


_REPEATED = frozenset((TimedOut, Transient))
_OWNER: ContextVar[_Owner | None] = ContextVar("_OWNER", default=None)


@attrs.frozen
class Retry:
    """Repeats an attempt that failed with ``timeout`` or ``transient``, by the rulings of `engine.retries`.

    A mutating call that may have taken effect is never repeated. While a repeated attempt runs, the pipelines that it
    calls repeat nothing: three attempts in each of three layers would be 27. Each attempt gets lists and dicts of its
    own; objects of other classes in its arguments are the same in all attempts.

    Args:
        attempts: Attempts in all, the first one included. 1: nothing is repeated. Default 3.
        first_delay: Seconds before the second attempt, at most; the limit doubles after each failure. 0: no wait.
            Default 0.1.
        max_delay: Seconds that a wait may take. A backend that asks for a longer wait gets no retry. Default 30.
        kinds: The kinds of error that are repeated. Default: both, ``timeout`` and ``transient``.
        tools: Policies for single tools, by name: ``{"search": RetryPolicy(attempts=5)}``. It comes before the tool's
            own ``attempts=``.
        budget: Limits the retries of all calls together. None: no limit.
        jitter: Gives a random number, 0 <= jitter() < 1, a factor of each wait.
        sleep: Waits for so many seconds.

    Raises:
        SetupError: An option is out of its range, or of another type.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="retry",
        reason="inside of the checks: a bad name never gets better",
        inside_of={
            "cache": "an answer from the cache is no attempt, and a failure is not stored",
            "ledger": "the attempts of a call are one delivery",
            "loop_guard": "LoopGuard counts what the model repeats, not what the runtime does",
        },
        needs={"classify": "without Classify each exception of a tool is a crash, and a crash is not repeated"},
        repeats=True,
        tool_options=("tools",),
    )

    attempts: int = 3
    first_delay: float = 0.1
    max_delay: float = attrs.field(default=30.0, kw_only=True)
    kinds: Collection[RetryableKind] = attrs.field(default=RETRYABLE_KINDS, kw_only=True, hash=False)
    tools: Mapping[str, RetryPolicy] = attrs.field(factory=dict[str, RetryPolicy], kw_only=True, hash=False)
    budget: RetryBudget | None = attrs.field(
        factory=RetryBudget, validator=is_type(RetryBudget, optional=True), kw_only=True, eq=False
    )
    jitter: Callable[[], float] = attrs.field(default=random.random, validator=is_function(), kw_only=True, repr=False)
    sleep: Callable[[float], Awaitable[None]] = attrs.field(
        default=timing.sleep, validator=is_function(may_be_async=True), kw_only=True, repr=False
    )
    _rules: RetryRules = attrs.field(init=False, repr=False, eq=False)
    _rules_by_tool: Mapping[str, RetryRules] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        rules = RetryRules(self.attempts, self.first_delay, self.max_delay, self.kinds)
        policies = read_by_name("Retry", "tools", self.tools)
        by_tool = {name: rules.with_policy(name, policy) for name, policy in policies.items()}
        object.__setattr__(self, "_rules", rules)
        object.__setattr__(self, "_rules_by_tool", by_tool)

    @keeps_guards
    async def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        """The outcome of the last attempt; OutcomeUnknown where a mutating call failed and may have landed."""
        outcome = await call_next(call)
        while type(outcome) is Failure:
            error: ToolError = outcome.failure()
            if type(error) not in _REPEATED:
                return outcome
            error = made = cast("TimedOut | Transient", error)
            arose_unknown = False
            if call.guards is not None:
                error = call.guards.correct_landed(made)
                arose_unknown = call.guards.effect is not None and call.guards.effect.unsure > 0
            wait, reason = self._plan(error, call, arose_unknown=arose_unknown)
            if call.report is not None:
                call.report.add_decision(call.attempt, wait, reason)
            if wait is None:
                settled = downgrade_lost(error, call.tool)
                return outcome if settled is made else Failure(settled)
            log_retry(call, error, wait, reason)
            await self._wait(wait)
            call = call.next_attempt()
            outcome = await self._repeat(call, call_next)
        return outcome

    async def _wait(self, seconds: float) -> None:
        """Take a token and wait; a wait that is cancelled gives it back, since nothing was asked again."""
        if self.budget is None:
            await self.sleep(seconds)
            return
        self.budget.take()
        waited = False
        try:
            await self.sleep(seconds)
            waited = True
        finally:
            if not waited:
                self.budget.give_back()

    def _plan(self, error: TimedOut | Transient, call: ValidCall, *, arose_unknown: bool) -> Plan:
        owner = _OWNER.get()
        return plan(
            error,
            call.tool.effect,
            call.attempt,
            self._rules_by_tool.get(call.tool.name) or self._rules_of(call.tool),
            jitter=self.jitter(),
            seconds_left=timing.time_left(),
            tokens=inf if self.budget is None else self.budget.left,
            outer_retries=owner is not None and not owner.over,
            arose_unknown=arose_unknown,
        )

    def _rules_of(self, tool: Tool[..., Any]) -> RetryRules:
        return self._rules if tool.attempts is None else attrs.evolve(self._rules, attempts=tool.attempts)

    async def _repeat(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        """A repeated attempt. Only these carry the mark of the owner: most calls need none."""
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
    return type(outcome) is Failure and type(outcome.failure()) in _REPEATED
