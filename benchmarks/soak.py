"""Very many calls with random faults through every stage there is: ``python -m benchmarks.soak [--calls N]``.

What has to hold: each call has one outcome and one report, the counters balance, nothing mutating ran twice for one
call, and at the end no task, no thread and no memory is left that was not there before.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import anyio
import attrs

from middlewares import (
    Available,
    Cache,
    CircuitBreaker,
    Classify,
    Concurrency,
    Execute,
    LoopGuard,
    RateLimit,
    Resolve,
    Retry,
    Timeout,
    Trace,
    Validate,
)
from pipeline import Call, CallReport, Pipeline, Stack, ToolContext, ToolFailed, ToolRegistry, gather, is_failure

FAULTS = 0.2  # of the calls
IN_FLIGHT = 200
HANGS = 0.002  # of the runs of a tool
_MEASURED_FROM = 0.25  # of the calls: by then every pool and cache has its size
_AT_REST = ("AnyIO", "Trio thread", "toolcall-spans")  # names of threads that wait for work
_MOST_GROWTH = 8.0  # MB, from then on


@attrs.define
class Soak:
    """What was counted while it ran."""

    dice: random.Random
    outcomes: Counter[str] = attrs.field(factory=Counter[str])
    reports: Counter[str] = attrs.field(factory=Counter[str])
    attempts: int = 0  # by the reports
    bodies: Counter[str] = attrs.field(factory=Counter[str])  # runs of a tool's body, by tool
    effects: Counter[str] = attrs.field(factory=Counter[str])  # of the mutating tool, by call id
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def began(self, name: str) -> None:
        """A body runs; in any thread."""
        with self.lock:
            self.bodies[name] += 1

    def told(self, report: CallReport) -> None:
        """A call is over."""
        self.reports[report.error.kind if report.error is not None else "success"] += 1
        self.attempts += len(report.attempts)

    def fault(self, attempts: int = 1) -> None:
        """Fail now and then, in one of the ways that backends have."""
        if self.dice.random() < FAULTS / attempts:
            raise self.dice.choice(
                (ConnectionResetError(), RuntimeError("a bug"), ToolFailed("no"), ToolFailed("later", kind="transient"))
            )


def tools_of(soak: Soak) -> ToolRegistry:
    """One of each effect, in the loop and in a thread."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look(key: int) -> int:
        soak.began("look")
        await anyio.sleep(0 if soak.dice.random() > HANGS else 1)  # longer than anybody waits
        soak.fault()
        return key

    @tools.tool(effect="idempotent")
    def put(key: int, text: str) -> str:
        soak.began("put")
        soak.fault()
        return f"{key}={text}"

    @tools.tool(effect="keyed", context=True)
    async def pay(context: ToolContext, cents: int) -> str:
        soak.began("pay")
        soak.fault()
        return context.idempotency_key

    @tools.tool(effect="mutating", context=True)
    async def send(context: ToolContext, to: str) -> str:
        soak.began("send")
        soak.effects[context.call_id] += 1
        soak.fault()
        return to

    return tools


def pipeline_of(soak: Soak, tools: ToolRegistry) -> Pipeline:
    """Every stage there is."""
    return (
        Stack()
        .observe(Trace(sinks=[soak.told]))
        .check(Resolve(tools))
        .check(Available(tools))
        .check(Validate())
        .check(RateLimit(1_000_000, burst=1000))
        .wrap(LoopGuard())
        .wrap(Cache(0.05))
        .wrap(Concurrency(100, waiting=1000))
        .wrap(Retry(first_delay=0.001))
        .wrap(CircuitBreaker(tools, failures=4, open_for=0.01, key=lambda call: call.tool.name))
        .wrap(Timeout(0.5))
        .wrap(Classify())
        .end(Execute())  # its threads are counted, those left behind too
    )


def call(number: int, dice: random.Random) -> Call:
    """One of the tools, and now and then a mistake of the model's."""
    name = dice.choice(("look", "look", "put", "pay", "send"))
    every: dict[str, dict[str, Any]] = {
        "look": {"key": dice.randrange(1000)},
        "put": {"key": str(number), "text": "x"},
        "pay": {"cents": number},
        "send": {"to": f"ann{number}"},
    }
    arguments = every[name]
    if dice.random() < FAULTS / 4:
        name, arguments = dice.choice(((name + "s", arguments), (name, {}), (name, {**arguments, "extra": 1})))
    return Call(name, arguments, str(number), principal=f"p{number % 50}")


async def run(calls: int, seed: int) -> list[str]:
    """Run them all; what did not hold, in words."""
    soak = Soak(random.Random(seed))  # noqa: S311  # dice
    pipeline = pipeline_of(soak, tools_of(soak))
    threads, measured, began = threading.active_count(), 0.0, perf_counter()
    step = max(1, calls // 100)
    for first in range(0, calls, step):
        batch = [call(number, soak.dice) for number in range(first, min(first + step, calls))]
        for outcome in await gather(pipeline, batch, limit=IN_FLIGHT):
            soak.outcomes[outcome.failure().kind if is_failure(outcome) else "success"] += 1
        if not measured and first + step >= calls * _MEASURED_FROM:
            measured = megabytes()
    seconds, grown = perf_counter() - began, megabytes() - measured
    left = await threads_left(threads)
    print(f"{calls:,} calls in {seconds:.1f} s ({calls / seconds:,.0f} a second), {IN_FLIGHT} in flight")
    print("outcomes", dict(soak.outcomes.most_common()))
    print(f"bodies {dict(soak.bodies)}, attempts {soak.attempts:,}")
    print(f"memory {measured:.1f} MB after a quarter, {grown:+.1f} MB since; {left} threads left")
    held = {
        f"{calls:,} outcomes": sum(soak.outcomes.values()) == calls,
        f"{calls:,} reports": sum(soak.reports.values()) == calls,
        "reports agree with outcomes": soak.reports == soak.outcomes,
        "every kind of end was seen": len(soak.outcomes) >= 6,  # noqa: PLR2004
        "bodies are attempts": sum(soak.bodies.values()) <= soak.attempts,
        "no side effect twice": max(soak.effects.values(), default=0) <= 1,
        "no thread left": left == 0 and pipeline.entries[-1].obj.executors["thread"].abandoned == 0,
        f"memory grew by less than {_MOST_GROWTH} MB": grown < _MOST_GROWTH,
    }
    return [what for what, holds in held.items() if not holds]


async def threads_left(before: int) -> int:
    """How many threads there are more than before, in the end; both loops keep some at rest."""
    busy: list[threading.Thread] = []
    for _ in range(50):
        gc.collect()
        busy = [each for each in threading.enumerate() if not each.name.startswith(_AT_REST)]
        if len(busy) <= before:
            break
        await anyio.sleep(0.1)
    return max(0, len(busy) - before)


def megabytes() -> float:
    """Resident memory of this process."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 where something did not hold."""
    parser = argparse.ArgumentParser(description="Very many calls with random faults, through every stage.")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args(arguments)
    logging.getLogger("toolcall_pipeline").addHandler(logging.NullHandler())
    broken = anyio.run(run, options.calls, options.seed, backend=options.backend)
    for what in broken:
        print(f"did not hold: {what}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
