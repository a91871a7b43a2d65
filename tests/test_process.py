"""Process: what travels to a worker process and back, and what becomes of a call whose worker is killed or dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

import remote_tools
from remote_tools import WHO, Began, OddError
from support import Exported, StoppedTime, a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Effect,
    ExecutionFailed,
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
from toolcall_pipeline.executors import Process
from toolcall_pipeline.executors.remote_errors import RemoteError, RemoteTraceback
from toolcall_pipeline.middlewares import Execute, Trace, standard

TOOLS = remote_tools.tools
# How the tool fails: the class of the error, and the class of its cause.
FAILURES: dict[str, tuple[type[Any], type[BaseException] | None]] = {
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


async def test_results_and_errors_come_back() -> None:
    """A result comes back as it is; an exception is read as if it was raised here, and has the worker's stack."""
    pipeline = standard(TOOLS, executor=Process(workers=1), attempts=1)
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)
    for how, (kind, cause) in FAILURES.items():
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


async def test_a_tool_gets_its_context() -> None:
    """The worker gets a ToolContext with the deps and the time that is left; progress comes back."""
    pipeline = standard(TOOLS, executor=Process(workers=1), timeout=60)
    call = Call("show_context", {"n": 2}, id="c1", principal="p", deps={"a": 1}, conversation="t1")
    report = await pipeline.report(call)
    assert isinstance(report.outcome, Success)
    shown = cast("dict[str, Any]", report.outcome.unwrap())
    assert 0 < shown.pop("left") <= 60
    assert shown == {"id": "c1", "attempt": 1, "principal": "p", "conversation": "t1", "deps": {"a": 1}}
    assert [(each.done, each.total, each.message) for each in report.progress] == [(2, 4, "half")]
    assert [attempt.executor for attempt in report.attempts] == ["process"]
    outcome = await pipeline(Call("show_context", {"n": 2}, deps=lambda: None))
    assert is_failure(outcome)
    error: Any = outcome.failure()
    assert isinstance(error.cause, SetupError)
    assert "show_context: the arguments or the `deps` of the call cannot be pickled" in str(error.cause)


@pytest.mark.long
async def test_workers_are_bounded_and_used_again() -> None:
    """There are at most `workers` processes, each with one event loop; context variables do not exist there."""
    WHO.set("the caller")
    pipeline = standard(TOOLS, executor=Process(workers=2))
    outcomes = await gather(pipeline, [Call("where") for _ in range(20)], limit=20)
    seen = {cast("tuple[int, str, int]", outcome.unwrap()) for outcome in outcomes if not is_failure(outcome)}
    assert len(seen) <= 2
    assert {who for _, who, _ in seen} == {"nobody"}
    assert os.getpid() not in {pid for pid, _, _ in seen}


@pytest.mark.long
async def test_what_a_tool_prints_is_lost() -> None:
    """A tool and its children may print as much as they like: its own call and the next one come back."""
    pipeline = standard(TOOLS, executor=Process(workers=1))
    assert await pipeline.call("noisy") == Success("done")
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)


@pytest.fixture
def began(tmp_path: Path) -> Iterator[Began]:
    made = Began(tmp_path)
    yield made
    made.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
async def test_a_cancelled_worker_is_killed(began: Began) -> None:
    """The worker of a cancelled call is dead, also if the tool ignores signals, and the next call gets another one.

    A pipe says that the body began; only then the call is cancelled.
    """
    executor = Process(workers=1)
    pipeline = standard(TOOLS, executor=executor, attempts=1)
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)
    pids: list[int] = []
    with anyio.CancelScope() as scope:

        async def cancel_when_begun() -> None:
            pids.append(await began.pid())
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when_begun)
            await pipeline.call("hangs", {"fifo": began.path})
    assert scope.cancelled_caught
    assert not is_alive(pids[0])
    assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)


@pytest.mark.parametrize(("effect", "expected"), [("read", TimedOut), ("mutating", OutcomeUnknown)])
@pytest.mark.long
async def test_a_time_limit_kills_a_worker(
    effect: Effect, expected: type, began: Began, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Timeout says that the tool ran and does not run any more; a mutating one may have taken effect."""
    registry, stopped = ToolRegistry(), StoppedTime(monkeypatch)
    registry.register(a_tool("hangs", effect, remote_tools.hangs.fn))

    async def end_the_time() -> None:
        await began.wait()
        stopped.advance(60)

    pipeline = standard(registry, executor=Process(workers=1), attempts=1, timeout=60)
    async with anyio.create_task_group() as group:
        group.start_soon(end_the_time)
        outcome = await pipeline.call("hangs", {"fifo": began.path})
        assert is_failure(outcome)
        error: Any = outcome.failure()
        assert isinstance(error, expected)
        timed: Any = error.cause if isinstance(error, OutcomeUnknown) else error
        assert (timed.still_running, timed.landed) == (False, "maybe")
        assert not is_alive(began.read())


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(tool, marks=() if tool.effect in ("read", "mutating") else pytest.mark.long, id=tool.effect)
        for tool in remote_tools.FATAL
    ],
)
async def test_a_lost_worker(tool: Tool[..., Any], tmp_path: Path) -> None:
    """The call of a killed worker is retried with the same key if that is safe; a mutating one is not."""
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
    """A span that a tool makes in the worker is a child of the attempt that the tool runs in."""
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


def closed_over() -> Tool[..., Any]:
    def inner() -> None: ...

    return a_tool("inner", fn=inner)


def test_a_function_that_no_worker_can_load() -> None:
    """A function inside a function is refused when the pipeline is built; the text says what to do."""
    tools = ToolRegistry()
    tools.register(closed_over())
    with pytest.raises(
        SetupError,
        match=r"^inner \(.*\) cannot run in a process: .* use run_in='thread'$",
    ):
        standard(tools, executor=Process())


@pytest.mark.long
async def test_a_function_that_pickles_needs_no_address() -> None:
    """A bound method or a partial of something importable is sent as a pickle."""
    tools = ToolRegistry()
    tools.register(a_tool("joined", fn=", ".join, run_in="process"))
    tools.register(Tool.from_schema(name="text", parameters=None, handler=str, effect="read", run_in="process"))
    assert await standard(tools).call("text", {"object": 3}) == Success("3")
    Process().check_tool(tools.tools["joined"])


@pytest.mark.parametrize("workers", [0, -1, 1.5])
def test_wrong_numbers_of_workers(workers: Any) -> None:
    """The number of workers is an integer from 1 on."""
    with pytest.raises(SetupError, match=f"^Process: `workers` must be an integer ≥ 1, not {workers}$"):
        Process(workers)


async def test_the_default_process_executor() -> None:
    """`run_in="process"` works without any set-up."""
    tools = ToolRegistry()
    tools.register(Tool.from_schema(name="pid", parameters=None, handler=remote_tools.pid.fn, run_in="process"))
    outcome = await standard(tools).call("pid")
    assert not is_failure(outcome)
    assert outcome.unwrap() != os.getpid()
    Execute().check_tool(tools.tools["pid"])
