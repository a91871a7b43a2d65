"""What runs in the processes of a Ray cluster: an actor that holds functions and runs jobs with them."""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, TypeAlias, cast

from ...tools.definition import is_async
from .. import remote_call

_Sent: TypeAlias = remote_call.Reply | bytes
_Placed: TypeAlias = tuple[int, remote_call.Function, remote_call.Job]


class RayWorker:
    """Async tools run in the actor's event loop, beside each other; sync ones in its threads."""

    def __init__(self, threads: int) -> None:
        self._functions: dict[str, remote_call.Function] = {}
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="toolcall")

    async def ready(self) -> None:
        """Answered as soon as the actor is there."""

    async def learn(self, key: str, function: remote_call.Function | None) -> str:
        """From now on that key means that function, or the one that is found at it; or why it is not, else ""."""
        try:
            self._functions[key] = remote_call.function_at(key) if function is None else function
        except Exception as exc:  # noqa: BLE001  # told to whoever asked
            return str(exc)
        return ""

    async def run(self, packed: bytes) -> bytes:
        """Run one job, the pickle of a `remote_call.Job`; the pickle of a `remote_call.Reply`, whatever comes of it."""
        try:
            job, function = self._read(packed)
        except Exception as exc:  # noqa: BLE001  # told to whoever sent it
            return remote_call.not_begun(exc)
        if is_async(function):
            return remote_call.answered(await remote_call.arun(function, job), dumps)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._sync, function, job)

    async def run_many(self, packed: bytes) -> bytes:
        """Run the jobs of a pickled list: async tools beside each other, sync ones one after the other, in one thread.

        A pickled list of replies, in the same order, with those in a pickle of their own that might spoil the others.
        """
        replies: dict[int, _Sent] = {}
        coroutines: deque[_Placed] = deque()
        sync: list[_Placed] = []
        for place, each in enumerate(cast("list[remote_call.Job | bytes]", pickle.loads(packed))):  # noqa: S301  # as in _read
            try:
                job, function = self._read(each)
            except Exception as exc:  # noqa: BLE001  # as above
                replies[place] = remote_call.not_begun(exc)
                continue
            (coroutines if is_async(function) else sync).append((place, function, job))
        if not sync:
            await _beside_each_other(coroutines, replies)
        else:
            loop = asyncio.get_running_loop()
            of_threads = loop.run_in_executor(self._threads, self._one_after_the_other, sync)
            await _beside_each_other(coroutines, replies)
            replies.update(await of_threads)
        return pickle.dumps([replies[place] for place in range(len(replies))])

    def _read(self, sent: remote_call.Job | bytes) -> tuple[remote_call.Job, remote_call.Function]:
        read: Any = pickle.loads(sent) if isinstance(sent, bytes) else sent  # noqa: S301  # from this cluster's driver
        job = cast("remote_call.Job", read)
        return job, self._functions[job[0]]

    def _sync(self, function: remote_call.Function, job: remote_call.Job) -> bytes:
        return remote_call.answered(_run(function, job), dumps)

    def _one_after_the_other(self, jobs: Sequence[_Placed]) -> dict[int, _Sent]:
        return {place: _together(_run(function, job)) for place, function, job in jobs}


async def _beside_each_other(jobs: deque[_Placed], replies: dict[int, _Sent]) -> None:
    """As many tasks as there are jobs that wait for something: for one that does not, a task costs more than itself."""

    async def work() -> None:
        while jobs:
            place, function, job = jobs.popleft()
            replies[place] = _together(await remote_call.arun(function, job))

    async with asyncio.TaskGroup() as group:
        while jobs:
            group.create_task(work())
            await asyncio.sleep(0)  # until all jobs are done, or one of them waits


def _run(function: remote_call.Function, job: remote_call.Job) -> remote_call.Reply:
    return remote_call.run(function, job, lambda value: asyncio.run(remote_call.awaited(value)))


def _together(reply: remote_call.Reply) -> _Sent:
    how, value, progress = reply
    return (
        reply if how == "gave" and not progress and remote_call.is_plain(value) else remote_call.answered(reply, dumps)
    )


def dumps(value: Any) -> bytes:
    """A pickle; by value what a plain one cannot name, as a class of the driver's own script."""
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001  # whatever it was, the other one may know how
        return cast("bytes", import_module("ray.cloudpickle").dumps(value))
