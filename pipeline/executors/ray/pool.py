"""Actors of one kind on a Ray cluster: which of them is free, what is under way on it, and one in place of a dead one.

Everything here happens in the thread of one event loop: that is woken by Ray, which answers in threads of its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import anyio
from anyio import CapacityLimiter

from ...time_limit import TimeLimit
from ..remote_call import Job
from .event_loop import Bell, Loop


class NoWorkerError(Exception):
    """No actor could be had; the cause is what Ray says of the last one that was tried."""


class Slot:
    """One job that was sent, until it is answered."""

    __slots__ = ("answered", "done", "job", "left", "lost", "marker", "ref", "reply")

    def __init__(self, job: Job | bytes, marker: TimeLimit | None, answered: Bell) -> None:
        self.job = job
        self.marker = marker
        self.answered = answered
        self.done = False
        self.reply: Any = None
        self.lost: BaseException | None = None  # why there is no reply
        self.ref: Any = None  # Ray's word for it; of a job in a batch there is none of its own
        self.left = False  # nobody waits for it any more


class Lesson:
    """What an actor was told of one function. Several calls may wait for it."""

    __slots__ = ("event", "lost", "refused")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.refused = ""  # why it cannot know it
        self.lost: BaseException | None = None  # why there is no word of it


class Worker:
    """One actor, from the time that it was asked for until it is gone."""

    __slots__ = ("actor", "in_flight", "known", "left", "lessons", "queue", "up")

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.up = False
        self.in_flight = 0
        self.left = 0  # of these, so many that nobody waits for
        self.lessons: dict[str, Lesson] = {}
        self.known: set[str] = set()  # of which it has learned
        self.queue: list[Slot] = []  # of the next batch


class Pool:
    """``size`` actors, each with ``in_flight`` jobs at most, of which ``batch`` are sent as one."""

    def __init__(self, ray: Any, make: Callable[[], Any], loop: Loop, size: int, in_flight: int, batch: int) -> None:
        self.room = CapacityLimiter(size * in_flight)  # back-pressure: Ray itself would queue without end
        self.loop = loop
        self._ray, self._make = ray, make
        self._size, self._in_flight, self._batch = size, in_flight, batch
        self._workers: list[Worker] = []
        self._changed = anyio.Event()
        self._broken: BaseException | None = None
        self._filling: Worker | None = None  # whose next batch has begun, and has room

    def at_hand(self, key: str) -> Worker | None:
        """The one with the least to do of those that know what the key means, if one does: nearly always."""
        filling = self._filling
        if filling is not None and filling.in_flight < self._in_flight and key in filling.known:
            return filling
        best, least = None, self._in_flight
        for worker in self._workers:
            if worker.in_flight < least and worker.up and key in worker.known:
                best, least = worker, worker.in_flight
        return best

    async def worker(self) -> Worker:
        """The one with the least to do, once there is one. Raises NoWorkerError where none comes up."""
        self._fill()
        while True:
            free = [worker for worker in self._workers if worker.up and worker.in_flight < self._in_flight]
            if free:
                return min(free, key=lambda worker: worker.in_flight)
            await self._changed.wait()
            if not self._workers:
                raise NoWorkerError from self._broken

    def teach(self, worker: Worker, key: str, function: Any) -> Lesson:
        """Tell it what the key means, once."""
        lesson = worker.lessons.get(key)
        if lesson is None:
            lesson = worker.lessons[key] = Lesson()
            ref = worker.actor.learn.remote(key, function)
            ref.future().add_done_callback(partial(self.loop.wake, self._learned, worker, key, lesson))
        return lesson

    def send(self, worker: Worker, slot: Slot) -> None:
        """Send the job off, or put it with others that are sent at the end of this round of the event loop."""
        worker.in_flight += 1
        if self._batch == 1:
            slot.ref = worker.actor.run.remote(slot.job)
            slot.ref.future().add_done_callback(partial(self.loop.wake, self._answered, worker, (slot,)))
            return
        queue = worker.queue
        queue.append(slot)
        if len(queue) == 1:
            self._filling = worker
            self.loop.wake(self._flush, worker)
        elif len(queue) == self._batch:
            self._flush(worker)

    def leave(self, worker: Worker, slot: Slot) -> None:
        """Nobody waits for it any more. An actor that holds nothing else is ended: there is no other way."""
        if slot.done:
            return
        slot.left = True
        worker.left += 1
        if worker.left >= self._in_flight:
            self._ray.kill(worker.actor)

    def close(self) -> None:
        """End all actors."""
        for worker in self._workers:
            self._ray.kill(worker.actor)

    def _fill(self) -> None:
        while len(self._workers) < self._size:
            worker = Worker(self._make())
            self._workers.append(worker)
            worker.actor.ready.remote().future().add_done_callback(partial(self.loop.wake, self._came_up, worker))

    def _came_up(self, worker: Worker, future: Any) -> None:
        if (lost := future.exception()) is not None:
            self._gone(worker, lost)  # and no other one at once, or there would be no end to it
        else:
            worker.up = True
            self._tell()

    def _learned(self, worker: Worker, key: str, lesson: Lesson, future: Any) -> None:
        lost: BaseException | None = future.exception()
        lesson.lost, lesson.refused = lost, "" if lost is not None else future.result()
        if lost is None and not lesson.refused:
            worker.known.add(key)
        else:
            worker.lessons.pop(key, None)  # it may be there the next time
        if lost is not None and isinstance(lost, self._ray.exceptions.RayActorError):
            self._died(worker, lost)
        lesson.event.set()

    def _flush(self, worker: Worker) -> None:
        slots, worker.queue = worker.queue, []
        if self._filling is worker:
            self._filling = None
        if slots:  # else it was full before this round of the loop was over
            ref = worker.actor.run_many.remote(pickle.dumps([slot.job for slot in slots]))  # Ray's own takes longer
            ref.future().add_done_callback(partial(self.loop.wake, self._answered, worker, slots))

    def _answered(self, worker: Worker, slots: Sequence[Slot], future: Any) -> None:
        lost: BaseException | None = future.exception()
        replies: Any = [None] * len(slots)
        if lost is None:
            replies = [future.result()] if self._batch == 1 else pickle.loads(future.result())  # noqa: S301
        for slot, reply in zip(slots, replies, strict=True):
            slot.reply, slot.lost, slot.done = reply, lost, True
            self.loop.ring(slot.answered)
            if slot.marker is not None:
                slot.marker.leave()
            worker.left -= slot.left
        was_full = worker.in_flight >= self._in_flight
        worker.in_flight -= len(slots)
        if lost is not None and isinstance(lost, self._ray.exceptions.RayActorError):
            self._died(worker, lost)
        elif was_full:
            self._tell()

    def _died(self, worker: Worker, why: BaseException) -> None:
        self._gone(worker, why)
        self._fill()

    def _gone(self, worker: Worker, why: BaseException) -> None:
        self._broken = why
        worker.up = False
        if worker in self._workers:
            self._workers.remove(worker)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
