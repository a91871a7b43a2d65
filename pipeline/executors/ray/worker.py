"""The actor in the processes of a Ray cluster: holds functions and runs jobs with them."""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, TypeAlias, cast

from ...base.introspection import is_async
from ..function_address import Function, load_function
from ..job_runner import await_value, run_async_job, run_job
from ..remote_call import Job, Reply, encode_not_begun, encode_reply, is_plain
from ..remote_progress import Step
from .batches import PackedReply, pack_replies, unpack_jobs
from .polled_steps import StepsByToken

_IndexedJob: TypeAlias = tuple[int, Function, Job]


class RayWorker:
    """The actor. Async tools run concurrently in its event loop, sync ones in its threads."""

    def __init__(self, threads: int) -> None:
        self._functions: dict[str, Function] = {}
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="toolcall")
        self._steps: StepsByToken

    async def ready(self) -> None:
        """Returns as soon as the actor is there. It is called first."""
        self._steps = StepsByToken(asyncio.get_running_loop())

    async def register(self, key: str, function: Function | None) -> str:
        """Keep a function under a key; None: the key is its address. Returns why it is not there, or an empty text."""
        try:
            self._functions[key] = load_function(key) if function is None else function
        except Exception as exc:  # noqa: BLE001  # importing runs foreign code; the caller gets the exception
            return str(exc)
        return ""

    async def run(self, encoded: bytes) -> bytes:
        """Run one job. The reply says whatever happened."""
        try:
            job, function = self._decode_job(encoded)
        except Exception as exc:  # noqa: BLE001  # unpickling runs foreign code; the reply says what it raised
            return encode_not_begun(exc)
        if is_async(function):
            return encode_reply(await run_async_job(function, job, self._steps.open), dumps)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run_and_encode, function, job)

    async def hear(self, token: str, after: int) -> list[Step] | None:
        """Wait for progress of the job with this token, and return the steps after that number.

        Returns:
            The steps, or none of them after some seconds without any. None once the body has ended: those that are left
            come with the reply.
        """
        return await self._steps.wait(token, after)

    async def run_many(self, encoded: bytes) -> bytes:
        """Run a batch: async tools concurrently, sync ones one after the other in one thread."""
        replies: dict[int, PackedReply] = {}
        coroutines: deque[_IndexedJob] = deque()
        sync: list[_IndexedJob] = []
        for index, each in enumerate(unpack_jobs(encoded)):
            try:
                job, function = self._decode_job(each)
            except Exception as exc:  # noqa: BLE001  # as in run
                replies[index] = encode_not_begun(exc)
                continue
            (coroutines if is_async(function) else sync).append((index, function, job))
        if not sync:
            await self._run_concurrently(coroutines, replies)
        else:
            loop = asyncio.get_running_loop()
            sync_replies = loop.run_in_executor(self._threads, self._run_in_order, sync)
            await self._run_concurrently(coroutines, replies)
            replies.update(await sync_replies)
        return pack_replies(replies[index] for index in range(len(replies)))

    def _decode_job(self, sent: Job | bytes) -> tuple[Job, Function]:
        read: Any = pickle.loads(sent) if isinstance(sent, bytes) else sent  # noqa: S301  # from this cluster's driver
        job = cast("Job", read)
        return job, self._functions[job[0]]

    async def _run_concurrently(self, jobs: deque[_IndexedJob], replies: dict[int, PackedReply]) -> None:
        """Run async jobs in as many tasks as there are jobs that wait; a task costs more than a tiny job."""

        async def work() -> None:
            while jobs:
                index, function, job = jobs.popleft()
                replies[index] = _encode_for_batch(await run_async_job(function, job, self._steps.open))

        async with asyncio.TaskGroup() as group:
            while jobs:
                group.create_task(work())
                await asyncio.sleep(0)  # until all jobs are done, or one of them waits

    def _run_in_order(self, jobs: Sequence[_IndexedJob]) -> dict[int, PackedReply]:
        return {index: _encode_for_batch(self._run_sync(function, job)) for index, function, job in jobs}

    def _run_and_encode(self, function: Function, job: Job) -> bytes:
        return encode_reply(self._run_sync(function, job), dumps)

    def _run_sync(self, function: Function, job: Job) -> Reply:
        return run_job(function, job, lambda value: asyncio.run(await_value(value)), self._steps.open)


def _encode_for_batch(reply: Reply) -> PackedReply:
    """The value alone, or a pickle of its own: what might not pickle must not spoil the others."""
    kind, value, steps = reply
    return value if kind == "returned" and not steps and is_plain(value) else encode_reply(reply, dumps)


def dumps(value: Any) -> bytes:
    """Pickle a value: by value what pickle cannot name, such as a class of the driver's own script."""
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001  # a foreign __reduce__ may raise anything, and cloudpickle may know how
        return cast("bytes", import_module("ray.cloudpickle").dumps(value))
