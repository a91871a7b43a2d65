"""Batch: a tool with which a model makes several calls in one; all of them go through the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from math import inf
from typing import Any, ClassVar, TypeAlias, cast
from weakref import ref

import anyio
import attrs
from returns.result import Failure, Success

from ..batch import gather
from ..call import Call, Outcome
from ..compose.pipeline import Pipeline
from ..errors import InvalidParams, NeedsSetup, NotExecuted, Problem, SetupError, UnknownTool
from ..messages import Profile, render
from ..privacy import Public
from ..report import error_of
from ..tools.context import ToolContext
from ..tools.definition import Tool

# As document 004 has them, then as models write them.
_TOOL = ("tool", "tool_name", "name")
_ARGUMENTS = ("args", "arguments", "parameters")
_ROOM = 80_000  # characters for all the results: what is longer in all would be cut in the middle, calls and all
_SHARE = 0.95  # of the time that is left to us: telling takes some as well, and what comes too late is lost as a whole


class _Run:
    """A batch, seen by all that it calls."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


# Never put back: it ends by saying so itself, which what a call left running sees too, in a context of its own.
_INSIDE: ContextVar[_Run | None] = ContextVar("toolcall_batch", default=None)
_Entry: TypeAlias = "tuple[str, str, Call | Failure[InvalidParams]]"  # id and tool as the model wrote them


def reached(pipeline: ref[Pipeline] | None, service: Public) -> Pipeline | Failure[NeedsSetup]:
    """The pipeline, while somebody else holds it; else what document 004 says, section 4.1."""
    if pipeline is None:
        return Failure(NeedsSetup(service, "Registry not initialized"))
    return pipeline() or Failure(NeedsSetup(service, "Registry no longer available"))


class Batch:
    """The calls run at once, at most ``limit`` of them at a time, as `gather` has it; ``each`` and ``timeout`` too.

    It calls the pipeline that it was attached to, and holds it weakly: the registry that has the tool would otherwise
    keep the pipeline alive that keeps the registry alive. A stage that is added to the pipeline makes another one of
    it, which this one knows nothing of; and a view that holds this tool reaches with it whatever that pipeline does.
    So a narrower pipeline wants a batch of its own, under another name. Document 004, with its section 5.1.
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
        most: int = 25,  # calls; with more of them nothing runs
        limit: int = 10,  # at a time
        each: float | None = None,  # seconds for one call
        timeout: float | None = None,  # seconds for all of them; never more than the call of the batch itself has
        profile: str | Profile = "default",  # how the failures among them are told
    ) -> None:
        if most < 1 or limit < 1:
            raise SetupError(f"{name}: most and limit are at least 1, not {most} and {limit}")
        if not all(seconds is None or seconds > 0 for seconds in (each, timeout)):
            raise SetupError(f"{name}: a time limit is more than zero seconds, or None")
        self.name = name
        self._most, self._limit, self._each, self._timeout = most, limit, each, timeout
        self._profile = profile
        self._pipeline: ref[Pipeline] | None = None
        if pipeline is not None:
            self.attach(pipeline)

    def attach(self, pipeline: Pipeline) -> None:
        """From now on this is the pipeline that the calls go through."""
        self._pipeline = ref(pipeline)

    def tool(self) -> Tool[..., Any]:
        """The tool to register. It may change anything, so the runtime repeats it never, only the calls in it."""
        from ..parameters.parsing import of_schema

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
        made = Tool.from_schema(
            name=self.name,
            parameters=_object_with(calls),
            handler=self.run,
            description=self.description.format(most=self._most, name=self.name),
            run_in="loop",  # here, where the pipeline is
            context=True,
        )
        # What a model is shown says how an entry looks; one that looks otherwise is that call's failure, not all's.
        made.parse = of_schema(_object_with({**calls, "items": True}), self.name)
        return made

    async def run(self, context: ToolContext, /, calls: Sequence[object], **_undeclared: object) -> object:
        """``{"succeeded", "failed", "results"}``, with ``{"id", "tool", "success", "output"}`` for each of the calls.

        A failure as a whole only where nothing ran: in a batch, or without a pipeline.
        """
        outer = _INSIDE.get()
        if outer is not None and not outer.over:
            return Failure(NotExecuted("cannot call batch from within batch"))
        pipeline = reached(self._pipeline, "batch")
        if isinstance(pipeline, Failure):
            return pipeline
        entries = [_entry(place, given, context) for place, given in enumerate(calls)]
        sent = [call for _, _, call in entries if isinstance(call, Call)]
        here = _Run()
        _INSIDE.set(here)
        try:
            answers = iter(await gather(pipeline, sent, self._limit, timeout=self._time(), each=self._each))
        finally:
            here.over = True
        outcomes = [next(answers) if isinstance(call, Call) else cast("Outcome", call) for _, _, call in entries]
        succeeded = sum(type(outcome) is Success for outcome in outcomes)
        room = _ROOM // max(1, len(entries))
        results = [
            {"id": id_, "tool": tool, "success": type(outcome) is Success, "output": self._told(outcome, tool, room)}
            for (id_, tool, _), outcome in zip(entries, outcomes, strict=True)
        ]
        return {"succeeded": succeeded, "failed": len(results) - succeeded, "results": results}

    def _time(self) -> float | None:
        left = (anyio.current_effective_deadline() - anyio.current_time()) * _SHARE
        whole = min(left, inf if self._timeout is None else self._timeout)
        return None if whole == inf else whole

    def _told(self, outcome: Outcome, tool: str, room: int) -> str:
        """The text that the call alone would have had; this tool is no choice here."""
        error = error_of(outcome)
        if type(error) is UnknownTool:
            near, there = (tuple(x for x in names if x != self.name) for names in (error.suggestions, error.available))
            outcome = Failure(attrs.evolve(error, suggestions=near, available=there))
        return render(outcome, profile=self._profile, tool=tool or None, limit=room)


def _object_with(calls: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"calls": calls}, "required": ["calls"]}


def _entry(place: int, given: object, context: ToolContext) -> _Entry:
    number, path = str(place + 1), f"calls[{place}]"
    if not isinstance(given, Mapping):
        return number, "", Failure(InvalidParams((Problem(path, "type", "an object with tool and args"),)))
    entry = cast("Mapping[str, object]", given)
    id_ = str(entry.get("id") or number)
    name = next((entry[key] for key in _TOOL if key in entry), None)
    if not isinstance(name, str):
        return id_, "", Failure(InvalidParams((Problem(f"{path}.tool", "required", "the name of a tool"),)))
    arguments = next((entry[key] for key in _ARGUMENTS if key in entry), None)
    whose = f"{context.call_id}:{id_}" if context.call_id else id_
    return id_, name, Call(name, arguments, whose, context.principal, context.deps)
