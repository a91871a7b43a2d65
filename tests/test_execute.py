"""Execute: where a tool runs, and with what."""

from __future__ import annotations

import contextvars
import functools
import threading
from typing import Any

import pytest
from returns.result import Failure, Success

from middlewares import Execute, Retry, standard
from pipeline import Call, Crashed, ExecutionFailed, Progress, ToolContext, ToolRegistry
from support import a_call, a_tool

WHO = contextvars.ContextVar("WHO", default="nobody")


async def test_sync_tools_run_in_a_worker_thread_with_the_callers_context() -> None:
    """A sync tool blocks no event loop, and sees the caller's context variables."""

    def look() -> tuple[bool, str]:
        return threading.current_thread() is threading.main_thread(), WHO.get()

    WHO.set("the caller")
    assert await Execute()(a_call(a_tool(fn=look))) == Success((False, "the caller"))
    assert await Execute()(a_call(a_tool(fn=look, run_in="loop"))) == Success((True, "the caller"))


class Callable:
    """A tool may be an object."""

    async def __call__(self, a: int) -> int:
        return a

    async def method(self, a: int) -> int:
        return a


async def plain(a: int) -> int:
    return a


def hands_on(a: int) -> Any:
    return plain(a)


ASYNC: list[Any] = [plain, functools.partial(plain), Callable(), Callable().method, hands_on]


@pytest.mark.parametrize("fn", ASYNC, ids=["function", "partial", "object", "method", "not known to be"])
async def test_whatever_gives_a_coroutine_is_awaited(fn: Any) -> None:
    """A tool is awaited whether or not it could be known beforehand to be async."""
    assert await Execute()(a_call(a_tool(fn=fn), {"a": 3})) == Success(3)


async def test_a_failure_of_the_tools_own() -> None:
    """A Failure that a tool returns is its outcome: of text its author's word, of an exception as if raised."""

    async def give(what: Any) -> Any:
        return Failure(what)

    tool = a_tool(fn=give)
    assert await Execute()(a_call(tool, {"what": ExecutionFailed("no")})) == Failure(ExecutionFailed("no"))
    assert await Execute()(a_call(tool, {"what": "no"})) == Failure(ExecutionFailed("no"))
    for odd in (ValueError("no"), 3):
        outcome = await Execute()(a_call(tool, {"what": odd}))
        assert isinstance(outcome, Failure)
        assert isinstance(outcome.failure(), Crashed)


async def test_a_context_is_injected_first() -> None:
    """A tool made with context=True gets the facts of its call, in front of its arguments."""
    tools = ToolRegistry()

    @tools.tool(effect="keyed", context=True)
    async def whose(context: ToolContext, thing: str) -> ToolContext:
        context.progress(1, 2, thing)
        return context

    deps = object()
    report = await standard(tools).report(Call("whose", {"thing": "hat"}, "c1", "ann", deps))
    assert report.outcome is not None
    context = report.outcome.unwrap()
    assert isinstance(context, ToolContext)
    assert (context.call_id, context.attempt, context.principal, context.deps) == ("c1", 1, "ann", deps)
    assert report.progress == [Progress(1, 2, "hat")]


@pytest.mark.parametrize("threaded", [True, False])
async def test_one_idempotency_key_for_all_attempts(threaded: bool) -> None:
    """The key is made once per call: equal across its attempts, another one for the next call, even with equal ids."""
    seen: list[tuple[int, str]] = []

    def note(context: ToolContext) -> str:
        seen.append((context.attempt, context.idempotency_key))
        if context.attempt < 3:
            raise ConnectionError
        return "done"

    async def note_in_loop(context: ToolContext) -> str:
        return note(context)

    tools = ToolRegistry()
    tools.register(a_tool(fn=note if threaded else note_in_loop, effect="keyed", context=True))
    pipeline = standard(tools).replace("retry", Retry(first_delay=0))
    for _ in range(2):
        assert await pipeline.call("probe") == Success("done")
    assert [attempt for attempt, _ in seen] == [1, 2, 3, 1, 2, 3]
    first, second = {key for _, key in seen[:3]}, {key for _, key in seen[3:]}
    assert len(first) == len(second) == 1
    assert first != second
    assert all(first)


async def test_progress_with_nobody_listening() -> None:
    """A tool may always tell its progress."""
    ToolContext("c1").progress(0.5)
