"""Process: runs tools in worker processes of this machine, for tools that compute and for tools that may hang."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from math import inf
from typing import Any, ClassVar, cast

import anyio
from anyio import BrokenWorkerProcess, CapacityLimiter
from anyio.lowlevel import RunVar, checkpoint_if_cancelled
from anyio.to_process import run_sync
from returns.result import Failure

from ..call import ValidCall
from ..errors import SetupError, Transient
from ..tools.definition import Tool
from .body import begin_body, end_body
from .function_address import Function, find_address, load_function
from .job_runner import await_value, run_job
from .protocol import Executor, check_counts
from .remote_call import Job, decode_reply, encode_job, encode_not_begun, encode_reply


class _Workers:
    """The workers of one event loop: how many calls they may have at a time, and how many of them are idle."""

    def __init__(self, count: int) -> None:
        self.limiter = CapacityLimiter(count)
        self.unlimited = CapacityLimiter(inf)  # counts nothing; for run_sync, which insists on a limiter
        self.idle = 0


class Process(Executor):
    """Runs tools in worker processes of this machine, which are started when needed and used again.

    If the caller is cancelled or out of time, the worker is killed, so the tool has ended, wherever it was; processes
    that the tool has started live on. A worker that dies loses its call: that is a `Transient` that may have landed,
    and so an `OutcomeUnknown` for a mutating tool. Another worker replaces it.

    A worker imports the module of the tool, so a script needs ``if __name__ == "__main__":``. Arguments, results and
    the ``deps`` of a `ToolContext` must pickle. The trace goes on in the worker; other context variables do not exist
    there. Async tools run on asyncio, in one event loop for each worker. What a tool prints is lost. A process is no
    sandbox: this process unpickles what the worker sends.

    Args:
        workers: How many worker processes each event loop has at most; more calls wait. At least 1; default None: as
            many as this machine has processors.

    Raises:
        SetupError: ``workers`` is no integer, or below 1.
    """

    name: ClassVar[str] = "process"
    marks: ClassVar[bool] = True

    def __init__(self, workers: int | None = None) -> None:
        count = (os.cpu_count() or 1) if workers is None else workers
        check_counts("Process", workers=count)
        self._count = count
        self._loops: RunVar[_Workers] = RunVar("toolcall_processes")
        self._functions: dict[Tool[..., Any], str | bytes] = {}

    def check_tool(self, tool: Tool[..., Any]) -> None:
        """Raise SetupError if a worker could not find the function: no module has it, and it cannot be pickled."""
        self._encode_function(tool)

    async def run(self, call: ValidCall) -> object:
        """Run the body in a worker process.

        Returns:
            What the tool returned, or a ``Failure``: of what it raised, or a `Transient` if no worker started or the
            worker was lost.

        Raises:
            SetupError: The function, the arguments or the ``deps`` of the call do not pickle.
        """
        job = encode_job(self._encode_function(call.tool), call)
        workers = self._get_workers()
        async with workers.limiter:
            if (failure := await self._ensure_worker(workers)) is not None:
                return failure
            await checkpoint_if_cancelled()  # the time may have run out while the worker started
            begin_body(call)
            try:
                reply = await run_sync(_run_in_worker, job, cancellable=True, limiter=workers.unlimited)
            except BrokenWorkerProcess as exc:
                return Failure(Transient(exc))
            finally:
                end_body(call)
            workers.idle += 1
        return decode_reply(reply, call)

    async def _ensure_worker(self, workers: _Workers) -> Failure[Transient] | None:
        """Take an idle worker or start one: that takes 0.2 s, which must not count as the tool's body.

        Shielded: anyio forgets a process whose start is cancelled, and that process would wait for ever.
        """
        if workers.idle:
            workers.idle -= 1
            return None
        with anyio.CancelScope(shield=True):
            try:
                await run_sync(_prepare_worker, limiter=workers.unlimited)
            except BrokenWorkerProcess as exc:
                return Failure(Transient(exc, landed="no"))
        return None

    def _get_workers(self) -> _Workers:
        workers = self._loops.get(None)
        if workers is None:
            workers = _Workers(self._count)
            self._loops.set(workers)
        return workers

    def _encode_function(self, tool: Tool[..., Any]) -> str | bytes:
        """What a worker finds the function by: its address, else a pickle, as for a partial of an importable one."""
        encoded = self._functions.get(tool)
        if encoded is None:
            encoded = find_address(tool)
            if encoded is None:
                try:
                    encoded = pickle.dumps(tool.fn)
                except Exception as exc:
                    raise SetupError(
                        f"{tool.name} ({tool.origin}) cannot run in a process: it can neither be imported nor pickled, "
                        "as a function inside a function; move it to the top of its module, or use run_in='thread'"
                    ) from exc
            self._functions[tool] = encoded
        return encoded


def _prepare_worker() -> None:
    """In a new worker: leave Ctrl-C to the caller, and stderr to nobody, since it is a pipe that would fill up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "wb") as devnull:  # noqa: PTH123  # its descriptor is needed
        os.dup2(devnull.fileno(), 2)


def _run_in_worker(encoded: bytes) -> bytes:
    """In a worker: run an encoded job; the encoded reply says whatever happened."""
    try:
        job = cast("Job", pickle.loads(encoded))  # noqa: S301  # from the process that started this one
        function = _load(job[0])
    except Exception as exc:  # noqa: BLE001  # unpickling and importing run foreign code; the reply says what it raised
        return encode_not_begun(exc)
    with _redirect_stdout():
        reply = run_job(function, job, lambda value: _get_runner().run(await_value(value)))
    return encode_reply(reply)


@cache
def _load(encoded: str | bytes) -> Function:
    if isinstance(encoded, str):
        return load_function(encoded)
    return cast("Function", pickle.loads(encoded))  # noqa: S301  # from the process that started this one


@cache
def _get_runner() -> asyncio.Runner:
    """One event loop for all tools of this worker, so that the clients that they keep live from call to call."""
    return asyncio.Runner()


@contextmanager
def _redirect_stdout() -> Generator[None]:
    """Descriptor 1 is the pipe to the caller. Keep it from the tool, and from processes that the tool starts."""
    pipe = os.dup(1)
    with open(os.devnull, "wb") as devnull:  # noqa: PTH123  # its descriptor is needed
        os.dup2(devnull.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(pipe, 1)
        os.close(pipe)
