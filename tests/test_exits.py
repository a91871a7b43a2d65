"""A body that raises what is no Exception, such as an exit of the process, fails its own call and no other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import anyio
import pytest

import odd_bodies
from odd_bodies import BODIES
from toolcall_pipeline import (
    Call,
    Crashed,
    Effect,
    Handler,
    Outcome,
    OutcomeUnknown,
    Pipeline,
    Success,
    TimedOut,
    ToolRegistry,
    ValidCall,
    gather,
    gather_sync,
    is_failure,
    render,
)
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.engine.report import error_of
from toolcall_pipeline.executors import Process
from toolcall_pipeline.hosts import Host, HostTool
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.telemetry import follow


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


REPLY = [Call("add", {"a": 1, "b": 2}), Call("exits"), Call("exits_in_a_thread"), Call("add", {"a": 2, "b": 2})]


async def in_gather(pipeline: Pipeline, calls: Sequence[Call]) -> list[Outcome]:
    return await gather(pipeline, calls)


async def in_gather_sync(pipeline: Pipeline, calls: Sequence[Call]) -> list[Outcome]:
    return gather_sync(pipeline, calls)


async def in_call_sync(pipeline: Pipeline, calls: Sequence[Call]) -> list[Outcome]:
    return [pipeline.call_sync(each.name, cast("dict[str, object]", each.arguments)) for each in calls]


async def in_a_turn(pipeline: Pipeline, calls: Sequence[Call]) -> list[Outcome]:
    """The model is asked again for nothing: it cannot fix this, and the turn ends as it is."""
    turn = await run_turn(script_nothing, calls, pipeline)
    return list(turn.outcomes)


async def in_reports(pipeline: Pipeline, calls: Sequence[Call]) -> list[Outcome]:
    return [cast("Outcome", (await pipeline.report(each)).outcome) for each in calls]


async def while_followed(pipeline: Pipeline, calls: Sequence[Call]) -> list[Outcome]:
    return [await follow(pipeline, each, lambda _: None) for each in calls]


async def script_nothing(*_: object) -> list[Call]:
    return []


WAYS = {
    each.__name__: each for each in (in_gather, in_gather_sync, in_call_sync, in_a_turn, in_reports, while_followed)
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", BODIES)
async def test_the_other_calls_keep_their_outcomes(body: str, way: str) -> None:
    """However calls are run, none is lost because one of their tools raises this."""
    outcomes = await WAYS[way](standard(registry_of(BODIES[body], effect="read")), REPLY)
    assert [outcome.value_or(None) for outcome in outcomes] == [3, None, None, 4]
    assert [type(outcome.failure()) for outcome in outcomes if is_failure(outcome)] == [Crashed, Crashed]


async def test_a_worker_process_gives_it_back() -> None:
    """In a process of its own such a body fails its call, also by a class that no module has, and others go on."""
    calls = [Call(name, {"body": body}) for body in BODIES for name in ("exits", "exits_in_a_loop")]
    adding = [Call("add", {"a": 1, "b": n}) for n in range(3)]
    async with standard(odd_bodies.tools, executor=Process(workers=1), attempts=1) as pipeline:
        outcomes = await gather(pipeline, [*calls, *adding], timeout=60)
    assert {type(error_of(each)) for each in outcomes[: len(calls)]} == {Crashed}
    assert outcomes[len(calls) :] == [Success(1), Success(2), Success(3)]


@pytest.mark.parametrize("body", BODIES)
async def test_a_host_gets_a_failure(body: str) -> None:
    """A body that a framework runs fails its own call, and counts as ended."""
    host = Host(attempts=1)
    pipeline = host.offer({"exits": HostTool("", None, "idempotent"), "add": HostTool("", None, "read")})

    async def run(call: ValidCall) -> object:
        return BODIES[body]() if call.tool.name == "exits" else 3

    async def ask(name: str) -> None:
        outcomes[name] = await host.run(pipeline, Call(name, {}), run)

    outcomes: dict[str, Outcome] = {}
    async with anyio.create_task_group() as group:
        group.start_soon(ask, "exits")
        group.start_soon(ask, "add")
    assert (type(error_of(outcomes["exits"])), outcomes["add"]) == (Crashed, Success(3))


@pytest.mark.parametrize("body", BODIES)
async def test_functions_beside_the_body_fail_as_bodies_do(body: str) -> None:
    """The function of a resource, of ``verify=`` and a model that raises this take nothing else along."""
    tools = registry_of(BODIES[body], effect="read")

    @tools.tool(effect="read", resource=lambda _: cast("str", BODIES[body]()))
    async def reads(n: int) -> int:
        return n

    def verify(_call: ValidCall, _key: str) -> object:
        return BODIES[body]()

    @tools.tool(verify=verify)
    async def pays() -> None:
        raise ConnectionError

    pipeline = standard(tools)
    assert await gather(pipeline, [Call("reads", {"n": 1}), Call("reads", {"n": 2})]) == [Success(1), Success(2)]
    for _ in range(2):
        assert type(error_of(await pipeline(Call("pays", conversation="c" + body)))) is OutcomeUnknown

    async def model(*_: object) -> list[Call]:
        BODIES[body]()
        return []

    turn = await run_turn(model, [Call("add", {"a": 1, "b": 2}), Call("add", {"a": "x"})], pipeline)
    assert turn.outcomes[0] == Success(3)
    assert turn.error is not None


async def test_a_table_may_name_such_a_class() -> None:
    """``errors=`` knows a class that is no Exception by its name, as any other."""
    tools = registry_of(BODIES["a time limit"], effect="read", errors={"odd_bodies.FunctionTimedOut": "timeout"})
    assert type(error_of(await standard(tools, attempts=1).call("exits", {}))) is TimedOut


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
