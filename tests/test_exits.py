"""A body that raises what is no Exception, such as an exit of the process, fails its own call and no other."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from toolcall_pipeline import Call, Crashed, Effect, Handler, Outcome, ToolRegistry, gather, is_failure, render
from toolcall_pipeline.engine.report import error_of
from toolcall_pipeline.middlewares import standard


def parse_a_wrong_option() -> object:
    return argparse.ArgumentParser(exit_on_error=True).parse_args(["--no-such-option"])


class FunctionTimedOut(BaseException):
    """As that of func_timeout."""


class PanicException(BaseException):
    """As that of PyO3, for a panic in Rust."""


def raise_of(exc: BaseException) -> object:
    raise exc


def raise_a_group() -> object:
    raise BaseExceptionGroup("of two children", [SystemExit(2), ValueError("the other")])


BODIES: dict[str, Callable[[], object]] = {
    "a code": lambda: sys.exit(3),
    "a text": lambda: sys.exit("usage: …"),
    "success": lambda: sys.exit(0),
    "argparse": parse_a_wrong_option,
    "a group": raise_a_group,
    "a time limit": lambda: raise_of(FunctionTimedOut("usage: …")),
    "a panic": lambda: raise_of(PanicException("usage: …")),
    "no class of its own": lambda: raise_of(BaseException("usage: …")),
    "a group of panics": lambda: raise_of(BaseExceptionGroup("usage: …", [PanicException(), SystemExit(1)])),
}


def registry_of(body: Callable[[], object], **options: Any) -> ToolRegistry:
    tools = ToolRegistry()

    async def exits() -> object:
        return body()

    def exits_in_a_thread() -> object:
        return body()

    tools.tool(**options)(exits)
    tools.tool(**options)(exits_in_a_thread)

    @tools.tool(effect="read")
    async def add(a: int, b: int) -> int:
        return a + b

    return tools


@pytest.mark.parametrize("name", ["exits", "exits_in_a_thread"])
@pytest.mark.parametrize("effect", ["read", "idempotent", "mutating"])
@pytest.mark.parametrize("body", BODIES)
async def test_an_exit_of_a_body_is_a_crash_of_its_call(body: str, effect: Effect, name: str) -> None:
    """Whatever the effect, the thread and the code: the outcome is a failure that never shows the text of the exit."""
    pipeline = standard(registry_of(BODIES[body], effect=effect))
    outcome = await pipeline.call(name, {})
    assert is_failure(outcome)
    assert "usage" not in render(outcome)
    assert (await pipeline.call("add", {"a": 1, "b": 2})).unwrap() == 3


@pytest.mark.parametrize("name", ["exits", "exits_in_a_thread"])
@pytest.mark.parametrize("body", BODIES)
async def test_an_exit_is_internal(body: str, name: str) -> None:
    """What a tool that only reads raises so is ``internal``: no table of exceptions knows it."""
    assert type(error_of(await standard(registry_of(BODIES[body], effect="read")).call(name, {}))) is Crashed


@pytest.mark.parametrize("before", ["resolve", "retry", "execute"])
@pytest.mark.parametrize("body", BODIES)
async def test_an_exit_of_a_stage_is_internal(body: str, before: str) -> None:
    """What a stage of the user raises fails the call, recorded or not."""

    async def leaves(_call: Call, _call_next: Handler[Call]) -> Outcome:
        BODIES[body]()
        raise NotImplementedError

    pipeline = standard(registry_of(BODIES[body], effect="read")).before(before, leaves)
    assert type(error_of(await pipeline.call("add", {"a": 1, "b": 2}))) is Crashed
    assert type(error_of((await pipeline.report(Call("add", {"a": 1, "b": 2}))).outcome)) is Crashed


@pytest.mark.parametrize("body", BODIES)
async def test_the_other_calls_of_a_batch_keep_their_outcomes(body: str) -> None:
    """``gather`` loses no outcome because one of its tools exits."""
    pipeline = standard(registry_of(BODIES[body], effect="read"))
    calls = [Call("add", {"a": 1, "b": 2}), Call("exits"), Call("exits_in_a_thread"), Call("add", {"a": 2, "b": 2})]
    outcomes = await gather(pipeline, calls)
    assert [outcome.value_or(None) for outcome in outcomes] == [3, None, None, 4]


@pytest.mark.parametrize("body", BODIES)
def test_an_exit_leaves_the_thread_that_called_alone(body: str) -> None:
    """A synchronous caller gets the failure, too."""
    pipeline = standard(registry_of(BODIES[body]))
    assert is_failure(pipeline.call_sync("exits"))
    assert is_failure(pipeline.call_sync("exits_in_a_thread"))


@pytest.mark.parametrize("name", ["exits", "exits_in_a_thread"])
async def test_an_interrupt_still_passes(name: str) -> None:
    """KeyboardInterrupt, alone or in a group, is not a failure of the tool."""

    def interrupt() -> object:
        raise BaseExceptionGroup("of a child", [KeyboardInterrupt()])

    with pytest.raises(BaseExceptionGroup):
        await standard(registry_of(interrupt)).call(name, {})


async def test_a_cancelled_caller_still_leaves() -> None:
    """The cancellation of the caller passes through a body that would exit."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def waits() -> None:
        await anyio.sleep_forever()
        sys.exit(1)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await standard(tools).call("waits", {})
    assert scope.cancelled_caught
