"""An event loop, as tasks that wait for another thread see it: who is woken, where, and until when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from support import PATIENT
from toolcall_pipeline.base.event_loops import EventLoop, get_event_loop


async def test_each_loop_is_one_object_for_its_thread() -> None:
    """It is found again, also after its thread has run another loop; another thread's loop is another object."""

    async def ask() -> EventLoop:
        await anyio.lowlevel.checkpoint()
        return get_event_loop()

    loop = get_event_loop()
    assert await ask() is loop
    assert loop.is_current()
    others = [await anyio.to_thread.run_sync(partial(anyio.run, ask, backend=each)) for each in ("asyncio", "trio")]
    assert loop not in others
    assert [each.is_current() for each in others] == [False, False]
    assert [each.call_soon(print) for each in others] == [False, False]
    assert get_event_loop() is loop
    assert await anyio.to_thread.run_sync(loop.is_current) is False


async def test_another_thread_wakes_a_task() -> None:
    """The function runs in the thread of the loop, and the task goes on."""
    loop = get_event_loop()
    signal = loop.make_signal()
    threads: list[int] = []

    def wake() -> None:
        threads.append(threading.get_ident())
        loop.set(signal)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, loop.call_soon, wake)
        with anyio.fail_after(PATIENT):
            await signal
    assert threads == [threading.get_ident()]


@pytest.mark.parametrize("seconds", [0.0, 0.01, PATIENT])
@pytest.mark.parametrize("is_set", [False, True])
async def test_a_wait_ends_with_its_signal_or_its_time(seconds: float, is_set: bool) -> None:
    """Whichever comes first; a signal may be set again, and after its task has gone."""
    loop = get_event_loop()
    signal: Any = loop.make_signal()
    if is_set:
        loop.set(signal)
    elif seconds == PATIENT:
        loop.call_soon(loop.set, signal)
    with anyio.fail_after(PATIENT / 2):
        await loop.wait(signal, seconds)
    loop.set(signal)


async def test_a_cancelled_wait_leaves_a_signal_that_may_be_set() -> None:
    """Who sets it does not know that nobody waits any more."""
    loop = get_event_loop()
    signal: Any = loop.make_signal()
    with anyio.move_on_after(0.001) as scope:
        await loop.wait(signal, PATIENT)
    assert scope.cancelled_caught
    loop.set(signal)


async def test_a_task_of_the_loop_outlives_its_starter() -> None:
    """No caller's cancellation reaches it."""
    loop, done = get_event_loop(), anyio.Event()
    began = anyio.Event()

    async def work(note: Callable[[], None]) -> None:
        began.set()
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        note()

    with anyio.CancelScope() as scope:
        loop.start(work, done.set)
        scope.cancel()
        await began.wait()
    with anyio.fail_after(PATIENT):
        await done.wait()
