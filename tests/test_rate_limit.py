"""RateLimit: how many calls pass in what time, which calls share a limit, and what a refused call is told."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure, Success

from support import a_call, a_tool
from toolcall_pipeline import Call, Outcome, ResolvedCall, SetupError, ToolRegistry, Unavailable, render
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.middlewares.rate_limit import RateLimit
from toolcall_pipeline.testing import FakeClock, script

TICK = Fraction(1, 64)  # seconds; floats add ticks and powers of two without rounding
GAPS = st.lists(st.integers(0, 200), min_size=1, max_size=60)  # ticks between calls
RATES = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0, 16.0])
PERS = st.sampled_from([0.5, 1.0, 4.0])


def wait_for(limit: RateLimit, call: ResolvedCall | None = None) -> float | None:
    """None where the call passes, else the seconds until one fits."""
    call = call or a_call()
    verdict = limit(call)
    if verdict is call:
        return None
    assert isinstance(verdict, Failure)
    error = verdict.failure()
    assert (error.tool, error.reason) == (call.tool.name, "rate_limited")
    assert error.retry_after is not None
    assert error.retry_after > 0
    return error.retry_after


# When calls come, in seconds after the first, and the seconds that each is told to wait. None: it passes.
TIMETABLES: dict[str, tuple[dict[str, Any], Sequence[tuple[float, float | None]]]] = {
    "one at a time": ({"rate": 1, "burst": 1}, [(0, None), (0, 1.0), (0.5, 0.5), (1, None), (1, 1.0), (2, None)]),
    "all at once": ({"rate": 3, "per": 60}, [(0, None)] * 3 + [(0, 20.0), (20, None), (20, 20.0)]),
    "some at once": ({"rate": 4, "burst": 2}, [(0, None), (0, None), (0, 0.25), (0.25, None), (0.25, 0.25)]),
    "rested": ({"rate": 1, "burst": 2}, [(0, None), (0, None), (100, None), (100, None), (100, 1.0)]),
    "half rested": ({"rate": 2, "burst": 2}, [(0, None), (0, None), (0.5, None), (0.5, 0.5), (1.0, None)]),
    "seldom": ({"rate": 0.5}, [(0, None), (0, 2.0), (2, None)]),
    "refusals cost nothing": ({"rate": 1}, [(0, None), *[(0.5, 0.5)] * 5, (1, None)]),
}


@pytest.mark.parametrize(("options", "calls"), TIMETABLES.values(), ids=TIMETABLES)
def test_a_limit_is_a_timetable(options: dict[str, Any], calls: Sequence[tuple[float, float | None]]) -> None:
    """A burst passes at once, then one call in each interval; a rest restores the burst, and no more than that."""
    clock = FakeClock()
    limit = RateLimit(**options, clock=clock)
    found: list[tuple[float, float | None]] = []
    for after, _ in calls:
        clock.now = 1000.0 + after
        found.append((after, wait_for(limit)))
    assert found == calls


@pytest.mark.parametrize(("rate", "burst"), [(0.1, 1), (0.99, 1), (1, 1), (1.9, 1), (2, 2), (10.5, 10)])
def test_a_burst_is_as_large_as_the_rate(rate: float, burst: int) -> None:
    """Without `burst`, as many calls pass at once as `rate` rounded down, and at least one."""
    for limit in (RateLimit(rate, 60, clock=FakeClock()), RateLimit(rate, 60, None, clock=FakeClock())):
        assert [wait_for(limit) is None for _ in range(burst + 1)] == [True] * burst + [False]


@settings(deadline=None)
@given(RATES, PERS, st.integers(1, 8), GAPS)
def test_no_window_holds_too_many(rate: float, per: float, burst: int, gaps: list[int]) -> None:
    """Between any two moments at most a burst passes, and what the rate allows for the time between."""
    clock, now = FakeClock(), Fraction(1000)
    limit = RateLimit(rate, per, burst, clock=clock)
    passed: list[Fraction] = []
    for gap in gaps:
        now += gap * TICK
        clock.now = float(now)
        if wait_for(limit) is None:
            passed.append(now)
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            assert last - first + 1 <= burst + (end - start) * Fraction(rate) / Fraction(per)


@settings(deadline=None)
@given(RATES, PERS, st.integers(1, 8), st.lists(st.tuples(st.integers(0, 200), st.sampled_from("abc")), max_size=80))
def test_it_is_a_bucket_for_each(rate: float, per: float, burst: int, calls: list[tuple[int, str]]) -> None:
    """Each principal has a token bucket that fills evenly up to a burst; a call passes if it holds a whole token."""
    clock, now = FakeClock(), Fraction(1000)
    limit = RateLimit(rate, per, burst, clock=clock)
    buckets: dict[str, tuple[Fraction, Fraction]] = {}  # tokens, and as of when
    for number, (gap, who) in enumerate(calls):
        now += gap * TICK
        clock.now = float(now)
        held, when = buckets.get(who, (Fraction(burst), now))
        held = min(Fraction(burst), held + (now - when) * Fraction(rate) / Fraction(per))
        passes = held >= 1
        buckets[who] = held - passes, now
        assert (wait_for(limit, a_call(principal=who)) is None) == passes
        assert wait_for(limit, a_call(principal=f"new {number}")) is None  # new partitions make it forget others


@settings(deadline=None)
@given(st.floats(1e-3, 1e4), st.floats(1e-3, 1e4), st.integers(1, 50), st.floats(0, 1e7), st.lists(st.floats(0, 10)))
def test_the_time_told_is_the_time(rate: float, per: float, burst: int, now: float, gaps: list[float]) -> None:
    """A call made again after the time that it was told passes, and a little earlier not, however floats round."""
    clock = FakeClock(now)
    limit = RateLimit(rate, per, burst, clock=clock)
    assert [wait_for(limit) for _ in range(burst)] == [None] * burst
    for gap in gaps:
        clock.now += gap
        if (wait := wait_for(limit)) is not None:
            then = clock.now + wait
            clock.now = then - max(wait / 1000, 1e3 * burst * math.ulp(then))
            assert clock.now < then - wait or wait_for(limit) is not None
            clock.now = then
            assert wait_for(limit) is None


def of(name: str, principal: str) -> ResolvedCall:
    return a_call(a_tool(name), principal=principal)


FOUR = [of("a", "x"), of("a", "y"), of("b", "x"), of("b", "y")]
KEYS: dict[str, tuple[Callable[[ResolvedCall], object] | str | None, list[bool]]] = {
    "tool and principal": (None, [True, True, True, True]),
    "tool": (lambda call: call.tool.name, [True, False, True, False]),
    "principal": (lambda call: call.principal, [True, True, False, False]),
    "principal, by name": ("principal", [True, True, False, False]),
    "conversation, by name": ("conversation", [True, True, False, False]),  # of a principal
    "all share one": (lambda _: "all", [True, False, False, False]),
    "only one tool": (lambda call: call.principal if call.tool.name == "a" else None, [True, True, True, True]),
}


@pytest.mark.parametrize(("key", "first"), KEYS.values(), ids=KEYS)
def test_who_shares_a_limit(key: Any, first: list[bool]) -> None:
    """Each tool and principal has a limit of its own, or each key has; a call with the key None has no limit."""
    limit = RateLimit(1, key=key, clock=FakeClock())
    assert [wait_for(limit, call) is None for call in FOUR] == first
    free = [callable(key) and key(call) is None for call in FOUR]
    assert [wait_for(limit, call) is None for call in FOUR] == free


@pytest.mark.long
def test_rested_partitions_are_forgotten() -> None:
    """A principal that was quiet for the time of a burst is forgotten when others come."""
    clock = FakeClock()
    limit: Any = RateLimit(2, 1.0, 10, clock=clock)
    most = 0
    for number in range(5000):
        clock.now += 0.01
        assert wait_for(limit, a_call(principal=str(number))) is None
        most = max(most, len(limit._local.by_key))
    assert most <= 2 * 5.0 / 0.01 + 2  # a burst takes 5 seconds, and a new principal came each hundredth of one


def test_busy_partitions_are_kept() -> None:
    """Calls of other principals do not restore a burst that is partly used."""
    clock = FakeClock()
    limit = RateLimit(1, burst=4, clock=clock)
    used = [wait_for(limit, a_call(principal="other"))]
    clock.now += 3.5
    used += [wait_for(limit) for _ in range(3)]
    clock.now += 0.5
    used += [wait_for(limit, a_call(principal="new"))]
    assert used == [None] * 5
    assert [wait_for(limit) for _ in range(2)] == [None, 0.5]


def test_threads_share_a_limit() -> None:
    """However many threads call at once, no more calls pass than one thread could make."""

    def slow() -> float:
        time.sleep(0)  # lets another thread run while this one decides
        return 1000.0

    limit = RateLimit(100, burst=100, clock=slow)
    passed: list[int] = []
    threads = [
        threading.Thread(target=lambda: passed.append(sum(wait_for(limit) is None for _ in range(50))), daemon=True)
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == 100


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name)
        for name, make in {
            "no rate": lambda: RateLimit(0),
            "a negative rate": lambda: RateLimit(-1),
            "a rate of nan": lambda: RateLimit(math.nan),
            "an infinite rate": lambda: RateLimit(math.inf),
            "no time": lambda: RateLimit(1, 0),
            "a time of nan": lambda: RateLimit(1, math.nan),
            "an infinite time": lambda: RateLimit(1, math.inf),
            "no burst": lambda: RateLimit(1, 1, 0),
            "a negative burst": lambda: RateLimit(1, 1, -1),
            "no wait": lambda: RateLimit(1).queueing(max_wait=0),
            "a wait of nan": lambda: RateLimit(1).queueing(max_wait=math.nan),
            "a wait without end": lambda: RateLimit(1).queueing(max_wait=math.inf),
        }.items()
    ],
)
def test_what_makes_no_sense_is_refused_at_set_up(make: Callable[[], object]) -> None:
    """A limit under which every call passes, or none ever, is a set-up error that says what is allowed."""
    with pytest.raises(SetupError, match=r"RateLimit: `\w+` must be an? (number|integer)"):
        make()


async def test_in_a_pipeline() -> None:
    """A refused call runs nothing; the model reads one constant text; in the report only this stage is red."""
    tools = ToolRegistry()
    tools.register(a_tool())
    limited = standard(tools).after("validate", RateLimit(1, 60, clock=FakeClock()))
    assert limited.stages == ("trace", "resolve", "available", "validate", "rate_limit", "retry", "classify", "execute")
    first, second = await limited.report(Call("probe")), await limited.report(Call("probe"))
    assert [stage.verdict for stage in first.stages if stage.name == "rate_limit"] == [None]
    assert second.outcome == Failure(Unavailable("probe", "rate_limited", 60.0))
    assert [stage.verdict for stage in second.stages] == [None, None, None, "unavailable"]
    assert second.attempts == ()
    assert (
        render(Unavailable("probe", "rate_limited", 60.0))
        == "Error: This tool is rate limited. Try again in 60 seconds."
    )


# --- queueing ---------------------------------------------------------------------------------------------------------


async def run_queueing(limit: RateLimit, seconds: float, call: ResolvedCall | None = None) -> Outcome:
    return await limit.queueing(max_wait=seconds)(call or a_call(), script(Success("done")))


async def test_a_call_waits_until_it_fits() -> None:
    """With `queueing` a call that is too early sleeps for as long as needed, and then runs."""
    clock = FakeClock()
    limit = RateLimit(2, burst=1, clock=clock, sleep=clock.sleep)
    assert [await run_queueing(limit, 10) for _ in range(3)] == [Success("done")] * 3
    assert clock.slept == [0.5, 0.5]


async def test_the_queue_is_first_come_first_served() -> None:
    """Calls that come together run one after the other, in the order in which they came."""
    clock = FakeClock()
    limit = RateLimit(2, burst=1, clock=clock, sleep=clock.sleep)
    together = limit.queueing(max_wait=10)
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    limit.sleep = note  # the clock does not move
    for _ in range(4):
        await together(a_call(), script(Success("done")))
    assert waits == [0.5, 1.0, 1.5]


async def test_each_partition_has_a_queue_of_its_own() -> None:
    """A call waits behind calls of its own partition only."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    limit = RateLimit(1, clock=FakeClock(), sleep=note)
    for principal in ("a", "b", "a", "b"):
        assert await run_queueing(limit, 10, a_call(principal=principal)) == Success("done")
    assert waits == [1.0, 1.0]


async def test_a_call_that_would_wait_too_long_is_refused() -> None:
    """A call that would wait for longer than `max_wait` is refused at once with that wait, and takes no slot."""
    clock = FakeClock()
    limit = RateLimit(1, clock=clock, sleep=clock.sleep)
    assert await run_queueing(limit, 0.5) == Success("done")
    assert await run_queueing(limit, 0.5) == Failure(Unavailable("probe", "rate_limited", 1.0))
    clock.now += 0.5
    assert await run_queueing(limit, 0.5) == Success("done")
    assert clock.slept == [0.5]


async def test_no_call_waits_past_its_deadline() -> None:
    """If its deadline comes before its slot, the call is refused at once."""
    clock = FakeClock()
    limit = RateLimit(1, 60, clock=clock, sleep=clock.sleep)
    await run_queueing(limit, 120)
    with anyio.fail_after(30):
        assert await run_queueing(limit, 120) == Failure(Unavailable("probe", "rate_limited", 60.0))
    with anyio.fail_after(90):
        assert await run_queueing(limit, 120) == Success("done")
    assert clock.slept == [60.0]


@pytest.mark.parametrize(("behind", "next_one"), [(0, 1.0), (1, 3.0)])
async def test_a_cancelled_call_gives_its_slot_back(behind: int, next_one: float) -> None:
    """A call that is cancelled while it waits takes nothing from the limit, unless others already wait behind it."""
    clock = FakeClock()
    limit = RateLimit(1, clock=clock, sleep=lambda _: anyio.sleep_forever())
    assert wait_for(limit) is None
    async with anyio.create_task_group() as others:
        with anyio.CancelScope() as leaving:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run_queueing, limit, 10)
                await anyio.wait_all_tasks_blocked()
                for _ in range(behind):
                    others.start_soon(run_queueing, limit, 10)
                await anyio.wait_all_tasks_blocked()
                leaving.cancel()
        assert wait_for(limit) == next_one
        others.cancel_scope.cancel()


async def test_a_call_without_a_key_does_not_wait() -> None:
    """A call with the key None passes a queueing limit at once."""
    clock = FakeClock()
    limit = RateLimit(1, key=lambda _: None, clock=clock, sleep=clock.sleep)
    assert [await run_queueing(limit, 1) for _ in range(3)] == [Success("done")] * 3
    assert clock.slept == []


async def test_a_wait_is_in_the_report() -> None:
    """A call that waited and ran is a success with a green stage; in the stack the stage has the name of the limit."""
    clock = FakeClock()
    tools = ToolRegistry()
    tools.register(a_tool())
    limit = RateLimit(1, clock=clock, sleep=clock.sleep)
    pipeline = standard(tools).after("validate", limit.queueing(max_wait=1))
    assert RateLimit.placement.reason in pipeline.describe()
    reports = [await pipeline.report(Call("probe")) for _ in range(2)]
    assert [report.outcome for report in reports] == [Success("done")] * 2
    assert [stage.verdict for stage in reports[1].stages if stage.name == "rate_limit"] == [None]
    limit.sleep = lambda _: anyio.lowlevel.checkpoint()  # the clock does not move
    refused = [await pipeline.report(Call("probe")) for _ in range(2)][1]
    assert [stage.verdict for stage in refused.stages if stage.name == "rate_limit"] == ["unavailable"]


@settings(deadline=None)
@given(RATES, st.integers(1, 4), st.lists(st.integers(0, 64), max_size=30))
async def test_queued_calls_keep_the_limit(rate: float, burst: int, gaps: list[int]) -> None:
    """Counted by when they run, calls that waited keep the limit, and run in the order in which they came."""
    clock, now = FakeClock(), Fraction(1000)
    ran: list[Fraction] = []

    async def note(seconds: float) -> None:
        ran.append(now + Fraction(seconds))

    limit = RateLimit(rate, burst=burst, clock=clock, sleep=note)
    for gap in gaps:
        now += gap * TICK
        clock.now = float(now)
        before = len(ran)
        if await run_queueing(limit, 8) == Success("done") and len(ran) == before:
            ran.append(now)
    assert ran == sorted(ran)
    for first, start in enumerate(ran):
        for last, end in enumerate(ran[first:], first):
            assert last - first + 1 <= burst + (end - start) * Fraction(rate)


async def test_a_key_is_asked_once() -> None:
    """The key of a call is asked once, before the call waits: a key that fails later does not stop a cancellation."""
    clock, asked = FakeClock(), list[ResolvedCall]()

    def once(call: ResolvedCall) -> str:
        assert call not in asked
        asked.append(call)
        return "all"

    async def cancelled(_: float) -> None:
        scope.cancel()
        await anyio.sleep_forever()

    limit = RateLimit(1, key=once, clock=clock, sleep=cancelled)
    assert wait_for(limit, a_call(id="1")) is None
    with anyio.CancelScope() as scope:
        await limit.queueing(max_wait=10)(a_call(id="2"), script())
    assert scope.cancelled_caught
    assert wait_for(limit, a_call(id="3")) == 1.0
