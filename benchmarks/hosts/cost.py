"""The cost of a call in a framework with the pipeline around it, beside the framework's own, in the same run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median
from time import process_time_ns
from typing import Any

from benchmarks.hosts.mistakes import MISTAKES, Tools

_FEW, _MANY = 5, 45  # calls in one message: what a run costs beside its calls is the same in both
_ROUNDS = 15


async def measure(ask: Callable[..., Awaitable[str]], *, behind: bool) -> float:
    """Nanoseconds of CPU of one right call, in all threads: some frameworks run sync tools in threads of their own."""
    spent: list[int] = []
    for times in (_FEW, _MANY):
        began = process_time_ns()
        await ask(MISTAKES[0], Tools(), behind=behind, times=times)
        spent.append(process_time_ns() - began)
    return (spent[1] - spent[0]) / (_MANY - _FEW)


async def compare_cost(ask: Callable[..., Awaitable[str]]) -> tuple[float, float]:
    """The medians without and with the pipeline, of rounds that take turns."""
    rounds: list[tuple[float, float]] = []
    for number in range(_ROUNDS + 1):
        pair = await measure(ask, behind=False), await measure(ask, behind=True)
        if number:  # the first one imports and compiles
            rounds.append(pair)
    return median(without for without, _ in rounds), median(behind for _, behind in rounds)


def print_cost(framework: Any) -> None:
    """Print one line."""
    without, behind = asyncio.run(compare_cost(framework.ask))
    print(f"{framework.VERSION}: {without / 1000:.0f} µs, behind {behind / 1000:.0f} µs: {behind / without:.2f} x")
