"""What the pipeline costs on a Ray cluster: calls through it beside plain calls of a Ray actor, turn by turn."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any, TypeAlias

os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # or Ray leaves the loopback interface

from middlewares import standard
from pipeline import Call, Pipeline, ToolRegistry, gather, is_success
from pipeline.executors import Ray

LOOPBACK = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
IN_FLIGHT = 100  # on each of two actors
BATCH = 100
MUST = {"singly": 0.85, "in batches": 0.40}  # of the calls a second that plain Ray does
Way: TypeAlias = Callable[[int], Awaitable[None]]
TRIES = 3  # measured so often before a share is called short: what a call costs is there each time

tools = ToolRegistry()


@tools.tool(effect="read")
async def echo(n: int) -> int:
    """Give it back."""
    return n


@tools.tool(effect="read")
async def ten_ms(n: int) -> int:
    """Wait as for a backend."""
    await asyncio.sleep(0.01)
    return n


class Plain:
    """What somebody would write without a pipeline."""

    async def echo(self, n: int) -> int:
        """Give it back."""
        return n

    async def ten_ms(self, n: int) -> int:
        """Wait as for a backend."""
        await asyncio.sleep(0.01)
        return n

    async def numbers(self, numbers: list[int]) -> list[int]:
        """Give them all back: with neither names nor arguments, and so no tool calls."""
        return [await self.echo(n) for n in numbers]

    async def all(self, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        """What many calls give, each by the name and the arguments that a model writes."""
        return [await getattr(self, name)(**arguments) for name, arguments in calls]


async def at_once(limit: int, times: int, one: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(times))

    async def work() -> None:
        for n in numbers:
            await one(n)

    await asyncio.gather(*(work() for _ in range(limit)))


async def rate(times: int, doing: Awaitable[object]) -> float:
    """Calls a second."""
    began = perf_counter()
    await doing
    return times / (perf_counter() - began)


async def through(pipeline: Pipeline, name: str, times: int) -> None:
    outcomes = await gather(pipeline, [Call(name, {"n": n}) for n in range(times)], limit=2 * IN_FLIGHT)
    wrong = [outcome for n, outcome in enumerate(outcomes) if not (is_success(outcome) and outcome.unwrap() == n)]
    assert not wrong, wrong[:3]


async def compare(times: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Calls a second by plain Ray and by the pipeline, for each kind and round."""
    ray: Any = import_module("ray")
    init = {**LOOPBACK, "num_cpus": 2, "logging_level": "ERROR"}
    async with (
        Ray(workers=2, in_flight=IN_FLIGHT, init=init) as single,
        Ray(workers=2, in_flight=10 * BATCH, batch=BATCH) as batched,
    ):
        one, many = standard(tools, executor=single), standard(tools, executor=batched)
        make = ray.remote(num_cpus=0, max_task_retries=0, max_concurrency=IN_FLIGHT)(Plain)
        actors = [make.remote() for _ in range(2)]

        async def plainly(method: str, n: int) -> None:
            await getattr(actors[n % 2], method).remote(n)

        async def in_batches(n: int) -> None:
            await actors[n % 2].all.remote([("echo", {"n": n}) for n in range(BATCH)])

        async def in_bare_batches(n: int) -> None:
            await actors[n % 2].numbers.remote(list(range(BATCH)))

        ways: dict[str, tuple[int, Way, Way]] = {  # one of so many calls, by plain Ray, and by the pipeline
            "singly": (1, lambda n: at_once(2 * IN_FLIGHT, n, partial(plainly, "echo")), partial(through, one, "echo")),
            "of 10 ms": (
                10,
                lambda n: at_once(2 * IN_FLIGHT, n, partial(plainly, "ten_ms")),
                partial(through, one, "ten_ms"),
            ),
            "in batches": (1, lambda n: at_once(4, n // BATCH, in_batches), partial(many_through, many)),
            "by bare numbers": (1, lambda n: at_once(4, n // BATCH, in_bare_batches), partial(many_through, many)),
        }
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in ways}
        for number in range(rounds + 1):
            gc.collect()
            gc.freeze()  # as in benchmarks.overhead
            for kind, (share, plain, ours) in ways.items():
                n = (times if number else times // 10) // share  # the first round is for warming up
                if number % 2:  # each goes first by turns
                    of_plain, of_ours = await rate(n, plain(n)), await rate(n, ours(n))
                else:
                    of_ours, of_plain = await rate(n, ours(n)), await rate(n, plain(n))
                if number:
                    found[kind].append((of_plain, of_ours))
    return found


async def many_through(pipeline: Pipeline, times: int) -> None:
    outcomes = await gather(pipeline, [Call("echo", {"n": n}) for n in range(times)], limit=4 * BATCH)
    assert all(is_success(outcome) for outcome in outcomes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help="small calls in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit code 1 where a share falls short")
    options = parser.parse_args()
    short = set(MUST)
    for _ in range(TRIES if options.check else 1):
        short &= told(asyncio.run(compare(options.calls, options.rounds)))
        if not short:
            break
    return int(options.check and bool(short))


def told(found: dict[str, list[tuple[float, float]]]) -> set[str]:
    """Print the medians of the rounds; what falls short."""
    short: set[str] = set()
    print(f"{'':<16}{'plain Ray':>16}{'pipeline':>16}{'share':>10}")
    for what, rates in found.items():
        plain, ours = (statistics.median(each) for each in zip(*rates, strict=True))
        share = statistics.median(ours / plain for plain, ours in rates)
        must = MUST.get(what)
        if must is not None and share < must:
            short.add(what)
        verdict = "" if must is None else f"  at least {must:.0%}: {'short' if what in short else 'ok'}"
        print(f"{what:<16}{plain:>14,.0f}/s{ours:>14,.0f}/s{share:>10.1%}{verdict}")
    return short


if __name__ == "__main__":
    sys.exit(main())
