"""Ray: tools on a cluster of this machine, which is started here. Run by ``make test-ray``, where Ray is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # or Ray leaves the loopback interface

import anyio
import pytest

import remote_tools
from cli_desk import until
from middlewares import Trace, standard
from pipeline import (
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
from pipeline.executors import Ray
from remote_tools import Began, OddError
from support import Exported, a_tool
from test_process import HOW

TOOLS = remote_tools.tools
ray: Any = import_module("ray")
LOOPBACK: dict[str, Any] = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[set[str]]:
    """One for all tests, in the thread that stays: Ray's processes end with the one that started them.

    What listened before it was started.
    """
    before = listening()
    here = str(Path(__file__).parent)
    env = {"env_vars": {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}}
    ray.init(**LOOPBACK, num_cpus=2, resources={"lathe": 1}, logging_level="ERROR", runtime_env=env)
    yield before
    ray.shutdown()


def listening() -> set[str]:
    """The local ends of all sockets of this machine that listen, as the kernel tells them."""
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A"}


def test_nothing_listens_beyond_this_machine(cluster: set[str]) -> None:
    """What these tests start is bound to the loopback interface alone."""
    new = {socket.partition(":")[0] for socket in listening() - cluster}
    assert new
    assert new <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


async def test_what_comes_back_is_what_came_of_it() -> None:
    """A value comes back as it is, of sync and async tools; what the tool raised is read as if raised here."""
    async with Ray(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor, attempts=1)
        assert await pipeline.call("add", {"a": 1, "b": 2}) == Success(3)
        assert isinstance(await pipeline.call("where"), Success)
        for how, (kind, cause) in HOW.items():
            outcome = await pipeline.call("fails", {"how": how})
            if how == "lambda":  # by value
                assert isinstance(outcome, Success)
                continue
            assert is_failure(outcome), how
            error: Any = outcome.failure()
            assert isinstance(error, kind), how
            assert cause is None or isinstance(error.cause, cause) or how == "local", how


async def test_what_a_tool_knows_of_its_call() -> None:
    """A ToolContext goes along, with deps and the time that is left; progress comes back, and who ran it."""
    async with Ray(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor, timeout=60)
        report = await pipeline.report(Call("told", {"n": 2}, id="c1", principal="p", deps={"a": 1}))
    assert isinstance(report.outcome, Success)
    told = cast("dict[str, Any]", report.outcome.unwrap())
    assert 0 < told.pop("left") <= 60
    assert told == {"id": "c1", "attempt": 1, "principal": "p", "deps": {"a": 1}}
    assert [(each.done, each.total) for each in report.progress] == [(2, 4)]
    assert [attempt.executor for attempt in report.attempts] == ["ray"]


async def test_what_is_in_no_module_goes_by_value() -> None:
    """A function inside of a function is sent along."""
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
    """Each call has its own answer, in batches or not, whatever becomes of its neighbours."""
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
async def test_no_more_are_sent_than_may_be_in_flight(batch: int) -> None:
    """However many calls wait, an actor has so many at a time; the others wait here, and come after."""
    async with Ray(workers=1, in_flight=5, batch=batch) as executor:
        outcomes = await gather(standard(TOOLS, executor=executor), [Call("crowd") for _ in range(40)], limit=40)
    crowds = [cast("int", outcome.unwrap()) for outcome in outcomes if isinstance(outcome, Success)]
    assert len(crowds) == 40
    assert 1 < max(crowds) <= 5


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("tool", remote_tools.FATAL, ids=lambda tool: str(tool.effect))
async def test_an_actor_that_is_lost(tool: Tool[..., Any], batch: int, tmp_path: Path) -> None:
    """A killed actor's call is run again where that is safe, by the same key, and never for a mutating tool."""
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
    """With an actor killed amid 200 calls each has one outcome; what was lost with it was read only, and ran again."""
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


@pytest.fixture
def began(tmp_path: Path) -> Iterator[Began]:
    made = Began(tmp_path)
    yield made
    made.close()


async def test_a_cancelled_coroutine_ends_over_there(began: Began, tmp_path: Path) -> None:
    """Out of time, an async tool is cancelled where it runs, and comes to its end before the caller goes on."""
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

                async def end_it() -> None:
                    await began.pid()
                    scope.cancel()

                group.start_soon(end_it)
                await pipeline.call("waits", {"fifo": began.path, "ended": ended})
        assert scope.cancelled_caught
    assert (tmp_path / "ended").exists()


async def test_a_thread_over_there_cannot_be_ended(tmp_path: Path) -> None:
    """A sync tool out of time is told as still running; an actor with nothing else on it is replaced."""
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
    """What a tool asks of the cluster, by a name of the cluster's own too, is asked for it alone."""
    async with Ray(workers=1, needs={"where": {"lathe": 1}}) as executor:
        pipeline = standard(TOOLS, executor=executor)
        plain = await pipeline.call("pid")
        special = await pipeline.call("where")
        assert isinstance(plain, Success)
        assert isinstance(special, Success)
        pid: Any = special.unwrap()
        assert pid[0] != plain.unwrap()


async def test_needs_that_nobody_meets() -> None:
    """A call that waits for an actor that cannot be had is out of time without having begun."""
    async with Ray(workers=1, needs={"pid": {"num_gpus": 4}}) as executor:
        outcome = await standard(TOOLS, executor=executor, attempts=1, timeout=0.5).call("pid")
    assert is_failure(outcome)
    assert outcome.failure() == TimedOut(0.5, landed="no")


async def test_one_trace_across_processes() -> None:
    """A span that a tool makes over there belongs to the trace of its call, under the attempt that it serves."""
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


async def test_a_module_that_is_not_there() -> None:
    """A function that the cluster cannot import is a set-up error for the developer, and did not run."""
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
    assert "here_only:f cannot be imported where the tool is to run" in str(error.cause)


async def test_what_is_under_way_when_it_is_closed_is_told_as_lost(began: Began) -> None:
    """Closing loses what still runs; that is told of it, and nobody hangs."""
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


def test_a_file_of_calls_killed_and_resumed(tmp_path: Path) -> None:
    """``toolcall run --executor ray`` on the cluster at RAY_ADDRESS: killed and resumed, one result for each line."""
    calls, results = tmp_path / "calls.jsonl", tmp_path / "results.jsonl"
    names = ("add", "spans", "ad")
    calls.write_text(
        "".join(json.dumps({"id": n, "name": names[n % 3], "arguments": {"a": n, "b": 0}}) + "\n" for n in range(900))
    )
    command = [sys.executable, "-m", "pipeline", "run", "remote_tools:tools", str(calls), "-o", str(results)]
    command += ["--executor", "ray", "--workers", "1", "--concurrency", "20", "--resume"]
    address = ray.get_runtime_context().gcs_address
    here, env = Path(__file__).parent, {**os.environ, "RAY_ADDRESS": str(address)}
    with subprocess.Popen(command, cwd=here, env=env) as process:
        until(lambda: results.exists() and results.read_bytes().count(b"\n") >= 100, 60)
        process.kill()
    written = results.read_bytes().count(b"\n")
    assert 100 <= written < 900
    assert subprocess.run(command, cwd=here, env=env, check=False, timeout=120).returncode == 0
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert sorted(row["line"] for row in rows) == list(range(1, 901))
    assert all(row["id"] == row["line"] - 1 for row in rows)
    assert {row["told"] == str(row["id"]) for row in rows if row["name"] == "add"} == {True}
    assert {row["kind"] for row in rows if row["name"] == "ad"} == {"unknown_tool"}


@pytest.mark.parametrize("options", [{"workers": 0}, {"in_flight": 0}, {"batch": 1.5}], ids=repr)
def test_senseless_numbers_are_refused(options: Any) -> None:
    """Fewer than one actor, or half a batch, is a set-up error."""
    with pytest.raises(SetupError, match="whole numbers from 1 on"):
        Ray(**options)
