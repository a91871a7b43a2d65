"""Promises: what a pipeline does with each record of a call, whichever observer stands outermost, and if none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
from opentelemetry.context import get_current
from returns.result import Failure

from ...base.semconv import SUPPRESS
from ...base.setup_error import SetupError
from ...privacy import approved
from ...telemetry.listeners import FanOutRecorder, Sink
from ...tools.definition import Tool
from ..call import Call, Outcome
from ..errors import NeedsSetup
from ..report import Recorder
from ..report.observer import Begin
from .stage import Handler, Middleware, Placement, Stage
from .stage_list import make_stage

if TYPE_CHECKING:
    from ...privacy import Redact

CHECKS_RESULTS: Final = "check_result"  # the kind of the stage
LACKS_CHECK: Final = (
    "`ensure` needs the stage CheckResult, which the pipeline lacks; put it in: .after('retry', CheckResult())"
)


@attrs.frozen
class Promises:
    """They belong to the pipeline and not to a stage, so no edit of a stage takes them away.

    Attributes:
        redact: Changes each value that is to be recorded, before the observer's own ``redact`` does. None: none.
        sinks: Functions that get the report of every call, such as a `Journal`, beside those of the observer.
        check_results: Makes the stage that checks results, for a pipeline that has none, once a tool declares what its
            results are. None: no such stage is added.
        sources: What adds a stage, by the stage's name, for the error about one that is not there. Empty: not known.
    """

    redact: Redact | None = None
    sinks: tuple[Sink, ...] = ()
    check_results: Callable[[], Middleware[Any, Any]] | None = None
    sources: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False, eq=False)

    def complete(self, stages: tuple[Stage, ...], tools: Iterable[Tool[..., Any]]) -> tuple[Stage, ...]:
        """The stages of a pipeline, with one that checks results if these tools ask for it and it has none."""
        if any(tool.says_results for tool in tools) and self.check_results is not None and not has_check(stages):
            return _put_in(stages, make_stage(self.check_results(), "wrap"))
        return stages

    def complete_later(self, stages: tuple[Stage, ...], tool: Tool[..., Any]) -> tuple[Stage, ...]:
        """As `complete`, for a tool that is registered when the pipeline runs; nothing may be raised then.

        Without the promise a tool with ``ensure=`` does not run: its calls are NeedsSetup, as such a tool is a
        SetupError when a pipeline is built.
        """
        if self.check_results is not None or tool.ensure is None or has_check(stages):
            return self.complete(stages, (tool,))
        return _put_in(stages, make_stage(_Refusing(), "wrap"))

    def without_check(self) -> Promises:
        """The promises of a pipeline whose author took the stage that checks results out."""
        return attrs.evolve(self, check_results=None)

    @property
    def resources(self) -> tuple[Any, ...]:
        """The sinks that are opened and closed with the pipeline."""
        return tuple(sink for sink in self.sinks if hasattr(type(sink), "__aenter__"))

    def redact_with(self, own: Iterable[Redact | None]) -> Redact | None:
        """Redact as promised, then as the observers' own hooks say; None if nothing does."""
        every = tuple(dict.fromkeys(hook for hook in (self.redact, *own) if hook is not None))
        if len(every) < 2:  # noqa: PLR2004
            return every[0] if every else None

        def redact(path: str, value: object) -> object:
            for hook in every:
                value = hook(path, value)
            return value

        return redact

    def observe_with(self, begin: Begin) -> Begin:
        """The ``begin`` of an observer, whose recorder gives the report to the promised sinks too."""
        sinks = self.sinks
        if not sinks:
            return begin

        def begin_for_all(tool: Tool[..., Any] | None, started: int) -> Recorder | None:
            recorder = begin(tool, started)
            if recorder is None and get_current().get(SUPPRESS):
                return None
            return FanOutRecorder(recorder, tool, None, sinks, getattr(recorder, "live_sinks", ()))

        return begin_for_all


def has_check(stages: Iterable[Stage]) -> bool:
    """Whether one of the stages checks results."""
    return any(stage.placement.kind == CHECKS_RESULTS for stage in stages)


def _put_in(stages: tuple[Stage, ...], added: Stage) -> tuple[Stage, ...]:
    """Put a middleware as far outside as it may stand: inside of the checks, of retry, and of what it names."""
    outside = [
        place
        for place, stage in enumerate(stages)
        if stage.role in ("observe", "check")
        or stage.placement.repeats
        or stage.placement.kind in added.placement.inside_of
    ]
    place = outside[-1] + 1 if outside else 0
    return (*stages[:place], added, *stages[place:])


class _Refusing:
    """The middleware of a pipeline that would not ask the ``ensure`` of a tool: such a tool does not run."""

    placement = Placement(kind=CHECKS_RESULTS, runs_body=False)

    async def __call__(self, call: Call, call_next: Handler[Call]) -> Outcome:
        tool = cast("Tool[..., Any] | None", getattr(call, "tool", None))
        if tool is None or tool.ensure is None:
            return await call_next(call)
        return Failure(NeedsSetup(approved("This tool"), cause=SetupError(f"tool {tool.name!r}: {LACKS_CHECK}")))
