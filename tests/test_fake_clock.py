"""One FakeClock moves every stage that looks at the time, on both event loops and in threads."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest

from support import a_call
from toolcall_pipeline import (
    Call,
    Failure,
    NotExecuted,
    Outcome,
    Pipeline,
    RetryBudget,
    Success,
    TimedOut,
    ToolContext,
    ToolRegistry,
    Transient,
    Unavailable,
    gather,
)
from toolcall_pipeline.base import timing
from toolcall_pipeline.middlewares import (
    Cache,
    CircuitBreaker,
    Concurrency,
    LoopGuard,
    RateLimit,
    Retry,
    Timeout,
    standard,
)
from toolcall_pipeline.testing import FakeClock, assert_failure, assert_success, no_waiting, script


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    with FakeClock() as clock:
        yield clock


def test_it_is_the_time_of_every_stage_until_its_end() -> None:
    """Inside of its block each function of the clock is its own, and afterwards the machine's again."""
    machine = (timing.now, timing.move_on_after)
    with FakeClock() as clock:
        clock.advance(7)
        assert timing.now() == timing.monotonic() == clock()
        assert timing.wall_time() == clock.wall_time()
        assert timing.move_on_after == clock.move_on_after
    assert (timing.now, timing.move_on_after) == machine
    assert timing.now is time.monotonic
    assert timing.monotonic() == pytest.approx(time.monotonic(), abs=60)
    assert timing.wall_time() == pytest.approx(time.time(), abs=60)


async def test_the_time_left_of_a_task() -> None:
    """It is the seconds until the nearest deadline: none without one, and none at all for a cancelled task."""
    assert timing.time_left() == math.inf
    left: list[float] = []
    with anyio.fail_after(1000), anyio.move_on_after(5000) as scope:
        left.append(timing.time_left())
        scope.cancel()
        left.append(timing.time_left())
        await anyio.lowlevel.checkpoint()
    assert left == [pytest.approx(1000, abs=60), -math.inf]


@attrs.define
class World:
    """A pipeline over one tool, whose body is the test's."""

    body: Callable[..., Any]
    runs: int = 0

    def pipeline(self, **options: Any) -> Pipeline:
        tools = ToolRegistry()

        async def probe() -> object:
            self.runs += 1
            return await self.body(self.runs)

        tools.tool(effect="read")(probe)
        return standard(tools, **options)


async def fail_twice(run: int) -> int:
    if run < 3:
        raise ConnectionError
    return run


async def number(run: int) -> int:
    return run


async def test_a_tool_that_takes_too_long(clock: FakeClock) -> None:
    """A tool that sleeps on the clock beyond its limit is cancelled at once; one that ends in time is not."""

    async def takes(seconds: float) -> object:
        async def body(_: int) -> str:
            await clock.sleep(seconds)
            return "done"

        return await World(body).pipeline(timeout=30, attempts=1).call("probe")

    assert await takes(29) == Success("done")
    assert await takes(30) == Failure(TimedOut(30, landed="maybe"))
    assert clock() == FakeClock()() + 59


async def test_a_sync_tool_moves_the_clock_in_its_thread(clock: FakeClock) -> None:
    """The limit of a tool in a thread is over when the thread says so."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    def slow() -> str:
        clock.advance(31)
        return "done"

    assert isinstance(assert_failure(await standard(tools, timeout=30, attempts=1).call("slow")), TimedOut)
    assert assert_success(await standard(tools, timeout=32, attempts=1).call("slow")) == "done"


async def test_a_tool_that_hangs_ends_when_the_test_says_so(clock: FakeClock) -> None:
    """`advance` in another task cancels what waits for something else; the limit of the call counts as well."""
    begun = anyio.Event()

    async def hang(_: int) -> None:
        begun.set()
        await anyio.sleep_forever()

    pipeline = World(hang).pipeline(timeout=30, attempts=1)
    outcomes: list[object] = []

    async def call(timeout: float) -> None:  # noqa: ASYNC109  # that of the call
        outcomes.append(await pipeline.call("probe", timeout=timeout))

    for timeout, moved in ((60, 30), (10, 10)):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, timeout)
            await begun.wait()
            clock.advance(moved - 1)
            await anyio.lowlevel.checkpoint()
            assert not outcomes
            clock.advance(1)
        assert outcomes.pop() == Failure(TimedOut(moved, landed="maybe"))
        begun = anyio.Event()


async def test_waits_before_retries_take_no_time(clock: FakeClock) -> None:
    """Retry waits on the clock, and does not begin a wait that would end after the deadline on the clock."""
    world = World(fail_twice)
    retry = Retry(first_delay=8, jitter=lambda: 0.5)
    assert await world.pipeline().replace("retry", retry).call("probe") == Success(3)
    assert clock.slept == [4, 8]
    report = await World(fail_twice).pipeline().replace("retry", retry).report(Call("probe", timeout=10))
    assert [(each.wait, each.reason) for each in report.decisions] == [
        (4, "transient, and the tool is read"),
        (None, "not repeated: the deadline comes first"),
    ]


async def test_a_limit_around_retry(clock: FakeClock) -> None:
    """A limit outside of Retry counts the waits on the clock."""
    around = World(fail_twice).pipeline().replace("retry", Retry(first_delay=8, jitter=lambda: 0.99))
    error = assert_failure(await around.before("retry", Timeout(10)).call("probe"))
    assert isinstance(error, Transient)
    assert len(clock.slept) == 1


STAGES: dict[str, Callable[[FakeClock], Awaitable[list[object]]]] = {}


def stage(function: Callable[[FakeClock], Awaitable[list[object]]]) -> None:
    STAGES[function.__name__] = function


@stage
async def cache(clock: FakeClock) -> list[object]:
    pipeline = World(number).pipeline().before("retry", Cache(60))
    before = [await pipeline.call("probe"), await pipeline.call("probe")]
    clock.advance(60)
    return [before == [Success(1), Success(1)], await pipeline.call("probe") == Success(2)]


@stage
async def rate_limit(clock: FakeClock) -> list[object]:
    pipeline = World(number).pipeline().before("retry", RateLimit(1, per=60))
    first, error = await pipeline.call("probe"), assert_failure(await pipeline.call("probe"))
    clock.advance(60)
    waits = isinstance(error, Unavailable) and error.retry_after == 60
    return [first == Success(1), waits, await pipeline.call("probe") == Success(2)]


@stage
async def queueing(clock: FakeClock) -> list[object]:
    pipeline = World(number).pipeline().before("retry", RateLimit(1, per=60).queueing(max_wait=100))
    outcomes = [await pipeline.call("probe"), await pipeline.call("probe")]
    late = await pipeline.call("probe", timeout=10)
    return [outcomes == [Success(1), Success(2)], clock.slept == [60], assert_failure(late).kind == "unavailable"]


@stage
async def circuit_breaker(clock: FakeClock) -> list[object]:
    tools = ToolRegistry()
    runs: list[int] = []

    @tools.tool(effect="read")
    async def probe() -> int:
        runs.append(1)
        if len(runs) == 1:
            raise ConnectionError
        return len(runs)

    breaker = CircuitBreaker(tools, failures=1, open_for=30)
    pipeline = standard(tools, attempts=1).after("retry", breaker)
    kinds = [assert_failure(await pipeline.call("probe")).kind for _ in range(2)]
    clock.advance(30)
    return [kinds == ["transient", "unavailable"], await pipeline.call("probe") == Success(2)]


@stage
async def loop_guard(clock: FakeClock) -> list[object]:
    async def same(_: int) -> str:
        return "same"

    pipeline = World(same).pipeline().before("retry", LoopGuard(warn_after=2, refuse_after=2, forget_after=60))
    before = [await pipeline.call("probe") for _ in range(3)]
    clock.advance(61)
    return [isinstance(before[-1], Failure), await pipeline.call("probe") == Success("same")]


@stage
async def concurrency(clock: FakeClock) -> list[object]:
    go_on = anyio.Event()

    async def body(run: int) -> int:
        await go_on.wait()
        return run

    pipeline = World(body).pipeline().before("retry", Concurrency(1, max_wait=5))
    outcomes: list[Outcome] = []
    refused: list[Outcome] = []

    async def call() -> None:
        outcomes.append(await pipeline.call("probe"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        clock.advance(5)
        await anyio.wait_all_tasks_blocked()
        refused += outcomes
        go_on.set()
    return [assert_failure(refused[0]).kind == "unavailable", outcomes[1] == Success(1)]


@stage
async def budget(clock: FakeClock) -> list[object]:
    spent = RetryBudget(1, 1)
    spent.take()
    before = spent.left
    clock.advance(1)
    return [before == 0, spent.left == 1]


@stage
async def batch(clock: FakeClock) -> list[object]:
    async def body(run: int) -> int:
        await clock.sleep(5)
        return run

    outcomes = await gather(World(body).pipeline(), [Call("probe")] * 3, 1, timeout=8)
    return [
        outcomes[0] == Success(1),
        assert_failure(outcomes[1]).kind == "timeout",
        isinstance(assert_failure(outcomes[2]), NotExecuted),
    ]


@stage
async def deadline_of_the_tool(clock: FakeClock) -> list[object]:
    tools = ToolRegistry()

    @tools.tool(effect="read", context=True)
    async def probe(context: ToolContext) -> float | None:
        return context.deadline

    return [await standard(tools).call("probe", timeout=20) == Success(clock() + 20)]


@stage
async def retry_after_a_date(clock: FakeClock) -> list[object]:
    date = format_datetime(datetime.fromtimestamp(clock.wall_time() + 20, UTC), usegmt=True)

    class UnreachableError(Exception):
        response = SimpleNamespace(status_code=503, headers={"Retry-After": date})

    async def body(run: int) -> int:
        if run == 1:
            raise UnreachableError
        return run

    done = await World(body).pipeline().call("probe")
    return [done == Success(2), 18 <= clock.slept[0] <= 20]


@pytest.mark.parametrize("check", STAGES.values(), ids=STAGES)
async def test_the_clock_moves(check: Callable[[FakeClock], Awaitable[list[object]]], clock: FakeClock) -> None:
    """Each stage that was given no clock of its own has this one."""
    found = await check(clock)
    assert found == [True] * len(found)


async def test_a_stage_may_have_a_clock_of_its_own(clock: FakeClock) -> None:
    """``clock=`` and ``sleep=`` go before the one that moves all."""
    own = FakeClock()
    inside = script(Failure(Transient(retry_after=20)), Success("fine"))
    assert await Retry(sleep=own.sleep)(a_call(), inside) == Success("fine")
    assert (len(own.slept), clock.slept) == (1, [])


async def test_the_time_of_the_machine_is_back_after_the_block() -> None:
    """Blocks may be nested, also of one clock; after the last one nothing is replaced."""
    one, two = FakeClock(1.0), FakeClock(2.0)
    with one:
        with two, one:
            assert timing.monotonic() == 1.0
        assert timing.monotonic() == 1.0
        with two:
            assert timing.monotonic() == 2.0
    assert abs(timing.monotonic() - time.monotonic()) < 1
    assert timing.move_on_after is anyio.move_on_after


def test_synchronous_calls_have_the_clock_too(clock: FakeClock) -> None:
    """It holds in the thread of `call_sync`."""

    async def slow(_: int) -> None:
        await clock.sleep(31)

    assert assert_failure(World(slow).pipeline(timeout=30, attempts=1).call_sync("probe")).kind == "timeout"


async def test_no_waiting_skips_waits_and_nothing_else() -> None:
    """A wait ends at once and moves the time; a tool that really hangs is still timed out."""
    with no_waiting() as clock:
        began = timing.monotonic()
        retry = Retry(first_delay=1000, max_delay=1000, jitter=lambda: 0.5)
        assert await World(fail_twice).pipeline().replace("retry", retry).call("probe") == Success(3)
        assert clock.slept == [500, 500]
        assert timing.monotonic() - began >= 1000

        async def hang(_: int) -> None:
            await anyio.sleep_forever()

        error = assert_failure(await World(hang).pipeline(timeout=0.001, attempts=1).call("probe"), kind="timeout")
        assert isinstance(error, TimedOut)


async def test_no_waiting_jumps_over_deadlines() -> None:
    """Time that is skipped counts for a limit that runs."""
    with no_waiting() as clock:

        async def body(_: int) -> None:
            await clock.sleep(20)
            await clock.sleep(20)

        assert_failure(await World(body).pipeline(timeout=30, attempts=1).call("probe"), kind="timeout")
        assert clock.slept == [20, 20]
