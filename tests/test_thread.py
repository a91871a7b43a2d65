"""Thread: how many threads there are, and what becomes of those that nobody waits for any more."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from returns.result import Failure

from support import PATIENT, a_call, a_tool, count_run_variables
from toolcall_pipeline import Call, SetupError, Success, ToolRegistry, Unavailable, gather
from toolcall_pipeline.engine.guards import NotBegunError
from toolcall_pipeline.executors import Thread
from toolcall_pipeline.executors.exit_warning import EXIT_WARNING
from toolcall_pipeline.middlewares import standard

BUSY = Failure(Unavailable("probe", "busy"))


class Hanging:
    """Tools that hang in their threads until they are released."""

    def __init__(self, **options: Any) -> None:
        self.thread = Thread(**options)
        self.begun = threading.Semaphore(0)
        self.release = threading.Event()
        self.runs: list[str] = []
        self.on_begin: Any = None  # called in the event loop as soon as a body has begun

    def body(self, name: str = "") -> str:
        self.runs.append(name)
        self.begun.release()
        if self.on_begin is not None:
            anyio.from_thread.run_sync(self.on_begin)
        self.release.wait(PATIENT)
        return name

    def call(self, name: str = "") -> Any:
        return self.thread.run(a_call(a_tool(fn=self.body), {"name": name}))

    async def abandon(self, count: int) -> None:
        """Abandon so many threads, each as soon as its body has begun."""
        for number in range(count):
            with anyio.CancelScope() as scope:
                self.on_begin = scope.cancel
                await self.call(f"abandoned {number}")
        self.on_begin = None

    async def all_ended(self) -> None:
        self.release.set()
        with anyio.fail_after(PATIENT):
            while self.thread.abandoned:
                await anyio.lowlevel.checkpoint()


async def test_abandoned_threads_are_counted() -> None:
    """A thread that runs on though nobody waits for it counts as abandoned until it ends; no other thread does."""
    hanging = Hanging()
    try:
        assert hanging.thread.abandoned == 0
        await hanging.abandon(3)
        assert hanging.thread.abandoned == 3
    finally:
        await hanging.all_ended()
    assert await hanging.call("later") == "later"
    assert hanging.thread.abandoned == 0


async def test_abandoned_threads_are_bounded() -> None:
    """With `max_abandoned` threads abandoned, a call that needs a thread is refused, and its body does not begin."""
    hanging = Hanging(max_abandoned=2)
    try:
        await hanging.abandon(2)
        assert await hanging.call("one more") == BUSY
        assert hanging.runs == ["abandoned 0", "abandoned 1"]
        assert await hanging.thread.run(a_call(a_tool())) == "done"  # an async tool needs no thread
    finally:
        await hanging.all_ended()
    assert await hanging.call("later") == "later"


async def test_an_abandoned_thread_frees_its_slot() -> None:
    """On both event loops the next call gets the slot of an abandoned one, and no other library's slot is taken."""
    hanging = Hanging(threads=1)
    try:
        await hanging.abandon(2)
        assert hanging.runs == ["abandoned 0", "abandoned 1"]
        assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
    finally:
        await hanging.all_ended()


async def test_calls_wait_for_a_thread() -> None:
    """Calls beyond `threads` wait; one that is cancelled while it waits never begins."""
    hanging = Hanging(threads=2)

    async with anyio.create_task_group() as group:
        for name in ("a", "b"):
            group.start_soon(hanging.call, name)
        for _ in range(2):
            assert await anyio.to_thread.run_sync(hanging.begun.acquire, True, PATIENT)
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(hanging.call, "c")
            await anyio.wait_all_tasks_blocked()
            waiting.cancel_scope.cancel()
        hanging.release.set()
    assert await hanging.call("d") == "d"
    assert (sorted(hanging.runs), hanging.thread.abandoned) == (["a", "b", "d"], 0)


async def test_too_many_are_abandoned_while_a_call_waits() -> None:
    """A call that gets a slot only because another call was abandoned is refused as well."""
    hanging = Hanging(threads=1, max_abandoned=1)
    results: list[Any] = []

    async def wait_for_a_thread() -> None:
        results.append(await hanging.call("queued"))

    async def abandon_the_first(scope: anyio.CancelScope) -> None:
        await first_began.wait()
        group.start_soon(wait_for_a_thread)  # here and not in the tool, whose own calls need not wait for its thread
        await anyio.wait_all_tasks_blocked()
        scope.cancel()

    first_began = anyio.Event()
    hanging.on_begin = first_began.set
    try:
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(abandon_the_first, scope)
                await hanging.call("abandoned")
        assert results == [BUSY]
        assert hanging.runs == ["abandoned"]
    finally:
        await hanging.all_ended()


async def test_a_call_cancelled_before_its_thread_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that gets to a body for which nobody waits any more does not run it."""
    hanging = Hanging()
    dispatched: list[Any] = []

    async def slow_to_begin(function: Any, *args: Any, **_options: Any) -> None:
        dispatched.append(functools.partial(function, *args))
        scope.cancel()
        await anyio.sleep_forever()

    monkeypatch.setattr("toolcall_pipeline.executors.thread.run_sync", slow_to_begin)
    with anyio.CancelScope() as scope:
        await hanging.call()
    with pytest.raises(NotBegunError):
        dispatched[0]()
    assert (hanging.runs, hanging.thread.abandoned) == ([], 0)


class Nesting:
    """Sync tools that call sync tools of the same executors, as soon as so many of them hold a thread."""

    def __init__(self, together: int, *executors: Thread) -> None:
        self.executors = executors
        self.together = threading.Barrier(together)
        self.most_at_once = 0
        self._running = 0
        self._lock = threading.Lock()

    def descend(self, depth: int, width: int, wait: bool = False) -> int:
        """Call in ``width`` times at once, ``depth`` levels down, and return how many bodies ran below this one."""
        with self._lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        if wait:
            self.together.wait(PATIENT)
        below = 0 if not depth else anyio.from_thread.run(self.run_many, depth - 1, width)
        with self._lock:
            self._running -= 1
        return below + 1

    async def run_many(self, depth: int, width: int, wait: bool = False) -> int:
        results: list[int] = []

        async def run() -> None:
            executor = self.executors[depth % len(self.executors)]
            result: Any = await executor.run(
                a_call(a_tool(fn=self.descend), {"depth": depth, "width": width, "wait": wait})
            )
            results.append(result)

        async with anyio.create_task_group() as group:
            for _ in range(width):
                group.start_soon(run)
        return sum(results)


@pytest.mark.parametrize(
    ("executors", "outer", "depth", "expected"),
    [
        pytest.param([2], 2, 1, 2 + 2 * 2, id="one level"),
        pytest.param([1], 1, 3, 4, id="three levels and one thread"),
        pytest.param([2], 2, 2, 2 + 2 * 2 + 2 * 2 * 2, id="two at once on each of two levels"),
        pytest.param([1, 1], 1, 4, 5, id="two executors in turn"),
    ],
)
async def test_tools_that_call_tools(executors: list[int], outer: int, depth: int, expected: int) -> None:
    """As many tools as there are threads may call in for further sync tools: no call waits for its caller's thread."""
    nesting = Nesting(outer, *map(Thread, executors))
    with anyio.fail_after(PATIENT):
        assert await nesting.run_many(depth, outer, wait=True) == expected
    levels = depth + 1
    assert nesting.most_at_once <= sum(executors) * levels  # each call has one extra thread, and no more


async def test_more_calls_than_threads_call_in() -> None:
    """A gather of 50 sync tools that each call a sync tool ends, with the 40 threads that there are by default."""
    tools = ToolRegistry()
    all_hold_a_thread = threading.Barrier(40)

    @tools.tool(effect="read")
    def inner(n: int) -> int:
        """Return it."""
        return n

    @tools.tool(effect="read")
    def outer(n: int) -> object:
        """Call another tool."""
        if n < 40:
            all_hold_a_thread.wait(PATIENT)
        return anyio.from_thread.run(pipeline.call, "inner", {"n": n}).unwrap()

    del inner, outer
    pipeline = standard(tools)
    with anyio.fail_after(PATIENT):
        outcomes = await gather(pipeline, [Call("outer", {"n": n}) for n in range(50)])
    assert outcomes == [Success(n) for n in range(50)]


async def test_a_tool_lends_its_thread_only_while_it_runs() -> None:
    """A task that a tool has left behind waits for a thread like any other once the tool has returned."""
    thread = Thread(1)
    hanging = Hanging()
    hanging.thread = thread
    order: list[str] = []
    async with anyio.create_task_group() as group:

        async def later() -> None:
            await returned.wait()
            await began.wait()
            group.start_soon(last)
            await thread.run(a_call(a_tool(fn=functools.partial(order.append, "later"))))

        async def last() -> None:
            await anyio.wait_all_tasks_blocked()
            order.append("released")
            hanging.release.set()

        def leaves_a_task() -> None:
            anyio.from_thread.run_sync(group.start_soon, later)

        returned, began = anyio.Event(), anyio.Event()
        hanging.on_begin = began.set
        await thread.run(a_call(a_tool(fn=leaves_a_task)))
        returned.set()
        await hanging.call()
    assert order == ["released", "later"]


async def test_a_recursion_without_an_end() -> None:
    """Tools that call each other without an end are refused as busy, before they have used up the threads."""
    thread = Thread(2)
    depths: list[int] = []

    def descend(depth: int) -> object:
        depths.append(depth)
        return anyio.from_thread.run(thread.run, a_call(tool, {"depth": depth + 1}))

    tool = a_tool(fn=descend)
    with anyio.fail_after(PATIENT):
        assert await thread.run(a_call(tool, {"depth": 0})) == BUSY
    assert depths == list(range(33))


@pytest.mark.long
async def test_nothing_stays_of_an_executor() -> None:
    """A pipeline for each request leaves nothing in the event loop: no executor, and no run variable."""

    async def request() -> weakref.ref[Thread]:
        thread = Thread(2)
        assert await thread.run(a_call(a_tool(fn=threading.get_ident))) != threading.get_ident()
        return weakref.ref(thread)

    await request()
    before = count_run_variables()
    gone = [await request() for _ in range(20)]
    gc.collect()
    assert [thread() for thread in gone] == [None] * 20
    assert count_run_variables() == before


LEFT_BEHIND = """
import logging
import threading

import anyio

from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.executors import Thread
from toolcall_pipeline.executors.exit_warning import EXIT_WARNING

tools, thread = ToolRegistry(), Thread()
released, told = threading.Event(), threading.Event()

class Told(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("at exit"):
            print(record.getMessage(), flush=True)
            told.set()

logging.getLogger("toolcall_pipeline").addHandler(Told())
logging.getLogger("toolcall_pipeline").propagate = False

@tools.tool(effect="read")
def stuck() -> None:
    "Hang until the exit."
    told.wait(60)

@tools.tool(effect="read")
def ends() -> None:
    "Hang, but not for long."
    released.wait(60)

async def main() -> None:
    pipeline = standard(tools, attempts=1, timeout=0.2, executor=thread)
    while thread.abandoned < 1:
        await pipeline.call("ends")
    while thread.abandoned < 2:
        await pipeline.call("stuck")
    released.set()
    while thread.abandoned > 1:
        await anyio.lowlevel.checkpoint()

anyio.run(main)
print("main ends", flush=True)
"""


def test_an_exit_names_the_tools_that_it_waits_for(tmp_path: Path) -> None:
    """At exit a warning names the tools whose threads were abandoned and still run, and no others."""
    script = tmp_path / "left_behind.py"
    script.write_text(LEFT_BEHIND)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "main ends",
        "at exit, tools still run in threads that nobody waits for, and Python may wait for them: stuck",
    ]


def test_a_fork_frees_the_lock() -> None:
    """A child of a fork has no abandoned threads, and no lock that a thread of the parent held."""
    held: list[Any] = [Thread(2), EXIT_WARNING]
    with held[0]._lock, held[1]._lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there may be other threads; that is the point
        pid = os.fork()
        if not pid:
            os._exit(0 if all(each._lock.acquire(blocking=False) for each in held) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_one_executor_for_several_event_loops() -> None:
    """A Thread may serve one event loop after another, and several at once."""
    executor = Thread(2)

    def run(backend: str) -> None:
        call = a_call(a_tool(fn=threading.get_ident))
        assert isinstance(anyio.run(executor.run, call, backend=backend), int)

    for backend in ("asyncio", "trio", "asyncio"):
        run(backend)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, backend) for backend in ("asyncio", "trio") * 4]:
            done.result(10)


async def where() -> int:
    return threading.get_ident()


def returns_a_coroutine() -> Any:
    return where()


async def test_async_tools_run_in_the_loop() -> None:
    """An async tool runs in the loop of its caller, also if its function is not known to be async."""
    executor = Thread(1)
    for fn in (where, returns_a_coroutine):
        assert await executor.run(a_call(a_tool(fn=fn))) == threading.get_ident()
    assert await executor.run(a_call(a_tool(fn=threading.get_ident))) != threading.get_ident()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"threads": 0}, "Thread: `threads` must be an integer ≥ 1, not 0"),
        ({"threads": 1.5}, "Thread: `threads` must be an integer ≥ 1, not 1.5"),
        ({"threads": None}, "Thread: `threads` must be an integer ≥ 1, not None"),
        ({"max_abandoned": 0}, "Thread: `max_abandoned` must be an integer ≥ 1, not 0"),
    ],
)
def test_wrong_numbers_of_threads(options: Any, text: str) -> None:
    """Both numbers are integers from 1 on."""
    with pytest.raises(SetupError, match=f"^{text}$"):
        Thread(**options)
