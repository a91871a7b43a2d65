"""gather: many calls at once."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from returns.result import Failure, Success

from middlewares import standard
from pipeline import Call, Crashed, Pipeline, ToolRegistry, gather


@pytest.fixture
def pipeline() -> Pipeline:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def echo(n: int) -> int:
        await anyio.sleep(0.001 * (n % 3))
        if n == 7:
            raise ValueError
        return n

    return standard(tools)


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_results_are_in_call_order(pipeline: Pipeline, limit: int) -> None:
    """There is one outcome for each call, in the order of the calls, whichever ended first."""
    outcomes = await gather(pipeline, (Call("echo", {"n": n}) for n in range(20)), limit)
    assert outcomes == [Failure(Crashed()) if n == 7 else Success(n) for n in range(20)]


async def test_no_calls(pipeline: Pipeline) -> None:
    """No calls have no outcomes."""
    assert await gather(pipeline, []) == []


@pytest.mark.parametrize("limit", [1, 4])
async def test_no_more_at_once_than_the_limit(limit: int) -> None:
    """At most `limit` calls run at a time."""
    tools = ToolRegistry()
    running = most = 0

    @tools.tool(effect="read")
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.001)
        running -= 1

    await gather(standard(tools), [Call("count")] * 12, limit)
    assert most == limit


async def test_a_limit_below_one_is_refused(pipeline: Pipeline) -> None:
    """With no room for a call nothing could run: that is the caller's mistake."""
    with pytest.raises(ValueError, match="limit is at least 1"):
        await gather(pipeline, [], 0)


async def test_a_cancellation_that_is_nobodys_loses_no_outcome(anyio_backend: str) -> None:
    """A tool that awaits what somebody else cancelled has failed; its siblings and their results have not."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def shared() -> None:
        if anyio_backend == "asyncio":
            raise asyncio.CancelledError
        raise ValueError

    @tools.tool(effect="read")
    async def fine() -> int:
        return 1

    calls = [Call("shared"), Call("fine"), Call("shared"), Call("fine")]
    outcomes = await gather(standard(tools), calls, 1)
    assert outcomes == [Failure(Crashed()), Success(1), Failure(Crashed()), Success(1)]


async def test_cancelling_many_calls_ends_them_all(pipeline: Pipeline) -> None:
    """Cancellation of the whole passes, and is nobody's failure."""
    with anyio.move_on_after(0.005) as scope:
        await gather(pipeline, (Call("echo", {"n": 2}) for _ in range(100_000)), 2)
    assert scope.cancelled_caught
