"""Follow one call: pass its events to a function while it runs, as a server does for a waiting client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Protocol, cast

import anyio

from ..base.foreign_values import FaultBarrier
from ..engine.call import Call, Outcome
from ..engine.report import CallReport, LiveSink
from ..privacy import get_logger
from .event_rows import Event
from .events import Events

_logger = get_logger()


class Reporting(Protocol):
    """An object that runs a call and returns its report, such as a pipeline."""

    def report(self, call: Call, /, *, listener: LiveSink | None = None) -> Awaitable[CallReport]:
        """See `Pipeline.report`."""
        ...


async def follow(
    pipeline: Reporting,
    call: Call,
    listener: Callable[[Event], object],
    *,
    max_queue: int = 1000,
    content: bool | None = None,
) -> Outcome:
    """Run one call, and pass each of its events to the listener at its time.

    The listener runs in the caller's event loop, with one event at a time, and delays neither the call nor its tool.
    The outcome is returned when the listener has got all events. If it raises, that is logged, it gets no more events,
    and the call goes on. Cancelling the caller cancels both.

    Args:
        pipeline: Runs the call. Its `Trace` records the call as any other.
        call: The call.
        listener: A function, or an async function, of one `Event`.
        max_queue: How many events wait for the listener; see `Events`. Default 1000, at least 1.
        content: See `Events`.

    Returns:
        As ``pipeline(call)``.

    Raises:
        SetupError: ``max_queue`` or ``content`` is not valid, see `Events`.
    """
    events = Events(max_queue, content=content)
    outcome: Outcome | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_pass_on, events, listener)
        with events:
            outcome = (await pipeline.report(call, listener=events)).outcome
    return cast("Outcome", outcome)  # it is None only for a cancelled call, which does not get here


async def _pass_on(events: Events, listener: Callable[[Event], Any]) -> None:
    with FaultBarrier(_logger, "A listener failed"):
        async for event in events:
            answer = listener(event)
            if isawaitable(answer):
                await answer
