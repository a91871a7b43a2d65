"""Which request a model means by a call in its next reply: one that it tries again, one that is over, or a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs

from ..call import Call, Outcome
from ..errors import ToolError, UnknownTool
from ..messages.changes import canonical_arguments
from ..privacy import PublicText
from ..report import error_of
from ..tools.definition import Tool

_NOT_RUN: Any = None  # the outcome until the first attempt has ended
_NO_TEXT = PublicText("")


@attrs.define(eq=False)
class Request:
    """One thing that the model wants done, through all attempts at it.

    Args:
        first: The call of the first attempt.
        call: The call of the last attempt.
        outcome: What came of the last attempt.
        text: What the model is told about that.
        tool: The tool that the call was resolved to; None if there is none.
        attempt: How many attempts have run.
    """

    first: Call
    call: Call = attrs.field(default=attrs.Factory(lambda self: self.first, takes_self=True))
    outcome: Outcome[Any] = _NOT_RUN
    text: PublicText = _NO_TEXT
    tool: Tool[..., Any] | None = None
    attempt: int = 0

    @property
    def error(self) -> ToolError | None:
        """What the last attempt failed with; None if it succeeded or none has run."""
        return cast("ToolError | None", error_of(self.outcome))

    @property
    def name(self) -> str:
        """The tool's own name if it is known, else what the model wrote; "" if that is not text."""
        name = cast("object", self.call.name if self.tool is None else self.tool.name)
        return str.__str__(name) if isinstance(name, str) else ""


def inherit_context(call: Call, earlier: Call) -> Call:
    """A call of a model's reply with what the caller gave the earlier one: principal, deps and time limit.

    An adapter knows none of these, and without them a rate limit or an approval would be asked for nobody.

    Args:
        call: As the adapter made it; what it already has stays.
        earlier: The first call of the same request, or of the turn.
    """
    principal = call.principal or earlier.principal
    deps = earlier.deps if call.deps is None else call.deps
    timeout = earlier.timeout if call.timeout is None else call.timeout
    return attrs.evolve(call, principal=principal, deps=deps, timeout=timeout)


def match_requests(calls: Sequence[Call], requests: Sequence[Request]) -> list[Request | None]:
    """For each call the request that it tries again, each request once; None for a new one.

    Some providers number the calls of each reply anew, so an id counts only together with the name, unless no call
    has the name. A request whose name no tool has goes to the call of a tool that was suggested, then to any call.

    Args:
        calls: The calls of a reply.
        requests: The requests that are still open.
    """
    found: list[Request | None] = [None] * len(calls)
    left = list(requests)
    for fits in (_has_id_and_tool, _has_tool, _has_id, _was_suggested, _has_unknown_name):
        for index, call in enumerate(calls):
            request = next((each for each in left if fits(each, call)), None) if found[index] is None else None
            if request is not None:
                found[index] = request
                left.remove(request)
    return found


def find_repeat(call: Call, ended: Sequence[Request]) -> Request | None:
    """The request that is over and that the call asks for once more, by the same tool and the same arguments.

    A model that is asked for one of its calls tends to send all of them again. What took effect, or may have, must
    not run twice; a read that succeeded may run again, so it is not a repeat.

    Args:
        call: A call of a reply.
        ended: The requests that are over.
    """
    arguments = canonical_arguments(call.arguments)
    for request in ended:
        is_read = request.tool is not None and request.tool.effect == "read"
        if not _has_tool(request, call) or (is_read and request.error is None):
            continue
        if arguments is not None and arguments == canonical_arguments(request.call.arguments):
            return request
    return None


def _has_id_and_tool(request: Request, call: Call) -> bool:
    return _has_id(request, call) and _has_tool(request, call)


def _has_tool(request: Request, call: Call) -> bool:
    tool = request.tool
    return request.call.name == call.name or (tool is not None and call.name in (tool.name, *tool.aliases))


def _has_id(request: Request, call: Call) -> bool:
    return bool(call.id) and call.id in (request.call.id, request.first.id)


def _was_suggested(request: Request, call: Call) -> bool:
    return isinstance(request.error, UnknownTool) and call.name in request.error.suggestions


def _has_unknown_name(request: Request, _: Call) -> bool:
    return isinstance(request.error, UnknownTool)
