"""Actors of one kind on a Ray cluster: which of them has room, which jobs they have, and a new one for each dead one.

All of this happens in the thread of one event loop. Ray replies in threads of its own and wakes that loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import anyio

from ...base.event_loops import EventLoop, Signal
from ...engine.call import ValidCall
from ..body import end_body
from ..remote_call import Job
from ..remote_progress import HeardSteps
from .batches import PackedReply, pack_jobs, unpack_replies


class NoWorkerError(Exception):
    """No actor started. Its cause is what Ray said about the last one that was tried."""


class Pool:
    """Actors of one kind, in one event loop.

    Args:
        ray: The module.
        make_actor: Starts an actor.
        loop: The event loop.
        size: How many actors.
        in_flight: How many jobs each of them has at most; more calls wait for ``capacity``.
        batch: How many jobs are sent as one at most; 1 sends each at once.
    """

    def __init__(
        self, ray: Any, make_actor: Callable[[], Any], loop: EventLoop, size: int, in_flight: int, batch: int
    ) -> None:
        self.capacity = Capacity(loop, size * in_flight)  # Ray itself would queue without a limit
        self.loop = loop
        self._ray, self._make_actor = ray, make_actor
        self._size, self._in_flight, self._batch = size, in_flight, batch
        self._workers: list[Worker] = []
        self._ended = False
        self._changed = anyio.Event()
        self._last_error: BaseException | None = None
        self._filling: Worker | None = None  # the one whose batch has begun and is not full

    def find_registered(self, key: str) -> Worker | None:
        """Find the worker with the least to do that has the function; None if none has it and has room."""
        filling = self._filling
        if filling is not None and filling.in_flight < self._in_flight and key in filling.registered:
            return filling
        best, least = None, self._in_flight
        for worker in self._workers:
            if worker.in_flight < least and worker.ready and key in worker.registered:
                best, least = worker, worker.in_flight
        return best

    async def get_worker(self) -> Worker:
        """Wait for a worker with room, and return the one with the least to do; NoWorkerError if no actor started."""
        self._start_workers()
        while True:
            free = [worker for worker in self._workers if worker.ready and worker.in_flight < self._in_flight]
            if free:
                return min(free, key=lambda worker: worker.in_flight)
            if not self._workers:
                raise NoWorkerError from self._last_error
            await self._changed.wait()

    def register(self, worker: Worker, key: str, function: Any) -> Registration:
        """Send a worker the function of a key; once, however many calls ask for it."""
        registration = worker.registrations.get(key)
        if registration is None:
            ref = worker.actor.register.remote(key, function)  # may raise: then no other call waits for it
            registration = worker.registrations[key] = Registration()
            self._when_done(ref, self._on_registered, worker, key, registration)
        return registration

    def send(self, worker: Worker, job: PendingJob) -> None:
        """Send a job, or add it to the batch that is sent at the end of this round of the event loop."""
        if self._batch == 1:
            job.ref = worker.actor.run.remote(job.encoded)  # may raise, as after ray.shutdown
            worker.in_flight += 1
            self._when_done(job.ref, self._on_replies, worker, (job,))
            if job.token:
                self._ask(worker, job)
            return
        worker.in_flight += 1
        batch = worker.batch
        batch.append(job)
        if len(batch) == 1:
            self._filling = worker
            self.loop.call_soon(self._send_batch, worker)
        elif len(batch) == self._batch:
            self._send_batch(worker)

    def abandon(self, worker: Worker, job: PendingJob) -> None:
        """Leave the job behind. An actor that is full of such jobs is killed: nothing else ends them."""
        if job.done:
            return
        job.abandoned = True
        worker.abandoned += 1
        if worker.abandoned >= self._in_flight:
            self._ray.kill(worker.actor)

    def end(self) -> None:
        """Kill all actors, and start no others."""
        self._ended = True
        workers, self._workers = self._workers, []
        if self._ray.is_initialized():  # else they are gone with it
            for worker in workers:
                worker.ready = False
                self._ray.kill(worker.actor)
        self._notify()

    def _when_done(self, ref: Any, function: Callable[..., object], *args: Any) -> None:
        """Call the function in the event loop with these arguments and the future of the ref."""
        ref.future().add_done_callback(partial(self.loop.call_soon, function, *args))

    def _start_workers(self) -> None:
        while len(self._workers) < self._size and not self._ended:
            worker = Worker(self._make_actor())
            ref = worker.actor.ready.remote()  # may raise: then this actor is not waited for
            self._workers.append(worker)
            self._when_done(ref, self._on_ready, worker)

    def _on_ready(self, worker: Worker, future: Any) -> None:
        if (error := future.exception()) is not None:
            self._remove(worker, error)  # without a new one: that one might fail for ever as well
        elif not self._ended:
            worker.ready = True
            self._notify()

    def _on_registered(self, worker: Worker, key: str, registration: Registration, future: Any) -> None:
        error: BaseException | None = future.exception()
        registration.error, registration.refusal = error, "" if error is not None else future.result()
        if error is None and not registration.refusal:
            worker.registered.add(key)
        else:
            worker.registrations.pop(key, None)  # the next call tries again
        self._replace_if_dead(worker, error)
        registration.done.set()

    def _send_batch(self, worker: Worker) -> None:
        jobs, worker.batch = worker.batch, []
        if self._filling is worker:
            self._filling = None
        if jobs:  # else it was full, and sent, before this round of the event loop was over
            try:
                ref = worker.actor.run_many.remote(pack_jobs([job.encoded for job in jobs]))
            except Exception as exc:  # noqa: BLE001  # whatever Ray raises, as after ray.shutdown: the callers wait
                self._finish(worker, jobs, exc, [None] * len(jobs))
            else:
                self._when_done(ref, self._on_replies, worker, jobs)
                for job in jobs:
                    if job.token:
                        self._ask(worker, job)

    def _ask(self, worker: Worker, job: PendingJob) -> None:
        """Ask for the next steps of a job's progress."""
        last = 0 if job.heard is None else job.heard.last
        with suppress(Exception):  # Ray raises anything, as after ray.shutdown: the end of the job will show it
            ref = worker.actor.hear.remote(job.token, last)
            self._when_done(ref, self._on_steps, worker, job)

    def _on_steps(self, worker: Worker, job: PendingJob, future: Any) -> None:
        if job.done or job.abandoned or self._ended or future.exception() is not None:
            return
        steps = future.result()
        if steps is not None and job.heard is not None:  # else the job has ended
            job.heard.hear(steps)
            self._ask(worker, job)

    def _on_replies(self, worker: Worker, jobs: Sequence[PendingJob], future: Any) -> None:
        error: BaseException | None = future.exception()
        replies: Any = [None] * len(jobs)
        if error is None:
            replies = [future.result()] if self._batch == 1 else unpack_replies(future.result())
        self._finish(worker, jobs, error, replies)

    def _finish(
        self, worker: Worker, jobs: Sequence[PendingJob], error: BaseException | None, replies: Sequence[Any]
    ) -> None:
        wake = self.loop.set
        for job, reply in zip(jobs, replies, strict=True):
            job.reply, job.error, job.done = reply, error, True
            wake(job.signal)
            end_body(job.call)
            worker.abandoned -= job.abandoned
        was_full = worker.in_flight >= self._in_flight
        worker.in_flight -= len(jobs)
        if not self._replace_if_dead(worker, error) and was_full:
            self._notify()

    def _replace_if_dead(self, worker: Worker, error: BaseException | None) -> bool:
        dead = error is not None and isinstance(error, self._ray.exceptions.RayActorError)
        if dead:
            self._remove(worker, error)
            self._start_workers()
        return dead

    def _remove(self, worker: Worker, error: BaseException | None) -> None:
        self._last_error = error
        worker.ready = False
        if worker in self._workers:
            self._workers.remove(worker)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class PendingJob:
    """A job from before it is sent until its reply is there. It is one call's."""

    __slots__ = ("abandoned", "call", "done", "encoded", "error", "heard", "ref", "reply", "signal", "token")

    def __init__(self, encoded: Job | bytes, call: ValidCall, signal: Signal, token: str | None = None) -> None:
        self.encoded = encoded
        self.call = call
        self.signal = signal  # set when it is done
        self.token = token  # under which the worker keeps the progress of the job; None or "": no listener
        self.heard = None if call.report is None else HeardSteps(call)  # None: no listener
        self.done = False
        self.reply: PackedReply = None
        self.error: BaseException | None = None  # why there is no reply
        self.ref: Any = None  # Ray's ObjectRef; None for a job in a batch, which has one for all
        self.abandoned = False  # its caller was cancelled


class Registration:
    """One function on its way to one actor. Several calls may wait for it."""

    __slots__ = ("done", "error", "refusal")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.refusal = ""  # the actor's text why it has no such function
        self.error: BaseException | None = None  # why there is no reply


class Worker:
    """One actor, from the request for it until it is gone."""

    __slots__ = ("abandoned", "actor", "batch", "in_flight", "ready", "registered", "registrations")

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.ready = False
        self.in_flight = 0  # jobs
        self.abandoned = 0  # jobs in flight whose callers were cancelled
        self.registrations: dict[str, Registration] = {}
        self.registered: set[str] = set()  # keys of the functions that it has
        self.batch: list[PendingJob] = []  # sent at the end of this round of the event loop


class Capacity:
    """Free places of one event loop. Who finds none waits in a queue, first come, first served.

    anyio's CapacityLimiter remembers who has a place, which in a batch of tiny calls takes a tenth of all time.
    """

    def __init__(self, loop: EventLoop, free: int) -> None:
        self.free = free  # 0 while a call waits. A call that finds it above 0 may take one by counting it down
        self._loop = loop
        self._waiting: OrderedDict[Signal, None] = OrderedDict()

    async def wait(self) -> None:
        """Wait for a place, and take it. Cancelled, it takes none."""
        signal = self._loop.make_signal()
        self._waiting[signal] = None
        try:
            await signal
        except BaseException:
            if signal in self._waiting:
                del self._waiting[signal]
            else:  # cancelled after it was given one
                self.give_back()
            raise

    def give_back(self) -> None:
        """Free a place, or give it to the first in the queue."""
        if self._waiting:
            signal, _ = self._waiting.popitem(last=False)
            self._loop.set(signal)
        else:
            self.free += 1
