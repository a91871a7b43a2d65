"""What holds for limits that share a store, whatever store it is; each takes an open store."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from returns.result import Failure, Success

from support import PATIENT, a_call
from toolcall_pipeline import Outcome, ResolvedCall, Transient, Unavailable
from toolcall_pipeline.middlewares import CircuitBreaker, Concurrency, RateLimit
from toolcall_pipeline.stores import Store
from toolcall_pipeline.testing import FakeClock, script

DONE: Outcome = Success("done")
Stage = Callable[[ResolvedCall, Callable[[ResolvedCall], Awaitable[Outcome]]], Awaitable[Outcome]]


async def run(stage: Stage, outcome: Outcome = DONE, principal: str = "") -> Outcome:
    """One call through a stage, around something that answers so."""
    return await stage(a_call(principal=principal), script(outcome))


async def rate(store: Store) -> None:
    """Two limits with equal options are one: the burst is there once, and so is each slot after it."""
    with FakeClock() as clock:
        one, two = (RateLimit(2, burst=3, store=store, share_as="rate") for _ in range(2))
        assert [await run(limit) for limit in (one, two, one)] == [DONE] * 3
        for limit in (one, two):
            refused = await run(limit)
            assert isinstance(refused, Failure)
            assert isinstance(error := refused.failure(), Unavailable)
            assert (error.reason, round(error.retry_after or 0, 3)) == ("rate_limited", 0.5)
        assert await run(two, principal="another") == DONE
        assert await run(RateLimit(2, burst=4, store=store, share_as="rate")) == DONE
        assert await run(RateLimit(2, burst=3, store=store, share_as="apart")) == DONE
        clock.advance(0.5)
        assert [type(await run(limit)) for limit in (two, one)] == [Success, Failure]
        clock.advance(60)
        assert [type(await run(limit)) for limit in (one, two, two, two)] == [Success] * 3 + [Failure]


async def queued_rate(store: Store) -> None:
    """A limit that queues gives each of two processes a slot of its own, and takes none that comes too late."""
    with FakeClock() as clock:
        one, two = (RateLimit(1, store=store, share_as="queue").queueing(max_wait=2.5) for _ in range(2))
        assert [await run(limit) for limit in (one, two, one)] == [DONE] * 3
        assert sum(clock.slept) == 2
        reader = RateLimit(1, store=store, share_as="queue").queueing(max_wait=0.5)
        assert isinstance(await run(reader), Failure)
        assert await run(two) == DONE
        assert round(sum(clock.slept), 3) == 3


async def concurrency(store: Store) -> None:
    """Two limits with equal options never run more than their units; each call comes to its end."""
    limits = [Concurrency(2, store=store, share_as="many") for _ in range(2)]
    running = peak = 0

    async def inside(_: ResolvedCall) -> Outcome:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await anyio.sleep(0.002)
        running -= 1
        return DONE

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(limits[number % 2], a_call(), inside)
    assert (running, peak) == (0, 2)


async def full_concurrency(store: Store) -> None:
    """A call that may not wait is refused while another process has the unit; a cancelled call gives it back."""
    one, two = (Concurrency(1, max_queue=0, store=store, share_as="full") for _ in range(2))
    begun = anyio.Event()

    async def hang(_: ResolvedCall) -> Outcome:
        begun.set()
        await anyio.sleep_forever()
        return DONE

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, a_call(), hang)
        await begun.wait()
        assert await run(two) == Failure(Unavailable("probe", "busy"))
        assert await run(two, principal="another") == DONE
        slow = Concurrency(1, max_wait=0.05, store=store, share_as="full")
        assert await run(slow) == Failure(Unavailable("probe", "busy"))
        tasks.cancel_scope.cancel()
    assert await run(two) == DONE


async def nested_concurrency(store: Store) -> None:
    """A call that the tool makes runs on the unit of the call around it, one at a time."""
    limit = Concurrency(1, store=store, share_as="nested")
    running: list[int] = []

    async def inner(_: ResolvedCall) -> Outcome:
        running.append(len(running))
        await anyio.sleep(0.001)
        running.pop()
        return DONE

    async def outer(_: ResolvedCall) -> Outcome:
        async with anyio.create_task_group() as tasks:
            for _number in range(3):
                tasks.start_soon(limit, a_call(), inner)
        return DONE

    with anyio.fail_after(30):
        assert await limit(a_call(), outer) == DONE
        assert await run(limit) == DONE


def units_of(limit: Any) -> Any:
    """The units of a limit; a process that dies leaves them taken."""
    return limit._shared


async def lost_holder(store: Store) -> None:
    """The units of a process that died are free again when their lease is over, and not before."""
    with FakeClock() as clock:
        dead, two = (Concurrency(1, max_queue=0, lease=20, store=store, share_as="lost") for _ in range(2))
        shared: Any = units_of(dead)
        assert await shared.acquire("probe-key", 1, None, 0) is not None  # and never comes back
        other: Any = units_of(two)
        clock.advance(19)
        assert await other.acquire("probe-key", 1, None, 0) is None
        clock.advance(2)
        assert await other.acquire("probe-key", 1, None, 0) is not None


async def breaker(store: Store) -> None:
    """Failures of all processes open it for all, one of them tries the tool, and its success closes it for all."""
    with FakeClock() as clock:
        one, two = (
            CircuitBreaker(failures=3, open_for=10, max_open_for=20, store=store, share_as="b") for _ in range(2)
        )
        failed: Outcome = Failure(Transient())
        for stage in (one, two, one):
            assert await run(stage, failed) == failed
        for stage in (one, two):
            refused = await run(stage)
            assert refused == Failure(Unavailable("probe", "breaker_open", 10.0))
        clock.advance(10)

        async def while_trying(_: ResolvedCall) -> Outcome:
            assert await run(two) == Failure(Unavailable("probe", "breaker_open"))
            return failed

        assert await one(a_call(), while_trying) == failed
        assert await run(two) == Failure(Unavailable("probe", "breaker_open", 20.0))
        clock.advance(20)
        silent: Outcome = Failure(Unavailable("probe", "paused"))
        assert await run(one, silent) == silent  # it has tried nothing, so the next call may
        assert await run(two) == DONE
        assert await run(one, failed) == failed
        assert await run(one) == DONE
        for _ in range(2):
            assert await run(two, failed) == failed
        assert await run(one) == DONE  # a success ends the row


async def breaker_ratio(store: Store) -> None:
    """The ratio counts the calls of all processes."""
    with FakeClock():
        one, two = (
            CircuitBreaker(failures=None, failure_ratio=0.5, min_calls=4, store=store, share_as="r") for _ in range(2)
        )
        failed: Outcome = Failure(Transient())
        for stage, outcome in ((one, DONE), (two, DONE), (one, failed), (two, failed)):
            assert await run(stage, outcome) == outcome
        refused = await run(one)
        assert isinstance(refused, Failure)


async def breaker_window(store: Store) -> None:
    """A call counts for as long as the window, however quiet it is meanwhile."""
    with FakeClock() as clock:
        one, two = (
            CircuitBreaker(
                failures=None, failure_ratio=1, min_calls=2, window=86400, store=store, share_as=f"w{number}"
            )
            for number in range(2)
        )
        failed: Outcome = Failure(Transient())
        for stage in (one, two):
            assert await run(stage, failed) == failed
        clock.advance(86399)
        assert await run(one, failed) == failed
        assert isinstance(await run(one), Failure)
        clock.advance(2)
        assert await run(two, failed) == failed
        assert await run(two) == DONE


_ROUNDS = 3  # on a busy machine one may use less than nine tenths; none may exceed a limit

CASES: dict[str, Callable[[Store], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        rate,
        queued_rate,
        concurrency,
        full_concurrency,
        nested_concurrency,
        lost_holder,
        breaker,
        breaker_ratio,
        breaker_window,
    )
}


def check_rate(kind: str, address: str) -> None:
    """Four processes take no more than the rate and the burst allow, and nine tenths of it."""
    for _ in range(_ROUNDS):
        begin, events = run_processes(kind, address, "rate", 3)
        granted = sum(1 for at, _ in events if at <= begin + 3)
        assert granted <= 40 + 200 * 3.1
        if granted >= 0.9 * (40 + 200 * 3):
            return
    raise AssertionError("less than nine tenths of the rate in each round")


def check_units(kind: str, address: str) -> None:
    """Four processes run no more calls at once than there are units, and keep most units busy."""
    for _ in range(_ROUNDS):
        begin, events = run_processes(kind, address, "units", 3)
        running, peak, busy, last = 0, 0, 0.0, begin
        for at, change in events:
            if at <= begin + 3:
                busy += running * (at - last)
                last = at
            running += change
            peak = max(peak, running)
        assert (peak, running) == (5, 0)
        if busy >= 0.9 * 5 * 3:
            return
    raise AssertionError("less than nine tenths of the units busy in each round")


def run_processes(kind: str, address: str, limit: str, seconds: int) -> tuple[float, list[tuple[float, int]]]:
    """When four processes began, and the times at which calls began and ended."""
    worker = str(Path(__file__).with_name("limit_worker.py"))
    command = [sys.executable, worker, kind, address, limit, "25", str(seconds)]
    processes = [subprocess.Popen(command, stdin=-1, stdout=-1, text=True) for _ in range(4)]
    for each in processes:
        assert each.stdout is not None
        each.stdout.readline()
    begin = time.time() + 0.2
    for each in processes:
        assert each.stdin is not None
        each.stdin.write(f"{begin}\n")
        each.stdin.flush()
    printed = [each.communicate(timeout=PATIENT)[0] for each in processes]
    lines = [line.split() for text in printed for line in text.splitlines()[1:]]
    return begin, sorted((float(at), int(change)) for at, change in lines)
