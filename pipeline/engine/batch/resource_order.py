"""The order of many calls by the resources of their tools: reads run together, and a change runs alone on its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import attrs

from ...base.foreign_values import or_default
from ...base.provider_names import OfferedName
from ...parameters import read_arguments
from ...tools.definition import Tool
from ..call import Call
from ..errors import OutcomeUnknown, TimedOut
from ..guards import Bodies, Guards
from ..report import error_of

TEXTS = (str, OfferedName)  # a name of another class may raise when it is hashed


@or_default(None)
def _find_resource(tool: Tool[..., Any], arguments: object) -> str | None:
    """Find the resource that a call works on; None if it is unknown."""
    if isinstance(tool.resource, str) or tool.resource is None:
        return tool.resource
    found: Any = tool.resource(read_arguments(arguments) or {})
    return found if isinstance(found, str) else None


@attrs.define
class _Resource:
    """One resource, as indices of calls: the last one that changes it, and those that read it since."""

    change: int | None = None
    reads: list[int] = attrs.field(factory=list[int])

    def enter(self, index: int, *, changes: bool) -> list[int | None]:
        """Add a call; returns the earlier calls on it that it has to wait for."""
        earlier = [self.change]
        if not changes:
            self.reads.append(index)
            return earlier
        earlier += self.reads
        self.change, self.reads = index, []
        return earlier


class ResourceOrder:
    """The calls that each call waits for, as indices. A knot waits for many calls in place of others."""

    def __init__(self) -> None:
        self.blocked: set[int] = set()  # they must not run any more
        self._waits: dict[int, int] = {}  # by call or knot: for how many others
        self._waiting: dict[int, list[int]] = {}  # by call or knot: those that wait for it
        self._changes: dict[int, Bodies] = {}
        self._knots = 0

    def add(self, index: int, earlier: Iterable[int | None], *, changes: bool = False) -> None:
        """Add a call that waits for these earlier ones; None is ignored."""
        found = set(earlier) - {None}
        self._waits[index] = len(found)
        for each in found:
            self._waiting.setdefault(cast("int", each), []).append(index)
        if changes:
            self._changes[index] = Bodies()

    def tie(self, knot: int | None, index: int) -> int:
        """Add a knot that waits for another one, if there is one, and for a call. Returns its index, below 0."""
        self._knots -= 1
        self.add(self._knots, (knot, index))
        return self._knots

    def list_ready(self, count: int) -> list[int]:
        """Of so many calls those that wait for no other."""
        return [index for index in range(count) if not self._waits.get(index)]

    def watch(self, index: int, call: Call) -> Call:
        """The call as it is to run: if it changes something, its bodies are counted."""
        bodies = self._changes.get(index)
        return call if bodies is None else call.under(call.report, Guards.of(bodies, outer=call.guards))

    def release(self, index: int, outcome: object) -> list[int]:
        """Those that waited for this call alone. If it changes something and a body of it runs, they are blocked."""
        bodies = self._changes.get(index)
        blocks = bodies is not None and (index in self.blocked or bodies.running or _is_still_running(outcome))
        found: list[int] = []
        done = [index]
        for each in done:  # which grows, by knots
            waiting = self._waiting.pop(each, [])
            if blocks if each == index else each in self.blocked:
                self.blocked.update(waiting)
            for other in waiting:
                self._waits[other] -= 1
                if not self._waits[other]:
                    (found if other >= 0 else done).append(other)
        return sorted(found)


def order_by_resource(calls: Sequence[Call], tools: Mapping[str, Tool[..., Any]]) -> ResourceOrder | None:
    """The order of the calls; None if none of their tools declares a resource."""
    if not tools:
        return None
    order, resources, unknown = ResourceOrder(), dict[str, _Resource](), _Resource()
    # Since the last change of an unknown resource: all changes of known ones, and all reads of unknown ones.
    all_changes: int | None = None
    all_reads: int | None = None
    for index, call in enumerate(calls):
        tool = tools.get(call.name) if type(call.name) in TEXTS else None
        if tool is None:
            continue
        name, changes = _find_resource(tool, call.arguments), tool.effect != "read"
        if name is not None:
            resource = resources.setdefault(name, _Resource(unknown.change))
            earlier = resource.enter(index, changes=changes)
            if changes:
                earlier.append(all_reads)
                all_changes = order.tie(all_changes, index)
        else:
            earlier = [*unknown.enter(index, changes=changes), all_changes]
            if changes:
                earlier += [each for resource in resources.values() for each in resource.reads]
                resources, all_changes, all_reads = {}, None, None  # every later call waits for this one at least
            else:
                all_reads = order.tie(all_reads, index)
        order.add(index, earlier, changes=changes)
    return order


def _is_still_running(outcome: object) -> bool:
    """Whether the outcome says that the body still runs. An executor may know it without an announced begin and end."""
    error = error_of(outcome)
    cause = error.cause if type(error) is OutcomeUnknown else error
    return type(cause) is TimedOut and cause.still_running
