"""``python -m benchmarks.scale.soak``: very many calls with random faults, through every stage that there is.

Each call must have one outcome and one report, the counters must balance, no side effect may happen twice in a call,
and at the end no task, thread or memory may be left that was not there before.
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

from toolcall_pipeline import (
    Call,
    CallReport,
    Pipeline,
    Stack,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    gather,
    is_failure,
)
from toolcall_pipeline.middlewares import (
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

FAULTS = 0.2  # a share of the calls
IN_FLIGHT = 200
HANGS = 0.002  # a share of the runs of a tool
_MEASURED_FROM = 0.25  # a share of the calls: by then every pool and cache has its size
_AT_REST = ("AnyIO", "Trio thread", "toolcall-spans")  # names of threads that wait for work
_MOST_GROWTH = 8.0  # MB, from then on


@attrs.define
class Soak:
    """The counts of a run.

    Args:
        rng: decides on faults.
        outcomes: by kind of error, or "success".
        reports: the same, from the reports.
        attempts: of all calls, from the reports.
        bodies: runs of a tool's body, by tool.
        effects: of the mutating tool, by call id.
        lock: guards ``bodies``; some bodies run in threads.
    """

    rng: random.Random
    outcomes: Counter[str] = attrs.field(factory=Counter[str])
    reports: Counter[str] = attrs.field(factory=Counter[str])
    attempts: int = 0
    bodies: Counter[str] = attrs.field(factory=Counter[str])
    effects: Counter[str] = attrs.field(factory=Counter[str])
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def count_body(self, name: str) -> None:
        """Count the run of a body, in any thread."""
        with self.lock:
            self.bodies[name] += 1

    def count_report(self, report: CallReport) -> None:
        """Count a call that has ended."""
        self.reports[report.error.kind if report.error is not None else "success"] += 1
        self.attempts += len(report.attempts)

    def maybe_fail(self) -> None:
        """Fail now and then, in one of the ways that backends have."""
        if self.rng.random() < FAULTS:
            raise self.rng.choice(
                (ConnectionResetError(), RuntimeError("a bug"), ToolFailed("no"), ToolFailed("later", kind="transient"))
            )


def make_tools(soak: Soak) -> ToolRegistry:
    """Make a tool of each effect, in the loop and in a thread."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look(key: int) -> int:
        soak.count_body("look")
        await anyio.sleep(0 if soak.rng.random() > HANGS else 1)  # longer than the time limit
        soak.maybe_fail()
        return key

    @tools.tool(effect="idempotent")
    def put(key: int, text: str) -> str:
        soak.count_body("put")
        soak.maybe_fail()
        return f"{key}={text}"

    @tools.tool(effect="keyed", context=True)
    async def pay(context: ToolContext, cents: int) -> str:
        soak.count_body("pay")
        soak.maybe_fail()
        return context.idempotency_key

    @tools.tool(effect="mutating", context=True)
    async def send(context: ToolContext, to: str) -> str:
        soak.count_body("send")
        soak.effects[context.call_id] += 1
        soak.maybe_fail()
        return to

    return tools


def build_pipeline(soak: Soak, tools: ToolRegistry) -> Pipeline:
    """Build a pipeline of every stage that there is."""
    return (
        Stack()
        .observe(Trace(sinks=[soak.count_report]))
        .check(Resolve(tools))
        .check(Available(tools))
        .check(Validate())
        .check(RateLimit(1_000_000, burst=1000))
        .wrap(LoopGuard())
        .wrap(Cache(0.05))
        .wrap(Concurrency(100, max_queue=1000))
        .wrap(Retry(first_delay=0.001))
        .wrap(CircuitBreaker(tools, failures=4, open_for=0.01, key=lambda call: call.tool.name))
        .wrap(Timeout(0.5))
        .wrap(Classify())
        .end(Execute())  # its own threads are counted, also those that it had to abandon
    )


def make_call(number: int, rng: random.Random) -> Call:
    """Call one of the tools, now and then with a mistake that models make."""
    name = rng.choice(("look", "look", "put", "pay", "send"))
    by_name: dict[str, dict[str, Any]] = {
        "look": {"key": rng.randrange(1000)},
        "put": {"key": str(number), "text": "x"},
        "pay": {"cents": number},
        "send": {"to": f"ann{number}"},
    }
    arguments = by_name[name]
    if rng.random() < FAULTS / 4:
        name, arguments = rng.choice(((name + "s", arguments), (name, {}), (name, {**arguments, "extra": 1})))
    return Call(name, arguments, str(number), principal=f"p{number % 50}")


async def run(calls: int, seed: int) -> list[str]:
    """Run that many calls and print what was counted; return the rules that are broken."""
    soak = Soak(random.Random(seed))  # noqa: S311  # not for secrets
    pipeline = build_pipeline(soak, make_tools(soak))
    threads, measured, began = threading.active_count(), 0.0, perf_counter()
    step = max(1, calls // 100)
    for first in range(0, calls, step):
        batch = [make_call(number, soak.rng) for number in range(first, min(first + step, calls))]
        for outcome in await gather(pipeline, batch, limit=IN_FLIGHT):
            soak.outcomes[outcome.failure().kind if is_failure(outcome) else "success"] += 1
        if not measured and first + step >= calls * _MEASURED_FROM:
            measured = measure_memory()
    seconds, growth = perf_counter() - began, measure_memory() - measured
    left = await count_threads_left(threads)
    print(f"{calls:,} calls in {seconds:.1f} s ({calls / seconds:,.0f} a second), {IN_FLIGHT} in flight")
    print("outcomes", dict(soak.outcomes.most_common()))
    print(f"bodies {dict(soak.bodies)}, attempts {soak.attempts:,}")
    print(f"memory {measured:.1f} MB after a quarter, {growth:+.1f} MB since; {left} threads left")
    rules = {
        f"{calls:,} outcomes": sum(soak.outcomes.values()) == calls,
        f"{calls:,} reports": sum(soak.reports.values()) == calls,
        "reports agree with outcomes": soak.reports == soak.outcomes,
        "every kind of end occurs": len(soak.outcomes) >= 6,  # noqa: PLR2004
        "every body is an attempt": sum(soak.bodies.values()) <= soak.attempts,
        "no side effect happens twice": max(soak.effects.values(), default=0) <= 1,
        "no thread is left": left == 0 and pipeline.entries[-1].obj.executors["thread"].abandoned == 0,
        f"memory grows by less than {_MOST_GROWTH} MB": growth < _MOST_GROWTH,
    }
    return [rule for rule, holds in rules.items() if not holds]


async def count_threads_left(before: int) -> int:
    """Wait for threads to end; return how many more there are than before, without those that both loops keep."""
    busy: list[threading.Thread] = []
    for _ in range(50):
        gc.collect()
        busy = [each for each in threading.enumerate() if not each.name.startswith(_AT_REST)]
        if len(busy) <= before:
            break
        await anyio.sleep(0.1)
    return max(0, len(busy) - before)


def measure_memory() -> float:
    """MB of resident memory of this process."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return 1 if a rule is broken."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale.soak", description="Run very many calls with random faults."
    )
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args(arguments)
    logging.getLogger("toolcall_pipeline").addHandler(logging.NullHandler())
    broken = anyio.run(run, options.calls, options.seed, backend=options.backend)
    for rule in broken:
        print(f"broken: {rule}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
