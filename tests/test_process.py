"""Process: tools in processes of their own, which can be ended, and which may be lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

import remote_tools
from middlewares import Execute, Trace, standard
from pipeline import (
    Call,
    Crashed,
    Effect,
    ExecutionFailed,
    Failure,
    OutcomeUnknown,
    ResourceNotFound,
    SetupError,
    Success,
    TimedOut,
    Tool,
    ToolRegistry,
    Transient,
    gather,
    is_failure,
)
from pipeline.executors import Process
from pipeline.executors.remote_call import RemoteError, RemoteTraceback
from pipeline.time_limit import TimeLimit
from remote_tools import WHO, Began, OddError
from support import Exported, a_call, a_tool

TOOLS = remote_tools.tools
HOW: dict[str, tuple[type[Any], type[BaseException] | None]] = {
    "tool failed": (ResourceNotFound, None),
    "connection": (Transient, ConnectionResetError),
    "missing": (ResourceNotFound, FileNotFoundError),
    "odd": (ExecutionFailed, OddError),
    "group": (Transient, ConnectionResetError),
    "exit": (Crashed, SystemExit),
    "interrupt": (Crashed, KeyboardInterrupt),
    "local": (Crashed, RemoteError),
    "lambda": (Crashed, TypeError),
    "unreadable": (Crashed, TypeError),
    "failure": (ExecutionFailed, None),
}


async def test_what_comes_back_is_what_came_of_it() -> None:
    """A value comes back as it is; what the tool raised is read as if it had been raised here, with its stack."""
    pipeline = standard(TOOLS, executor=Process(workers=1), attempts=1)
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)
    for how, (kind, cause) in HOW.items():
        outcome = await pipeline.call("fails", {"how": how})
        assert is_failure(outcome), how
        error: Any = outcome.failure()
        assert isinstance(error, kind), how
        assert cause is None or isinstance(error.cause, cause), how
        if how in ("connection", "odd", "exit", "local"):
            assert isinstance(error.cause.__cause__, RemoteTraceback)
            assert "in fails" in str(error.cause.__cause__)
    odd: Any = (await pipeline.call("fails", {"how": "odd"})).failure()
    assert (odd.message, odd.cause.code) == ("odd (7)", 7)
    assert not hasattr(odd.cause, "lock")
    missing: Any = (await pipeline.call("fails", {"how": "missing"})).failure()
    assert missing.cause.filename == "there.txt"


async def test_what_a_tool_knows_of_its_call() -> None:
    """A ToolContext goes along, with deps that pickle and the time that is left; progress comes back."""
    pipeline = standard(TOOLS, executor=Process(workers=1), timeout=60)
    call = Call("told", {"n": 2}, id="c1", principal="p", deps={"a": 1})
    report = await pipeline.report(call)
    assert isinstance(report.outcome, Success)
    told = cast("dict[str, Any]", report.outcome.unwrap())
    assert 0 < told.pop("left") <= 60
    assert told == {"id": "c1", "attempt": 1, "principal": "p", "deps": {"a": 1}}
    assert [(each.done, each.total, each.message) for each in report.progress] == [(2, 4, "half")]
    assert [attempt.executor for attempt in report.attempts] == ["process"]
    outcome = await pipeline(Call("told", {"n": 2}, deps=lambda: None))
    assert is_failure(outcome)
    error: Any = outcome.failure()
    assert isinstance(error.cause, SetupError)
    assert "told: its arguments or its deps cannot travel" in str(error.cause)


async def test_one_process_after_the_other_and_beside_each_other() -> None:
    """At most so many processes; they are used again, with one event loop each; context variables stay here."""
    WHO.set("the caller")
    pipeline = standard(TOOLS, executor=Process(workers=2))
    outcomes = await gather(pipeline, [Call("where") for _ in range(20)], limit=20)
    seen = {cast("tuple[int, str, int]", outcome.unwrap()) for outcome in outcomes if not is_failure(outcome)}
    assert len(seen) <= 2
    assert {who for _, who, _ in seen} == {"nobody"}
    assert os.getpid() not in {pid for pid, _, _ in seen}


async def test_pipes_belong_to_the_runtime() -> None:
    """Whatever a tool or its children print, and however much of it, the next call comes back."""
    pipeline = standard(TOOLS, executor=Process(workers=1))
    assert await pipeline.call("noisy") == Success("done")
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)


@pytest.fixture
def began(tmp_path: Path) -> Iterator[Began]:
    made = Began(tmp_path)
    yield made
    made.close()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_the_end_of_its_time_is_the_end_of_the_tool(began: Began) -> None:
    """Out of time, a tool that ignores every signal has ended; nothing is still running, and the next call is served.

    A pipe says that the body began, and only then its time is up.
    """
    executor = Process(workers=1)
    pipeline = standard(TOOLS, executor=executor, attempts=1)
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)
    pids: list[int] = []
    with anyio.CancelScope() as scope:

        async def end_it() -> None:
            pids.append(await began.pid())
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(end_it)
            await pipeline.call("hangs", {"fifo": began.path})
    assert scope.cancelled_caught
    assert not is_there(pids[0])
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)


async def test_a_limit_ends_a_process(began: Began) -> None:
    """A Timeout tells that the tool ran and was ended; a mutating one may have taken effect."""
    effects: tuple[tuple[Effect, type], ...] = ("read", TimedOut), ("mutating", OutcomeUnknown)
    for effect, expected in effects:
        registry, executor = ToolRegistry(), Process(workers=1)
        registry.register(a_tool("hangs", effect, remote_tools.hangs.fn))
        await standard(TOOLS, executor=executor).call("pid")  # so that the module has been imported
        pipeline = standard(registry, executor=executor, attempts=1, timeout=1.0)
        outcome = await pipeline.call("hangs", {"fifo": began.path})
        assert is_failure(outcome)
        error: Any = outcome.failure()
        assert isinstance(error, expected)
        timed: Any = error.cause if isinstance(error, OutcomeUnknown) else error
        assert (timed.still_running, timed.landed) == (False, "maybe")
        assert not is_there(began.read())


async def test_the_time_is_up_while_a_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose time was up before its worker was there did not begin, and is told so: even a mutating one."""
    began: list[Any] = []

    async def slow_to_start(function: Any, *_args: Any, **_options: Any) -> None:
        began.append(function.__name__)
        scope.cancel()

    monkeypatch.setattr("pipeline.executors.process.run_sync", slow_to_start)
    marker = TimeLimit()
    with anyio.CancelScope() as scope:
        await Process(workers=1).run(a_call(TOOLS.tools["dies_mutating"], {"file": ""}, time_limit=marker))
    assert scope.cancelled_caught
    assert (began, marker.began) == (["_begin"], False)


@pytest.mark.parametrize("tool", remote_tools.FATAL, ids=lambda tool: str(tool.effect))
async def test_a_process_that_is_lost(tool: Tool[..., Any], tmp_path: Path) -> None:
    """A killed worker's call is run again where that is safe, by the same key, and never for a mutating tool."""
    file = tmp_path / "effects"
    pipeline = standard(TOOLS, executor=Process(workers=1)).replace("trace", Trace())
    report = await pipeline.report(Call(tool.name, {"file": str(file)}))
    effects = file.read_text().splitlines()
    if tool.effect == "mutating":
        assert isinstance(report.error, OutcomeUnknown)
        assert len(effects) == 1
        assert [attempt.landed for attempt in report.attempts] == ["maybe"]
    else:
        assert report.outcome == Success(2)
        assert len(effects) == 2
        assert len(set(effects)) == 1
        assert [attempt.verdict for attempt in report.attempts] == ["transient", None]
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)


async def test_one_trace_across_processes() -> None:
    """A span that a tool makes over there belongs to the trace of its call, under the attempt that it serves."""
    exported = Exported()
    async with Process(workers=1) as executor:
        traced = standard(TOOLS, executor=executor).replace("trace", Trace(tracer_provider=exported.provider))
        outcome = await traced.call("spans")
        untraced = await standard(TOOLS, executor=executor).without("trace").call("spans")
    by_id = {span.context.span_id: span for span in exported.spans if span.context}
    assert isinstance(outcome, Success)
    trace_id, parent = cast("tuple[int, int]", outcome.unwrap())
    assert by_id[parent].name == "attempt spans"
    assert {span.context.trace_id for span in exported.spans if span.context} == {trace_id}
    assert isinstance(untraced, Success)
    assert cast("tuple[int, int | None]", untraced.unwrap())[1] is None


async def test_a_worker_that_does_not_come_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process can be started the body did not begin, so any tool may be tried again."""

    async def broken(*_args: Any, **_options: Any) -> None:
        raise anyio.BrokenWorkerProcess

    monkeypatch.setattr("pipeline.executors.process.run_sync", broken)
    assert await Process(workers=1).run(a_call(TOOLS.tools["add"], {"a": 1, "b": 2})) == Failure(
        Transient(None, landed="no")
    )


def closed_over() -> Tool[..., Any]:
    def inner() -> None: ...

    return a_tool("inner", fn=inner)


def test_a_function_that_cannot_be_found_is_refused_when_the_pipeline_is_built() -> None:
    """A function inside of a function is in no module: said by name, with what to do about it."""
    tools = ToolRegistry()
    tools.register(closed_over())
    with pytest.raises(SetupError, match=r"inner .* is in no module .* run_in='thread'"):
        standard(tools, executor=Process())


async def test_what_pickles_needs_no_address() -> None:
    """A bound method, or a partial, of what can be found goes along by itself."""
    tools = ToolRegistry()
    tools.register(a_tool("joined", fn=", ".join, run_in="process"))
    tools.register(Tool.from_schema(name="text", parameters=None, handler=str, effect="read", run_in="process"))
    assert await standard(tools).call("text", {"object": 3}) == Success("3")
    assert Process().refuses(tools.tools["joined"]) is None


@pytest.mark.parametrize("workers", [0, -1, 1.5])
def test_senseless_numbers_of_processes_are_refused(workers: Any) -> None:
    """Fewer than one process, or half a one, is a set-up error."""
    with pytest.raises(SetupError, match="at least one worker process"):
        Process(workers)


async def test_the_default_process_executor() -> None:
    """`run_in="process"` needs nothing else to be said."""
    tools = ToolRegistry()
    tools.register(Tool.from_schema(name="pid", parameters=None, handler=remote_tools.pid.fn, run_in="process"))
    outcome = await standard(tools).call("pid")
    assert not is_failure(outcome)
    assert outcome.unwrap() != os.getpid()
    Execute().check_tool(tools.tools["pid"])
