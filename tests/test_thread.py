"""Thread: how many threads there are, and what becomes of those that nobody waits for any more."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from returns.result import Failure

from pipeline import SetupError, Unavailable
from pipeline.executors import Thread
from pipeline.guards import NotBegunError
from support import a_call, a_tool

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
        self.release.wait(10)
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
        with anyio.fail_after(10):
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
            assert await anyio.to_thread.run_sync(hanging.begun.acquire, True, 10)
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
        await anyio.wait_all_tasks_blocked()
        scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:

                def queue_another() -> None:
                    group.start_soon(wait_for_a_thread)
                    group.start_soon(abandon_the_first, scope)

                hanging.on_begin = queue_another
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

    monkeypatch.setattr("pipeline.executors.thread.run_sync", slow_to_begin)
    with anyio.CancelScope() as scope:
        await hanging.call()
    with pytest.raises(NotBegunError):
        dispatched[0]()
    assert (hanging.runs, hanging.thread.abandoned) == ([], 0)


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
