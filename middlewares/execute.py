"""Execute: runs the tool. What it returns or raises becomes an Outcome, not yet judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import attrs
from returns.result import Failure, Success

from pipeline import Crashed, ExecutionFailed, Outcome, Placement, SetupError, Tool, ValidCall
from pipeline.errors import KINDS
from pipeline.executors import Executor, Loop, Thread
from pipeline.privacy import approved
from pipeline.tools.definition import Detector


@attrs.frozen
class Execute:
    """Ends a stack. Async tools run in the loop, sync ones in a worker thread with the caller's context variables.

    With ``executor`` all tools run there that do not say otherwise by their ``run_in``. That may be ``"loop"``,
    ``"thread"``, ``"process"``, or a name of ``executors``, which may put others in place of the last two. A tool whose
    place is not known, or that cannot run there, is a SetupError when the pipeline is built; one that is registered
    later is a crash, told to the developer.

    A thread that is still at it when nobody waits any more cannot be stopped, only left behind. With as many left as
    may be, the tools that want one are refused, as ``Unavailable(tool, "busy")``, until one of them ends. Processes can
    be stopped: for a tool that hangs for good a thread is the wrong place.
    """

    placement: ClassVar[Placement] = Placement(
        kind="execute",
        reason="the end: the tool itself",
        marks=True,
    )

    executor: Executor | None = None
    executors: Mapping[str, Executor] = attrs.field(factory=dict[str, Executor], kw_only=True)
    threads: int = attrs.field(default=40, kw_only=True)  # at a time, in each event loop
    max_abandoned: int = attrs.field(default=40, kw_only=True)  # in all
    _places: dict[str, Executor] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if "loop" in self.executors:
            raise SetupError("the loop is where it is: give what should run elsewhere another run_in")
        own = {"loop": Loop(), "thread": Thread(self.threads, self.max_abandoned)}
        object.__setattr__(self, "_places", {**own, **self.executors})

    @property
    def abandoned(self) -> int:
        """How many threads run on though nobody waits for them."""
        threads = {place for place in (self.executor, *self._places.values()) if isinstance(place, Thread)}
        return sum(place.abandoned for place in threads)

    def check_tool(self, tool: Tool[..., Any]) -> None:
        """Raise SetupError for a tool that cannot run where it would have to."""
        if (why := self._place(tool).refuses(tool)) is not None:
            raise SetupError(why)

    async def __call__(self, call: ValidCall) -> Outcome:
        """Success with the value, or the failure that it is or tells of; Crashed, not yet read, with what it raised."""
        tool = call.tool
        try:
            if tool.direct and call.time_limit is None and self.executor is None:
                value: object = await tool.fn(**call.params)
            else:
                place = self._place(tool)
                if call.report is not None:
                    call.report.executor = place.name
                value = await place.run(call)
                if tool.detect is not None:  # then a tool is not direct
                    value = _detected(tool.detect, value)
        except Exception as exc:  # noqa: BLE001  # a tool may raise anything, and that is what this stage is for
            return Failure(Crashed(exc))
        kind = type(value)
        if kind is Success:
            return cast("Outcome", value)
        return _failure(value) if kind is Failure else Success(value)

    def _place(self, tool: Tool[..., Any]) -> Executor:
        if self.executor is not None and tool.anywhere:
            return self.executor
        place = self._places.get(tool.run_in)
        if place is not None:
            return place
        if tool.run_in != "process":
            known = ", ".join(sorted({*self._places, "process"}))
            raise SetupError(
                f"{tool.name}: nobody knows where {tool.run_in!r} is: there are {known}, and what "
                "Execute(executors={…}) names"
            )
        from pipeline.executors import Process

        return self._places.setdefault("process", Process())


def _failure(value: Any) -> Outcome:
    """A tool's own Failure: of a ToolError as it is, of text as its author's word, of an exception as if raised."""
    error = value.failure()
    if type(error) in KINDS:
        return cast("Outcome", value)
    if isinstance(error, str):
        return Failure(ExecutionFailed(approved(error)))
    if isinstance(error, Exception):
        return Failure(Crashed(error))
    return Failure(Crashed(TypeError(f"the tool returned a Failure of {type(error).__name__}, which is no ToolError")))


def _detected(detect: Detector, value: object) -> object:
    """The value, or a Failure of what the tool's detector found in it; in a Success it looks at what that holds."""
    kind: type[Any] = type(value)
    if kind is Failure:
        return value
    error: Any = detect(cast("Any", value).unwrap() if kind is Success else value)
    if error is None:
        return value
    if type(error) in KINDS:
        return Failure(error)
    raise TypeError(f"detect= gives a ToolError or None, and not {type(error).__name__}")
