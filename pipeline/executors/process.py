"""Process: runs tools in worker processes of this machine, for tools that compute and for tools that may hang."""

from __future__ import annotations

import os
import pickle
from functools import cache
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from anyio.lowlevel import checkpoint_if_cancelled
from returns.result import Failure

from ..base.options import check_count
from ..base.setup_error import SetupError
from ..engine.call import ValidCall
from ..engine.errors import Crashed, Transient
from ..stage_state.loop_state import drop_loop_state, end_with_loop, get_loop_state
from ..tools.definition import Tool
from .body import begin_body, end_body
from .function_address import find_address
from .process_pool import WorkerPool
from .protocol import Executor
from .remote_call import decode_reply, encode_job
from .remote_progress import HeardSteps, ask_for_steps, decode_step
from .worker_handle import WorkerLostError


class Process(Executor):
    """Runs tools in worker processes of this machine, which are started when needed and used again.

    If the caller is cancelled or out of time, the worker is killed, so the tool has ended, wherever it was; processes
    that the tool has started live on. A worker that dies loses its call: that is a `Transient` that may have landed,
    and so an `OutcomeUnknown` for a mutating tool. Another worker replaces it. Workers end with this process, however
    it ends, and with the event loop; before that, with `aclose`, or with the last reference to the executor.

    A worker imports the module of the tool, so a script needs ``if __name__ == "__main__":``. That is done before the
    body begins: a call whose time is up by then did not land, and a module that does not import is a `Crashed` with a
    `SetupError` that says why. Arguments, results and the ``deps`` of a `ToolContext` must pickle. The trace goes on in
    the worker; other context variables do not exist there. Async tools run on asyncio, in one event loop for each
    worker. Output of a tool is lost. A process is not a sandbox: this process unpickles messages of the worker, so a
    tool that means harm can run code here.

    Args:
        workers: How many worker processes this executor has at most in each event loop; more calls wait. Each executor
            has workers of its own: give one executor to several pipelines to share them. At least 1; default None: as
            many as this machine has processors.

    Raises:
        SetupError: ``workers`` is not an integer, or below 1; or the system is Windows.
    """

    name: ClassVar[str] = "process"
    announces_body: ClassVar[bool] = True

    def __init__(self, workers: int | None = None) -> None:
        if os.name != "posix":
            raise SetupError("Process: worker processes need a POSIX system; use `Thread` or `Ray`")
        count = (os.cpu_count() or 1) if workers is None else workers
        check_count("Process", "workers", count)
        self._count = count
        self._functions: WeakKeyDictionary[Tool[..., Any], str | bytes] = WeakKeyDictionary()

    def check_tool(self, tool: Tool[..., Any]) -> None:
        """Raise SetupError if a worker could not find the function: no module has it, and it cannot be pickled."""
        self._encode_function(tool)

    async def run(self, call: ValidCall) -> object:
        """Run the body in a worker process.

        Returns:
            The value of the tool, or a ``Failure``: of its exception; a `Crashed` if the worker cannot import the
            tool or unpickle the arguments; a `Transient` if no worker started or the worker was lost.

        Raises:
            SetupError: The function, the arguments or the ``deps`` of the call do not pickle.
        """
        job = encode_job(self._encode_function(call.tool), call, steps=ask_for_steps(call))
        pool = await self._get_pool()
        borrower = object()
        await pool.limiter.acquire_on_behalf_of(borrower)
        try:
            return await self._run_in(pool, job, call)
        finally:
            pool.limiter.release_on_behalf_of(borrower)

    async def aclose(self) -> None:
        """Kill the workers of this event loop. Calls that still run are lost, as `Transient`."""
        pool: WorkerPool | None = drop_loop_state(self)
        if pool is not None:
            await pool.aclose()

    async def _run_in(self, pool: WorkerPool, job: bytes, call: ValidCall) -> object:
        try:
            worker, refusal = await pool.prepare(job)
        except SetupError as exc:
            return Failure(Crashed(exc))
        except (OSError, WorkerLostError) as exc:
            return Failure(Transient(exc, landed="no"))
        heard = HeardSteps(call)
        try:
            if refusal:
                return decode_reply(refusal, heard)
            await checkpoint_if_cancelled()  # the time may have run out while the worker got ready
            begin_body(call)
            try:
                reply = await worker.run(lambda step: heard.hear([decode_step(step)]))
            except WorkerLostError as exc:
                return Failure(Transient(exc))
            finally:
                end_body(call)
        finally:
            await pool.release(worker)
        return decode_reply(reply, heard)

    async def _get_pool(self) -> WorkerPool:
        pool = get_loop_state(self, self._make_pool)
        if not pool.watched:
            pool.watched = True
            await end_with_loop(pool)
        return pool

    def _make_pool(self) -> WorkerPool:
        return WorkerPool(self._count)

    def _encode_function(self, tool: Tool[..., Any]) -> str | bytes:
        """A worker's reference to the function: its address, else a pickle, as for a partial of an importable one."""
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


@cache
def get_default_process() -> Process:
    """The executor of ``run_in="process"`` where a pipeline says nothing else; one for all pipelines.

    Otherwise a pipeline for each request would start workers for each request.
    """
    return Process()
