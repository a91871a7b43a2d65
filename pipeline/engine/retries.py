"""Retries: whether a failed attempt is repeated, when, and why; and what becomes of a lost side effect.

`plan` gives the first of these rulings that applies (``not repeated: …`` where no further attempt is made):

==========================================================  ===================================================
the tool is mutating and may have landed                    a mutating call that may have landed
it is mutating, and failed in a stage that had not called   a stage that may have done it failed
on, and that does not say whether it runs bodies
a thread of it still runs, and it is idempotent or mutating the first one is still running
the policy leaves this kind out                             the policy repeats no timeout
an outer pipeline has begun to repeat what called this      an outer pipeline retries
it was the last attempt                                     that was attempt 3 of 3
``retry_after`` is longer than ``max_delay``                the wait asked for is too long
the wait would not end before the deadline                  the deadline comes first
the budget holds no whole token                             the retry budget is spent
none of these                                               (repeated:) transient, and the tool is read
==========================================================  ===================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, cast

import attrs

from ..base import timing
from ..base.forking import register_after_fork
from ..base.options import check_count, check_number, is_function, is_number, read_names, refuse
from ..tools.definition import Tool
from ..tools.tool_options import Effect
from .errors import OutcomeUnknown, TimedOut, ToolError, Transient

RetryableKind: TypeAlias = Literal["timeout", "transient"]
RETRYABLE_KINDS: tuple[RetryableKind, ...] = ("timeout", "transient")  # no policy adds to them
_SAFE_BESIDE_ITSELF: tuple[Effect, ...] = ("read", "keyed")  # may run while a first run, which cannot be ended, goes on
_MAX_DOUBLINGS = 60  # more would only make the number too large for a float


class RetryPolicy(TypedDict, total=False):
    """The options for one tool: ``RetryPolicy(attempts=5)`` or ``{"attempts": 5}``. The others are as for all tools."""

    attempts: int  # in all, the first one included
    first_delay: float  # seconds; doubles after each failure
    max_delay: float  # seconds
    kinds: Collection[RetryableKind]


@attrs.frozen
class RetryRules:
    """The policy for one tool, complete and checked."""

    attempts: int = 3
    first_delay: float = 0.1
    max_delay: float = 30.0
    kinds: Collection[RetryableKind] = RETRYABLE_KINDS
    tool: str | None = attrs.field(default=None, eq=False)  # whose rules these are, for a text; None: all tools

    def __attrs_post_init__(self) -> None:
        check_count("Retry", self._option("attempts"), self.attempts)
        check_number("Retry", self._option("first_delay"), self.first_delay, least=0, unit="seconds")
        check_number("Retry", self._option("max_delay"), self.max_delay, least=0, unit="seconds")
        kinds = read_names("Retry", self._option("kinds"), self.kinds, RETRYABLE_KINDS)
        object.__setattr__(self, "kinds", kinds)  # the class is frozen, and an iterator gives them once

    def _option(self, name: str) -> str:
        return name if self.tool is None else f"tools[{self.tool!r}][{name!r}]"

    def with_policy(self, tool: str, policy: RetryPolicy) -> RetryRules:
        """The rules with what differs for one tool; SetupError for an unknown field, or a value that makes no sense."""
        given = cast("dict[Any, Any]", policy)
        allowed = RetryPolicy.__optional_keys__
        if not isinstance(cast("object", policy), dict) or not all(name in allowed for name in given):
            refuse("Retry", f"tools[{tool!r}]", f"a RetryPolicy, which may have {', '.join(sorted(allowed))}", given)
        return attrs.evolve(self, **policy, tool=tool)


class Plan(NamedTuple):
    """The next step after a failed attempt."""

    wait: float | None  # seconds until the next attempt; None: there is none
    reason: str


def plan(
    error: TimedOut | Transient,
    effect: Effect,
    attempt: int,
    rules: RetryRules,
    *,
    jitter: float,
    seconds_left: float = inf,
    tokens: float = inf,
    outer_retries: bool = False,
    arose_unknown: bool = False,
) -> Plan:
    """Decide whether a failed attempt is repeated; the same facts give the same plan.

    The wait is full jitter, ``jitter * first_delay * 2 ** n`` up to ``max_delay`` (AWS Architecture Blog,
    "Exponential Backoff and Jitter"), and never below a ``retry_after`` (RFC 9110, section 10.2.3). A ``retry_after``
    longer than ``max_delay`` is not tried at all.

    Args:
        error: The error of the attempt.
        effect: The effect of the tool.
        attempt: The number of the attempt that failed, from 1.
        rules: The rules for this tool.
        jitter: A random number, 0 <= jitter < 1.
        seconds_left: Seconds until the deadline. Default: no deadline.
        tokens: Tokens of the retry budget. Default: no budget.
        outer_retries: Whether an outer pipeline repeats already.
        arose_unknown: Whether it failed in a stage that does not say whether it runs bodies, before it called on.
    """
    kind: RetryableKind = error.kind
    if effect == "mutating" and (arose_unknown or error.landed != "no"):
        who = "a mutating call that may have landed" if error.landed != "no" else "a stage that may have done it failed"
        return Plan(None, f"not repeated: {who}")
    if type(error) is TimedOut and error.still_running and effect not in _SAFE_BESIDE_ITSELF:
        return Plan(None, "not repeated: the first one is still running")
    if kind not in rules.kinds:
        return Plan(None, f"not repeated: the policy repeats no {kind}")
    if outer_retries:
        return Plan(None, "not repeated: an outer pipeline retries")
    if attempt >= rules.attempts:
        return Plan(None, f"not repeated: that was attempt {attempt} of {rules.attempts}")
    wait = min(rules.max_delay, rules.first_delay * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS)) * jitter
    asked: object = error.retry_after  # from a header or an author, who may have put a text there
    if isinstance(asked, (int, float)) and asked > wait:
        wait = asked
    if wait > rules.max_delay:
        return Plan(None, "not repeated: the wait asked for is too long")
    if wait >= seconds_left:
        return Plan(None, "not repeated: the deadline comes first")
    if tokens < 1:
        return Plan(None, "not repeated: the retry budget is spent")
    return Plan(wait, f"{kind}, and " + ("it did not land" if error.landed == "no" else f"the tool is {effect}"))


def downgrade_lost(error: ToolError, tool: Tool[..., Any] | None) -> ToolError:
    """Replace an error by OutcomeUnknown where the failed body of a mutating tool may have taken effect.

    Retry applies it when it gives up, and the runner of a pipeline to the last outcome of a stack without Retry.
    """
    if tool is None or tool.effect != "mutating" or not isinstance(error, (TimedOut, Transient)):
        return error
    return error if error.landed == "no" else OutcomeUnknown(error, tool.verify_with)


@attrs.define(eq=False)
class RetryBudget:
    """A limit on all retries together, so that a backend that is down is not asked three times as often.

    A bucket of tokens. A retry takes one, and returns it if the tool answered; so retries that help are free at any
    rate of calls, and retries that do not help are limited to ``per_second`` in the long run. The numbers come from
    Finagle's ``RetryBudget`` (at least 10 a second, kept for 10 seconds). Finagle adds a share of each call; here the
    token of a retry returns, as in the standard mode of the AWS SDKs: a call that succeeds at once costs nothing.
    Several pipelines and threads may share one.

    Args:
        burst: Tokens that the bucket holds at most, and at first. 0: no retry. Default 100.
        per_second: Tokens that are added each second. 0: none; what was spent does not come back by itself. Default 10.
        clock: Seconds, monotonic.

    Raises:
        SetupError: A number is negative, not finite or not a number, or ``clock`` is not a plain function.
    """

    burst: float = attrs.field(default=100.0, validator=is_number(least=0))
    per_second: float = attrs.field(default=10.0, validator=is_number(least=0))
    clock: Callable[[], float] = attrs.field(
        default=timing.monotonic, validator=is_function(), kw_only=True, repr=False
    )
    _tokens: float = attrs.field(init=False, repr=False)
    _counted_at: float = attrs.field(init=False, repr=False)
    _lock: Lock = attrs.field(init=False, repr=False, factory=Lock)

    def __attrs_post_init__(self) -> None:
        self._tokens, self._counted_at = self.burst, self.clock()
        register_after_fork(self._renew_lock)

    @property
    def left(self) -> float:
        """The tokens at this moment; a retry takes a whole one."""
        with self._lock:
            now = self.clock()
            left = self._tokens + (now - self._counted_at) * self.per_second if now > self._counted_at else self._tokens
            self._tokens, self._counted_at = min(self.burst, left), now
            return self._tokens

    def take(self) -> None:
        """A retry begins. Two threads that both saw the last token both take it; the next retry then waits longer."""
        with self._lock:
            self._tokens -= 1

    def give_back(self) -> None:
        """The retry was answered, be it with a refusal; or it never began, because its wait was cancelled."""
        with self._lock:
            self._tokens += 1  # anything above burst is cut when the tokens are next counted

    def _renew_lock(self) -> None:
        self._lock = Lock()
