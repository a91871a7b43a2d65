"""The calls to measure, their tools, and bodies that do not run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast, get_args

import attrs
from returns.result import Failure

from ...base.introspection import is_async
from ...base.setup_error import SetupError
from ...engine.call import Call, is_failure
from ...engine.compose.pipeline import Pipeline
from ...engine.errors import Crashed, InvalidParams, MalformedCall, ToolError, Transient, UnknownTool
from ...engine.report import kind_of
from ...messages import render
from ...tools import Tool

_PATCHED = ("fn", "run_in", "anywhere")
_RUN_HERE = ("loop", "thread")  # a body in another process cannot be replaced from this one
_NEW = 600  # wrong names in turn: more than the 512 that Resolve remembers, so each of them is new to it
_PROPOSED = (UnknownTool, MalformedCall, InvalidParams, Crashed)  # each by a call or a bug that causes it


def list_tools(pipeline: Pipeline, calls: Iterable[Call]) -> list[Tool[..., Any]]:
    """All tools that the pipeline may run: the tools of its registries, and the tools that the calls name."""
    found = {id(tool): tool for registry in pipeline.registries for tool in registry}
    for call in calls:
        tool = find_tool(pipeline, call)
        found[id(tool)] = tool
    return list(found.values())


def find_tool(pipeline: Pipeline, call: Call) -> Tool[..., Any]:
    """The tool that a call names. Raises SetupError if there is none."""
    resolved: Any = pipeline.resolve(call)
    tool = getattr(resolved, "tool", None) or pipeline.find(call.name)
    if tool is None:
        why = render(resolved.failure()) if resolved is not None else "no stage of this pipeline finds tools"
        raise SetupError(f"the call of {call.name!r} names no tool: {' '.join(why.split())}")
    return tool


async def choose_call(pipeline: Pipeline) -> Call:
    """An example for one of its tools, those that read first. No body runs."""
    open_tools = [registry.tools[name] for registry in pipeline.registries for name in registry.callable_names()]
    with replace_bodies(list_tools(pipeline, ()), Bodies()):
        for tool in sorted(open_tools, key=lambda each: each.effect != "read"):
            tool.compile()
            call = Call(tool.name, json.loads(tool.parameters.example() or "{}"))
            if not is_failure(await pipeline(call)):
                return call
    raise SetupError("none of the tools of this pipeline has an example call that succeeds: give a call")


async def read_values(pipeline: Pipeline, calls: Sequence[Call]) -> dict[str, object]:
    """Return the results of the tools that only read, by tool name; each call runs once."""
    values: dict[str, object] = {}
    for call in calls:
        tool = find_tool(pipeline, call)
        if tool.effect == "read":
            values[tool.name] = await run_well(pipeline, call)
    return values


async def run_well(pipeline: Pipeline, call: Call) -> object:
    """Run a call, and return its value. Raises SetupError if it fails."""
    outcome = await pipeline(call)
    if is_failure(outcome):
        text = " ".join(render(outcome).split())
        raise SetupError(f"the call of {str(call.name)!r} fails, {kind_of(outcome)}: {text}")
    return outcome.unwrap()


@attrs.define(eq=False)
class Bodies:
    """The replacement for the bodies of all tools."""

    values: dict[str, object] = attrs.field(factory=dict[str, object])  # by tool name; else None
    reply: object = None  # for every body instead; an exception is raised, a function called first
    begun: int = 0  # how many

    def make(self, tool: Tool[..., Any]) -> Callable[..., Any]:
        """A body for that tool, async if its own is."""

        def answer(*_: object, **__: object) -> object:
            self.begun += 1
            if self.reply is None:
                return self.values.get(tool.name)
            if isinstance(self.reply, BaseException):
                raise self.reply.with_traceback(None)
            if not callable(self.reply):
                return self.reply
            self.reply()
            return self.values.get(tool.name)

        async def answer_later(*_: object, **__: object) -> object:
            return answer()

        return answer_later if is_async(tool.fn) else answer


@contextmanager
def replace_bodies(tools: Iterable[Tool[..., Any]], bodies: Bodies) -> Generator[None]:
    """Put a stand-in in the place of each tool's body, inside the block.

    A tool keeps its effect and its thread, so the stages do what they do for the real one. One that runs in another
    process or on another machine runs in the event loop instead.
    """
    before = [(tool, [getattr(tool, name) for name in _PATCHED]) for tool in tools]
    try:
        for tool, (_, run_in, _) in before:
            tool.fn = bodies.make(tool)
            tool.run_in = run_in if run_in in _RUN_HERE else "loop"
            tool.anywhere = False
        yield
    finally:
        for tool, values in before:
            for name, value in zip(_PATCHED, values, strict=True):
                setattr(tool, name, value)


@contextmanager
def all_in_loop(tools: Iterable[Tool[..., Any]]) -> Generator[None]:
    """Let sync tools run in the event loop, inside the block.

    The way to a thread and back costs more than most stages, and not always the same.
    """
    moved = [tool for tool in tools if tool.run_in == "thread"]
    try:
        for tool in moved:
            tool.run_in = "loop"
        yield
    finally:
        for tool in moved:
            tool.run_in = "thread"


@attrs.frozen
class FailingCalls:
    """Calls that end in one kind of failure."""

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
