"""Memory that stages keep for each key: right after the calls, and after all keys had a rest."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import attrs

from benchmarks.growth.charts import Chart, Subject
from benchmarks.overhead.subjects import ARGUMENTS, add
from toolcall_pipeline import (
    Call,
    Crashed,
    Failure,
    Outcome,
    RetryBudget,
    Success,
    Tool,
    ToolContext,
    Transient,
    ValidCall,
)
from toolcall_pipeline.middlewares import Cache, CircuitBreaker, Concurrency, LoopGuard, RateLimit, Retry
from toolcall_pipeline.testing.overhead.slices import Measurable

SIZES = (10, 100, 1_000, 10_000, 100_000)
_A_DAY = 86_400.0  # seconds
_FAILED: Outcome = Failure(Crashed(RuntimeError()))
_LOST: Outcome = Failure(Transient(landed="no"))
Keep: TypeAlias = Callable[[str], Awaitable[object]]  # makes one call of a principal
Make: TypeAlias = Callable[[int, "Clock"], Keep]  # for so many principals


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The seconds until now."""
        return self.now


@attrs.frozen
class _Kept:
    """Bytes per principal, with one call each.

    Args:
        rested: Whether a day passes then, and one more principal calls.
    """

    size: int
    make: Make
    rested: bool

    async def prepare(self, seconds: float) -> None:
        """Nothing: it is counted, not timed."""

    async def slice(self) -> float:
        """The bytes for each of them."""
        await self._count(10)  # the first use allocates what no key needs again
        return await self._count(self.size) / self.size

    async def _count(self, size: int) -> float:
        clock = Clock()
        keep = self.make(size, clock)
        gc.collect()
        tracemalloc.start()
        for number in range(size):
            await keep(f"principal {number}")
        if self.rested:
            clock.now += _A_DAY
            await keep("one more")
        gc.collect()
        total, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return total


async def _pay(context: ToolContext, a: int, b: int) -> int:
    return a + b


_TOOLS: dict[str, Tool[..., Any]] = {
    "read": Tool("add", add, "read"),
    "keyed": Tool("pay", _pay, "keyed", context=True),
}


def _call(principal: str, effect: str = "read") -> ValidCall:
    return Call(_TOOLS[effect].name, ARGUMENTS, principal=principal).resolved(_TOOLS[effect]).validated({**ARGUMENTS})


async def _succeed(_: Any) -> Outcome:
    return Success(5)


async def _fail(_: Any) -> Outcome:
    return _FAILED


async def _lose(_: Any) -> Outcome:
    return _LOST


async def _no_sleep(_: float) -> None:
    """The time of a wait passes at once."""


def _around(stage: Any, inside: Callable[[Any], Awaitable[Outcome]] = _succeed, effect: str = "read") -> Keep:
    async def keep(principal: str) -> None:
        await stage(_call(principal, effect), inside)

    return keep


def _rate_limit(_: int, clock: Clock) -> Keep:
    limit = RateLimit(1, per=60, clock=clock)

    async def keep(principal: str) -> None:
        limit(_call(principal))

    return keep


def _concurrency(_: int, __: Clock) -> Keep:
    return _around(Concurrency(1))


def _breaker(_: int, clock: Clock) -> Keep:
    return _around(CircuitBreaker(clock=clock), _fail)


def _ratio_breaker(_: int, clock: Clock) -> Keep:
    return _around(CircuitBreaker(failures=None, failure_ratio=0.5, clock=clock))


def _loop_guard(size: int, clock: Clock) -> Keep:
    return _around(LoopGuard(size=size, clock=clock))


def _cache(size: int, clock: Clock) -> Keep:
    return _around(Cache(60, size=size, clock=clock))


def _retry(_: int, clock: Clock) -> Keep:
    """Each call is repeated twice, with the same idempotency key."""
    budget = RetryBudget(burst=10, clock=clock)
    return _around(Retry(3, budget=budget, sleep=_no_sleep), _lose, "keyed")


def _by_hand(_: int, clock: Clock) -> Keep:
    times: dict[str, float] = {}

    async def keep(principal: str) -> None:
        times[principal] = clock() + len(times)

    return keep


def _list(*, rested: bool) -> tuple[Subject, ...]:
    def made(make: Make) -> Callable[[int], Measurable]:
        return partial(_Kept, make=make, rested=rested)

    return (
        Subject("RateLimit", made(_rate_limit)),
        Subject("Concurrency", made(_concurrency)),
        Subject("CircuitBreaker, a failure each", made(_breaker)),
        Subject("CircuitBreaker by ratio", made(_ratio_breaker)),
        Subject("LoopGuard of that size", made(_loop_guard)),
        Subject("Cache of that size", made(_cache)),
        Subject("Retry: its budget and idempotency keys", made(_retry)),
        Subject("a dict of floats by principal", made(_by_hand), reference=True),
    )


KEPT = Chart(
    "kept",
    "Memory of a key: each principal made one call",
    "principals",
    "bytes for each principal",
    SIZES,
    _list(rested=False),
    exact=True,
)
RESTED = attrs.evolve(
    KEPT,
    key="rested",
    title="What is left of it a day later, after one more call",
    subjects=_list(rested=True),
)
