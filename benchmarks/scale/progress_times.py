"""``python -m benchmarks.scale.progress_times``: when the progress of a tool that takes 1.2 s is heard, by executor."""

from __future__ import annotations

import argparse
import os
import time
from importlib.util import find_spec
from time import perf_counter

import anyio

os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # or Ray leaves the loopback interface

from toolcall_pipeline import Call, Pipeline, ToolContext, ToolRegistry
from toolcall_pipeline.executors import Process, Ray
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.telemetry import Event, follow

LOOPBACK = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
SHOWN = ("tool.call", "tool.progress", "tool.result")
PAUSE = 0.4  # seconds before each of the three steps

tools = ToolRegistry()


@tools.tool(effect="read", context=True)
async def steps_async(context: ToolContext) -> None:
    """Report three steps in 1.2 s."""
    for n in (1, 2, 3):
        await anyio.sleep(PAUSE)
        context.progress(n, 3)


@tools.tool(effect="read", context=True)
def steps(context: ToolContext) -> None:
    """Report them in a thread."""
    for n in (1, 2, 3):
        time.sleep(PAUSE)
        context.progress(n, 3)


async def measure(where: str, pipeline: Pipeline, tool: str) -> None:
    """Print when each event of a call was heard, after a first call that starts workers."""
    heard: list[tuple[float, Event]] = []

    def hear(event: Event) -> None:
        heard.append((perf_counter() - started, event))

    for _ in range(2):
        heard.clear()
        started = perf_counter()
        await follow(pipeline, Call(tool), hear)
    shown = [f"{event.name} {at:.3f}" for at, event in heard if event.name in SHOWN]
    print(f"{where:<16}{'  '.join(shown)}")


async def main() -> None:
    """Measure each executor, and Ray where it is installed."""
    await measure("loop", standard(tools), "steps_async")
    await measure("thread", standard(tools), "steps")
    async with Process(workers=1) as process:
        await measure("process", standard(tools, executor=process), "steps")
        await measure("process, async", standard(tools, executor=process), "steps_async")
    if find_spec("ray") is not None:
        for batch in (1, 10):
            async with Ray(workers=1, batch=batch, init={**LOOPBACK, "num_cpus": 1, "logging_level": "ERROR"}) as ray:
                await measure(f"Ray(batch={batch})", standard(tools, executor=ray), "steps")
                await measure("  async", standard(tools, executor=ray), "steps_async")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.progress_times", description=__doc__)
    parser.add_argument("--trio", action="store_true", help="measure on trio; otherwise on asyncio")
    anyio.run(main, backend="trio" if parser.parse_args().trio else "asyncio")
