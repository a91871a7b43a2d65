"""Many calls at once: results in call order, siblings isolated, and changes of one resource one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import anyio
import anyio.lowlevel
import attrs
from returns.result import Failure

from .call import Call, Outcome, ResolvedCall
from .compose.pipeline import Pipeline
from .errors import Crashed, NotExecuted, OutcomeUnknown, TimedOut
from .parameters.coercions import literal
from .report import error_of
from .tools.definition import Tool


async def gather(
    pipeline: Pipeline,
    calls: Iterable[Call],
    limit: int = 50,
    *,
    timeout: float | None = None,  # noqa: ASYNC109  # each call is given what is left of it, and answers for itself
    each: float | None = None,
) -> list[Outcome]:
    """Run the calls, at most ``limit`` of them at a time; one outcome for each, in the order of the calls.

    A failed call stops none of the others. ``each`` is the time of one call in seconds, attempts and waits included,
    and ``timeout`` that of all together: what it ends is TimedOut, or OutcomeUnknown, as for any call, and what it
    leaves no time to begin is NotExecuted. Cancellation from outside ends all of them and passes.

    Of tools that declare a resource, those that read it run together, and one that changes it runs alone with it, in
    the order of the calls. Where its body could not be ended, NotExecuted holds back what comes after it. A resource
    that cannot be told from the arguments may be any: such a call keeps its place among all that declare one.
    """
    if limit < 1:
        raise ValueError(f"limit is at least 1, not {limit}")
    todo = list(calls)
    done: list[Outcome | None] = [None] * len(todo)
    order = _ordered(todo, _tools(pipeline, todo))
    ready = deque(range(len(todo)) if order is None else order.first(len(todo)))
    timed = timeout is not None or each is not None
    ends = None if timeout is None else anyio.current_time() + timeout
    working = min(limit, len(ready))

    async def work() -> None:  # a few workers, not a task a call: those cost more than the call
        nonlocal working
        while ready:
            place = ready.popleft()
            call: Call | Failure[NotExecuted] = todo[place]
            if timed:
                call = _timed(todo[place], each, None if ends is None else ends - anyio.current_time())
            if order is not None and place in order.held:
                call = Failure(NotExecuted("an earlier call on the same resource is still running"))
            try:
                done[place] = call if type(call) is Failure else await pipeline(call)
            except anyio.get_cancelled_exc_class() as exc:
                # Of a tool that awaited what somebody else cancelled it says nothing of us: that call has failed.
                await anyio.lowlevel.checkpoint_if_cancelled()
                done[place] = Failure(Crashed(exc))
            if order is not None:
                ready.extendleft(reversed(order.freed_by(place, done[place])))  # they have waited long enough
                for _ in range(min(limit - working, len(ready) - 1)):  # one of them is for this worker
                    working += 1
                    group.start_soon(work)
        working -= 1

    async with anyio.create_task_group() as group:
        for _ in range(working):
            group.start_soon(work)
    return cast("list[Outcome]", done)


def _timed(call: Call, each: float | None, left: float | None) -> Call | Failure[NotExecuted]:
    if left is not None and not left > 0:
        return Failure(NotExecuted("the batch's time was up"))
    return attrs.evolve(call, timeout=min(limit for limit in (call.timeout, each, left) if limit is not None))


def _tools(pipeline: Pipeline, calls: Sequence[Call]) -> dict[str, Tool[..., Any]]:
    """The tools that declare a resource, by the names that the calls have for them."""
    asked = {call.name: call for call in calls if type(call.name) is str}
    exact = {name: pipeline.tool_of(name) for name in asked}
    known = {name: tool for name, tool in exact.items() if tool is not None}
    for name in asked.keys() - known.keys():  # an alias, or a name with noise around it
        try:
            found = pipeline.resolve(asked[name])
        except Exception:  # noqa: BLE001, S112  # a bug in that check: the call itself will tell
            continue
        if isinstance(found, ResolvedCall):
            known[name] = found.tool
    return {name: tool for name, tool in known.items() if tool.resource is not None}


def _resource(tool: Tool[..., Any], arguments: object) -> str | None:
    """What the call works on; None where that cannot be told."""
    if isinstance(tool.resource, str) or tool.resource is None:
        return tool.resource
    given = literal(arguments) if isinstance(arguments, str) else arguments
    try:
        found: Any = tool.resource(cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {})
    except Exception:  # noqa: BLE001  # arguments as sent: what it looks for may be missing, or stand elsewhere
        return None
    return found if isinstance(found, str) else None


@attrs.define
class _Lane:
    """One resource: the last call that changes it, and those that read it since."""

    change: int | None = None
    reads: list[int] = attrs.field(factory=list[int])

    def enter(self, place: int, *, changes: bool) -> list[int]:
        """The calls that this one has to wait for; it is waited for from now on."""
        before = [] if self.change is None else [self.change]
        if not changes:
            self.reads.append(place)
            return before
        before += self.reads
        self.change, self.reads = place, []
        return before


class _Order:
    """Which call waits for which."""

    def __init__(self) -> None:
        self.held: set[int] = set()  # must not run any more
        self._waits: dict[int, int] = {}  # by place: for so many calls
        self._behind: dict[int, list[int]] = {}  # by place: those that wait for it
        self._changes: set[int] = set()

    def add(self, place: int, before: set[int], *, changes: bool) -> None:
        """The call at that place waits for those before it."""
        self._waits[place] = len(before)
        for earlier in before:
            self._behind.setdefault(earlier, []).append(place)
        if changes:
            self._changes.add(place)

    def first(self, number: int) -> list[int]:
        """Those of so many calls that wait for none."""
        return [place for place in range(number) if not self._waits.get(place)]

    def freed_by(self, place: int, outcome: object) -> list[int]:
        """Those that waited for this call last. After a change that goes on in a thread they are held back."""
        stuck = place in self._changes and (place in self.held or _runs_on(outcome))
        behind = self._behind.pop(place, [])
        if stuck:
            self.held.update(behind)
        for later in behind:
            self._waits[later] -= 1
        return [later for later in behind if not self._waits[later]]


def _ordered(calls: Sequence[Call], tools: Mapping[str, Tool[..., Any]]) -> _Order | None:
    if not tools:
        return None
    order, lanes, unknown = _Order(), dict[str, _Lane](), _Lane()
    for place, call in enumerate(calls):
        tool = tools.get(call.name) if type(call.name) is str else None
        if tool is None:
            continue
        resource, changes = _resource(tool, call.arguments), tool.effect != "read"
        if resource is not None:
            touched = [lanes.setdefault(resource, _Lane(unknown.change, [*unknown.reads]))]
        else:
            touched = [*lanes.values(), unknown]
            if changes:
                lanes = {}  # behind this call they all begin anew
        before = {earlier for lane in touched for earlier in lane.enter(place, changes=changes)}
        order.add(place, before, changes=changes)
    return order


def _runs_on(outcome: object) -> bool:
    error = error_of(outcome)
    cause = error.cause if type(error) is OutcomeUnknown else error
    return type(cause) is TimedOut and cause.still_running
