"""Ray: actors of a Ray cluster, for those whose tools outgrow one machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Self, TypeAlias

import anyio
from anyio.lowlevel import RunVar
from returns.result import Failure

from ...call import ValidCall
from ...errors import Crashed, SetupError, Transient
from ...tools.definition import Tool, is_async
from .. import remote_call
from ..protocol import Executor
from .connection import Connection
from .event_loop import this_loop
from .pool import NoWorkerError, Pool, Slot, Worker
from .worker import RayWorker, dumps

_GRACE = 1.0  # seconds: for a cancelled async tool to come to its end, which is a matter of milliseconds
_LESSONS = 3  # actors that are lost over one function, before it is no use to try another one
_Needs: TypeAlias = tuple[tuple[str, Any], ...]
_NO_POOLS: dict[_Needs, Pool] = {}


class Ray(Executor):
    """A pool of async actors on the cluster at ``address``, or at ``RAY_ADDRESS``, or on one that is started here.

    ``workers``: actors, by default one for each processor of the cluster; ``in_flight``: jobs on each of them at a
    time, beyond which calls wait here. ``needs``: what an actor asks of Ray, by the tool's name, as in
    ``{"render": {"num_gpus": 1}}``; such a tool has actors of its own, other tools ask for nothing. ``init``: further
    options of ``ray.init``, such as ``runtime_env``, which brings your modules to the other machines.

    ``batch``: how many calls that come together are sent as one. A call costs a fiftieth then, but waits for the
    slowest of its batch, is lost with all of it, and cannot be cancelled: for tiny ones.

    Nothing is run again by Ray, for that is what Retry decides: a call that is lost with its actor is a `Transient`
    that may have landed, so OutcomeUnknown for a mutating tool, and another actor takes that one's place. A cancelled
    async tool is cancelled over there; a sync one runs on in a thread, and an actor with nothing else left is ended.

    The tool's module is imported over there, and what is in no module goes by value; arguments, what it returns and
    the deps of a ToolContext have to pickle. The trace goes on there, context variables do not. Use it as ``async with
    Ray() as ray``, which raises where there is no cluster to be had; otherwise the first call has to wait for it, and
    ``aclose()`` ends it. On asyncio and on trio. Raises SetupError where Ray is not installed.
    """

    name: ClassVar[str] = "ray"

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        in_flight: int = 100,
        batch: int = 1,
        needs: Mapping[str, Mapping[str, Any]] | None = None,
        init: Mapping[str, Any] | None = None,
    ) -> None:
        wanted: tuple[Any, ...] = (1 if workers is None else workers, in_flight, batch)
        if not all(isinstance(each, int) and each > 0 for each in wanted):
            raise SetupError(f"workers, in_flight and batch are whole numbers from 1 on, not {wanted}")
        try:
            self._ray: Any = import_module("ray")
        except ImportError as exc:
            raise SetupError("Ray is not installed: pip install 'toolcall-pipeline[ray]'") from exc
        self._address, self._init = address, dict(init or {})
        self._workers, self._in_flight, self._batch = workers, in_flight, batch
        self._needs = {tool: tuple(sorted(wanted.items())) for tool, wanted in (needs or {}).items()}
        self._pools: RunVar[dict[_Needs, Pool]] = RunVar("toolcall_ray")
        self._recent: dict[_Needs, Pool] = {}
        # Held for good: by value they are known by their id, which must not become another one's.
        self._known: dict[Tool[..., Any], tuple[str, Any, _Needs]] = {}
        self._connection: Connection | None = None

    async def run(self, call: ValidCall) -> object:
        """What the tool gave, or that it was lost, or that there was no actor for it."""
        tool = call.tool
        key, function, needs = self._known.get(tool) or self._found(tool)
        job = remote_call.packed(key, call, dumps) if self._batch == 1 else remote_call.job_of(key, call, dumps)
        try:
            pool = self._recent.get(needs)  # a RunVar takes as long as a tiny tool
            if pool is None or not pool.loop.is_here():
                pool = self._recent[needs] = await self._pool(needs)
        except Exception as exc:  # noqa: BLE001  # no cluster there, or one that does not want us
            return Failure(Transient(exc, landed="no"))
        slot = Slot(job, call.time_limit, pool.loop.bell())
        try:
            pool.room.acquire_on_behalf_of_nowait(slot)  # a fifth of the time
        except anyio.WouldBlock:
            await pool.room.acquire_on_behalf_of(slot)
        try:
            worker = pool.at_hand(key) or await self._taught(pool, key, function)
            if isinstance(worker, str):
                return Failure(Crashed(SetupError(worker)))
            if call.time_limit is not None:
                call.time_limit.enter(tool)
            pool.send(worker, slot)
            try:
                await slot.answered
            except anyio.get_cancelled_exc_class():
                await self._call_off(pool, worker, slot, tool)
                raise
        except NoWorkerError as exc:
            return Failure(Transient(exc.__cause__, landed="no"))
        finally:
            pool.room.release_on_behalf_of(slot)
        if slot.lost is None:
            return remote_call.opened(slot.reply, call)
        if isinstance(slot.lost, self._ray.exceptions.RayTaskError):  # not of the tool: that comes as a reply
            return Failure(Crashed(slot.lost))
        return Failure(Transient(slot.lost))

    async def aclose(self) -> None:
        """End the actors; and Ray itself, if it was started here."""
        pools = self._pools.get(None) or _NO_POOLS
        for pool in pools.values():
            pool.close()
        self._pools.set({})
        self._recent.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def __aenter__(self) -> Self:
        """Ray is there, and an actor: what is wrong with the cluster is raised here, and no call waits for it."""
        try:
            await (await self._pool(())).worker()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self

    async def _taught(self, pool: Pool, key: str, function: Any) -> Worker | str:
        """A worker that knows the function; or why it cannot know it."""
        lost = 0
        while True:
            worker = await pool.worker()
            if key in worker.known:
                return worker
            lesson = pool.teach(worker, key, function)
            await lesson.event.wait()
            if lesson.refused:
                return lesson.refused
            if lesson.lost is not None:
                lost += 1
                if lost == _LESSONS or not isinstance(lesson.lost, self._ray.exceptions.RayActorError):
                    return f"{key}: {lesson.lost}"  # its import ends the process, or it cannot be sent at all

    async def _call_off(self, pool: Pool, worker: Worker, slot: Slot, tool: Tool[..., Any]) -> None:
        """A coroutine ends over there, and then it has ended; a thread cannot be ended."""
        if slot.ref is not None and not slot.done and is_async(tool.fn):
            with anyio.CancelScope(shield=True), suppress(Exception):
                self._ray.cancel(slot.ref)
                slot.answered = pool.loop.bell()  # the other one went with the task that waited for it
                with anyio.move_on_after(_GRACE):
                    await slot.answered
        pool.leave(worker, slot)

    def _found(self, tool: Tool[..., Any]) -> tuple[str, Any, _Needs]:
        """What it is called over there, itself where it cannot be found by that, and what it needs."""
        key, function = remote_call.address_of(tool), None
        if key is None or key.startswith("__main__:"):  # of which each process has its own
            key, function = f"{tool.name} {id(tool)}", tool.fn
        known = self._known[tool] = key, function, self._needs.get(tool.name, ())
        return known

    async def _pool(self, needs: _Needs) -> Pool:
        pools = self._pools.get(None)
        if pools is None:
            pools = dict(_NO_POOLS)
            self._pools.set(pools)
        if needs not in pools:
            if self._connection is None or self._connection.failed:
                self._connection = Connection(self._ray, self._address, self._init)
            await self._connection.made()
            if needs not in pools:
                workers = self._workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
                pools[needs] = Pool(self._ray, self._maker(needs), this_loop(), workers, self._in_flight, self._batch)
        return pools[needs]

    def _maker(self, needs: _Needs) -> Any:
        wanted: dict[str, Any] = {"num_cpus": 0, **dict(needs)}
        known = ("num_cpus", "num_gpus", "memory", "accelerator_type", "resources")
        own = {name: amount for name, amount in wanted.items() if name not in known}
        options = {name: amount for name, amount in wanted.items() if name in known}
        if own:  # Ray's word for what a cluster calls by a name of its own
            options["resources"] = {**options.get("resources", {}), **own}
        # At most once: whether to run again what was lost is the pipeline's to decide.
        never = {"max_restarts": 0, "max_task_retries": 0}
        actor = self._ray.remote(max_concurrency=self._in_flight + 1, **never, **options)(RayWorker)
        return partial(actor.remote, self._in_flight)
