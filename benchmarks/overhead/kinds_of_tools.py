"""The cost of a call by the kind of its tool, in calls of a read-only tool, which the other groups call."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.to_thread

from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.subjects import ARGUMENTS, add, calls, plain
from toolcall_pipeline import Call, Handler, Outcome, Pipeline, Tool, ToolContext, ToolRegistry, ValidCall, is_failure
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.testing.overhead.slices import Measurable


async def _add_for(context: ToolContext[Any], a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def _add_now(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def pass_on(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    """Do nothing, as a middleware of one's own, which does not say when a body begins."""
    return await call_next(call)


def around_all(**options: Any) -> Pipeline:
    """Build the default stack around a tool of each kind, which has its name. The options are of `standard`."""
    tools = ToolRegistry()
    for tool in _make_tools():
        tools.register(tool)
    return standard(tools, **options)


def with_own(pipeline: Pipeline) -> Pipeline:
    """Add a middleware of one's own."""
    return pipeline.after("validate", pass_on)


def _make_tools() -> Sequence[Tool[..., Any]]:
    return (
        Tool("read", add, "read"),
        Tool("idempotent", add, "idempotent"),
        Tool("mutating", add, "mutating"),
        Tool("context", _add_for, "read", context=True),
        Tool("keyed", _add_for, "keyed", context=True),
        Tool("thread", _add_now, "read", run_in="thread"),
        Tool("mutating_thread", _add_now, "mutating", run_in="thread"),
    )


async def _in_a_thread(_: Call) -> int:
    return await anyio.to_thread.run_sync(_add_now, 2, 3)


@contextmanager
def _kinds() -> Generator[Mapping[str, Measurable]]:
    pipeline = around_all()
    own = with_own(pipeline)
    sent = {tool.name: Call(tool.name, ARGUMENTS) for tool in _make_tools()}
    for call in sent.values():
        if is_failure(outcome := anyio.run(own, call)):
            raise RuntimeError(f"{call.name}: {outcome}")
    yield {
        "to_thread": calls(_in_a_thread),
        **{name: calls(pipeline, call) for name, call in sent.items()},
        "sync": plain(pipeline.call_sync, "read", ARGUMENTS, whole=True),
        **{f"own, {name}": calls(own, sent[name]) for name in ("read", "mutating")},
    }


KINDS = Group(
    "kinds",
    "other tools than one that only reads, in units of a call of that one",
    (
        Row("an idempotent tool", "reads", "idempotent", "read", budget=1.7),
        Row("a mutating tool", "reads", "mutating", "read", budget=1.7),
        Row("a mutating tool, behind a middleware of one's own", "such reads", "own, mutating", "own, read", budget=3),
        Row("a tool that reads, with a ToolContext", "reads", "context", "read", budget=3.8),
        Row("a keyed tool, with a ToolContext", "reads", "keyed", "read", budget=7),
        Row("a read by call_sync, all threads", "reads", "sync", "read"),
        Row("a sync tool in a thread, caller's CPU", "x to_thread", "thread", "to_thread", budget=1.8),
        Row("a mutating tool in a thread, caller's CPU", "such reads", "mutating_thread", "thread", budget=1.4),
    ),
    _kinds,
)
