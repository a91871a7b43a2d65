"""Process: worker processes of this machine, for tools that compute, and for those that have to be ended in time."""

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
from ..time_limit import TimeLimit
from ..tools.definition import Tool
from . import remote_call
from .protocol import Executor


class _Here:
    """Of one event loop: its places, and how many of its workers wait for something to do."""

    def __init__(self, workers: int) -> None:
        self.places = CapacityLimiter(workers)
        self.unlimited = CapacityLimiter(inf)  # for a function that wants one: it counts nothing
        self.idle = 0


class Process(Executor):
    """At most ``workers`` processes in each event loop, one for each processor unless told otherwise.

    Cancelled or out of time, a tool's process is killed: the tool has ended then, wherever it was, though not the
    processes that it had started itself. A worker that dies is a `Transient` that may have landed, so OutcomeUnknown
    for a tool that is mutating, and another one takes its place.

    The tool's module is imported over there, so a script needs its ``if __name__ == "__main__":``. Arguments, what it
    returns and the deps of a ToolContext have to pickle; context variables stay behind, but for the trace, which goes
    on. Async tools run on asyncio, in an event loop that their process keeps. What a tool prints is lost.
    """

    name: ClassVar[str] = "process"

    def __init__(self, workers: int | None = None) -> None:
        wanted: Any = (os.cpu_count() or 1) if workers is None else workers
        if not isinstance(wanted, int) or wanted < 1:
            raise SetupError(f"at least one worker process, not {workers!r}")
        self._workers = wanted
        self._loops: RunVar[_Here] = RunVar("toolcall_processes")
        self._functions: dict[Tool[..., Any], Any] = {}

    def refuses(self, tool: Tool[..., Any]) -> str | None:
        """A function that is in no module, and cannot be pickled either, cannot be found over there."""
        try:
            self._function(tool)
        except SetupError as exc:
            return str(exc)
        return None

    async def run(self, call: ValidCall) -> object:
        """What the tool gave, or that it was lost with its process."""
        job = remote_call.packed(self._function(call.tool), call)
        here = self._here()
        async with here.places:
            if (lost := await self._ready(here)) is not None:
                return lost
            await checkpoint_if_cancelled()  # its time may have been up while the worker started
            marker: TimeLimit | None = call.time_limit
            if marker is not None:
                marker.enter(call.tool)
            try:
                reply = await run_sync(_in_worker, job, cancellable=True, limiter=here.unlimited)
            except BrokenWorkerProcess as exc:
                return Failure(Transient(exc))
            finally:
                if marker is not None:
                    marker.leave()
            here.idle += 1
        return remote_call.opened(reply, call)

    async def _ready(self, here: _Here) -> Failure[Transient] | None:
        """A worker is there from here on. To start one takes 0.2 s, and is no part of a tool's body.

        Shielded: anyio forgets about a process that is cancelled while it starts, and that would wait for ever.
        """
        if here.idle:
            here.idle -= 1
            return None
        with anyio.CancelScope(shield=True):
            try:
                await run_sync(_begin, limiter=here.unlimited)
            except BrokenWorkerProcess as exc:
                return Failure(Transient(exc, landed="no"))
        return None

    def _here(self) -> _Here:
        here = self._loops.get(None)
        if here is None:
            here = _Here(self._workers)
            self._loops.set(here)
        return here

    def _function(self, tool: Tool[..., Any]) -> str | bytes:
        """Its address; or itself, pickled, as a partial of something that has an address."""
        known = self._functions.get(tool)
        if known is None:
            known = remote_call.address_of(tool)
            if known is None:
                try:
                    known = pickle.dumps(tool.fn)
                except Exception as exc:
                    raise SetupError(
                        f"{tool.name} ({tool.origin}) is in no module where another process could find it, as a "
                        "function inside of a function is not: give it a place of its own, or run_in='thread'"
                    ) from exc
            self._functions[tool] = known
        return known


def _begin() -> None:
    """In a new worker. Ctrl-C is for whoever waits, and a pipe that nobody reads must not fill up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a descriptor is wanted
        os.dup2(nowhere.fileno(), 2)


def _in_worker(packed: bytes) -> bytes:
    """Run a job in a worker; what comes of it, whatever that is, as a reply."""
    try:
        job = cast("remote_call.Job", pickle.loads(packed))  # noqa: S301  # from the process that started this one
        function = _function(job[0])
    except Exception as exc:  # noqa: BLE001  # told to whoever sent it
        return remote_call.not_begun(exc)
    with _stdout_kept():
        reply = remote_call.run(function, job, lambda value: _runner().run(remote_call.awaited(value)))
    return remote_call.answered(reply)


@cache
def _function(sent: str | bytes) -> remote_call.Function:
    if isinstance(sent, str):
        return remote_call.function_at(sent)
    return cast("remote_call.Function", pickle.loads(sent))  # noqa: S301  # as above


@cache
def _runner() -> asyncio.Runner:
    """One event loop for all tools of this process, so that their clients live on from call to call."""
    return asyncio.Runner()


@contextmanager
def _stdout_kept() -> Generator[None]:
    """The pipe to the parent is descriptor 1, which a process that the tool starts would write to."""
    pipe = os.dup(1)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a descriptor is wanted
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(pipe, 1)
        os.close(pipe)
