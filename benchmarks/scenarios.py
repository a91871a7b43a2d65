"""What is done in each round, by groups that share their rounds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import anyio
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from benchmarks.crowds import a_task_each, few_workers, gathered, yields
from benchmarks.subjects import (
    ARGUMENTS,
    Run,
    add,
    around,
    boom,
    by_hand,
    calls,
    calls_in_turn,
    calls_of,
    flaky,
    let_pass,
    many_tools,
    misspelt,
    pass_on,
    with_more,
)
from benchmarks.timing import Batch, Effort, Scenario, Times, rounds
from benchmarks.tracing import Sink
from middlewares import Cache, CircuitBreaker, Concurrency, LoopGuard, RateLimit, Timeout, standard
from pipeline import is_failure
from pipeline.telemetry.attributes import make_span_start

SPANS = 7  # of a call that succeeds at once: its own, its attempt's and those of five stages; Retry's is a wait
# The tool that is asked for, its arguments, and the kind of error that comes of it, or None.
FAILURES: dict[str, tuple[str, Mapping[str, object], str | None]] = {
    "strange": ("zzzzzz", ARGUMENTS, "unknown_tool"),
    "near": ("boon", ARGUMENTS, "unknown_tool"),
    "missing": ("add", {"a": 2}, "validation"),
    "wrong": ("add", {"a": 2, "b": "three"}, "validation"),
    "raising": ("boom", ARGUMENTS, "internal"),
    "retried": ("flaky", ARGUMENTS, None),
}
HEAVY = (
    "click",
    "griffe",
    "jsonschema_rs",
    "opentelemetry.sdk",
    "pydantic",
    "pydantic_core",
    "rapidfuzz",
    "ray",
    "rich",
)
_IMPORT = f"""
import sys, time
began = time.process_time()
import middlewares, pipeline
spent = time.process_time() - began
print(spent * 1e3, sum(name in sys.modules for name in {HEAVY}))
"""


def _timed(batches: Mapping[str, Batch], effort: Effort) -> list[Times]:
    return anyio.run(rounds, {name: Scenario(batch) for name, batch in batches.items()}, effort)


def unwatched(effort: Effort) -> list[Times]:
    """The loop, the seven stages, and more of them."""
    seven = around(add)
    runs: dict[str, Run] = {"loop": by_hand, "untraced": seven.without("trace").call, "seven": seven.call}
    for count in (1, 4, 16):
        runs[f"{count} middlewares"] = with_more(seven, pass_on, count).call
        runs[f"{count} checks"] = with_more(seven, let_pass, count).call
    return _timed({name: calls(run) for name, run in runs.items()}, effort)


IDLE: dict[str, Any] = {
    "rate_limit": lambda: RateLimit(1e6, burst=10**6),
    "concurrency": lambda: Concurrency(100),
    "circuit_breaker": CircuitBreaker,
    "cache": lambda: Cache(60, tools=["another"]),
    "loop_guard": LoopGuard,
    "timeout": lambda: Timeout(None),
}


def idle(effort: Effort) -> list[Times]:
    """The seven stages with one of the others, which lets every call pass."""
    seven = around(add)
    runs: dict[str, Run] = {"loop": by_hand, "seven": seven.call}
    for name, made in IDLE.items():
        runs[name] = seven.after("validate", made()).call
    return _timed({name: calls_in_turn(run) for name, run in runs.items()}, effort)


def watched(effort: Effort) -> list[Times]:
    """Every way to trace, and bare spans. Raises RuntimeError where one of them lost a span."""
    pipeline = around(add, boom)
    inline, deferred, off = sinks = Sink(), Sink(), Sink(ALWAYS_OFF)
    scenarios = {
        "bare span": inline.bare(),
        "eight bare spans": inline.bare(8),
        "sampled-out span": off.sampled_out(*make_span_start("add")),
        "untraced": Scenario(calls(pipeline.without("trace").call)),
        "no provider": Scenario(calls(pipeline.call)),
        "sampled out": off.traced(pipeline, "add", 0),
        "inline": inline.traced(pipeline, "add", SPANS),
        "deferred": deferred.traced(pipeline, "add", SPANS, defer=True),
        "inline, raising": inline.traced(pipeline, "boom", SPANS),
        "deferred, raising": deferred.traced(pipeline, "boom", SPANS, defer=True),
    }
    taken = anyio.run(rounds, scenarios, effort)
    for sink in sinks:
        sink.close()
    return taken


def failing(effort: Effort) -> list[Times]:
    """Calls that go wrong. Raises RuntimeError where one did not go wrong as it should."""
    pipeline, few = around(add, boom, flaky), many_tools(20)
    batches = {"loop": calls(by_hand), "retried by hand": calls(by_hand, "flaky")}
    for label, (name, arguments, kind) in FAILURES.items():
        outcome = anyio.run(pipeline.call, name, arguments)
        if kind != (outcome.failure().kind if is_failure(outcome) else None):
            raise RuntimeError(f"{label}: {outcome}")
        batches[label] = calls(pipeline.call, name, arguments)
    strange = [f"q{number:07}" for number in range(1000)]
    batches["strange, first"] = calls_of(standard(few).call, strange)
    batches["near, first"] = calls_of(standard(few).call, misspelt(few.tools, 600))
    return _timed(batches, effort)


def among_many(effort: Effort) -> list[Times]:
    """A wrong name, first seen and seen again."""
    batches = {"loop": calls(by_hand)}
    for count in (1_000, 10_000):
        tools = many_tools(count)
        names = misspelt(tools.tools, 1000)
        batches[f"{count} first"] = calls_of(standard(tools).call, names)
        batches[f"{count} again"] = calls(standard(tools).call, names[0])
    return _timed(batches, effort)


def at_once(effort: Effort) -> list[Times]:
    """A thousand calls, and a thousand plain functions."""
    batches = {"tasks": a_task_each(add), "workers": few_workers(add), "gather": gathered(add)}
    slow = {"tasks, yielding": a_task_each(yields), "gather, yielding": gathered(yields)}
    return _timed({**batches, **slow}, effort)


def importing(effort: Effort) -> list[Times]:
    """Milliseconds of a fresh process, and how many modules came along that should not."""
    taken: list[Times] = []
    for _ in range(effort.processes + 1):
        done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)  # noqa: S603
        spent, heavy = done.stdout.split()
        taken.append({"ms": float(spent), "heavy": float(heavy)})
    return taken[1:]  # the first one may have had to compile
