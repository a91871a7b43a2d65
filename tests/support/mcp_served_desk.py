"""The tools that the tests of ``toolcall serve`` serve."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import anyio
from opentelemetry.trace import format_trace_id, get_current_span

from toolcall_pipeline import Call, Handler, Outcome, Pipeline, ToolContext, ToolFailed, ToolRegistry
from toolcall_pipeline.mcp import add_server
from toolcall_pipeline.middlewares import standard

print("a line from the import")  # noqa: T201  # stdout belongs to the protocol
tools = ToolRegistry()
cancelled: list[str] = []


@dataclass
class Sum:
    """What `add` returns."""

    total: int


@tools.tool(effect="read")
async def add(x: int, y: int) -> Sum:
    """Add two numbers, and print in each way there is."""
    print("a line from the tool")  # noqa: T201  # as above
    os.write(1, b"bytes from the tool\n")
    return Sum(x + y)


@tools.tool(effect="read")
async def fail() -> str:
    """Fail in words of its own."""
    raise ToolFailed("It is broken.", suggestion="Do without it.")


@tools.tool
def leave() -> str:
    """Exit."""
    sys.exit(3)


@tools.tool
def block() -> str:
    """Hold a thread for longer than anybody waits."""
    time.sleep(600)
    return ""


@tools.tool(context=True)
async def work(context: ToolContext, steps: int) -> str:
    """Tell of each step."""
    for step in range(steps):
        context.progress(step, steps, f"step {step}")
        await anyio.sleep(0.01)  # that of a process, which the test cannot move
    return "done"


@tools.tool
async def hang() -> str:
    """Never end; note a cancellation."""
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        cancelled.append("hang")
        raise
    return ""


@tools.tool(effect="read")
async def list_cancelled() -> list[str]:
    """What was cancelled."""
    return cancelled


@tools.tool(effect="read")
async def show_trace() -> str:
    """The id of the trace that the call belongs to."""
    return format_trace_id(get_current_span().get_span_context().trace_id)


@tools.tool
async def close(name: str) -> str:
    """Close a tool."""
    tools.disable(name)
    return "closed"


@tools.tool
async def open_again(name: str) -> str:
    """Open it again."""
    tools.enable(name)
    return "open"


class Opened:
    """A stage that has to be opened, and says when it is closed."""

    def __init__(self) -> None:
        self.is_open = False

    async def __aenter__(self) -> Self:
        self.is_open = True
        return self

    async def __aexit__(self, *_exc: object) -> None:
        print("the pipeline is closed", file=sys.stderr)  # noqa: T201  # the test reads it

    async def __call__(self, call: Call, call_next: Handler[Call]) -> Outcome:
        assert self.is_open
        return await call_next(call)


def make() -> Pipeline:
    """The pipeline of this registry, with a stage that has to be opened."""
    return standard(tools).before("resolve", Opened())


@asynccontextmanager
async def serve_again(command: list[str]) -> AsyncGenerator[Any, None]:
    """A server whose tools are those of another one."""
    from toolcall_pipeline.mcp import make_server

    registry = ToolRegistry()
    async with add_server(registry, command, trust=True, text="tell"):
        yield make_server(standard(registry, timeout=30))
