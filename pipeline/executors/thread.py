"""Thread: runs sync tools in worker threads, and counts the threads that nobody waits for any more.

A thread cannot be stopped. If its caller is cancelled, the two event loops free its slot at different times: asyncio at
once (50 abandoned calls under a limiter of 4 left 49 threads), trio when the thread ends. Here the slot is free at once
on both, and the thread counts as abandoned until it ends.
"""

from __future__ import annotations

from inspect import isawaitable
from math import inf
from threading import Lock
from typing import Any, ClassVar, Literal

from anyio import CapacityLimiter, WouldBlock
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from returns.result import Failure

from ..call import ValidCall
from ..errors import Crashed, NotExecuted, Unavailable
from ..guards import NotBegunError
from ..tools.context import ToolContext
from .body import context_args, run_body
from .loop import Loop
from .protocol import Executor, check_counts

_LOOP = Loop()


class _ThreadJob:
    """One call on its way through a thread. "called_off": its caller went before the body began."""

    __slots__ = ("call", "context", "state")

    def __init__(self, call: ValidCall) -> None:
        self.call = call
        self.context: tuple[ToolContext] | tuple[()] = context_args(call)
        self.state: Literal["queued", "called_off", "running", "abandoned", "ended"] = "queued"


class Thread(Executor):
    """Runs sync tools in worker threads, with the caller's context variables; async tools run in the caller's loop.

    If the caller is cancelled or out of time, a running thread is abandoned: it goes on, its result is lost, and a
    `TimedOut` says ``still_running``. A call that still waits for a thread never begins. Use `Process` for tools that
    may hang for good.

    Args:
        threads: How many calls may run at a time in each event loop; more calls wait. Default 40, at least 1.
        max_abandoned: How many abandoned threads may run, over all event loops. While there are so many, calls that
            need a thread return ``Unavailable(tool, "busy")``. Default 40, at least 1. One event loop never has more
            threads than both numbers together.

    Raises:
        SetupError: ``threads`` or ``max_abandoned`` is no integer, or below 1.
    """

    name: ClassVar[str] = "thread"
    marks: ClassVar[bool] = True

    def __init__(self, threads: int = 40, max_abandoned: int = 40) -> None:
        check_counts("Thread", threads=threads, max_abandoned=max_abandoned)
        self._threads, self._max_abandoned = threads, max_abandoned
        self._abandoned = 0
        self._lock = Lock()
        # Of each event loop: our own limiter, and one that counts nothing, for run_sync, which insists on one.
        self._limiters: RunVar[tuple[CapacityLimiter, CapacityLimiter]] = RunVar("toolcall_threads")

    @property
    def abandoned(self) -> int:
        """How many threads run though nobody waits for them."""
        return self._abandoned

    async def run(self, call: ValidCall) -> object:
        """Run the body in a thread, or in the loop if the tool is async.

        Returns:
            What the tool returned, or a ``Failure``: of what it raised, or `Unavailable` if there is no thread for it.
        """
        if call.tool.run_in == "loop":
            return await _LOOP.run(call)
        limiter, unlimited = self._get_limiters()
        job = _ThreadJob(call)
        try:
            limiter.acquire_on_behalf_of_nowait(job)  # a fifth of the time of the other one
        except WouldBlock:
            await limiter.acquire_on_behalf_of(job)
        try:
            # After the wait, which is short: a call that is abandoned frees its slot at once.
            if self._abandoned >= self._max_abandoned:
                return Failure(Unavailable(call.tool.name, "busy"))
            (value,) = await run_sync(self._run_job, job, abandon_on_cancel=True, limiter=unlimited)
        finally:
            self._leave(job)
            limiter.release_on_behalf_of(job)
        return await value if isawaitable(value) else value

    def _run_job(self, job: _ThreadJob) -> tuple[Any]:
        """Run the body in this thread, unless its caller has gone.

        The result is in a tuple and an exception is a value in it: trio takes no coroutine from a thread, asyncio takes
        no StopIteration, and a GeneratorExit would close the coroutine that waits.
        """
        with self._lock:
            if job.state == "called_off":
                raise NotBegunError(Failure(NotExecuted("its caller has gone")))  # nobody is there to see it
            job.state = "running"
        try:
            return (run_body(job.call, job.context),)
        except NotBegunError as exc:
            return (exc.outcome,)
        except (Exception, GeneratorExit) as exc:  # noqa: BLE001  # the border to the user's tool, as in Execute
            return (Failure(Crashed(exc)),)
        finally:
            self._end(job)

    def _end(self, job: _ThreadJob) -> None:
        with self._lock:
            self._abandoned -= job.state == "abandoned"
            job.state = "ended"

    def _leave(self, job: _ThreadJob) -> None:
        """The caller goes, with its result or without."""
        with self._lock:
            if job.state == "running":
                job.state = "abandoned"
                self._abandoned += 1
            elif job.state == "queued":
                job.state = "called_off"

    def _get_limiters(self) -> tuple[CapacityLimiter, CapacityLimiter]:
        limiters = self._limiters.get(None)
        if limiters is None:
            limiters = CapacityLimiter(self._threads), CapacityLimiter(inf)
            self._limiters.set(limiters)
        return limiters
