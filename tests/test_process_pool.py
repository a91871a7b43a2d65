"""The workers of Process: what they write, how they die, who keeps them, and what is left of them."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.to_thread
import pytest

import hostile_tools
import remote_tools
from remote_tools import Began
from support import PATIENT, Child, Exported, a_call, a_tool, count_run_variables
from toolcall_pipeline import (
    Call,
    CallReport,
    Crashed,
    OutcomeUnknown,
    Pipeline,
    SetupError,
    Success,
    TimedOut,
    ToolRegistry,
    Transient,
    gather,
    is_failure,
)
from toolcall_pipeline.engine.guards import Guards, TimeLimit
from toolcall_pipeline.executors import Process, worker_handle
from toolcall_pipeline.executors.process_pool import WorkerPool
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.stage_state.loop_state import get_loop_state

pytestmark = pytest.mark.long  # each test starts processes

TOOLS = hostile_tools.tools


@pytest.fixture
def began(tmp_path: Path) -> Iterator[Began]:
    made = Began(tmp_path)
    yield made
    made.close()


async def get_pid(pipeline: Pipeline) -> int:
    """The id of the worker that answers, at the first attempt of a tool that may not be repeated."""
    report = await pipeline.report(Call("pid"))
    assert isinstance(report.outcome, Success), report
    assert len(report.attempts) == 1
    pid: Any = report.outcome.unwrap()
    return int(pid)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def get_children() -> set[str]:
    """The processes that this one has started and not waited for."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def count_descriptors() -> int:
    gc.collect()  # what an earlier test left open
    return len(list(Path("/proc/self/fd").iterdir()))


# --- what a worker writes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("everywhere", [False, True], ids=["to 1 and 2", "to every pipe"])
async def test_what_an_idle_worker_writes_is_nobodys_result(tmp_path: Path, everywhere: bool) -> None:
    """A thread that a tool left behind can write what it likes: the next caller gets its own result, at once."""
    began = Began(tmp_path)
    go = str(tmp_path / "go")
    os.mkfifo(go)
    async with Process(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor)
        with anyio.fail_after(PATIENT):
            outcome = await pipeline.call("haunt", {"go": go, "done": began.path, "everywhere": everywhere})
            assert not is_failure(outcome)
            haunted = outcome.unwrap()
            await anyio.to_thread.run_sync(remote_tools.put, go, "now")
            await began.wait()
            # Descriptors 1 and 2 lead nowhere; a worker that wrote anything else is killed, and no call is lost.
            assert (await get_pid(pipeline) == haunted) is not everywhere
    began.close()


async def test_a_reply_that_nobody_asked_for() -> None:
    """A tool that writes a reply itself loses its worker, and its call has no result."""
    async with Process(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor)
        outcome = await pipeline.call("answers_twice")
        assert is_failure(outcome)
        assert isinstance(outcome.failure(), OutcomeUnknown)
        await get_pid(pipeline)


async def test_a_tool_that_forks(began: Began) -> None:
    """A child that returns from the tool as well is not heard; one that lives on does not keep a lost call waiting."""
    async with Process(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor, attempts=1)
        worker = await get_pid(pipeline)
        assert await pipeline.call("forks", {"fifo": began.path}) == Success("of the worker")
        assert await get_pid(pipeline) == worker
        with anyio.fail_after(PATIENT):
            outcome = await pipeline.call("dies_with_a_child", {"fifo": began.path})
        os.kill(await began.pid(), signal.SIGKILL)
        assert is_failure(outcome)
        assert isinstance(outcome.failure(), Transient)
        await get_pid(pipeline)


async def test_a_tool_that_closes_descriptors(tmp_path: Path) -> None:
    """A worker whose pipes a tool has closed ends; no reply is written to what the tool opened under their numbers."""
    file = tmp_path / "file"
    file.touch()
    async with Process(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor)
        with anyio.fail_after(PATIENT):
            outcome = await pipeline.call("closes_descriptors", {"file": str(file)})
        assert is_failure(outcome)
        assert isinstance(outcome.failure(), OutcomeUnknown)
        assert file.read_bytes() == b""
        await get_pid(pipeline)


async def test_nothing_of_one_call_is_there_for_the_next() -> None:
    """A worker keeps no context variable and no trace of the call before."""
    exported = Exported()
    async with Process(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor).replace("trace", Trace(tracer_provider=exported.provider))
        for name in ("leave", "leave_async"):
            for value in ("a", "b"):
                assert await pipeline.call(name, {"value": value}) == Success("nothing")
        seen = [(await pipeline.call("trace_id")).unwrap() for _ in range(2)]
    roots = [span.context.trace_id for span in exported.spans if span.context and span.parent is None]
    assert seen == roots[-2:]
    assert len(set(seen)) == 2


# --- workers that die -------------------------------------------------------------------------------------------------


async def test_a_worker_that_dies_idle() -> None:
    """A worker that was killed while it had nothing to do costs no call, with several executors in one event loop."""
    async with Process(workers=1) as one, Process(workers=1) as other:
        pipelines = [standard(TOOLS, executor=each) for each in (one, other)]
        first = [await get_pid(each) for each in pipelines]
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        second = [await get_pid(each) for each in pipelines for _ in range(3)]
        assert second == [second[0]] * 3 + [second[3]] * 3  # each has its one worker, and keeps it
        assert len({*first, *second}) == 4


def make_module(folder: Path, name: str, code: str) -> ToolRegistry:
    """A module that workers can import, and that does more there than here; its tool is called run."""
    (folder / f"{name}.py").write_text(f"{code}\ndef run() -> str:\n    return 'done'\n")
    module: Any = ModuleType(name)
    exec("def run() -> str:\n    return 'done'", module.__dict__)
    sys.modules[name] = module
    tools = ToolRegistry()
    tools.register(a_tool("run", "mutating", module.run))
    return tools


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ToolRegistry]]:
    folder = tmp_path / "importable"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    name = "imported_by_workers"
    yield lambda code: make_module(folder, name, code)
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raises", "imported_by_workers:run cannot be imported in the worker: LookupError: no such setting"),
        ("misses a module", "imported_by_workers:run cannot be imported in the worker: ModuleNotFoundError"),
        ("exits", "imported_by_workers:run cannot be imported in the worker: SystemExit: 3"),
        ("ends", "the worker ended before the tool began: it exited with status 3: out of luck"),
        ("aborts", "the worker ended before the tool began: it died of signal 6"),
    ],
)
async def test_a_module_that_does_not_import(
    importable: Callable[[str], ToolRegistry], how: str, told: str, anyio_backend: str
) -> None:
    """It is a crash with a SetupError that says why, also if the import ends the worker: not lost, not repeated."""
    tools = importable(hostile_tools.IMPORTS[how])
    async with Process(workers=1) as executor:
        await get_pid(standard(TOOLS, executor=executor))  # so that there is an idle worker as well
        report = await standard(tools, executor=executor).report(Call("run"))
        assert isinstance(report.error, Crashed)
        assert isinstance(report.error.cause, SetupError)
        assert told in str(report.error.cause)
        assert len(report.attempts) == 1
        await get_pid(standard(TOOLS, executor=executor))


async def test_the_time_is_up_while_a_module_is_imported(
    importable: Callable[[str], ToolRegistry], began: Began, tmp_path: Path
) -> None:
    """The body of such a call did not begin, and the worker goes on: the next call finds the module there."""
    go = str(tmp_path / "go")
    os.mkfifo(go)
    wait = f"import os; open({began.path!r}, 'w').write(str(os.getpid())); open({go!r}).read()"
    tool = importable(wait).tools["run"]
    async with Process(workers=1) as executor:
        limit = TimeLimit()
        importing: list[int] = []
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def cancel_when_importing() -> None:
                    importing.append(await began.pid())
                    scope.cancel()

                group.start_soon(cancel_when_importing)
                await executor.run(a_call(tool, guards=Guards.of(limit)))
        assert scope.cancelled_caught
        assert not limit.undecided
        await anyio.to_thread.run_sync(remote_tools.put, go, "go on")
        with anyio.fail_after(PATIENT):
            assert await executor.run(a_call(tool)) == "done"
            assert await get_pid(standard(TOOLS, executor=executor)) == importing[0]


async def test_an_import_that_takes_for_ever(
    importable: Callable[[str], ToolRegistry], began: Began, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has prepared one job for too long is killed with the next call that gives up."""
    monkeypatch.setattr(worker_handle, "_PATIENCE", 0)
    wait = f"import os; open({began.path!r}, 'w').write(str(os.getpid())); import threading; threading.Event().wait()"
    tool = importable(wait).tools["run"]
    stuck: list[int] = []
    async with Process(workers=1) as executor:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(executor.run, a_call(tool))
                stuck.append(await began.pid())
                scope.cancel()
        while is_alive(stuck[0]):
            with anyio.move_on_after(0.01):
                await executor.run(a_call(tool))
        await get_pid(standard(TOOLS, executor=executor))


async def test_no_worker_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system starts no process, the body did not begin, so any tool may be retried; nothing is left open."""

    def refuse(*_args: Any, **_options: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = count_descriptors()
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        executor = Process(workers=1)
        failure: Any = await executor.run(a_call(TOOLS.tools["pid"]))
        assert failure.failure() == Transient(None, landed="no")
    assert count_descriptors() == before
    await executor.aclose()


async def test_a_worker_that_is_killed_as_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new worker that somebody kills from outside is no fault of the tool: transient, and not begun."""
    start = worker_handle.WorkerProcess.__init__

    def start_and_kill(worker: Any, living: Any) -> None:
        start(worker, living)
        worker.kill()

    monkeypatch.setattr(worker_handle.WorkerProcess, "__init__", start_and_kill)
    failure: Any = await Process(workers=1).run(a_call(TOOLS.tools["pid"]))
    assert failure.failure() == Transient(None, landed="no")


# --- who keeps workers ------------------------------------------------------------------------------------------------


def test_workers_end_with_their_event_loop(anyio_backend: str) -> None:
    """When an event loop has ended, so have the workers of executors that nobody closed; the next loop has others."""
    executor = Process(workers=2)
    pipeline = standard(TOOLS, executor=executor)
    children, descriptors = get_children(), count_descriptors()
    pids: list[int] = []
    for _ in range(2):
        pids.append(anyio.run(get_pid, pipeline, backend=anyio_backend))
        assert get_children() == children
        assert count_descriptors() == descriptors
    assert len(set(pids)) == 2


async def test_workers_end_with_their_executor() -> None:
    """An executor that nobody refers to takes its workers along, and leaves nothing in the event loop."""

    async def request() -> weakref.ref[Process]:
        executor = Process(workers=1)
        await get_pid(standard(TOOLS, executor=executor))
        return weakref.ref(executor)

    await request()
    gc.collect()
    children, descriptors, variables = get_children(), count_descriptors(), count_run_variables()
    gone = [await request() for _ in range(3)]
    gc.collect()
    assert [executor() for executor in gone] == [None] * 3
    assert (get_children(), count_descriptors(), count_run_variables()) == (children, descriptors, variables)


async def test_a_pipeline_for_each_request_shares_the_default_workers() -> None:
    """`run_in="process"` without further set-up means the same executor in every pipeline."""
    tools = ToolRegistry()
    tools.register(a_tool("pid", "mutating", hostile_tools.pid.fn, run_in="process"))
    assert len({await get_pid(standard(tools.view({"pid"}))) for _ in range(3)}) == 1


async def test_each_executor_has_its_own_workers() -> None:
    """`workers` bounds the workers of one executor in one event loop, whatever other executors do there."""
    children = get_children()
    async with Process(workers=1) as one, Process(workers=2) as two:
        pipelines = [standard(TOOLS, executor=each) for each in (one, two)]
        outcomes: list[list[Any]] = [[], []]

        async def call(which: int) -> None:
            outcomes[which] = await gather(pipelines[which], [Call("pid") for _ in range(12)])

        async with anyio.create_task_group() as group:
            group.start_soon(call, 0)
            group.start_soon(call, 1)
        of_one, of_two = ({outcome.unwrap() for outcome in each} for each in outcomes)
        assert (len(of_one), 1 <= len(of_two) <= 2, of_one & of_two) == (1, True, set())
        assert len(get_children() - children) <= 3
    assert get_children() == children


async def test_closing_kills_the_workers(began: Began) -> None:
    """A call that runs while the executor is closed is lost and returns; the executor can be used again."""
    children, descriptors = get_children(), count_descriptors()
    executor = Process(workers=2)
    pipeline = standard(remote_tools.tools, executor=executor, attempts=1)
    outcomes: list[Any] = []

    async def call() -> None:
        outcomes.append(await pipeline.call("hangs", {"fifo": began.path}))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        assert is_alive(await began.pid())
        assert not is_failure(await pipeline.call("pid"))
        await executor.aclose()
    assert isinstance(outcomes[0].failure(), Transient)
    assert (get_children(), count_descriptors()) == (children, descriptors)
    assert not is_failure(await pipeline.call("pid"))
    await executor.aclose()
    assert (get_children(), count_descriptors()) == (children, descriptors)


async def test_nothing_is_left_of_calls_that_fail(began: Began, importable: Callable[[str], ToolRegistry]) -> None:
    """Whatever ends a call, at the end there is no process and no descriptor that was not there before."""
    broken = importable(hostile_tools.IMPORTS["ends"])
    children, descriptors = get_children(), count_descriptors()
    async with Process(workers=2) as executor:
        reports: list[CallReport] = []
        hangs = standard(remote_tools.tools, executor=executor, timeout=1, attempts=2)
        reports.append(await hangs.report(Call("hangs", {"fifo": began.path})))
        reports.append(await standard(broken, executor=executor).report(Call("run")))
        reports.append(await standard(TOOLS, executor=executor).report(Call("answers_twice")))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await executor.run(a_call(TOOLS.tools["pid"]))
        await get_pid(standard(TOOLS, executor=executor))
        assert [type(report.error) for report in reports] == [TimedOut, Crashed, OutcomeUnknown]
    gc.collect()
    assert (get_children(), count_descriptors()) == (children, descriptors)


async def test_a_fork_of_the_caller_leaves_its_workers_alone() -> None:
    """What a forked child of the caller drops or ends are not its workers."""
    async with Process(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor)
        worker = await get_pid(pipeline)
        pool: WorkerPool = get_loop_state(executor, partial(WorkerPool, 1))
        child = os.fork()
        if not child:
            try:
                pool.end()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0  # noqa: ASYNC222  # it ends at once
        assert await get_pid(pipeline) == worker


# --- scripts ----------------------------------------------------------------------------------------------------------


def write_script(folder: Path, code: str) -> list[str]:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    return [sys.executable, str(script)]


HOLDS = """
    import sys
    import anyio
    import hostile_tools
    from toolcall_pipeline.middlewares import standard
    from toolcall_pipeline.executors import Process

    async def main() -> None:
        pipeline = standard(hostile_tools.tools, executor=Process(workers=1))
        await pipeline.call("holds", {"fifo": sys.argv[1], "how": sys.argv[2]})

    if __name__ == "__main__":
        anyio.run(main, backend=sys.argv[3])
"""


@pytest.mark.parametrize("how", ["waits", "never lets another thread run"])
def test_workers_end_with_their_caller(tmp_path: Path, how: str, anyio_backend: str) -> None:
    """A worker that is busy in a tool dies with its caller, also if that is killed."""
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    command = [*write_script(tmp_path, HOLDS), fifo, how, anyio_backend]
    with Child(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as caller:
        assert select.select([reader], [], [], PATIENT)[0]
        worker = int(os.read(reader, 20))
        caller.kill()
    ended = select.select([reader], [], [], PATIENT)[0] and os.read(reader, 1) == b""  # the worker held the other end
    os.close(reader)
    if not ended:
        os.kill(worker, signal.SIGKILL)
    assert ended


def run_script(folder: Path, code: str) -> str:
    command, env = write_script(folder, code), {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=PATIENT)
    assert done.returncode == 0, done.stderr
    return done.stdout


TOOLS_OF_A_SCRIPT = """
    import anyio
    import attrs
    from toolcall_pipeline.middlewares import standard
    from toolcall_pipeline import ToolRegistry
    from toolcall_pipeline.executors import Process

    tools = ToolRegistry()

    @attrs.frozen
    class Point:
        x: int

    @tools.tool(effect="read")
    def make(x: int) -> Point:
        "Make a point."
        return Point(x)

    async def main() -> None:
        report = await standard(tools, executor=Process(workers=1)).report(Call("make", {"x": 1}))
        print(report.outcome, len(report.attempts), getattr(report.error, "cause", ""))
        print(isinstance(report.outcome.value_or(None), Point))
"""


def test_a_script(tmp_path: Path) -> None:
    """A tool of the script itself runs, and a result of a class of the script comes back as that class."""
    guarded = (
        TOOLS_OF_A_SCRIPT
        + "\n    from toolcall_pipeline import Call\n    if __name__ == '__main__':\n        anyio.run(main)\n"
    )
    assert run_script(tmp_path, guarded) == "<Success: Point(x=1)> 1 \nTrue\n"


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    """Its workers would run the whole script: that is told at the first call, and starts no worker in a worker."""
    unguarded = TOOLS_OF_A_SCRIPT + "\n    from toolcall_pipeline import Call\n    anyio.run(main)\n"
    first, _ = run_script(tmp_path, unguarded).splitlines()
    assert first.startswith("<Failure: Crashed")
    assert 'a script that uses worker processes needs `if __name__ == "__main__":`' in first
    assert " 1 a script" in first
