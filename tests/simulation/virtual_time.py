"""An event loop whose time passes only while no task can go on, and stands still for all else."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, cast

import anyio

from toolcall_pipeline.base.timing import replace_time

EPOCH = 1_800_000_000.0
_A_MOMENT = 1e-6  # seconds of one turn of the loop
_MOST_TURNS = 50_000  # of the loop in one history; few need a tenth of that
SKEW: ContextVar[list[float]] = ContextVar("skew")  # seconds that the wall clock of this process is ahead


class Deadlock(Exception):
    """Every task waits, and no timer will wake one; or they go on and on, and none comes to its end."""


class _NoFiles(selectors.SelectSelector):
    """Waits for no file: it moves the time of its loop in place of that."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.loop.turns += 1
        if timeout is None or self.loop.turns > _MOST_TURNS:
            raise Deadlock
        self.loop.now += timeout or _A_MOMENT
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time. The order of its steps is the same in each run."""

    def __init__(self) -> None:
        selector = _NoFiles()
        self.now = 1000.0
        self.turns = 0  # since the beginning of a history
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.now


class _Time:
    """The clocks that the stages read: one that only runs, and one on the wall of each process."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.move_on_after: Any = anyio.move_on_after

    def __call__(self) -> float:
        return self._loop.now

    def wall_time(self) -> float:
        return EPOCH + self._loop.now + SKEW.get([0.0])[0]

    def sleep(self, seconds: float) -> Awaitable[None]:
        return anyio.sleep(seconds)

    def time_left(self) -> float:
        return anyio.current_effective_deadline() - self._loop.now


@contextmanager
def virtual_time() -> Generator[VirtualLoop]:
    """A loop for as many histories as are wanted, with its time for all stages."""
    loop = VirtualLoop()

    def ignore(_loop: asyncio.AbstractEventLoop, _about: Mapping[str, Any]) -> None:
        """A task of a killed process ends as that process does."""

    loop.set_exception_handler(cast("Any", ignore))
    before = replace_time(cast("Any", _Time(loop)))
    try:
        yield loop
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.turns = 0
        with suppress(Deadlock):
            loop.run_until_complete(asyncio.sleep(0))
        replace_time(before)
        loop.close()
