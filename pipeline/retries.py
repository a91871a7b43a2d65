"""The planner of retries: whether a failed attempt is repeated, after which wait, and why. No clock, no dice, no I/O.

The rulings, the first that applies (``not repeated: …`` where there is to be no further attempt):

==========================================================  ===================================================
the tool is mutating and may have landed                    a mutating call that may have landed
a thread of it runs on, and it is idempotent or mutating    the first one is still running
the policy leaves this kind out                             the policy repeats no timeout
an outer pipeline has begun to repeat what called this      an outer pipeline retries
that was the last attempt                                   that was attempt 3 of 3
``retry_after`` is longer than ``max_delay``                the wait asked for is too long
the wait would not end before the deadline                  the deadline comes first
the budget holds no whole token                             the retry budget is spent
none of these                                               (repeated:) transient, and the tool is read
==========================================================  ===================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from math import inf, isfinite
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, cast

import attrs

from .errors import SetupError, TimedOut, Transient
from .tools.definition import Effect

Kind: TypeAlias = Literal["timeout", "transient"]
KINDS: tuple[Kind, ...] = ("timeout", "transient")  # of errors that may pass; no policy adds to them
_BESIDE_ITSELF: tuple[Effect, ...] = ("read", "keyed")  # may run while a first one, that could not be ended, runs on
_DOUBLINGS = 60  # more would only make the number too large for a float


class RetryPolicy(TypedDict, total=False):
    """What is other for one tool: ``Policy(attempts=5)`` or ``{"attempts": 5}``; the rest is as for all."""

    attempts: int
    first_delay: float
    max_delay: float
    kinds: Collection[Kind]


@attrs.frozen
class Rules:
    """A policy with nothing left open. Raises SetupError for what makes no sense."""

    attempts: int = 3  # in all, the first one included
    first_delay: float = 0.1  # seconds
    max_delay: float = 30.0  # seconds
    kinds: Collection[Kind] = KINDS

    def __attrs_post_init__(self) -> None:
        given: Any = self
        delays = (given.first_delay, given.max_delay)
        if not isinstance(given.attempts, int) or given.attempts < 1 or not all(map(_is_delay, delays)):
            raise SetupError(f"{self}: at least one attempt, and no delay below zero or without end")
        if isinstance(given.kinds, str) or not set(given.kinds) <= set(KINDS):
            raise SetupError(f"{self}: kinds are of {', '.join(KINDS)}: nothing else may pass")

    def but(self, tool: str, policy: RetryPolicy) -> Rules:
        """The same with what the policy of one tool says. Raises SetupError for what no policy has."""
        given: Any = policy
        if not isinstance(given, dict) or not set(cast("dict[Any, Any]", given)) <= RetryPolicy.__optional_keys__:
            raise SetupError(f"the policy of {tool!r} is a Policy(attempts=, …), not {given!r}")
        return attrs.evolve(self, **policy)


def _is_delay(value: Any) -> bool:
    return isinstance(value, (int, float)) and isfinite(value) and value >= 0


class Plan(NamedTuple):
    """What is to be done after a failed attempt."""

    wait: float | None  # seconds before the next one; None: there is none
    reason: str


def plan(
    error: TimedOut | Transient,
    effect: Effect,
    attempt: int,
    rules: Rules,
    *,
    dice: float,
    remaining: float = inf,
    tokens: float = inf,
    owned: bool = False,
) -> Plan:
    """Wait so long and repeat, or stop; the same for the same facts, and a reason for either.

    ``attempt`` is the number of the one that failed, from 1; ``dice`` is in [0, 1); ``remaining`` are the seconds to
    the deadline, ``tokens`` what the budget holds, and ``owned`` says that an outer pipeline repeats already.

    The wait is full jitter, ``dice * first_delay * 2 ** n`` up to ``max_delay`` (AWS Architecture Blog, "Exponential
    Backoff and Jitter"), and not below a ``retry_after`` (RFC 9110, 10.2.3), which is obeyed or not tried at all.
    """
    kind: Kind = error.kind
    if effect == "mutating" and error.landed != "no":
        return Plan(None, "not repeated: a mutating call that may have landed")
    if type(error) is TimedOut and error.still_running and effect not in _BESIDE_ITSELF:
        return Plan(None, "not repeated: the first one is still running")
    if kind not in rules.kinds:
        return Plan(None, f"not repeated: the policy repeats no {kind}")
    if owned:
        return Plan(None, "not repeated: an outer pipeline retries")
    if attempt >= rules.attempts:
        return Plan(None, f"not repeated: that was attempt {attempt} of {rules.attempts}")
    wait = min(rules.max_delay, rules.first_delay * 2.0 ** min(attempt - 1, _DOUBLINGS)) * dice
    if type(error) is Transient and error.retry_after is not None and error.retry_after > wait:
        wait = error.retry_after
    if wait > rules.max_delay:
        return Plan(None, "not repeated: the wait asked for is too long")
    if wait >= remaining:
        return Plan(None, "not repeated: the deadline comes first")
    if tokens < 1:
        return Plan(None, "not repeated: the retry budget is spent")
    return Plan(wait, f"{kind}, and " + ("it did not land" if error.landed == "no" else f"the tool is {effect}"))


@attrs.define(eq=False)
class RetryBudget:
    """A bucket of ``burst`` tokens, refilled ``per_second``. A retry takes one, and gives it back if it was answered.

    So retries that help are free, at any rate of calls, and those that do not help are ``per_second`` in the long run.
    The numbers are Finagle's (``RetryBudget``: at least 10 a second, kept for 10 seconds); in place of its share of
    each call a retry's own token comes back, as in the standard mode of the AWS SDKs: a call that succeeds at once
    pays nothing. May be shared by several pipelines, and used from any thread.
    """

    burst: float = 100.0
    per_second: float = 10.0
    clock: Callable[[], float] = attrs.field(default=time.monotonic, kw_only=True, repr=False)  # seconds
    _tokens: float = attrs.field(init=False, repr=False)
    _at: float = attrs.field(init=False, repr=False)  # when they were counted
    _lock: Lock = attrs.field(init=False, repr=False, factory=Lock)

    def __attrs_post_init__(self) -> None:
        given: tuple[Any, ...] = (self.burst, self.per_second)
        if not all(isinstance(each, (int, float)) and isfinite(each) and each >= 0 for each in given):
            raise SetupError(f"{self}: as many tokens as there may be retries, none below zero")
        self._tokens, self._at = self.burst, self.clock()

    @property
    def left(self) -> float:
        """The tokens that there are now; less than one: no retry."""
        with self._lock:
            now = self.clock()
            left = self._tokens + (now - self._at) * self.per_second if now > self._at else self._tokens
            self._tokens, self._at = min(self.burst, left), now
            return self._tokens

    def take(self) -> None:
        """A retry begins. Two threads that found the last token both take it, and the next one waits for longer."""
        with self._lock:
            self._tokens -= 1

    def give_back(self) -> None:
        """It was answered, be it by a refusal."""
        with self._lock:
            self._tokens += 1  # what is more than burst is cut off when they are counted
