"""A CancelledError of something else that was cancelled is a failure of the call; our own cancellation passes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
import pytest
from returns.result import Failure, Success

from support import PATIENT, a_tool
from toolcall_pipeline import Call, Crashed, Handler, Outcome, Pipeline, Stack, TimedOut, ToolRegistry, ValidCall
from toolcall_pipeline.executors import Loop, Thread
from toolcall_pipeline.middlewares import Timeout, standard

ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def await_cancelled() -> None:
    """Await a task that somebody else cancelled."""
    task = asyncio.ensure_future(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def await_cancelled_in_a_group() -> None:
    """The same, with a task group and a shield around it."""
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group():
            await await_cancelled()


async def await_cancelled_after_a_timeout() -> None:
    """The same, after a time limit of the tool's own has cancelled this task and was caught."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(60)
    await await_cancelled()


async def await_cancelled_after_a_scope() -> None:
    """The same, after a scope of the tool's own has cancelled this task."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.sleep_forever()
    await await_cancelled()


def raise_cancelled() -> None:
    raise asyncio.CancelledError


def pipeline_of(fn: Callable[..., Any], **options: Any) -> Pipeline:
    tools = ToolRegistry()
    tools.register(a_tool("probe", options.pop("effect", "read"), fn, **options))
    return standard(tools)


STRAY = [await_cancelled, await_cancelled_in_a_group, await_cancelled_after_a_timeout, await_cancelled_after_a_scope]


@ASYNCIO
@pytest.mark.parametrize("effect", ["read", "mutating"])
@pytest.mark.parametrize("fn", STRAY)
@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
async def test_what_else_was_cancelled_is_a_crash(fn: Callable[..., Any], effect: str, *, recorded: bool) -> None:
    """A tool that awaits what somebody else cancelled has crashed; its caller goes on."""
    pipeline = pipeline_of(fn, effect=effect)
    for limit in (None, 60.0):
        call = Call("probe", timeout=limit)
        outcome = (await pipeline.report(call)).outcome if recorded else await pipeline(call)
        assert isinstance(outcome, Failure)
        error = outcome.failure()
        assert isinstance(error, Crashed)
        assert isinstance(error.cause, asyncio.CancelledError)


async def test_a_sync_tool_that_raises_it() -> None:
    """A sync tool that raises asyncio's CancelledError in its thread has crashed, on both event loops."""
    assert await pipeline_of(raise_cancelled).call("probe") == Failure(Crashed())
    assert await pipeline_of(raise_cancelled, run_in="loop").call("probe") == Failure(Crashed())


@ASYNCIO
@pytest.mark.parametrize("executor", [Loop(), Thread(2)], ids=["loop", "thread"])
async def test_through_an_executor(executor: Any) -> None:
    """It is a crash through an executor for all tools, and in an own end that asks one."""
    tools = ToolRegistry()
    tools.register(a_tool("probe", "read", await_cancelled))

    async def end(call: ValidCall) -> Outcome:
        return Success(await executor.run(call))

    assert await standard(tools, executor=executor).call("probe") == Failure(Crashed())
    assert await standard(tools).replace("execute", end).call("probe") == Failure(Crashed())


@ASYNCIO
async def test_of_a_stage() -> None:
    """A stage that awaits what somebody else cancelled fails the call, too."""

    async def stage(call: Call, call_next: Handler[Call]) -> Outcome:
        await await_cancelled()
        return await call_next(call)

    async def end(call: Call) -> Outcome:
        return Success(call.name)

    assert await Stack().wrap(stage).end(end).call("probe") == Failure(Crashed())
    assert await pipeline_of(await_cancelled).before("execute", stage).call("probe") == Failure(Crashed())


Run = Callable[[], Coroutine[Any, Any, None]]
Cancel = Callable[[Run], Awaitable[None]]


async def by_scope(run: Run) -> None:
    """Cancel a scope around it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


async def by_task(run: Run) -> None:
    """Cancel the task that runs it."""
    task = asyncio.ensure_future(run())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def by_wait_for(run: Run) -> None:
    """Cancel it by a time limit of asyncio."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run(), 0.05)


async def by_asyncio_timeout(run: Run) -> None:
    """Cancel it by the other time limit of asyncio."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run()


async def by_task_group(run: Run) -> None:
    """Cancel it with its siblings, of which one failed."""

    async def fail() -> None:
        await asyncio.sleep(0.05)
        raise ValueError

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run())
            tasks.create_task(fail())


async def by_task_in_a_shield(run: Run) -> None:
    """Cancel the task natively: no shield of anyio keeps that off."""

    async def shielded() -> None:
        with anyio.CancelScope(shield=True):
            await run()

    await by_task(shielded)


async def by_both(run: Run) -> None:
    """Cancel the scope and the task."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await by_scope(run)


async def hang() -> None:
    await anyio.sleep_forever()


async def hang_in_a_scope() -> None:
    with anyio.CancelScope():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)


async def check_cancelled(cancel: Cancel, fn: Callable[..., Any], limit: float | None) -> None:
    ended: list[object] = []

    async def run() -> None:
        ended.append(await pipeline_of(fn).call("probe", timeout=limit))

    with anyio.fail_after(PATIENT):
        await cancel(run)
    assert ended == []


@pytest.mark.parametrize("limit", [None, 60.0])
@pytest.mark.parametrize("fn", [hang, hang_in_a_scope])
@pytest.mark.parametrize("cancel", [by_scope, by_both])
async def test_our_own_cancellation_passes(cancel: Cancel, fn: Callable[..., Any], limit: float | None) -> None:
    """A call whose scope is cancelled ends without an outcome, on both event loops."""
    await check_cancelled(cancel, fn, limit)


@ASYNCIO
@pytest.mark.parametrize("limit", [None, 60.0])
@pytest.mark.parametrize("fn", [hang, hang_in_a_scope])
@pytest.mark.parametrize("cancel", [by_task, by_wait_for, by_asyncio_timeout, by_task_group, by_task_in_a_shield])
async def test_cancellation_by_asyncio_passes(cancel: Cancel, fn: Callable[..., Any], limit: float | None) -> None:
    """A call whose task is cancelled ends without an outcome, whoever cancelled the task."""
    await check_cancelled(cancel, fn, limit)


@ASYNCIO
async def test_a_stray_one_while_we_are_cancelled_passes() -> None:
    """While our own cancellation is under way, a CancelledError is taken for it."""

    async def both() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise_cancelled()

    await check_cancelled(by_task, both, None)
    await check_cancelled(by_scope, both, None)


async def test_a_time_limit_is_not_stray() -> None:
    """A time limit of the pipeline ends in TimedOut, and not in a crash."""
    pipeline = pipeline_of(hang).after("retry", Timeout(0.02)).without("retry")
    assert await pipeline.call("probe") == Failure(TimedOut(0.02))
    assert await pipeline_of(hang).call("probe", timeout=0.02) == Failure(TimedOut(0.02))
