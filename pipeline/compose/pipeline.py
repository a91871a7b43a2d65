"""Stack composes stages, Pipeline runs them: a call in, as the model wrote it, and an Outcome out, always."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from time import perf_counter_ns, time_ns
from typing import Any, ParamSpec, TypeVar, cast

import attrs
from returns.result import Failure, Success

from ..call import Call, Outcome, ResolvedCall
from ..errors import KINDS, Crashed, OutcomeUnknown, SetupError, TimedOut, Transient
from ..introspection import named
from ..report import CANCELLED, CallReport, Recorder, error_of, kind_of
from ..telemetry.logs import log_failure
from ..time_limit import Marker
from ..tools.definition import Tool
from ..tools.registry import ToolRegistry
from .chain import Watch, bare, unless_landed, watched
from .deadline import within
from .description import describe
from .stage import Editable, Handler, Stage, ordered

P = ParamSpec("P")
T = TypeVar("T")


class Pipeline(Editable):
    """Compiled once. Never raises, but for what is no Exception: cancellation passes untouched."""

    def __init__(self, parts: tuple[Stage, ...]) -> None:
        self.parts = ordered(parts)
        self._begin: Callable[[Tool[..., Any] | None, int], Recorder | None] = (
            parts[0].run if parts[0].role == "observe" else _nobody
        )
        inner = [part for part in parts if part.role != "observe"]
        leading = next(place for place, part in enumerate(inner) if part.role != "check")
        # A stack that begins with its Resolve knows the tool before anybody is asked whether the call is recorded.
        first = int(leading > 0 and issubclass(inner[0].phases()[1], ResolvedCall))
        self._finder: str | None = inner[0].name if first else None
        self._find: Callable[[Any], Any] = inner[0].run if first else _unchanged
        self._others: tuple[Callable[[Any], Any], ...] = tuple(part.run for part in inner[first:leading])
        self._checks = (self._find, *self._others) if first else self._others
        self._bare = bare(inner[leading:])
        self._watched = watched(inner[first:])
        found = (part.it.registry for part in parts if part.placement.owns_registry)
        self._registries = [registry for registry in found if isinstance(registry, ToolRegistry)]
        self._run = self._alone if self._begin is _nobody else self._observed
        refuses: Callable[[Tool[..., Any]], str | None] = getattr(parts[-1].it, "refuses", _nothing)
        for why in (refuses(tool) for registry in self._registries for tool in registry):
            if why is not None:
                raise SetupError(why)

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of its stages, outermost first."""
        return tuple(part.name for part in self.parts)

    def tool_of(self, name: object) -> Tool[..., Any] | None:
        """The tool that has exactly that name in one of its registries, if one has."""
        found = (registry.tools.get(name) for registry in self._registries if isinstance(name, str))
        return next((tool for tool in found if tool is not None), None)

    def describe(self) -> str:
        """The stages, outermost first, one line each, with the reason why it stands where it does."""
        return describe(self.parts)

    def __repr__(self) -> str:
        return f"<Pipeline {' > '.join(self.stages)}>"

    def __call__(self, call: Call, /) -> Coroutine[Any, Any, Outcome]:
        """Run one call."""
        return self._run(call)

    def call(
        self,
        name: str,
        arguments: Mapping[str, object] | str | None = None,
        *,
        id: str = "",  # noqa: A002  # the providers' word
        principal: str = "",
        deps: object = None,
        finish_reason: str | None = None,
        timeout: float | None = None,  # a field of the call
    ) -> Coroutine[Any, Any, Outcome]:
        """Run one call, as the model wrote it; the fields are those of `Call`."""
        return self._run(Call(name, arguments, id, principal, deps, finish_reason, timeout))

    def run(self, tool: Tool[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Outcome[T]]:
        """Run one of our own tools with arguments that the type checkers have seen.

        Raises SetupError unless a registry of this pipeline holds this very tool under its name.
        """
        held = (registry.tools.get(tool.name) is tool for registry in self._registries)
        if self._registries and not any(held):
            raise SetupError(f"{tool.name!r} ({tool.origin}) is not the tool of that name in this pipeline's registry")
        try:
            arguments = named(tool.fn, int(tool.context), args, kwargs)
        except TypeError as exc:
            raise SetupError(f"{tool.name}: {exc}") from exc
        return cast("Coroutine[Any, Any, Outcome[T]]", self._run(Call(tool.name, arguments)))

    async def report(self, call: Call, /) -> CallReport:
        """Run one call and tell all that happened to it; it is traced as well."""
        wanted: list[CallReport] = []
        outcome = await self._observed(call, wanted)
        return wanted[0] if wanted else CallReport(call, outcome=outcome)  # a bug before there was any stage to tell of

    async def _alone(self, call: Call) -> Outcome:
        moving: Any = call
        try:
            for check in self._checks:
                verdict = check(moving)
                if type(verdict) is Failure:
                    return self._failed(call, moving, verdict)
                moving = verdict
            outcome = await (self._bare(moving) if call.timeout is None else _limited(call, moving, self._bare))
        except Exception as exc:  # noqa: BLE001  # a bug in a stage must not take the agent down
            outcome = Failure(Crashed(exc))
        return outcome if type(outcome) is Success else self._failed(call, moving, outcome)

    async def _observed(self, call: Call, wanted: list[CallReport] | None = None) -> Outcome:
        # The call span has the resolved name, for samplers, and the call's own earlier start: so the clock is read
        # before anybody knows whether it matters, by the wall, since only a recorded call pays for an anchor.
        moving: Any = call
        recorder: Recorder | None = None
        began = time_ns()
        try:
            verdict = self._find(call)
        except Exception as exc:  # noqa: BLE001  # see _alone
            verdict = Failure(Crashed(exc))
        found = time_ns()
        try:
            refusal: Outcome | None = None
            if type(verdict) is Failure:
                refusal = cast("Outcome", verdict)
                recorder = self._begin(None, began)
            else:
                moving = verdict
                recorder = self._begin(moving.tool if self._finder is not None else None, began)
            if wanted is not None or (recorder is not None and recorder.recording):
                live, recorder = recorder, None
                watch = _begin(call, moving, self._finder, (began, found), live, refusal)
                told = await self._watch(watch, moving, refusal)
                if wanted is not None:
                    wanted.append(watch.finished())
                watch.outcome = None  # or a cause's traceback, whose frames hold the call, would keep itself alive
                return told
            if refusal is not None:
                return self._failed(call, call, refusal)
            for check in self._others:
                verdict = check(moving)
                if type(verdict) is Failure:
                    return self._failed(call, moving, verdict)
                moving = verdict
            outcome = await (self._bare(moving) if call.timeout is None else _limited(call, moving, self._bare))
            return outcome if type(outcome) is Success else self._failed(call, moving, outcome)
        except Exception as exc:  # noqa: BLE001  # see _alone
            return self._failed(call, moving, Failure(Crashed(exc)))
        finally:
            if recorder is not None:  # sampled out: what ran inside inherited the decision
                recorder.call_ends(None, None)

    async def _watch(self, watch: Watch, moving: Any, refusal: Any) -> Outcome:
        """The rest of a call that somebody listens to."""
        call, outcome = watch.call, cast("Any", _UNANSWERED)
        try:
            if refusal is not None:
                outcome = refusal
            else:
                moving = moving.riding(watch, moving.marker)
                inside = self._watched(moving) if call.timeout is None else _limited(call, moving, self._watched)
                outcome = await inside
        except Exception as exc:  # noqa: BLE001  # see _alone
            outcome = Failure(Crashed(exc))
        finally:  # a cancelled call is part of the story too, though nothing comes out of it
            kind: str | None = CANCELLED
            if outcome is not _UNANSWERED:
                if type(outcome) is not Success:  # under the span's context, for the log's trace ids
                    outcome = self._failed(call, moving, outcome, watch.tool)
                kind = kind_of(cast("object", outcome))
                watch.outcome = outcome
            watch.ended = perf_counter_ns()
            if watch.recorder is not None:
                watch.recorder.call_ends(watch, kind)
        return cast("Outcome", outcome)

    def _failed(self, call: Call, moving: Any, outcome: Any, tool: Tool[..., Any] | None = None) -> Outcome:
        """The last word on what did not succeed: no stage's bug, and no lost side effect, leaves as anything else.

        Retry says the same of what it sees; here it is said for stacks without one, and for the limit around all.
        """
        if isinstance(moving, ResolvedCall):
            tool = moving.tool
        error: Any = error_of(outcome)
        if type(error) not in KINDS:
            error = Crashed(TypeError(f"a stage answered with {type(error or outcome).__name__}, which is no Outcome"))
            outcome = Failure(error)
        elif tool is not None and (type(error) is Transient or type(error) is TimedOut):
            outcome = unless_landed(outcome, tool)
        if type(error) is not Crashed and (error := error_of(outcome)) and type(error) is OutcomeUnknown:
            outcome = Failure(error := self._verifiable(error))
        try:  # noqa: SIM105  # suppress() costs a failed call 200 ns more
            log_failure(call, tool.name if tool is not None else None, error)
        except Exception:  # noqa: BLE001, S110  # a log filter that fails is no reason to lose an outcome
            pass
        return cast("Outcome", outcome)

    def _verifiable(self, error: OutcomeUnknown) -> OutcomeUnknown:
        """Without the tool to check with, where the model may not call that now."""
        name = error.verify_with
        closed = any(name not in registry or name in registry.closed for registry in self._registries)
        return attrs.evolve(error, verify_with=None) if name is not None and closed else error


_UNANSWERED = object()  # None is an answer, and a bug of the stage that gave it


async def _limited(call: Call, moving: Any, handler: Handler[Any]) -> Outcome:
    """The inside, within the call's own time."""
    marker = Marker(call.marker)
    outcome = await within(call.timeout or 0.0, moving, handler, marker)
    return outcome if marker.tool is None else unless_landed(outcome, marker.tool)


def _nobody(tool: Tool[..., Any] | None, started: int) -> None:
    """The observer of a stack without one."""


def _nothing(tool: Tool[..., Any]) -> None:
    """What an end has against a tool that runs all of them."""


def _unchanged(call: Call) -> Call:
    return call


def _begin(
    call: Call, last: Any, finder: str | None, times: tuple[int, int], recorder: Recorder | None, refusal: Any
) -> Watch:
    """The report of a call whose tool has been looked for, with those times moved to the monotonic clock."""
    now = perf_counter_ns()
    recording = recorder is not None and recorder.recording
    offset = recorder.offset if recorder is not None and recording else time_ns() - now
    began, found = min(times[0] - offset, now), min(times[1] - offset, now)
    watch = Watch(call, None, began, 0, times[0], recorder=recorder)
    if isinstance(last, ResolvedCall):
        watch.tool, watch.repairs = last.tool, last.repairs
    if finder is not None:
        watch.mark(finder, began, max(began, found), kind_of(refusal))
    return watch
