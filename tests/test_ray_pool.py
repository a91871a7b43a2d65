"""The pool of Ray's actors, with a Ray that is only pretended: what stays of actors that end or never begin."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support import a_call
from toolcall_pipeline.base.event_loops import get_event_loop
from toolcall_pipeline.executors.ray.pool import NoWorkerError, PendingJob, Pool


class RayActorError(Exception):
    """As Ray's own."""


class PretendedRay:
    """As much of Ray as a pool asks for. Replies are given at once."""

    exceptions = SimpleNamespace(RayActorError=RayActorError)

    def __init__(self) -> None:
        self.started = 0
        self.killed: list[Any] = []
        self.broken: set[str] = set()  # methods that cannot be called, as after ray.shutdown

    def is_initialized(self) -> bool:
        return True

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)

    def make_actor(self) -> Any:
        self.started += 1
        return Actor(self)


class Actor:
    def __init__(self, ray: PretendedRay) -> None:
        self.ready, self.register, self.run, self.run_many = (
            Method(ray, name) for name in ("ready", "register", "run", "run_many")
        )


class Method:
    def __init__(self, ray: PretendedRay, name: str) -> None:
        self.ray, self.name = ray, name
        self.refs: list[Ref] = []

    def remote(self, *_args: Any) -> Ref:
        if self.name in self.ray.broken:
            raise ConnectionError(self.name)
        self.refs.append(Ref())
        return self.refs[-1]


class Ref:
    """A reference and its future in one."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Any], object]] = []
        self.error: BaseException | None = None

    def future(self) -> Ref:
        return self

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self.callbacks.append(callback)

    def exception(self) -> BaseException | None:
        return self.error

    def result(self) -> str:
        return ""


def make_pool(ray: PretendedRay, batch: int = 1) -> Any:
    return Pool(ray, ray.make_actor, get_event_loop(), 1, 10, batch)


async def start_worker(pool: Any) -> Any:
    pool._start_workers()
    worker = pool._workers[0]
    pool._on_ready(worker, Ref())
    return worker


async def test_a_pool_that_has_ended_starts_no_actor() -> None:
    """Calls that end with their actors do not bring new ones into a pool that was ended."""
    ray = PretendedRay()
    pool = make_pool(ray)
    worker = await start_worker(pool)
    job = PendingJob(b"", a_call(), pool.loop.make_signal())
    pool.send(worker, job)
    pool.end()
    lost = Ref()
    lost.error = RayActorError()
    pool._on_replies(worker, (job,), lost)
    assert (job.done, ray.started, ray.killed) == (True, 1, [worker.actor])
    with pytest.raises(NoWorkerError):
        await pool.get_worker()


@pytest.mark.parametrize("batch", [1, 10])
async def test_a_job_that_cannot_be_sent(batch: int) -> None:
    """If Ray refuses a job, its caller is told, and the actor is not taken to have it for ever."""
    ray = PretendedRay()
    pool = make_pool(ray, batch)
    worker = await start_worker(pool)
    ray.broken = {"run", "run_many"}
    job = PendingJob(b"", a_call(), pool.loop.make_signal())
    if batch == 1:
        with pytest.raises(ConnectionError):
            pool.send(worker, job)
    else:
        pool.send(worker, job)
        await job.signal
        assert isinstance(job.error, ConnectionError)
    assert worker.in_flight == 0


async def test_what_cannot_be_asked_is_not_waited_for() -> None:
    """If Ray refuses to start an actor or to register a function, the next call asks again."""
    ray = PretendedRay()
    pool = make_pool(ray)
    ray.broken = {"ready"}
    with pytest.raises(ConnectionError):
        await pool.get_worker()
    assert pool._workers == []
    ray.broken = {"register"}
    worker = await start_worker(pool)
    with pytest.raises(ConnectionError):
        pool.register(worker, "key", None)
    assert worker.registrations == {}
