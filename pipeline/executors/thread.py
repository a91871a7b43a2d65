"""Thread: runs sync tools in worker threads, and counts the threads that were left behind.

A thread cannot be stopped. If its caller is cancelled, the two event loops free its slot at different times: asyncio at
once (50 abandoned calls under a limiter of 4 left 49 threads), trio when the thread ends. Here the slot is free at once
on both, and the thread counts as abandoned until it ends.

A tool that calls the pipeline for another sync tool holds its slot while it waits. As many such calls as there are
slots would wait for each other for ever. So a tool lends its slot to the calls that it makes, to one at a time.
"""

from __future__ import annotations

from contextvars import ContextVar
from inspect import isawaitable
from math import inf
from threading import Lock
from typing import Any, ClassVar, Literal

from anyio import CapacityLimiter, WouldBlock
from anyio.to_thread import run_sync
from returns.result import Failure

from ..base.event_loops import is_failure_of_body
from ..base.forking import register_after_fork
from ..base.options import check_count
from ..engine.call import ValidCall
from ..engine.errors import Crashed, NotExecuted, Unavailable
from ..engine.guards import NotBegunError
from ..stage_state.loop_state import get_loop_state
from ..tools.context import ToolContext
from .body import context_args, run_body
from .exit_warning import EXIT_WARNING
from .loop import Loop
from .protocol import Executor

_LOOP = Loop()


_MAX_NESTING = 32  # calls that wait for each other in threads; more of them are a recursion without an end


class _Slots:
    """The slots of one event loop."""

    def __init__(self, count: int) -> None:
        self.limiter = CapacityLimiter(count)
        self.unlimited = CapacityLimiter(inf)  # counts nothing; for run_sync, which insists on a limiter


class _ThreadJob:
    """One call on its way through a thread. "called_off": its caller went before the body began."""

    __slots__ = ("call", "context", "depth", "loan", "outer", "slots", "state")

    def __init__(self, call: ValidCall, slots: _Slots) -> None:
        self.call = call
        self.slots = slots
        self.context: tuple[ToolContext] | tuple[()] = context_args(call)
        self.state: Literal["queued", "called_off", "running", "abandoned", "ended"] = "queued"
        self.outer = _find_running(_CURRENT_JOB.get())
        self.depth: int = 0 if self.outer is None else self.outer.depth + 1
        self.loan: CapacityLimiter | None = None  # for the calls that it makes

    async def take_slot(self) -> CapacityLimiter:
        """Wait for a slot, and return the limiter that must learn when it is free again."""
        limiter = self.slots.limiter
        try:
            limiter.acquire_on_behalf_of_nowait(self)  # a fifth of the time of the other one
        except WouldBlock:
            limiter = self._find_loan() or limiter
            await limiter.acquire_on_behalf_of(self)
        return limiter

    def _find_loan(self) -> CapacityLimiter | None:
        """The slot of the nearest call around this one that has one of these slots; perhaps not free just now."""
        outer = self.outer
        while outer is not None:
            if outer.slots is self.slots and outer.state == "running":
                outer.loan = outer.loan or CapacityLimiter(1)
                return outer.loan
            outer = outer.outer
        return None


# The call whose body runs in the current thread, or made the current call. Also in tasks that the body has started, so
# it may have ended.
_CURRENT_JOB: ContextVar[_ThreadJob | None] = ContextVar("toolcall_thread_job", default=None)


def _find_running(job: _ThreadJob | None) -> _ThreadJob | None:
    while job is not None and job.state != "running":
        job = job.outer
    return job


class Thread(Executor):
    """Runs sync tools in worker threads, with the caller's context variables; async tools run in the caller's loop.

    If the caller is cancelled or out of time, a running thread is abandoned: it goes on, its result is lost, and a
    `TimedOut` says ``still_running``. A call that still waits for a thread never begins. Use `Process` for tools that
    may hang for good.

    Args:
        threads: How many calls this executor runs at a time in each event loop; more calls wait. Default 40, at least
            1.
        max_abandoned: How many abandoned threads may run, over all event loops. While there are so many, calls that
            need a thread return ``Unavailable(tool, "busy")``. Default 40, at least 1.

    A sync tool may call the pipeline for another sync tool. If no thread is free then, that call gets one of its own,
    so that it need not wait for the thread of its caller. Each call has one such extra thread at a time.

    Raises:
        SetupError: ``threads`` or ``max_abandoned`` is not an integer, or below 1.
    """

    name: ClassVar[str] = "thread"
    announces_body: ClassVar[bool] = True

    def __init__(self, threads: int = 40, max_abandoned: int = 40) -> None:
        check_count("Thread", "threads", threads)
        check_count("Thread", "max_abandoned", max_abandoned)
        self._threads, self._max_abandoned = threads, max_abandoned
        self._abandoned = 0
        self._lock = Lock()
        register_after_fork(self._restart_in_child)

    @property
    def abandoned(self) -> int:
        """The number of threads that run though they were left behind."""
        return self._abandoned

    async def run(self, call: ValidCall) -> object:
        """Run the body in a thread, or in the loop if the tool is async.

        Returns:
            The value of the tool, or a ``Failure``: of its exception, or `Unavailable` without a free thread.
        """
        if call.tool.run_in == "loop":
            return await _LOOP.run(call)
        slots = get_loop_state(self, self._make_slots)
        job = _ThreadJob(call, slots)
        if job.depth > _MAX_NESTING:
            return Failure(Unavailable(call.tool.name, "busy"))
        limiter = await job.take_slot()
        try:
            # After the wait, which is short: a call that is abandoned frees its slot at once.
            if self._abandoned >= self._max_abandoned:
                return Failure(Unavailable(call.tool.name, "busy"))
            (value,) = await run_sync(self._run_job, job, abandon_on_cancel=True, limiter=slots.unlimited)
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
                raise NotBegunError(Failure(NotExecuted("its caller has gone")))  # it would not be seen
            job.state = "running"
        _CURRENT_JOB.set(job)  # in the copy of the caller's context that is this thread's alone
        try:
            return (run_body(job.call, job.context),)
        except NotBegunError as exc:
            return (exc.outcome,)
        except BaseException as exc:  # the border to the user's tool, as in Execute
            if isinstance(exc, (Exception, GeneratorExit)) or is_failure_of_body(exc):
                return (Failure(Crashed(exc)),)
            raise
        finally:
            self._end(job)

    def _end(self, job: _ThreadJob) -> None:
        with self._lock:
            if job.state == "abandoned":
                EXIT_WARNING.remove(job.call.tool.name)
                self._abandoned -= 1
            job.state = "ended"

    def _leave(self, job: _ThreadJob) -> None:
        """The caller goes, with its result or without."""
        with self._lock:
            if job.state == "running":
                job.state = "abandoned"
                self._abandoned += 1
                EXIT_WARNING.add(job.call.tool.name)
            elif job.state == "queued":
                job.state = "called_off"

    def _make_slots(self) -> _Slots:
        return _Slots(self._threads)

    def _restart_in_child(self) -> None:
        """In a forked child: the other threads are gone, and one of them may have held the lock."""
        self._lock = Lock()
        self._abandoned = 0
