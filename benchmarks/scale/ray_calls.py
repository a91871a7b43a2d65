"""``python -m benchmarks.scale.ray_calls``: calls on Ray, by the pipeline and by plain actors.

``--check`` judges single calls by calls a second, and calls in batches by the CPU time of this process and the actors:
plain Ray's as a share of ours. Their calls a second are for people: other work on the machine moves the share.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any, TypeAlias, cast

import attrs

os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # or Ray leaves the loopback interface

from benchmarks.scale.ray_costs import AtOnce, Cost, Run, Spent, measure_cost, print_costs, read_spent, tell_spent
from toolcall_pipeline import Call, Pipeline, ToolRegistry, gather, is_success
from toolcall_pipeline.executors import Ray
from toolcall_pipeline.middlewares import standard

LOOPBACK = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
IN_FLIGHT = 100  # on each of two actors
BATCH = 100
MUST_SINGLY = 0.85  # share of the calls a second that plain Ray makes
MUST_IN_BATCHES = 0.33  # plain Ray's CPU time as a share of ours; 37 to 47 % were read, with and without other work
PLAIN_BATCH, OUR_BATCH = "names and arguments", "the pipeline, on Ray"
TRIES = 3  # measurements that have to fall short before --check fails: a cost would be there each time
Rates: TypeAlias = dict[str, list[tuple[float, float]]]  # by comparison: calls a second of plain Ray and of ours

tools = ToolRegistry()


@tools.tool(effect="read")
async def echo(n: int) -> int:
    """Return the number."""
    return n


@tools.tool(effect="read")
async def ten_ms(n: int) -> int:
    """Wait as for a backend."""
    await asyncio.sleep(0.01)
    return n


@tools.tool(effect="read")
async def spent() -> list[float]:
    """Say what this actor has spent."""
    return tell_spent()


class Plain:
    """The actor that people write without a pipeline."""

    async def echo(self, n: int) -> int:
        """Return the number."""
        return n

    async def ten_ms(self, n: int) -> int:
        """Wait as for a backend."""
        await asyncio.sleep(0.01)
        return n

    async def spent(self) -> list[float]:
        """Say what this actor has spent."""
        return tell_spent()

    async def numbers(self, numbers: list[int]) -> list[int]:
        """Return the numbers. They have neither names nor arguments, so these are not tool calls."""
        return [await self.echo(n) for n in numbers]

    async def all(self, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        """Run many calls, each with the name and the arguments that a model writes."""
        return [await getattr(self, name)(**arguments) for name, arguments in calls]


@attrs.frozen
class Comparison:
    """One kind of calls, made both ways.

    Args:
        share: one of how many calls is made, for those that take long.
        plain: by plain Ray.
        ours: by the pipeline.
    """

    share: int
    plain: Run
    ours: Run


async def run_workers(limit: int, times: int, one: Callable[[int], Awaitable[object]]) -> None:
    """Await ``one(0)`` to ``one(times - 1)``, that many at a time."""
    numbers = iter(range(times))

    async def work() -> None:
        for n in numbers:
            await one(n)

    await asyncio.gather(*(work() for _ in range(limit)))


async def measure_rate(times: int, run: Run) -> float:
    """Make that many calls; return calls a second."""
    began = perf_counter()
    await run(times)
    return times / (perf_counter() - began)


async def run_through(pipeline: Pipeline, name: str, times: int, limit: int = 2 * IN_FLIGHT) -> None:
    """Make the calls through the pipeline, and check every answer."""
    outcomes = await gather(pipeline, [Call(name, {"n": n}) for n in range(times)], limit=limit)
    wrong = [outcome for n, outcome in enumerate(outcomes) if not (is_success(outcome) and outcome.unwrap() == n)]
    assert not wrong, wrong[:3]


async def compare(times: int, rounds: int) -> tuple[Rates, dict[str, Cost]]:
    """Measure each comparison in each round, plain Ray and ours first by turns; then what a call in a batch costs."""
    ray: Any = import_module("ray")
    init = {**LOOPBACK, "num_cpus": 2, "logging_level": "ERROR"}
    async with (
        Ray(workers=2, in_flight=IN_FLIGHT, init=init) as single,
        Ray(workers=2, in_flight=10 * BATCH, batch=BATCH) as batched,
    ):
        make = ray.remote(num_cpus=0, max_task_retries=0, max_concurrency=IN_FLIGHT)(Plain)
        actors = [make.remote() for _ in range(2)]
        comparisons = _comparisons(actors, standard(tools, executor=single), standard(tools, executor=batched))
        found: Rates = {title: [] for title in comparisons}
        for number in range(rounds + 1):
            gc.collect()
            gc.freeze()
            for title, comparison in comparisons.items():
                n = (times if number else times // 10) // comparison.share  # the first round warms up
                if number % 2:
                    plain, ours = await measure_rate(n, comparison.plain), await measure_rate(n, comparison.ours)
                else:
                    ours, plain = await measure_rate(n, comparison.ours), await measure_rate(n, comparison.plain)
                if number:
                    found[title].append((plain, ours))
        return found, await _measure_costs(times, actors, comparisons, standard(tools, executor=batched))


async def _measure_costs(
    times: int, actors: list[Any], comparisons: dict[str, Comparison], batched: Pipeline
) -> dict[str, Cost]:
    async def ask_plain() -> Spent:
        return read_spent([await actor.spent.remote() for actor in actors])

    async def ask_ours() -> Spent:
        outcomes = await gather(batched, [Call("spent")] * (8 * BATCH), limit=4 * BATCH)
        return read_spent(cast("list[float]", outcome.unwrap()) for outcome in outcomes)

    alone = partial(run_through, standard(tools, executor=AtOnce()), "echo", limit=4 * BATCH)
    await alone(times // 10)  # its first calls take longer
    return {
        "bare numbers": await measure_cost(comparisons["to bare numbers"].plain, times, ask_plain),
        PLAIN_BATCH: await measure_cost(comparisons["in batches"].plain, times, ask_plain),
        "the pipeline, with an executor that answers": await measure_cost(alone, times, None),
        OUR_BATCH: await measure_cost(comparisons["in batches"].ours, times, ask_ours),
    }


def _comparisons(actors: list[Any], single: Pipeline, batched: Pipeline) -> dict[str, Comparison]:
    async def call(method: str, n: int) -> None:
        await getattr(actors[n % 2], method).remote(n)

    async def send_batch(n: int) -> None:
        await actors[n % 2].all.remote([("echo", {"n": n}) for n in range(BATCH)])

    async def send_numbers(n: int) -> None:
        await actors[n % 2].numbers.remote(list(range(BATCH)))

    def plain(method: str) -> Run:
        return lambda times: run_workers(2 * IN_FLIGHT, times, partial(call, method))

    def plain_batches(send: Callable[[int], Awaitable[None]]) -> Run:
        return lambda times: run_workers(4, times // BATCH, send)

    in_batches = partial(run_through, batched, "echo", limit=4 * BATCH)
    return {
        "singly": Comparison(1, plain("echo"), partial(run_through, single, "echo")),
        "of 10 ms": Comparison(10, plain("ten_ms"), partial(run_through, single, "ten_ms")),
        "in batches": Comparison(1, plain_batches(send_batch), in_batches),
        "to bare numbers": Comparison(1, plain_batches(send_numbers), in_batches),
    }


def report(found: Rates, costs: Mapping[str, Cost]) -> set[str]:
    """Print the medians of the rounds and the costs. Return what falls short."""
    print(f"{'':<16}{'plain Ray':>16}{'pipeline':>16}{'share':>10}")
    shares: dict[str, float] = {}
    for title, rates in found.items():
        plain, ours = (statistics.median(each) for each in zip(*rates, strict=True))
        shares[title] = statistics.median(ours / plain for plain, ours in rates)
        print(f"{title:<16}{plain:>14,.0f}/s{ours:>14,.0f}/s{shares[title]:>10.1%}")
    print_costs(costs)
    judged = (
        ("singly, calls a second", shares["singly"], MUST_SINGLY),
        ("in batches, CPU of plain Ray", costs[PLAIN_BATCH].whole / costs[OUR_BATCH].whole, MUST_IN_BATCHES),
    )
    for what, share, must in judged:
        print(f"{what}: {share:.0%}, at least {must:.0%}: {'short' if share < must else 'ok'}")
    return {what for what, share, must in judged if share < must}


def main() -> int:
    """Measure and print; with ``--check``, return 1 if a share falls short in each of several measurements."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.ray_calls", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help="small calls in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit 1 if a share falls short")
    options = parser.parse_args()
    rates, costs = asyncio.run(compare(options.calls, options.rounds))
    short = report(rates, costs)
    for _ in range(TRIES - 1 if options.check else 0):
        if not short:
            break
        rates, costs = asyncio.run(compare(options.calls, options.rounds))
        short &= report(rates, costs)
    return int(options.check and bool(short))


if __name__ == "__main__":
    sys.exit(main())
