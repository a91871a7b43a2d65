"""Which call the model meant by the one that it sends next: another attempt, one that it repeats, or a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from ..call import Call, Outcome
from ..errors import ToolError, UnknownTool
from ..privacy import PublicText
from ..report import error_of
from ..tools.definition import Tool

_UNANSWERED: Any = None  # until its first attempt has ended


@attrs.define(eq=False)
class Asked:
    """One thing that the model wants done, through all attempts at it."""

    first: Call
    call: Call = attrs.field(default=attrs.Factory(lambda self: self.first, takes_self=True))  # as it was last sent
    outcome: Outcome[Any] = _UNANSWERED
    text: PublicText = PublicText("")  # noqa: RUF009  # a text does not change
    tool: Tool[..., Any] | None = None
    attempt: int = 0

    @property
    def error(self) -> ToolError | None:
        """What it failed with last, if it did."""
        return cast("ToolError | None", error_of(self.outcome))

    @property
    def name(self) -> str:
        """The tool's own name where it is known, else what the model wrote, which need not be text."""
        name = cast("object", self.call.name if self.tool is None else self.tool.name)
        return str.__str__(name) if isinstance(name, str) else ""


def carried(call: Call, whose: Call) -> Call:
    """A call as a model's reply holds it, with what the caller had added to the one before: for whom, with what.

    An adapter knows nothing of that, and a limit or an approval would be asked of nobody.
    """
    principal = call.principal or whose.principal
    deps = whose.deps if call.deps is None else call.deps
    timeout = whose.timeout if call.timeout is None else call.timeout
    return attrs.evolve(call, principal=principal, deps=deps, timeout=timeout)


def matched(calls: Sequence[Call], asked: Sequence[Asked]) -> list[Asked | None]:
    """For each call what it is another attempt at, each of those once; None for a new one.

    Some providers number the calls of each reply anew: an id counts only together with the name, unless no call has
    the name. What had a name that no tool has goes to the call with one that was suggested for it, then to any.
    """
    found: list[Asked | None] = [None] * len(calls)
    left = list(asked)
    for fits in (_both, _same_tool, _same_id, _suggested, _renamed):
        for place, call in enumerate(calls):
            old = next((each for each in left if fits(each, call)), None) if found[place] is None else None
            if old is not None:
                found[place] = old
                left.remove(old)
    return found


def repeated(call: Call, ended: Sequence[Asked]) -> Asked | None:
    """What came to its end and is asked for once more, same tool and same arguments; of reads only those that failed.

    Models asked for one of their calls tend to send all of them: what took effect, or may have, would do so twice.
    """
    content: object = None
    for each in ended:
        reads = each.tool is not None and each.tool.effect == "read"
        if not _same_tool(each, call) or (reads and each.error is None):
            continue
        content = _content(call.arguments) if content is None else content
        if content == _content(each.call.arguments):
            return each
    return None


def _both(asked: Asked, call: Call) -> bool:
    return _same_id(asked, call) and _same_tool(asked, call)


def _same_tool(asked: Asked, call: Call) -> bool:
    tool = asked.tool
    return asked.call.name == call.name or (tool is not None and call.name in (tool.name, *tool.aliases))


def _same_id(asked: Asked, call: Call) -> bool:
    return bool(call.id) and call.id in (asked.call.id, asked.first.id)


def _suggested(asked: Asked, call: Call) -> bool:
    return isinstance(asked.error, UnknownTool) and call.name in asked.error.suggestions


def _renamed(asked: Asked, _: Call) -> bool:
    return isinstance(asked.error, UnknownTool)


def _content(arguments: object) -> object:
    """Arguments in one form, JSON text and a mapping of the same content alike; what has none is like nothing else."""
    try:
        if isinstance(arguments, str):
            arguments = json.loads(arguments or "{}")
        elif isinstance(arguments, Mapping):
            arguments = dict(cast("Mapping[Any, Any]", arguments))
        return json.dumps({} if arguments is None else arguments, sort_keys=True)
    except Exception:  # noqa: BLE001  # a value of somebody's own may raise anything
        return object()
