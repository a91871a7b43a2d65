"""One call for each kind of failure: those that a stage refuses, and those that the tool answers with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast, get_args

import attrs
from returns.result import Failure

from ...call import Call
from ...compose.pipeline import Pipeline
from ...errors import Crashed, InvalidParams, MalformedCall, ToolError, Transient, UnknownTool
from ...report import kind_of
from .stand_ins import Bodies

_NEW = 600  # wrong names in turn: more than the 512 that Resolve remembers, so each of them is new to it
_PROPOSED = (UnknownTool, MalformedCall, InvalidParams, Crashed)  # each by a call or a bug that causes it


@attrs.frozen
class FailingCalls:
    """Calls that end in one kind of failure.

    Args:
        kind: The kind.
        calls: In turn.
        reply: What the bodies answer with. None: no body begins.
    """

    kind: str
    calls: Sequence[Call]
    reply: object = None


async def find_failing_calls(pipeline: Pipeline, call: Call, bodies: Bodies) -> list[FailingCalls]:
    """Those that end as they should in this pipeline; each is tried once."""
    found: list[FailingCalls] = []
    for each in _propose(call):
        if each.kind not in {known.kind for known in found}:
            bodies.reply = each.reply
            try:
                if kind_of(await pipeline(each.calls[0])) == each.kind:
                    found.append(each)
            finally:
                bodies.reply = None
    return found


def _propose(call: Call) -> Iterator[FailingCalls]:
    name = str(call.name)
    unknown = [attrs.evolve(call, name=f"{name}_{letters}") for letters in _make_letters()]
    yield FailingCalls("unknown_tool", unknown)
    yield FailingCalls("malformed_call", [attrs.evolve(call, arguments='{"cut": "o')])
    for wrong in ({}, {"there_is_no_such_parameter": 1}, *_misfits(call)):
        yield FailingCalls("validation", [attrs.evolve(call, arguments=wrong)])
    for kind in get_args(ToolError):
        if kind not in _PROPOSED:
            yield FailingCalls(kind.kind, [call], Failure(kind.make_example()))
    yield FailingCalls("internal", [call], RuntimeError("it failed"))
    lost = Failure(Transient(landed="maybe"))  # of a mutating tool
    yield FailingCalls("outcome_unknown", [call], lost)


def _misfits(call: Call) -> Iterator[dict[str, object]]:
    """The arguments with another value of the first parameter."""
    arguments: Any = call.arguments
    given = dict(cast("Mapping[str, object]", arguments)) if isinstance(arguments, Mapping) else {}
    strange: tuple[object, ...] = ({"no": "value"}, [None], "no value")
    for first in itertools.islice(given, 1):
        yield from ({**given, first: value} for value in strange)


def _make_letters() -> Iterator[str]:
    for letters in itertools.islice(itertools.product("bcdfghjklmnpqrstvwxz", repeat=3), _NEW):
        yield "".join(letters)
