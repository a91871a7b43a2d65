"""Ray: runs tools in actors of a Ray cluster, for those who outgrow one machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any, ClassVar, Self, TypeAlias
from weakref import WeakKeyDictionary

import anyio
from returns.result import Failure

from ...base.event_loops import get_event_loop
from ...base.introspection import is_async
from ...base.options import check_count
from ...base.setup_error import SetupError
from ...engine.call import ValidCall
from ...engine.errors import Crashed, Transient
from ...stage_state.loop_state import drop_loop_state, end_with_loop, get_loop_state
from ...tools.definition import Tool
from ..body import begin_body, end_body
from ..function_address import find_address
from ..protocol import Executor
from ..remote_call import decode_reply, encode_job, make_job
from ..remote_progress import ask_for_steps
from .connection import Connection
from .pool import NoWorkerError, PendingJob, Pool, Worker
from .worker import RayWorker, dumps

_GRACE = 1.0  # seconds: for a cancelled async tool to end in its actor, which takes milliseconds
_REGISTRATION_TRIES = 3  # actors that may die over one function, before no other one is tried
_Needs: TypeAlias = tuple[tuple[str, Any], ...]
_Pools: TypeAlias = dict[_Needs, Pool]


class Ray(Executor):
    """Runs tools in a pool of async actors on a Ray cluster, from asyncio and from trio.

    Use it as ``async with Ray() as ray``: that raises without a cluster. Otherwise the first call waits for the
    cluster, and ``aclose()`` ends it.

    Ray runs nothing again, as that is what Retry decides. A call that is lost with its actor is a `Transient` that may
    have landed, and so an `OutcomeUnknown` for a mutating tool; another actor replaces the lost one. A cancelled async
    tool is cancelled in its actor. A cancelled sync tool goes on in a thread there; an actor that has nothing but such
    calls left is killed.

    An actor imports the module of the tool; a function that no module has is sent by value. Arguments, results and the
    ``deps`` of a `ToolContext` must pickle. The trace goes on in the actor; other context variables do not exist there.

    Args:
        address: The cluster to connect to. Default None: the one at ``RAY_ADDRESS``, or a new one on this machine.
        workers: How many actors. At least 1; default None: as many as the cluster has processors.
        in_flight: How many calls each actor has at a time; more calls wait here. Default 100, at least 1.
        batch: How many calls that come together are sent as one. Default 1: each is sent alone. Batches suit tiny
            tools: a call costs a fiftieth, but waits for the slowest of its batch, is lost with all of it, and cannot
            be cancelled in the actor.
        needs: The requirements of actors, by the name of the tool, as in ``{"render": {"num_gpus": 1}}``. Such a tool
            has actors of its own. Default None: actors ask for nothing.
        init: Further options of ``ray.init``, such as ``runtime_env``, which brings your modules to other machines.
            Default None: no further options.

    Raises:
        SetupError: Ray is not installed; or ``workers``, ``in_flight`` or ``batch`` is not an integer, or below 1.
    """

    name: ClassVar[str] = "ray"
    announces_body: ClassVar[bool] = True

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
        check_count("Ray", "workers", workers, optional=True)
        check_count("Ray", "in_flight", in_flight)
        check_count("Ray", "batch", batch)
        try:
            self._ray: Any = import_module("ray")
        except ImportError as exc:
            raise SetupError("Ray is not installed: pip install 'toolcall-pipeline[ray]'") from exc
        self._address, self._init = address, dict(init or {})
        self._workers, self._in_flight, self._batch = workers, in_flight, batch
        self._needs = {tool: tuple(sorted(options.items())) for tool, options in (needs or {}).items()}
        self._last_pools: _Pools = {}
        self._functions: WeakKeyDictionary[Tool[..., Any], tuple[str, Any, _Needs]] = WeakKeyDictionary()
        self._numbers = count()  # for the keys of functions that go by value
        self._connection: Connection | None = None

    async def run(self, call: ValidCall) -> object:
        """Run the body in an actor.

        Returns:
            The value of the tool, or a ``Failure``: of its exception, of a function that the actor does not have, or
            a `Transient` without a cluster, if no actor started, or the actor was lost.

        Raises:
            SetupError: The arguments or the ``deps`` of the call do not pickle.
        """
        tool = call.tool
        key, function, needs = self._functions.get(tool) or self._add_function(tool)
        token = ask_for_steps(call)
        job = encode_job(key, call, dumps, token) if self._batch == 1 else make_job(key, call, dumps, token)
        try:
            pool = self._last_pools.get(needs)  # a RunVar takes as long as a tiny tool
            if pool is None or not pool.loop.is_current():
                pool = self._last_pools[needs] = await self._get_pool(needs)
        except Exception as exc:  # noqa: BLE001  # ray.init raises anything: no cluster answers, or it refuses us
            return Failure(Transient(exc, landed="no"))
        pending = PendingJob(job, call, pool.loop.make_signal(), token)
        capacity = pool.capacity
        if capacity.free:
            capacity.free -= 1
        else:
            await capacity.wait()
        try:
            worker = pool.find_registered(key) or await self._register(pool, key, function)
            if isinstance(worker, str):
                return Failure(Crashed(SetupError(worker)))
            begin_body(call)
            try:
                pool.send(worker, pending)
            except BaseException:
                end_body(call)
                raise
            try:
                await pending.signal
            except anyio.get_cancelled_exc_class():
                await self._cancel(pool, worker, pending)
                raise
        except NoWorkerError as exc:
            return Failure(Transient(exc.__cause__, landed="no"))
        finally:
            capacity.give_back()
        if pending.error is None:
            reply = pending.reply
            return decode_reply(reply, pending.heard) if type(reply) is bytes else reply
        if isinstance(pending.error, self._ray.exceptions.RayTaskError):  # not the tool's: those come as a reply
            return Failure(Crashed(pending.error))
        return Failure(Transient(pending.error))

    async def aclose(self) -> None:
        """Kill the actors, and shut Ray down if it was started here. Calls that still run are lost, as `Transient`."""
        pools: _Pools = drop_loop_state(self) or {}
        for pool in pools.values():
            pool.end()
        self._last_pools.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def __aenter__(self) -> Self:
        """Connect, and wait for an actor. Raises what is wrong with the cluster."""
        try:
            await (await self._get_pool(())).get_worker()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self

    async def _register(self, pool: Pool, key: str, function: Any) -> Worker | str:
        """Return a worker that has the function, or the text why none can have it."""
        lost = 0
        while True:
            worker = await pool.get_worker()
            if key in worker.registered:
                return worker
            registration = pool.register(worker, key, function)
            await registration.done.wait()
            if registration.refusal:
                return registration.refusal
            if registration.error is not None:
                lost += 1
                actor_died = isinstance(registration.error, self._ray.exceptions.RayActorError)
                if lost == _REGISTRATION_TRIES or not actor_died:
                    return f"{key}: {registration.error}"  # its import kills the process, or it cannot be sent at all

    async def _cancel(self, pool: Pool, worker: Worker, pending: PendingJob) -> None:
        """Cancel an async tool in its actor, and wait until it ended. A thread there goes on."""
        if pending.ref is not None and not pending.done and is_async(pending.call.tool.fn):
            with anyio.CancelScope(shield=True), suppress(Exception):
                self._ray.cancel(pending.ref)
                pending.signal = pool.loop.make_signal()  # the first one was cancelled with the task that awaited it
                with anyio.move_on_after(_GRACE):
                    await pending.signal
        pool.abandon(worker, pending)

    def _add_function(self, tool: Tool[..., Any]) -> tuple[str, Any, _Needs]:
        """Choose the key of a tool's function in the actors; the function too, unless that key is its address."""
        key, function = find_address(tool), None
        if key is None or key.startswith("__main__:"):  # each process has a __main__ of its own
            key, function = f"{tool.name} {next(self._numbers)}", tool.fn
        added = self._functions[tool] = key, function, self._needs.get(tool.name, ())
        return added

    async def _get_pool(self, needs: _Needs) -> Pool:
        pools = get_loop_state(self, _Pools)
        if needs not in pools:
            if self._connection is None or self._connection.failed:
                self._connection = Connection(self._ray, self._address, self._init)
            await self._connection.wait_connected()
            if needs not in pools:
                workers = self._workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
                make_actor = self._get_actor_maker(needs)
                pools[needs] = Pool(self._ray, make_actor, get_event_loop(), workers, self._in_flight, self._batch)
                await end_with_loop(pools[needs])
        return pools[needs]

    def _get_actor_maker(self, needs: _Needs) -> Any:
        asked: dict[str, Any] = {"num_cpus": 0, **dict(needs)}
        ray_names = ("num_cpus", "num_gpus", "memory", "accelerator_type", "resources")
        custom = {name: amount for name, amount in asked.items() if name not in ray_names}
        options = {name: amount for name, amount in asked.items() if name in ray_names}
        if custom:  # resources that this cluster has names of its own for
            options["resources"] = {**options.get("resources", {}), **custom}
        # At most once: the pipeline decides whether a lost call runs again.
        never_again = {"max_restarts": 0, "max_task_retries": 0}
        # For each call, and for the question after its progress; and one more to register functions.
        actor = self._ray.remote(max_concurrency=2 * self._in_flight + 1, **never_again, **options)(RayWorker)
        return partial(actor.remote, self._in_flight)
