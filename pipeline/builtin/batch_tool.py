"""Batch: a tool that makes several calls in one; each of them goes through the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from math import inf
from typing import Any, ClassVar, cast

import attrs
from returns.result import Failure, Success

from ..base import timing
from ..base.setup_error import SetupError
from ..engine.batch import gather
from ..engine.call import Call, Outcome
from ..engine.call_state import WITHIN
from ..engine.caller import Caller
from ..engine.compose.pipeline import Pipeline
from ..engine.errors import InvalidParams, NotExecuted, Problem, UnknownTool
from ..engine.report import error_of
from ..messages import Profile, Wording, render
from ..parameters import Parameters
from ..privacy import PublicText
from ..tools.context import ToolContext
from ..tools.definition import Tool
from .pipeline_reference import PipelineReference

# Keys of an entry: first the key of the definition, then the ones that models write instead.
_TOOL_KEYS = ("tool", "tool_name", "name")
_ARGUMENT_KEYS = ("args", "arguments", "parameters")
_LONGEST_RESULT = 80_000  # characters of all outputs; `render` would cut a longer text in the middle, between calls
_TIME_SHARE = 0.95  # of the time that is left: the rest is for the texts, for a result that comes too late is lost


@attrs.define(eq=False)
class _BatchScope:
    """A batch under way, as seen by everything that it calls."""

    ended: bool = False


# Never reset: tasks left running copied this context, so the scope marks itself as ended.
_SCOPE: ContextVar[_BatchScope | None] = ContextVar("toolcall_batch", default=None)


@attrs.frozen
class _Entry:
    """One entry of ``calls``: the call that it means, or what is wrong with it."""

    id: str
    tool: str  # as the model wrote it; "" if it wrote none
    call: Call | Failure[InvalidParams]


class Batch:
    """A tool that runs several calls at once, as `gather` does. Document 004, with its section 5.1.

    The calls go through the pipeline that called the tool: a view that shows this tool reaches no tool that it does not
    show. The tool works as long as the pipeline lives that it is attached to; `install` attaches it. It holds that
    pipeline weakly.

    Args:
        pipeline: The pipeline to attach. Default None: `attach` follows later.
        name: The name of the tool.
        most: Calls in one batch; with more, none of them runs. Default 25.
        limit: Calls that run at a time. Default 10.
        each: Seconds for one call. Default None: no limit.
        timeout: Seconds for all calls; they never get more than 95 % of the time that the batch itself has left.
            Default None: that share alone.
        profile: How failures in the batch are worded; a name or a `Profile`. Default None: as by the pipeline that
            called the tool.

    Raises:
        SetupError: ``most`` or ``limit`` is below 1, or a time limit is not above 0.
    """

    description: ClassVar[str] = (
        "Make several tool calls at once. Each entry of calls names a tool and gives its arguments. There is one "
        "result for each call, in the same order; a call that fails stops none of the others. Use it for calls that "
        "do not need each other's results. At most {most} calls; {name} itself cannot be one of them."
    )

    def __init__(
        self,
        pipeline: Pipeline | None = None,
        *,
        name: str = "batch",
        most: int = 25,
        limit: int = 10,
        each: float | None = None,
        timeout: float | None = None,
        profile: str | Profile | None = None,
    ) -> None:
        for option, count in (("most", most), ("limit", limit)):
            if count < 1:
                raise SetupError(f"{name}: `{option}` must be ≥ 1, not {count}")
        for option, seconds in (("each", each), ("timeout", timeout)):
            if seconds is not None and not seconds > 0:
                raise SetupError(f"{name}: `{option}` must be > 0 seconds or None, not {seconds}")
        self.name = name
        self._most, self._limit, self._each, self._timeout = most, limit, each, timeout
        self._profile = profile
        self._pipeline = PipelineReference(pipeline)

    def attach(self, pipeline: Pipeline) -> None:
        """Work from now on, for this pipeline and all others that have the tool.

        Args:
            pipeline: Held weakly, so keep a reference to it.
        """
        self._pipeline.set(pipeline)

    def tool(self) -> Tool[..., Any]:
        """The tool to register. It is mutating, so it is never repeated as a whole; the calls in it are retried."""
        call = {
            "type": "object",
            "properties": {
                "tool": {"type": "string", "description": "The name of the tool to call"},
                "args": {"type": "object", "description": "The arguments of that tool"},
                "id": {"type": "string", "description": "A name for this call, given back with its result"},
            },
            "required": ["tool", "args"],
        }
        calls = {
            "type": "array",
            "description": "The calls to make",
            "items": call,
            "minItems": 1,
            "maxItems": self._most,
        }
        shown = _wrap_schema(calls)
        made = Tool.from_schema(
            name=self.name,
            parameters=shown,
            handler=self.run,
            description=self.description.format(most=self._most, name=self.name),
            run_in="loop",  # where its caller is
            context=True,
            composite=True,
        )
        # The definition says what an entry looks like. Checking accepts any: a wrong entry fails alone, not the batch.
        accepted = _wrap_schema({**calls, "items": True})
        made.parameters = Parameters.of_schema(shown, self.name, accepted=accepted)
        return made

    async def run(self, context: ToolContext, /, calls: Sequence[object], **_undeclared: object) -> object:
        """The handler of the tool.

        Args:
            context: The context of the batch; the calls get its principal, deps and conversation from its caller.
            calls: The entries, as the model wrote them.

        Returns:
            ``{"succeeded", "failed", "results"}`` with ``{"id", "tool", "success", "output"}`` for each call. A
            Failure only if no call could run: inside another batch, or without a pipeline. No pipeline is known if the
            context was made by hand and not by `toolcall_pipeline.executors.context_args`.
        """
        outer = _SCOPE.get()
        if outer is not None and not outer.ended:
            return Failure(NotExecuted("cannot call batch from within batch"))
        caller = self._pipeline.get_caller(context, "batch")
        if isinstance(caller, Failure):
            return caller
        within = caller.delivery
        entries = [_parse_entry(index, each, context, within) for index, each in enumerate(calls)]
        outcomes = await self._run_entries(caller, entries)
        succeeded = sum(type(outcome) is Success for outcome in outcomes)
        room = _LONGEST_RESULT // max(1, len(entries))
        results = [
            {
                "id": entry.id,
                "tool": entry.tool,
                "success": type(outcome) is Success,
                "output": self._render(outcome, entry.tool, room, caller.wording),
            }
            for entry, outcome in zip(entries, outcomes, strict=True)
        ]
        return {"succeeded": succeeded, "failed": len(results) - succeeded, "results": results}

    async def _run_entries(self, caller: Caller, entries: Sequence[_Entry]) -> list[Outcome]:
        calls = [entry.call for entry in entries if isinstance(entry.call, Call)]
        scope = _BatchScope()
        _SCOPE.set(scope)
        try:
            outcomes = iter(await gather(caller, calls, self._limit, timeout=self._time_left(), each=self._each))
        finally:
            scope.ended = True
        return [next(outcomes) if isinstance(entry.call, Call) else entry.call for entry in entries]

    def _time_left(self) -> float | None:
        """Seconds for all calls together; None without a limit."""
        share = timing.time_left() * _TIME_SHARE
        seconds = min(share, inf if self._timeout is None else self._timeout)
        return None if seconds == inf else seconds

    def _render(self, outcome: Outcome, tool: str, room: int, wording: Wording | None) -> PublicText:
        """The text that the call would have had by itself, without this tool among the suggestions."""
        error = error_of(outcome)
        if type(error) is UnknownTool:
            suggestions = tuple(name for name in error.suggestions if name != self.name)
            available = tuple(name for name in error.available if name != self.name)
            outcome = Failure(error.changed(suggestions=suggestions, available=available))
        return render(outcome, wording=wording, profile=self._profile, tool=tool or None, limit=room)


def _wrap_schema(calls: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"calls": calls}, "required": ["calls"]}


def _parse_entry(index: int, given: object, context: ToolContext, within: str) -> _Entry:
    number, path = str(index + 1), f"calls[{index}]"
    if not isinstance(given, Mapping):
        return _Entry(number, "", Failure(InvalidParams((Problem(path, "type", "an object with tool and args"),))))
    entry = cast("Mapping[str, object]", given)
    id_ = str(entry.get("id") or number)
    name = next((entry[key] for key in _TOOL_KEYS if key in entry), None)
    if not isinstance(name, str):
        problem = Problem(f"{path}.tool", "required", "the name of a tool")
        return _Entry(id_, "", Failure(InvalidParams((problem,))))
    arguments = next((entry[key] for key in _ARGUMENT_KEYS if key in entry), None)
    # An id that the model made up is a label: which delivery a call is, its place in the batch says.
    call = Call(name, arguments, f"{context.call_id}:{id_}" if context.call_id else id_)
    return _Entry(id_, name, call.with_state(WITHIN, within and f"{within}:{number}"))
