"""Calls of code without an event loop: call_sync, run_sync and gather_sync."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from support import PATIENT, Exported
from toolcall_pipeline import (
    Call,
    Crashed,
    Outcome,
    Pipeline,
    SetupError,
    Success,
    ToolRegistry,
    UnknownTool,
    gather_sync,
    is_failure,
)
from toolcall_pipeline.base.event_loops import PORTAL
from toolcall_pipeline.middlewares import Concurrency, Trace, standard

PLACE: ContextVar[str] = ContextVar("PLACE", default="nowhere")
tools = ToolRegistry()
PIPELINE = standard(tools)
ended: list[str] = []
threads: set[str] = set()
running: list[int] = []


@tools.tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add, after a turn of the loop."""
    await anyio.lowlevel.checkpoint()
    threads.add(threading.current_thread().name)
    return a + b


@tools.tool(effect="read")
def place() -> str:
    """Where the caller is; in a thread."""
    return PLACE.get()


@tools.tool(effect="read")
async def alone() -> int:
    """How many of them run."""
    running.append(1)
    await anyio.lowlevel.checkpoint()
    found = len(running)
    running.pop()
    return found


@tools.tool(effect="read")
def outer_sync(a: int) -> object:
    """A sync tool that calls another one."""
    return PIPELINE.call_sync("add", {"a": a, "b": 1}).unwrap()


@tools.tool(effect="read")
async def outer_async(a: int) -> object:
    """An async tool that does not await."""
    return outer_sync(a)


@tools.tool
async def interrupts() -> None:
    """Press Ctrl-C, and wait."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    try:
        await anyio.sleep_forever()
    finally:
        ended.append("interrupts")


@tools.tool
async def exits() -> None:
    """End the program."""
    sys.exit(7)


def three() -> Outcome:
    return PIPELINE.call_sync("add", {"a": 1, "b": 2})


async def in_a_loop() -> Outcome:
    return three()


async def in_a_thread_of_a_loop() -> Outcome:
    return await anyio.to_thread.run_sync(three)


CALLERS: dict[str, Callable[[], Outcome]] = {
    "a script": three,
    "a thread": lambda: ThreadPoolExecutor(1).submit(three).result(),
    "a loop of asyncio": lambda: anyio.run(in_a_loop),
    "a loop of trio": lambda: anyio.run(in_a_loop, backend="trio"),
    "a thread of asyncio": lambda: anyio.run(in_a_thread_of_a_loop),
    "a thread of trio": lambda: anyio.run(in_a_thread_of_a_loop, backend="trio"),
}


@pytest.mark.parametrize("call", CALLERS.values(), ids=CALLERS)
def test_it_works_from(call: Callable[[], Outcome]) -> None:
    """The outcome comes back wherever the caller is, also inside of a running loop; the tool runs in the one thread."""
    threads.clear()
    assert call() == Success(3)
    assert threads == {"toolcall-sync"}


def test_failures_are_returned() -> None:
    """As with `call`, nothing is raised for what a model did."""
    outcome = PIPELINE.call_sync("ad", "{}", id="call_1")
    assert isinstance(outcome.failure(), UnknownTool)
    assert isinstance(PIPELINE.call_sync("add", {"a": 1}).failure().kind, str)


def test_a_tool_of_ones_own_is_typed() -> None:
    """`run_sync` takes the arguments of the function, and refuses another tool as `run` does."""
    assert PIPELINE.run_sync(add, 1, b=2).unwrap() + 1 == 4
    with pytest.raises(SetupError, match="is not the tool of that name"):
        standard(ToolRegistry()).run_sync(add, 1, 2)


def test_many_calls_come_back_in_order() -> None:
    """`gather_sync` runs the calls side by side and keeps their order; a limit that makes no sense is refused."""
    calls = [Call("add", {"a": n, "b": 0}) for n in range(20)]
    assert gather_sync(PIPELINE, calls, limit=3) == [Success(n) for n in range(20)]
    with pytest.raises(SetupError, match="`limit` must be an integer ≥ 1"):
        gather_sync(PIPELINE, calls, limit=0)


def test_the_context_of_the_caller_reaches_the_tool() -> None:
    """Context variables arrive, also in a thread, and and the span stands under the caller's."""
    exported = Exported()
    traced = PIPELINE.replace("trace", Trace(tracer_provider=exported.provider))
    token = PLACE.set("here")
    with exported.provider.get_tracer("test").start_as_current_span("request"):
        assert traced.call_sync("place") == Success("here")
    PLACE.reset(token)
    assert exported.tree.startswith("request\n  execute_tool place\n")


def test_all_threads_share_one_loop() -> None:
    """So a limit on calls at the same time holds for all of them."""
    limited = PIPELINE.before("retry", Concurrency(1))
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(limited.call_sync, ["alone"] * 40))
    assert outcomes == [Success(1)] * 40


def test_a_sync_tool_may_call_too() -> None:
    """It has a thread of its own. An async tool that does not await would block the loop that it waits for."""
    assert PIPELINE.call_sync("outer_sync", {"a": 1}) == Success(2)
    error = PIPELINE.call_sync("outer_async", {"a": 1}).failure()
    assert isinstance(error, Crashed)
    assert isinstance(error.cause, SetupError)
    assert "await pipeline.call" in str(error.cause)


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_an_interrupt_cancels_the_call() -> None:
    """Ctrl-C during the wait is raised when the tool has been cancelled; later calls work."""
    with pytest.raises(KeyboardInterrupt):
        PIPELINE.call_sync("interrupts")
    assert ended == ["interrupts"]
    assert three() == Success(3)


def test_a_tool_that_exits_fails_its_call() -> None:
    """SystemExit of a body is a failure of that call, and the loop goes on."""
    assert is_failure(PIPELINE.call_sync("exits"))
    assert three() == Success(3)


PROGRAM = """
import atexit, os, sys, threading
import anyio
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolRegistry

tools = ToolRegistry()

@tools.tool(effect="read")
def in_a_thread(n: int) -> int:
    return n

@tools.tool(effect="read")
async def slow() -> str:
    for _ in range(20):
        threading.main_thread().join(0.001)
        await anyio.sleep(0.001)
    return "done"

@tools.tool(effect="read")
async def for_ever() -> None:
    begun.set()
    await anyio.sleep_forever()

@tools.tool(effect="read", run_in="process")
def pid() -> int:
    return os.getpid()

begun = threading.Event()
run = standard(tools)
if __name__ == "__main__":
"""
PROGRAMS = {
    "idle threads of tools": "print(run.call_sync('in_a_thread', {'n': 1}).unwrap())",
    "a daemon that waits for ever": """
threading.Thread(target=run.call_sync, args=("for_ever",), daemon=True).start()
begun.wait()
print(run.call_sync("in_a_thread", {"n": 1}).unwrap())
""",
    "a thread that outlives the main one": """
def work():
    threading.main_thread().join()
    print(len([run.call_sync("slow").unwrap() for _ in range(2)]) - 1)
threading.Thread(target=work).start()
""",
    "a call of a function at exit": """
atexit.register(lambda: print(run.call_sync("in_a_thread", {"n": 1}).unwrap() if sys.version_info < (3, 12) else 1))
run.call_sync("in_a_thread", {"n": 1})
""",
    "a forked child": """
run.call_sync("in_a_thread", {"n": 1})
child = os.fork()
if child == 0:
    print(run.call_sync("in_a_thread", {"n": 1}).unwrap(), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
""",
}


def run_program(body: str) -> str:
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + indented],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, marks=() if name == "idle threads of tools" else pytest.mark.long, id=name)
        for name, body in PROGRAMS.items()
    ],
)
def test_nothing_keeps_the_process_alive(body: str) -> None:
    """A program ends when its own threads have ended, and says nothing about it."""
    assert run_program(body).split() == ["1"]


@pytest.mark.skipif(sys.platform == "win32", reason="processes as POSIX has them")
@pytest.mark.long
def test_worker_processes_end_with_the_program(tmp_path: Path) -> None:
    """What the loop has to close at its end is closed at exit."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "    print(run.call_sync('pid').unwrap())\n")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True, timeout=PATIENT)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_a_closed_loop_starts_again() -> None:
    """`close` ends the threads of the loop; the next call has another one."""
    assert PIPELINE.call_sync("place") == Success("nowhere")
    PORTAL.close()
    PORTAL.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "toolcall-sync"]
    assert three() == Success(3)


def test_the_signatures_agree() -> None:
    """`call_sync` takes what `call` takes, and `run_sync` what `run` takes."""
    pairs: list[tuple[Any, Any]] = [(Pipeline.call, Pipeline.call_sync), (Pipeline.run, Pipeline.run_sync)]
    for asynchronous, synchronous in pairs:
        assert inspect.signature(asynchronous).parameters == inspect.signature(synchronous).parameters


AT_THE_END = """
import gc, sys
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.middlewares import standard

tools = ToolRegistry()
@tools.tool(effect="read")
async def one() -> int:
    return 1
pipeline = standard(tools)

class Caller:
    def __del__(self):
        pipeline.call_sync("one")

gc.disable()
caller = Caller()
caller.itself = caller
sys.modules["kept"] = caller
if {before}:
    pipeline.call_sync("one")
"""


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.long
def test_a_call_while_python_ends_does_not_hang(before: bool) -> None:
    """A `__del__` that calls at the end of the interpreter gets a SetupError: no other thread runs any more."""
    command = [sys.executable, "-c", AT_THE_END.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENT)
    assert "SetupError: a synchronous call was made while Python ends" in done.stderr
