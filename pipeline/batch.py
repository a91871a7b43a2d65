"""Many calls at once: results in call order, siblings isolated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import anyio
import anyio.lowlevel
from returns.result import Failure

from .call import Call, Outcome
from .compose import Pipeline
from .errors import Crashed


async def gather(pipeline: Pipeline, calls: Iterable[Call], limit: int = 50) -> list[Outcome]:
    """Run the calls, at most ``limit`` of them at a time; one outcome for each, in the order of the calls.

    A failed call stops none of the others. Cancellation ends all of them and passes.
    """
    if limit < 1:
        raise ValueError(f"limit is at least 1, not {limit}")
    todo = list(calls)
    done: list[Outcome | None] = [None] * len(todo)
    places = iter(range(len(todo)))

    async def work() -> None:  # a few workers, not a task a call: those cost more than the call
        for place in places:
            try:
                done[place] = await pipeline(todo[place])
            except anyio.get_cancelled_exc_class() as exc:
                # Of a tool that awaited what somebody else cancelled it says nothing of us: that call has failed.
                await anyio.lowlevel.checkpoint_if_cancelled()
                done[place] = Failure(Crashed(exc))

    async with anyio.create_task_group() as group:
        for _ in range(min(limit, len(todo))):
            group.start_soon(work)
    return cast("list[Outcome]", done)
