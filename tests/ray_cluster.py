"""Ray: tools on a cluster of this machine, which this file starts. ``make test-ray`` runs it; it installs Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else Ray listens beyond the loopback interface

import anyio
import pytest
from attrs import evolve

import container_tools
import hostile_tools
import remote_tools
from cli_desk import until
from far_shop import kill_workers, make_all_here
from ledger_kills import read_answers
from remote_tools import Began, Gate, OddError
from support import Exported, a_tool
from test_process import FAILURES
from toolcall_pipeline import (
    Call,
    Crashed,
    ExecutionFailed,
    NotExecuted,
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
from toolcall_pipeline.executors import Ray
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.stores import SQLite
from toolcall_pipeline.telemetry import Event, Events, follow

TOOLS = remote_tools.tools
CONTAINERS = [each.name for each in container_tools.tools if each.name != "reader"]
ray: Any = import_module("ray")
LOOPBACK: dict[str, Any] = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[set[str]]:
    """One cluster for all tests, started in the main thread, as Ray's processes end with the thread that started them.

    Gives what listened before it was started.
    """
    before = listening()
    here = str(Path(__file__).parent / "support")
    env = {"env_vars": {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}}
    ray.init(**LOOPBACK, num_cpus=2, resources={"lathe": 1}, logging_level="ERROR", runtime_env=env)
    yield before
    ray.shutdown()


def listening() -> set[str]:
    """Return the local addresses of all listening sockets of this machine, as the kernel writes them."""
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A"}


def test_nothing_listens_beyond_this_machine(cluster: set[str]) -> None:
    """What these tests start is bound to the loopback interface only."""
    new = {socket.partition(":")[0] for socket in listening() - cluster}
    assert new
    assert new <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


async def test_results_and_errors_come_back() -> None:
    """Results of sync and async tools come back as they are; an exception is read as if it was raised here."""
    async with Ray(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor, attempts=1)
        assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)
        assert isinstance(await pipeline.call("where"), Success)
        for how, (kind, cause) in FAILURES.items():
            outcome = await pipeline.call("fails", {"how": how})
            if how == "lambda":  # cloudpickle sends it by value
                assert isinstance(outcome, Success)
                continue
            assert is_failure(outcome), how
            error: Any = outcome.failure()
            assert isinstance(error, kind), how
            assert cause is None or isinstance(error.cause, cause) or how == "local", how


async def test_a_tool_gets_its_context() -> None:
    """The actor gets a ToolContext with the deps and the time that is left; progress comes back."""
    async with Ray(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor, timeout=60)
        report = await pipeline.report(
            Call("show_context", {"n": 2}, id="c1", principal="p", deps={"a": 1}, conversation="t1")
        )
    assert isinstance(report.outcome, Success)
    shown = cast("dict[str, Any]", report.outcome.unwrap())
    assert 0 < shown.pop("left") <= 60
    assert shown == {"id": "c1", "attempt": 1, "principal": "p", "conversation": "t1", "deps": {"a": 1}}
    assert [(each.done, each.total) for each in report.progress] == [(2, 4)]
    assert [attempt.executor for attempt in report.attempts] == ["ray"]


@pytest.mark.parametrize("tool", ["tells", "tells_async"])
@pytest.mark.parametrize("batch", [1, 3])
async def test_progress_is_heard_while_the_tool_runs(tool: str, batch: int, gate: Gate) -> None:
    """Progress is heard before the tool ends, which it does only when somebody has heard it."""
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if event.name == "tool.progress":
            gate.open()

    async with Ray(workers=1, batch=batch) as executor:
        with anyio.fail_after(60):
            outcome = await follow(standard(TOOLS, executor=executor), Call(tool, {"gate": gate.path}), hear)
    assert outcome == Success("done")
    names = [event.name for event in heard if event.name != "tool.stage"]
    assert names == ["tool.call", "tool.progress", "tool.attempt", "tool.result"]


@pytest.mark.parametrize("batch", [1, 20])
async def test_progress_of_many_calls(batch: int) -> None:
    """Each of many calls at once has all of its progress before its result, and none of another one's."""
    async with Ray(workers=1, in_flight=20, batch=batch) as executor:
        pipeline = standard(TOOLS, executor=executor)
        with Events() as events:
            traced = pipeline.replace("trace", Trace(sinks=[events]))
            await gather(traced, [Call("show_context", {"n": n}, id=str(n)) for n in range(100)], limit=50)
    told: dict[str, list[Event]] = {}
    async for event in events:
        told.setdefault(event.call_id, []).append(event)
    for call_id, each in told.items():
        assert [event.data["done"] for event in each if event.name == "tool.progress"] == [int(call_id)]
        assert each[-1].name == "tool.result"
    assert len(told) == 100


async def test_a_flood_of_progress_is_bounded() -> None:
    """A tool that tells 40,000 steps ends, and its last step is heard; a dying one was heard until it died."""
    async with Ray(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor, attempts=1)
        with Events() as events, anyio.fail_after(60):
            report = await pipeline.report(Call("floods", {"steps": 20_000}), listener=events)
            await pipeline.report(Call("tells_and_dies"), listener=events)
    assert report.outcome == Success(20_000)
    assert len(report.progress) < 2_000  # 100 at once, and 100 a second
    assert report.progress[-1].message == "last"
    assert [event.name async for event in events][-1] == "tool.result"


async def test_a_function_without_an_address_goes_by_value() -> None:
    """A function inside a function is sent to the actor itself."""
    offset = 10
    tools = ToolRegistry()

    @tools.tool(effect="read", run_in="ray")
    async def shifted(n: int) -> int:
        return n + offset

    @tools.tool(effect="read", run_in="ray")
    def shifted_too(n: int) -> int:
        return n + offset

    del shifted, shifted_too
    async with Ray(workers=1) as executor:
        pipeline = standard(tools, executors={"ray": executor})
        assert await pipeline.call("shifted", {"n": 1}) == Success(11)
        assert await pipeline.call("shifted_too", {"n": 1}) == Success(11)


@pytest.mark.parametrize("batch", [1, 10])
async def test_many_at_once(batch: int) -> None:
    """Each call has its own result, in batches or not, also if another call of its batch fails."""
    async with Ray(workers=2, in_flight=20, batch=batch) as executor:
        pipeline = standard(TOOLS, executor=executor, attempts=1)
        calls = [Call("fails", {"how": "odd"}) if n % 7 == 0 else Call("add", {"a": n, "b": n % 3}) for n in range(300)]
        outcomes = await gather(pipeline, calls, limit=100)
    for n, outcome in enumerate(outcomes):
        if n % 7:
            assert outcome == Success(n + n % 3)
        else:
            assert is_failure(outcome)
            assert isinstance(outcome.failure(), ExecutionFailed)


@pytest.mark.parametrize("batch", [1, 3])
async def test_calls_in_flight_are_bounded(batch: int) -> None:
    """An actor never has more than `in_flight` calls; further calls wait here, and run later."""
    async with Ray(workers=1, in_flight=5, batch=batch) as executor:
        outcomes = await gather(standard(TOOLS, executor=executor), [Call("crowd") for _ in range(40)], limit=40)
    crowds = [cast("int", outcome.unwrap()) for outcome in outcomes if isinstance(outcome, Success)]
    assert len(crowds) == 40
    assert 1 < max(crowds) <= 5


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("tool", remote_tools.FATAL, ids=lambda tool: str(tool.effect))
async def test_a_lost_actor(tool: Tool[..., Any], batch: int, tmp_path: Path) -> None:
    """The call of a killed actor is retried with the same key if that is safe; a mutating one is not."""
    file = tmp_path / "effects"
    async with Ray(workers=1, batch=batch) as executor:
        pipeline = standard(TOOLS, executor=executor).replace("trace", Trace())
        report = await pipeline.report(Call(tool.name, {"file": str(file)}))
        effects = file.read_text().splitlines()
        if tool.effect == "mutating":
            assert isinstance(report.error, OutcomeUnknown)
            assert len(effects) == 1
        else:
            assert report.outcome == Success(2)
            assert len(effects) == 2
            assert len(set(effects)) == 1
            assert [attempt.verdict for attempt in report.attempts] == ["transient", None]
        assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)


async def test_one_lost_actor_among_many_calls(tmp_path: Path) -> None:
    """If an actor dies among 200 calls, each has one outcome: the lost reads are retried, the lost mutation is not."""
    file = tmp_path / "effects"
    async with Ray(workers=2) as executor:
        pipeline = standard(TOOLS, executor=executor)
        calls = [Call("add", {"a": n, "b": 0}) for n in range(200)]
        calls.insert(100, Call("dies_mutating", {"file": str(file)}))
        outcomes = await gather(pipeline, calls, limit=50)
    lost = outcomes.pop(100)
    assert is_failure(lost)
    assert isinstance(lost.failure(), OutcomeUnknown)
    assert outcomes == [Success(n) for n in range(200)]
    assert len(file.read_text().splitlines()) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_ledger_around_actors_that_are_killed(tmp_path: Path) -> None:
    """8 calls at once and actors that die after an effect; all deliveries again: no effect twice, no answer changed."""
    async with Ray(workers=2) as actors:
        tally = await kill_workers(lambda: SQLite(tmp_path / "ledger.db"), actors, tmp_path, kills=3, count=60)
    assert tally.unknown <= 48  # of what ran in an actor that was killed, and the equal ones


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_ledger_after_the_head_has_died(tmp_path: Path) -> None:
    """What ran on a cluster whose head dies is unknown to the next process, and the rest runs: no effect twice."""
    (tmp_path / "effects").touch()
    support = Path(__file__).parent / "support"
    there = {**os.environ, "PYTHONPATH": os.pathsep.join([str(support.parent.parent), str(support)])}
    command = [sys.executable, str(support / "lost_head.py"), str(tmp_path), "90"]
    await anyio.run_process(command, env=there)
    tally = await make_all_here(SQLite(tmp_path / "ledger.db"), tmp_path, read_answers(tmp_path / "answers"), 90)
    assert tally.unknown <= 16  # 8 ran; each may have an equal one


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path)
    yield made
    made.close()


@pytest.fixture
def began(tmp_path: Path) -> Iterator[Began]:
    made = Began(tmp_path)
    yield made
    made.close()


async def test_a_cancelled_async_tool_ends_in_its_actor(
    began: Began, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An async tool is cancelled in its actor, and has ended before the caller goes on."""
    monkeypatch.setattr("toolcall_pipeline.executors.ray.executor._GRACE", 60)  # seconds: a busy machine is slow
    tools, ended = ToolRegistry(), str(tmp_path / "ended")

    @tools.tool
    async def waits(fifo: str, ended: str) -> None:
        remote_tools.put(fifo, "1")
        try:
            await anyio.sleep_forever()
        finally:
            remote_tools.put(ended, "x")

    del waits
    async with Ray(workers=1) as executor:
        pipeline = standard(tools, executor=executor, attempts=1)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def cancel_when_begun() -> None:
                    await began.pid()
                    scope.cancel()

                group.start_soon(cancel_when_begun)
                await pipeline.call("waits", {"fifo": began.path, "ended": ended})
        assert scope.cancelled_caught
    assert (tmp_path / "ended").exists()


async def test_a_sync_tool_in_an_actor_cannot_be_ended(tmp_path: Path) -> None:
    """A sync tool out of time is still running; an actor that has nothing else is replaced."""
    async with Ray(workers=1, in_flight=1) as executor:
        pipeline = standard(TOOLS, executor=executor, attempts=1)
        first = await pipeline.call("pid")
        tools = ToolRegistry()

        @tools.tool(effect="read")
        def stuck() -> None:
            threading.Event().wait()

        del stuck
        outcome = await standard(tools, executor=executor, attempts=1, timeout=0.5).call("stuck")
        assert is_failure(outcome)
        error: Any = outcome.failure()
        assert isinstance(error, TimedOut)
        assert (error.still_running, error.landed) == (True, "maybe")
        another = await pipeline.call("pid")
        assert isinstance(another, Success)
        assert another != first


async def test_a_tool_with_needs_has_actors_of_its_own() -> None:
    """Only the tool named in `needs` runs in actors that ask for them, also if the cluster made up the name."""
    async with Ray(workers=1, needs={"where": {"lathe": 1}}) as executor:
        pipeline = standard(TOOLS, executor=executor)
        plain = await pipeline.call("pid")
        special = await pipeline.call("where")
        assert isinstance(plain, Success)
        assert isinstance(special, Success)
        pid: Any = special.unwrap()
        assert pid[0] != plain.unwrap()


async def test_needs_that_the_cluster_does_not_have() -> None:
    """A call whose actor never starts is out of time, and its body did not begin."""
    async with Ray(workers=1, needs={"pid": {"num_gpus": 4}}) as executor:
        outcome = await standard(TOOLS, executor=executor, attempts=1, timeout=0.5).call("pid")
    assert is_failure(outcome)
    assert outcome.failure() == TimedOut(0.5, landed="no")


async def test_one_trace_across_processes() -> None:
    """A span that a tool makes in an actor is a child of the attempt that the tool runs in."""
    exported = Exported()
    async with Ray(workers=1) as executor:
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


async def test_a_module_that_the_cluster_does_not_have() -> None:
    """A tool whose module an actor cannot import crashes with a SetupError, and did not run."""
    module: Any = ModuleType("here_only")
    exec("async def f(): pass", module.__dict__)
    sys.modules["here_only"] = module
    tools = ToolRegistry()
    tools.register(a_tool("f", fn=module.f, effect="mutating"))
    async with Ray(workers=1) as executor:
        outcome = await standard(tools, executor=executor).call("f")
    assert is_failure(outcome)
    error: Any = outcome.failure()
    assert isinstance(error, Crashed)
    assert "here_only:f cannot be imported in the worker" in str(error.cause)


def test_actors_end_with_their_event_loop(anyio_backend: str) -> None:
    """When an event loop has ended, so have the actors of an executor that nobody closed; the next loop has others."""
    executor = Ray(workers=1)
    pipeline = standard(TOOLS, executor=executor)
    for _ in range(2):
        outcome = anyio.run(pipeline.call, "pid", backend=anyio_backend)
        assert isinstance(outcome, Success)
        until(partial(has_ended, outcome.unwrap()), 60)
    anyio.run(executor.aclose, backend=anyio_backend)


def has_ended(pid: Any) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_nothing_of_one_call_is_there_for_the_next() -> None:
    """An actor keeps no context variable of the call before, neither in its threads nor in its event loop."""
    async with Ray(workers=1, in_flight=1) as executor:
        pipeline = standard(hostile_tools.tools, executor=executor)
        for name in ("leave", "leave_async"):
            for value in ("a", "b"):
                assert await pipeline.call(name, {"value": value}) == Success("nothing")


async def test_closing_loses_the_calls_that_run(began: Began) -> None:
    """A call that runs while the executor is closed returns as lost, and does not hang."""
    outcomes: list[Any] = []
    executor = Ray(workers=1)
    pipeline = standard(TOOLS, executor=executor, attempts=1)

    async def call() -> None:
        outcomes.append(await pipeline.call("hangs", {"fifo": began.path}))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await began.pid()
        await executor.aclose()
    assert isinstance(outcomes[0].failure(), Transient)
    assert not isinstance(outcomes[0].failure(), (ResourceNotFound, NotExecuted, OddError))


def test_a_file_of_calls_killed_and_resumed(gate: Gate, tmp_path: Path) -> None:
    """``toolcall run --executor ray``, killed and resumed, gives one result for each line."""
    calls, results = tmp_path / "calls.jsonl", tmp_path / "results.jsonl"
    rows: list[dict[str, Any]] = [
        {"name": ("add", "spans", "ad")[n % 3], "arguments": {"a": n, "b": 0}} for n in range(280)
    ]
    rows += [{"name": "waits", "arguments": {"gate": gate.path}}] * 20  # all places of the run: it is killed here
    calls.write_text("".join(json.dumps({"id": n, **row}) + "\n" for n, row in enumerate([*rows, *rows[:100]])))
    command = [sys.executable, "-m", "toolcall_pipeline", "run", "remote_tools:tools", str(calls), "-o", str(results)]
    command += ["--executor", "ray", "--workers", "1", "--concurrency", "20", "--follow", "--resume"]
    address = ray.get_runtime_context().gcs_address
    here, env = Path(__file__).parent / "support", {**os.environ, "RAY_ADDRESS": str(address)}
    with subprocess.Popen(command, cwd=here, env=env) as process:
        try:
            until(lambda: results.exists() and results.read_bytes().count(b"\n") >= 100, 60)
        finally:
            process.kill()
    assert 100 <= results.read_bytes().count(b"\n") <= 280
    gate.open(1000)  # more than both runs can take
    assert subprocess.run(command, cwd=here, env=env, check=False, timeout=120).returncode == 0
    told = [json.loads(line) for line in results.read_text().splitlines()]
    assert sorted(row["line"] for row in told) == list(range(1, 401))
    assert all(row["id"] == row["line"] - 1 for row in told)
    assert {row["told"] == str(row["id"] % 300) for row in told if row["name"] == "add"} == {True}
    assert {row["kind"] for row in told if row["name"] == "ad"} == {"unknown_tool"}


@pytest.mark.parametrize("options", [{"workers": 0}, {"in_flight": 0}, {"batch": 1.5}], ids=repr)
def test_wrong_numbers(options: Any) -> None:
    """All three numbers are integers from 1 on."""
    with pytest.raises(SetupError, match=r"^Ray: `\w+` must be an integer ≥ 1( or None)?, not"):
        Ray(**options)


async def test_containers_are_opened() -> None:
    """A Failure in a container that a tool gives back is one here as well: it is opened where the tool runs."""
    tools = ToolRegistry()
    for name in CONTAINERS:
        tools.register(evolve(container_tools.tools[name], run_in="ray"))
    async with Ray(workers=1) as executor:
        pipeline = standard(tools, executors={"ray": executor})
        for name in CONTAINERS:
            assert await pipeline.call(name, {"how": "success"}) == Success(7), name
            for how in ("failure", "raise"):
                assert is_failure(await pipeline.call(name, {"how": how})), (name, how)
