"""The worker processes of one executor in one event loop."""

from __future__ import annotations

import os
from weakref import finalize

from anyio import CapacityLimiter, get_cancelled_exc_class

from ..base.setup_error import SetupError
from .function_address import CALLER_MAIN, MISUSED
from .worker_handle import WorkerLostError, WorkerProcess


class WorkerPool:
    """The workers, at most ``count``, of one executor in one event loop. It goes with the executor or with the loop."""

    def __init__(self, count: int) -> None:
        self.limiter = CapacityLimiter(count)
        self.watched = False  # whether it ends with its event loop
        self._idle: list[WorkerProcess] = []
        self._living: set[WorkerProcess] = set()
        self._closed = False
        self._end = finalize(self, _end_all, self._living, os.getpid())

    async def prepare(self, job: bytes) -> tuple[WorkerProcess, bytes]:
        """Find or start a worker that has prepared the job.

        Returns:
            The worker, and b"" or the reply that says why the body cannot begin.

        Raises:
            OSError: No worker can be started.
            SetupError: A new worker ended over this job: its import ends the process, or no worker can run here.
            WorkerLostError: A new worker was killed from outside before the body began.
        """
        while self._idle:
            worker = self._idle.pop()
            if not worker.is_clean:
                await worker.end()
                continue
            try:
                return worker, await self._prepare_in(worker, job)
            except WorkerLostError:
                break  # perhaps over this job: a new one will show it
        if CALLER_MAIN.loading:
            CALLER_MAIN.misused = True
            raise SetupError(MISUSED)
        worker = WorkerProcess(self._living)
        try:
            return worker, await self._prepare_in(worker, job)
        except WorkerLostError as exc:
            if worker.was_killed:
                raise
            raise SetupError(f"the worker ended before the tool began: it {worker.describe_end()}") from exc

    async def release(self, worker: WorkerProcess) -> None:
        """Keep the worker for the next job, unless it is of no use any more."""
        if worker.is_clean and not self._closed:
            self._idle.append(worker)
        else:
            await worker.end()

    async def aclose(self) -> None:
        """Kill all workers. Those that have a job are waited for by its call."""
        self._closed = True
        for worker in self._living:
            worker.kill()
        while self._idle:
            await self._idle.pop().end()

    def end(self) -> None:
        """Kill all workers, and wait for them without awaiting: the event loop has ended."""
        self._end()

    async def _prepare_in(self, worker: WorkerProcess, job: bytes) -> bytes:
        try:
            return await worker.prepare(job)
        except get_cancelled_exc_class():
            if worker in self._living:
                self._idle.append(worker)
            raise


def _end_all(workers: set[WorkerProcess], owner: int) -> None:
    if os.getpid() != owner:  # in a fork of the caller: these are not its workers
        return
    for worker in workers:
        worker.kill()
    for worker in list(workers):
        worker.reap()
