"""What the pipeline costs, in ratios of one run: ``python -m benchmarks.overhead [--quick] [--check] [--json FILE]``.

Thread CPU time: other processes, and the threads to which work is deferred, are not in it. Logging is disabled for
both sides: not configured, the library logs nothing but the first crash of a kind, and the loop nothing at all.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs

from benchmarks import scenarios
from benchmarks.crowds import CROWD, LIMIT, in_flight
from benchmarks.timing import Effort, Group, Result, Row, beyond, just, over

FULL = Effort(rounds=31, part=0.025, processes=7)
QUICK = Effort(rounds=9, part=0.003, processes=3)
NOISE = 0.15  # a share of the budget: --check complains beyond it
DISTRIBUTIONS = (
    "toolcall-pipeline",
    "anyio",
    "attrs",
    "jsonschema-rs",
    "opentelemetry-api",
    "opentelemetry-sdk",
    "pydantic",
    "rapidfuzz",
    "returns",
)

GROUPS = (
    Group(
        "nobody listens, in units of the loop written by hand",
        scenarios.unwatched,
        (
            Row("the loop written by hand", "µs", just("loop")),
            Row("six stages, without trace", "loops", over("untraced", "loop")),
            Row("seven stages, no provider", "loops", over("seven", "loop"), 5, 4),
            Row("one more middleware", "loops", beyond("1 middlewares", "seven", "loop"), 0.25, 0.2),
            Row("one more middleware, of 4", "loops", beyond("4 middlewares", "seven", "loop", 4), 0.25, 0.2),
            Row("one more middleware, of 16", "loops", beyond("16 middlewares", "seven", "loop", 16), 0.25, 0.2),
            Row("one more check", "loops", beyond("1 checks", "seven", "loop"), 0.12, 0.09),
            Row("one more check, of 4", "loops", beyond("4 checks", "seven", "loop", 4), 0.12, 0.09),
            Row("one more check, of 16", "loops", beyond("16 checks", "seven", "loop", 16), 0.12, 0.09),
        ),
    ),
    Group(
        "each further stage while it lets the calls pass, in units of that loop",
        scenarios.idle,
        tuple(Row(name, "loops", beyond(name, "seven", "loop"), 0.5, 0.4) for name in scenarios.IDLE),
    ),
    Group(
        "somebody listens, in units of bare spans (batch processor, exporter to nowhere)",
        scenarios.watched,
        (
            Row("a bare span", "µs", just("bare span")),
            Row("a sampled-out span with attributes", "µs", just("sampled-out span")),
            Row("no provider, less the untraced call", "spans", beyond("no provider", "untraced", "bare span")),
            Row(
                "sampled out, less the untraced call",
                "sampled spans",
                beyond("sampled out", "untraced", "sampled-out span"),
                2,
                1.5,
            ),
            Row("every stage a span, deferred", "spans", over("deferred", "bare span"), 5.5, 4.5),
            Row("every stage a span, inline", "times 8 spans", over("inline", "eight bare spans"), 1.4, 1.2),
            Row(
                "the same, by the spans that it makes",
                f"times {scenarios.SPANS} spans",
                over("inline", "bare span", scenarios.SPANS),
            ),
            Row("raising tool, inline", "successes", over("inline, raising", "inline"), 2, 1.3),
            Row("raising tool, deferred", "successes", over("deferred, raising", "deferred")),
        ),
    ),
    Group(
        "failures, in units of the loop's success",
        scenarios.failing,
        (
            Row("unknown name, nothing near", "loops", over("strange", "loop"), 6, 4),
            Row("unknown name, with a suggestion", "loops", over("near", "loop"), 6, 4),
            Row("seen for the first time, among 20, nothing near", "loops", over("strange, first", "loop")),
            Row("seen for the first time, among 20, suggestion", "loops", over("near, first", "loop")),
            Row("bad parameter: missing", "loops", over("missing", "loop"), 9, 6),
            Row("bad parameter: wrong type", "loops", over("wrong", "loop"), 9, 6),
            Row("raising tool", "loops", over("raising", "loop"), 8, 6),
            Row("one retry, without its wait", "same by hand", over("retried", "retried by hand")),
        ),
    ),
    Group(
        "a wrong name among many",
        scenarios.among_many,
        (
            Row("among 1,000, seen for the first time", "ms", just("1000 first", 1e3), 0.8, 0.5),
            Row("among 10,000, seen for the first time", "ms", just("10000 first", 1e3), 8, 5),
            Row("among 1,000, again", "loops", over("1000 again", "loop"), 6, 4),
            Row("among 10,000, again", "loops", over("10000 again", "loop"), 6, 4),
        ),
    ),
    Group(
        f"{CROWD:,} at once, {LIMIT} at a time",
        scenarios.at_once,
        (
            Row("plain functions, a task each and a limiter", "ms", just("tasks", 1e3)),
            Row("gather", "times that", over("gather", "tasks"), 2, 1.4),
            Row("gather of tools that yield once", "times same", over("gather, yielding", "tasks, yielding"), 2, 1.4),
            Row("gather, over plain functions in its own shape", "times those", over("gather", "workers")),
        ),
    ),
    Group(
        "import of pipeline and middlewares, in fresh processes",
        scenarios.importing,
        (
            Row("CPU", "ms", just("ms"), 97, 57),
            Row("heavy modules that came along", "modules", just("heavy"), 0, 0),
        ),
    ),
    Group(
        "memory of an unwatched call in flight",
        in_flight,
        (
            Row("a task with a plain coroutine of the tool", "bytes", just("plain")),
            Row("the call, beyond that", "bytes", lambda bytes_: bytes_["call"] - bytes_["plain"], 2000, 1600),
        ),
    ),
)


def line(result: Result) -> str:
    """A result as it is printed."""
    row, (first, third) = result.row, result.quartiles
    must, aim = ("" if budget is None else f"{budget:,g}" for budget in (row.must, row.aim))
    return columns(
        row.what, figure(result.median), row.unit, f"{figure(first)} - {figure(third)}", must, aim, result.verdict
    )


def columns(what: str, median: str, unit: str, quartiles: str, must: str, aim: str, verdict: str) -> str:
    """One line of the table."""
    return f"  {what:47} {median:>7} {unit:13} {quartiles:15} {must:>6} {aim:>6}  {verdict}".rstrip()


def figure(value: float) -> str:
    """Three digits, or all of a larger number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"  # noqa: PLR2004


def as_json(result: Result) -> dict[str, Any]:
    """The same, and each round."""
    row = result.row
    return {
        "what": row.what,
        "unit": row.unit,
        "median": result.median,
        "quartiles": result.quartiles,
        "must": row.must,
        "aim": row.aim,
        "verdict": result.verdict,
        "rounds": result.values,
    }


def machine() -> dict[str, Any]:
    """What it was measured with, and nothing that tells where."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "versions": {name: version(name) for name in DISTRIBUTIONS},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and judge if asked to."""
    parser = argparse.ArgumentParser(description="Measure what the pipeline costs.")
    parser.add_argument("--quick", action="store_true", help="a few seconds, and less exact")
    parser.add_argument("--check", action="store_true", help=f"fail where a budget is exceeded by over {NOISE:.0%}%")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured, each round")
    options = parser.parse_args(arguments)
    effort = QUICK if options.quick else FULL
    logging.disable(logging.CRITICAL)
    found: dict[str, Any] = {**machine(), "effort": attrs.asdict(effort), "groups": []}
    exceeded: list[str] = []
    print(columns("", "median", "of", "quartiles", "must", "aim", ""))
    for group in GROUPS:
        print(group.title)
        taken = group.measure(effort)
        results = [Result(row, [row.of(times) for times in taken]) for row in group.rows]
        for result in results:
            print(line(result), flush=True)
        exceeded += [result.row.what for result in results if result.exceeds(NOISE)]
        found["groups"].append({"title": group.title, "rows": [as_json(result) for result in results], "times": taken})
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.check and exceeded:
        print(f"exceeded by more than {NOISE:.0%}: {', '.join(exceeded)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
