"""Concurrency: so many calls at once; the others queue, and are refused where the queue is full or too slow."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import ClassVar, TypeVar

import anyio
import attrs
from returns.result import Failure

from pipeline import Handler, Outcome, Placement, ResolvedCall, SetupError, Unavailable

R = TypeVar("R", bound=ResolvedCall)

_ROOM = 1024  # partitions


@attrs.define(eq=False)
class _Waiter:
    weight: int
    granted: bool = False
    called: anyio.Event = attrs.field(init=False, factory=anyio.Event)


class _Line:
    """One partition: the units that are free, and who waits for some."""

    __slots__ = ("free", "queue")

    def __init__(self, free: int) -> None:
        self.free = free
        self.queue: deque[_Waiter] = deque()


class _Here(threading.local):
    """What is going on in this thread, and so in one event loop: a loop may wake no task of another."""

    def __init__(self) -> None:
        self.lines: dict[Hashable, _Line] = {}
        self.room = _ROOM  # for so many, before the idle ones are forgotten


@attrs.define(eq=False)
class Concurrency:
    """At most ``limit`` units at once in each partition; a call takes one unit, or as many as ``weight`` says.

    Who finds too few units free waits in the order of arrival, a heavy call too: no lighter one overtakes it. At most
    ``waiting`` calls wait and each for at most ``max_wait`` seconds; None: as many and as long as need be. A deadline
    around it, as that of Timeout or ``call(timeout=…)``, ends the wait as it ends all else.

    A partition is a tool and a principal; with ``groups``, which gives tools by name the group whose units they share,
    a group and a principal; or it is what ``key`` makes of the call, and a call of which it makes None is not limited.

    Outside of Retry a call keeps its units over all attempts and the waits between; inside, each attempt queues anew,
    and one that is refused ends the retrying. Outside of Timeout the wait is not in the tool's time, and a thread that
    Timeout leaves behind holds no unit. A tool that calls tools of its own partition holds its unit meanwhile: give
    it a ``max_wait``.

    The limit is that of one event loop: each has its own, also where several share an instance.
    """

    placement: ClassVar[Placement] = Placement(
        marks=True,
        kind="concurrency",
        reason="outside of timeout: the wait in the queue is not the tool's time",
    )

    limit: int  # units
    waiting: int | None = attrs.field(default=None, kw_only=True)  # calls; 0: none waits
    max_wait: float | None = attrs.field(default=None, kw_only=True)  # seconds
    weight: Mapping[str, int] | Callable[[ResolvedCall], int] | None = attrs.field(default=None, kw_only=True)
    groups: Mapping[str, str] | None = attrs.field(default=None, kw_only=True)
    key: Callable[[ResolvedCall], Hashable] | None = attrs.field(default=None, kw_only=True)
    _weigh: Callable[[ResolvedCall], int] | None = attrs.field(init=False, repr=False)
    _find: Callable[[ResolvedCall], Hashable] | None = attrs.field(init=False, repr=False)
    _here: _Here = attrs.field(init=False, factory=_Here, repr=False)

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.limit < math.inf:
            raise SetupError(f"a limit is at least one unit, not {self.limit!r}")
        if self.waiting is not None and not self.waiting >= 0:
            raise SetupError(f"no fewer than zero calls wait, not {self.waiting!r}")
        if self.max_wait is not None and not self.max_wait > 0:
            raise SetupError(f"a call waits for more than zero seconds, not {self.max_wait!r}; for none, waiting=0")
        if self.weight is not None and not callable(self.weight):
            for name, weight in self.weight.items():
                if not 1 <= weight <= self.limit:
                    raise SetupError(f"{name} weighs {weight!r}: a weight is from 1 to the limit, {self.limit}")
        if self.groups is not None and self.key is not None:
            raise SetupError("groups= and key= both say what shares a limit: give one of them")
        self._weigh = None if self.weight is None else _weighing(self.weight, self.limit)
        self._find = self.key if self.groups is None else _by_group(self.groups)

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``busy``, and then nothing ran."""
        if self._find is None:
            key: Hashable = (call.tool.name, call.principal) if call.principal else call.tool.name  # text hashes once
        elif (key := self._find(call)) is None:
            return await call_next(call)
        weight = 1 if self._weigh is None else self._weigh(call)
        try:
            line = self._here.lines[key]
        except KeyError:
            line = self._new(key)
        if line.free >= weight and not line.queue:
            line.free -= weight
        elif not await self._queued(line, weight):
            return Failure(Unavailable(call.tool.name, "busy"))
        try:
            return await call_next(call)
        finally:
            line.free += weight
            if line.queue:
                self._wake(line)

    def _new(self, key: Hashable) -> _Line:
        here = self._here
        if len(here.lines) >= here.room:
            here.lines = {key: line for key, line in here.lines.items() if line.free < self.limit or line.queue}
            here.room = max(_ROOM, 2 * len(here.lines))
        line = here.lines[key] = _Line(self.limit)
        return line

    async def _queued(self, line: _Line, weight: int) -> bool:
        """Whether it got its units in time. However this ends, what it has not got somebody else has."""
        if self.waiting is not None and len(line.queue) >= self.waiting:
            return False
        waiter = _Waiter(weight)
        line.queue.append(waiter)
        kept = False
        try:
            if self.max_wait is None:
                await waiter.called.wait()
            else:
                with anyio.move_on_after(self.max_wait):
                    await waiter.called.wait()
            kept = waiter.granted  # and not whether the time is up: both may come at once
        finally:
            if not kept:
                if waiter.granted:  # and cancelled before it ran again
                    line.free += weight
                else:
                    line.queue.remove(waiter)
                self._wake(line)
        return kept

    def _wake(self, line: _Line) -> None:
        """Hand units on to who is first: from then on they are taken, so nobody overtakes."""
        queue = line.queue
        while queue and queue[0].weight <= line.free:
            waiter = queue.popleft()
            line.free -= waiter.weight
            waiter.granted = True
            waiter.called.set()


def _weighing(weight: Mapping[str, int] | Callable[[ResolvedCall], int], limit: int) -> Callable[[ResolvedCall], int]:
    """At least one unit; and what is heavier than all there are runs alone."""
    if callable(weight):
        return lambda call: max(1, min(weight(call), limit))
    return lambda call: weight.get(call.tool.name, 1)


def _by_group(groups: Mapping[str, str]) -> Callable[[ResolvedCall], Hashable]:
    """A tool of no group is one by itself, and in none that happens to be called like it."""

    def find(call: ResolvedCall) -> Hashable:
        group = groups.get(call.tool.name)
        return (call.tool.name, call.principal) if group is None else ("group", group, call.principal)

    return find
