"""The accuracy of `toolcall bench`: stages of known cost, as it reports them and as they are measured alone.

python -m benchmarks.known_costs [--check]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import anyio

from toolcall_pipeline import Call, Handler, Outcome, ToolRegistry, ValidCall
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.testing import measure
from toolcall_pipeline.testing.overhead import Figure

_CALL = Call("add", {"a": 1, "b": 2})
_ALONE = 2_000  # runs of one stage without a pipeline
_SHARE, _LEAST = 0.10, 50.0  # of the cost, or ns: how far a figure may be from the truth
_WAIT = 0.001  # seconds

tools = ToolRegistry()


@tools.tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def burn(microseconds: float) -> None:
    """Use the CPU until the thread's own clock has moved on by so much."""
    end = time.thread_time_ns() + 1000 * microseconds
    while time.thread_time_ns() < end:
        pass


def make_middleware(before: float = 0, after: float = 0) -> Callable[..., Any]:
    """A middleware that burns so many microseconds on either side."""

    async def middleware(call: Call, call_next: Handler[Call]) -> Outcome:
        if before:
            burn(before)
        outcome = await call_next(call)
        if after:
            burn(after)
        return outcome

    return middleware


async def do_nothing(call: Call, call_next: Handler[Call]) -> Outcome:
    """A middleware that only calls on."""
    return await call_next(call)


async def sleep(call: Call, call_next: Handler[Call]) -> Outcome:
    """Wait as a stage should."""
    await anyio.sleep(_WAIT)
    return await call_next(call)


async def block(call: Call, call_next: Handler[Call]) -> Outcome:
    """Wait as no stage should."""
    time.sleep(_WAIT)  # noqa: ASYNC251  # which is what is to be found
    return await call_next(call)


def make_check(microseconds: float) -> Callable[[ValidCall], ValidCall]:
    """A check that burns so many microseconds."""

    def check(call: ValidCall) -> ValidCall:
        burn(microseconds)
        return call

    return check


class Watch:
    """An observer that burns five microseconds."""

    def begin(self, tool: object, started: int) -> None:  # noqa: ARG002  # as the protocol has it
        """Burn them."""
        burn(5)


MIDDLEWARES: dict[str, Any] = {
    "does nothing": do_nothing,
    "5 µs before": make_middleware(5),
    "50 µs after": make_middleware(0, 50),
    "500 µs before and after": make_middleware(250, 250),
    "1 ms of anyio.sleep": sleep,
    "1 ms of time.sleep": block,
}
CHECKS: dict[str, Any] = {"5 µs in a check": make_check(5), "500 µs in a check": make_check(500)}


async def _end(call: object) -> Any:
    return call


async def measure_alone(name: str) -> float:
    """Return the median ns of a stage without a pipeline, over many runs: wall time if it waits, else CPU time."""
    stage: Any = MIDDLEWARES.get(name) or CHECKS.get(name)
    waits = stage in (sleep, block)
    clock = time.perf_counter_ns if waits else time.thread_time_ns
    runs, inner = (200, 1) if waits else (_ALONE // 10, 10)

    async def run_once(kind: Any) -> int:
        start = clock()
        for _ in range(inner):
            if kind is None:
                await _end(_CALL)
            elif name in CHECKS:
                kind(_CALL)
            elif name in MIDDLEWARES:
                await kind(_CALL, _end)
            else:
                burn(5)
        return clock() - start

    pairs = [(await run_once(stage or Watch), await run_once(None)) for _ in range(runs)]
    empty = 0 if name in CHECKS or name not in MIDDLEWARES else median(without for _, without in pairs)
    return (median(cost for cost, _ in pairs) - empty) / inner


def list_rows() -> list[tuple[str, float, Figure]]:
    """Return each stage with its true cost and the measured one, all in one pipeline."""
    pipeline = standard(tools).replace("trace", Watch())
    names: dict[str, str] = {"5 µs in an observer": "trace"}
    stages: dict[str, Any] = {**MIDDLEWARES, **CHECKS}
    for number, (name, stage) in enumerate(stages.items()):
        names[name] = f"known_{number}"
        pipeline = pipeline.after("validate", stage, name=names[name])
    told = measure(pipeline, _CALL, stages=list(names.values()), failures=False)
    figures = {cost.name: cost.figure for cost in told.stages}
    rows: list[tuple[str, float, Figure]] = []
    for name, own in names.items():
        figure = figures[own]
        assert figure is not None, name
        rows.append((name, anyio.run(measure_alone, name), figure))
    return rows


def main() -> int:
    """Print the table; with ``--check`` exit with 1 if a figure is further from the truth than the guide promises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if one is off by more than 10 %% and 50 ns")
    check = parser.parse_args().check
    off = 0
    print(f"{'stage':28}{'true, µs':>12}{'told, µs':>12}{'off by':>10}")
    for name, true, figure in list_rows():
        waits = name.startswith("1 ms")
        told = figure.waited_ns if waits else figure.ns
        is_off = abs(told - true) > max(_SHARE * true, _LEAST)
        off += is_off
        print(f"{name:28}{true / 1000:12.2f}{told / 1000:12.2f}{(told - true) / true:10.1%}{'  !' if is_off else ''}")
    return int(check and off > 0)


if __name__ == "__main__":
    sys.exit(main())
