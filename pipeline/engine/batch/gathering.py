"""gather: many calls at once, with outcomes in call order and changes of one resource one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol, cast

import anyio
import anyio.lowlevel
import attrs
from returns.result import Failure

from ...base import timing
from ...base.event_loops import PORTAL
from ...base.foreign_values import or_default
from ...base.options import check_count, check_number, read_items, refuse
from ...once import write_arguments
from ...tools.definition import Tool, refuse_as_name
from ..call import Call, Outcome, ResolvedCall, make_uuid, set_caller
from ..call_state import BATCH, TURN, WITHIN
from ..errors import Crashed, NotExecuted
from .resource_order import TEXTS, order_by_resource


class Runnable(Protocol):
    """Runs calls and finds their tools: a `Pipeline`, or the `Caller` of a tool."""

    def __call__(self, call: Call, /) -> Awaitable[Outcome]:
        """Run one call."""
        ...

    def resolve(self, call: Call, /) -> ResolvedCall | Failure[Any] | None:
        """As `Pipeline.resolve`."""
        ...

    def find(self, name: object, /) -> Tool[..., Any] | None:
        """As `Pipeline.find`."""
        ...


async def gather(
    pipeline: Runnable,
    calls: Iterable[Call],
    limit: int = 50,
    *,
    timeout: float | None = None,  # noqa: ASYNC109  # each call is given what is left of it, and answers for itself
    each: float | None = None,
    principal: str = "",
    deps: object = None,
    conversation: str = "",
) -> list[Outcome]:
    """Run many calls at once. A failed call stops none of the others.

    A call whose id, name and arguments are those of an earlier one is that one, sent again: it runs once, and both have
    its outcome. Equal calls with different ids, or without one, are several calls.

    Calls of tools that declare a ``resource`` keep an order: those that only read it run together, and one that
    changes it runs alone on it, after the calls before it. If a write is still running after its call ended (even an
    earlier attempt), later calls on that resource return `NotExecuted`. A call whose resource is unknown from its
    arguments may mean any, so it keeps its place among all calls that declare one.

    All calls belong to one trace: the trace of the span around this call, else one with a span ``invoke_agent``.

    Args:
        pipeline: Runs each call.
        calls: The calls, such as all calls of one model reply.
        limit: How many run at a time. Default 50.
        timeout: Seconds for all calls together. Those that run then end as with any time limit, in ``TimedOut`` or
            ``OutcomeUnknown``; those that have not begun are ``NotExecuted``. 0 or less: none begins. Default None:
            no limit.
        each: Seconds for one call, its attempts and waits included; a shorter ``Call.timeout`` counts instead.
            Default None: no limit.
        principal: The caller's name, for each call that has none. Default "": unknown.
        deps: The caller's own object, for each call that has none. Default None: none.
        conversation: The thread or session of the calls, for each call that has none, see `Call`. Default "": none.

    Returns:
        One outcome for each call, in the order of the calls. Cancellation from outside ends all calls and passes.

    Raises:
        SetupError: ``limit``, a time, ``pipeline`` or ``calls`` has a wrong type, or ``limit`` is below 1.
    """

    def run(_: int, call: Call) -> Awaitable[Outcome]:
        return pipeline(call)

    asked = _read_calls(pipeline, calls)
    set_caller(asked, principal, deps, conversation)
    if len(asked) > 1 and getattr(pipeline, "asks_people", False):  # else nothing asks whether two calls came together
        turn = make_uuid()
        asked = [call if call.reply else call.with_state(TURN, turn) for call in asked]
    single, places = without_twins(asked)
    with _begin_turn(pipeline) if asked else nullcontext():
        outcomes = await run_batch(pipeline, single, run, limit, timeout=timeout, each=each)
    return outcomes if single is asked else [outcomes[place] for place in places]


def gather_sync(
    pipeline: Runnable,
    calls: Iterable[Call],
    limit: int = 50,
    *,
    timeout: float | None = None,
    each: float | None = None,
    principal: str = "",
    deps: object = None,
    conversation: str = "",
) -> list[Outcome]:
    """`gather` for code without an event loop; see `Pipeline.call_sync`. It takes the same parameters."""
    run = partial(gather, timeout=timeout, each=each, principal=principal, deps=deps, conversation=conversation)
    return PORTAL.run(run, pipeline, calls, limit)


def _begin_turn(pipeline: object) -> AbstractContextManager[object]:
    """As `Pipeline.begin_turn`. A Caller has none: its calls stand under the attempt of its tool."""
    begin: Callable[[], AbstractContextManager[object]] = getattr(pipeline, "begin_turn", nullcontext)
    return begin()


def _read_calls(pipeline: object, calls: object) -> list[Call]:
    if not callable(getattr(pipeline, "resolve", None)):
        refuse("gather", "pipeline", "a Pipeline", pipeline)
    if isinstance(calls, Mapping):  # else its keys would be its items
        found: list[object] = [calls]
    else:
        found = read_items("gather", "calls", calls, "Calls")
    for call in found:
        if not isinstance(call, Call):
            given = cast("object", calls)
            refuse("gather", "calls", "a collection of Calls, as calls(reply) of an adapter makes it", given)
        refuse_as_name(call.name)
    return cast("list[Call]", found)


async def run_batch(  # noqa: C901  # one loop, and a task for each worker of it
    pipeline: Runnable,
    calls: Iterable[Call],
    run: Callable[[int, Call], Awaitable[Outcome]],
    limit: int = 50,
    *,
    timeout: float | None = None,  # noqa: ASYNC109  # as above
    each: float | None = None,
) -> list[Outcome]:
    """`gather`, with a function of the caller's own that runs a call through the pipeline."""
    check_count("gather", "limit", limit)
    check_number("gather", "timeout", timeout, infinite=True, optional=True, unit="seconds")
    check_number("gather", "each", each, infinite=True, optional=True, unit="seconds")
    todo = list(calls)
    outcomes: list[Outcome | None] = [None] * len(todo)
    order = order_by_resource(todo, _find_tools(pipeline, todo)) if len(todo) > 1 else None
    ready = deque(range(len(todo)) if order is None else order.list_ready(len(todo)))
    is_timed = timeout is not None or each is not None
    ends = None if timeout is None else timing.monotonic() + timeout
    workers = min(limit, len(ready))

    # A few workers, for a task per call would cost more than the call. One gets itself as an argument: as a variable
    # around it, it would hold itself, and with itself all calls and outcomes until a collection of garbage.
    async def work(again: Any) -> None:
        nonlocal workers
        while ready:
            index = ready.popleft()
            call: Call | Failure[NotExecuted] = todo[index]
            if is_timed:
                call = _set_time_limit(todo[index], each, None if ends is None else ends - timing.monotonic())
            if order is not None and index in order.blocked:
                call = Failure(NotExecuted("an earlier call on the same resource is still running"))
            elif order is not None and isinstance(call, Call):
                call = order.watch(index, call)
            try:
                outcomes[index] = call if type(call) is Failure else await run(index, call)
            except anyio.get_cancelled_exc_class() as exc:
                # The tool awaited something cancelled elsewhere; we were not cancelled, so only this call fails.
                await anyio.lowlevel.checkpoint_if_cancelled()
                outcomes[index] = Failure(Crashed(exc))
            if order is not None:
                ready.extendleft(reversed(order.release(index, outcomes[index])))  # they have waited longest
                for _ in range(min(limit - workers, len(ready) - 1)):  # this worker takes one of them
                    workers += 1
                    group.start_soon(again, again)
        workers -= 1

    if len(todo) == 1:  # as in most replies; a task for one call costs more than the call
        await work(work)
        return cast("list[Outcome]", outcomes)
    together = BATCH.set(object())
    try:
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(work, work)
    finally:
        BATCH.reset(together)
    return cast("list[Outcome]", outcomes)


def _set_time_limit(call: Call, each: float | None, seconds_left: float | None) -> Call | Failure[NotExecuted]:
    if seconds_left is not None and not seconds_left > 0:
        return Failure(NotExecuted("the batch's time was up"))
    return attrs.evolve(call, timeout=min(limit for limit in (call.timeout, each, seconds_left) if limit is not None))


def _find_tools(pipeline: Runnable, calls: Sequence[Call]) -> dict[str, Tool[..., Any]]:
    """The tools that declare a resource, by the name that a call has for them."""
    by_name = {call.name: call for call in calls if type(call.name) in TEXTS}
    exact = {name: pipeline.find(name) for name in by_name}
    tools = {name: tool for name, tool in exact.items() if tool is not None}
    for name in by_name.keys() - tools.keys():  # an alias, or a name with noise around it
        resolved = or_default(None)(pipeline.resolve)(by_name[name])  # the call itself reports a bug in a user's stage
        if isinstance(resolved, ResolvedCall):
            tools[name] = resolved.tool
    return {name: tool for name, tool in tools.items() if tool.resource is not None}


def without_twins(calls: list[Call]) -> tuple[list[Call], Sequence[int]]:
    """The deliveries of a reply, and for each of its calls the place of the one that it is among them.

    The same delivery has the same id, name and arguments, and the same caller. Equal calls with different ids, or
    without one, are several calls: the model wants that many.
    """
    ids = [call.id if call.state is None else call.get_state(WITHIN, call.id) for call in calls]
    given = [each for each in ids if each]
    if all(type(each) is str for each in given) and len(set(given)) == len(given):
        return calls, range(len(calls))
    firsts: dict[tuple[object, ...], int] = {}
    single: list[Call] = []
    places: list[int] = []
    for number, (call, id_) in enumerate(zip(calls, ids, strict=True)):
        key: tuple[object, ...] = (number,)
        if id_ and type(id_) is str and isinstance(cast("object", call.name), str):
            asked = call.principal, call.conversation, call.reply, write_arguments(call)
            key = id_, str.__str__(call.name), *asked
        place = firsts.setdefault(key, len(single))
        if place == len(single):
            single.append(call)
        places.append(place)
    return single, places
