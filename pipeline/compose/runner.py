"""Runner: takes one call through the compiled stages; `LastWord` says what a failed one ends in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from logging import DEBUG
from time import perf_counter_ns, time_ns
from typing import Any, TypeAlias, cast
from weakref import ref

import attrs
from returns.result import Failure, Success

from ..call import Call, Outcome, ResolvedCall, ValidCall
from ..caller import Origin
from ..errors import Crashed
from ..event_loops import is_stray_cancellation
from ..guards import Guards, OneEffect, OpenTools
from ..recordable import Recording
from ..report import CANCELLED, CallReport, LiveReport, LiveSink, Recorder, StreamedReport, begin_report, kind_of
from ..telemetry.listeners import is_enabled_for, observe_flow
from ..tools.definition import Tool
from ..tools.view import ToolView
from .deadline import run_within
from .last_word import LastWord
from .mistakes import explain_verdict
from .plain_chain import compile_plain, compile_reads
from .recorded_chain import compile_recorded, compile_recorded_checks
from .stage import Stage

_Check: TypeAlias = Callable[[Any], Any]
_Observe: TypeAlias = Callable[[Tool[..., Any] | None, int], Recorder | None]
_BeginTurn: TypeAlias = Callable[[], AbstractContextManager[object] | None]


@attrs.define(eq=False)
class ReportRequest:
    """Somebody waits for the report of one call.

    Args:
        sink: Hears of the call while it runs. None: nobody does.
    """

    sink: LiveSink | None = None
    report: CallReport | None = None  # once the call has ended


class Runner:
    """The stages, compiled once.

    The checks at the front run in the frame of `run`. If the first of them finds the tool, it runs before anybody is
    asked whether the call is recorded: the span of the call then has the tool's name from its start.
    """

    def __init__(self, stages: Sequence[Stage], registries: Sequence[ToolView]) -> None:
        observers = [stage for stage in stages if stage.role == "observe"]
        inner = [stage for stage in stages if stage.role != "observe"]
        leading = next(place for place, stage in enumerate(inner) if stage.role != "check")
        first = inner[0] if leading > 0 and inner[0].finds else None
        checks = inner[0 if first is None else 1 : leading]
        self._leading = inner[:leading]
        self._observe: _Observe | None = observers[0].run if observers else None
        self.begin_turn: _BeginTurn = getattr(observers[0].obj, "begin_turn", _no_turn) if observers else _no_turn
        self._finder_name = None if first is None else first.name
        self._find: _Check = _unchanged if first is None else first.run
        self._checks: tuple[_Check, ...] = tuple(stage.run for stage in checks)
        self._registries = registries
        self.recording = Recording(registries, getattr(observers[0].obj, "redact", None) if observers else None)
        gates = [stage.obj.registry for stage in stages if stage.placement.kind == "available"]
        self._gate = (OpenTools(gates),) if gates else ()
        self._guards_of_reads = Guards.of_reads(gates)
        self._origin = Origin(ref(self))
        self._finding = next((stage.run for stage in stages if stage.role == "check" and stage.finds), None)
        answering = [stage for stage in inner[leading:] if not stage.placement.marks] or inner[leading:]
        find_behind = self._finding if first is None else None
        self._finish = LastWord(self._leading, answering, registries, find_behind).say
        self._check_recorded = compile_recorded_checks(checks)
        self._recorded = compile_recorded(inner[leading:])
        self._plain = compile_plain(inner[leading:], self._guards_of_reads)
        self._reads = compile_reads(inner[leading:], self._guards_of_reads)

    async def run(self, call: Call, listening: ReportRequest | None = None) -> Outcome:  # noqa: C901, PLR0912, PLR0915  # one frame
        """Run one call. Never raises, except what is no Exception: cancellation passes through.

        ``listening``, if given, receives the report of the call.
        """
        began = time_ns() if self._observe is not None or listening is not None or is_enabled_for(DEBUG) else 0
        current: Any = call  # in the phase that it has reached
        recorder: Recorder | None = None
        effect: OneEffect | None = None
        outcome: Any  # Crashed: a stage raised
        verdict: Any = call
        try:
            if call.report is not None:  # that of another pipeline, whose stage made this call
                call = current = call.under(None, call.guards)
            try:
                verdict = self._find(call)
            except Exception as exc:  # noqa: BLE001  # caught here, so that the crash of this check is recorded, too
                verdict = Failure(Crashed(exc))
            if began:
                found = time_ns()
                resolved = self._finder_name is not None and type(verdict) is not _FAILURE
                recorder = (self._observe or observe_flow)(verdict.tool if resolved else None, began)
                if listening is not None or (recorder is not None and recorder.is_sampled):
                    live, recorder = recorder, None
                    sink = None if listening is None else listening.sink
                    report = begin_report(call, (began, found), self._finder_name, verdict, live, sink, self.recording)
                    return await self._run_recorded(report, verdict, listening)
            for check in self._checks:
                if type(verdict) is _FAILURE:
                    return self._finish(call, current, verdict)
                current = verdict
                verdict = check(current)
            if type(verdict) is _FAILURE:
                return self._finish(call, current, verdict)
            current = verdict
            handle = self._plain
            if type(verdict) is _VALID_CALL:  # a check made it for this call, so nobody else has it
                tool = current.tool
                if tool.context or call.guards is not None:
                    current.guards, effect = self._make_guards(call, current)
                elif tool.effect == "read":
                    current.guards, handle = self._guards_of_reads, self._reads
                else:
                    effect = OneEffect(tool)
                    current.guards = self._guards_of_reads.with_effect(effect)
            else:
                guards, effect = self._make_guards(call, current)
                current = current.under(current.report, guards)
            if call.timeout is None:
                outcome = await handle(current)
            else:
                outcome = await run_within(call.timeout, current, handle)
        except Exception as exc:  # noqa: BLE001  # a bug in a stage must not end the agent's run
            outcome = Crashed(explain_verdict(self._leading, verdict) or exc)
        except BaseException as exc:
            if not is_stray_cancellation(exc):
                raise
            outcome = Crashed(exc)
        finally:
            if recorder is not None:  # sampled out: what ran inside has inherited the decision
                recorder.call_ends(None, None)
        if type(outcome) is _SUCCESS:
            success: Outcome = outcome  # a cast is a call
            return success
        return self._finish(call, current, outcome, effect)

    async def _run_recorded(  # noqa: C901, PLR0912, PLR0915  # one frame
        self, report: LiveReport, verdict: Any, listening: ReportRequest | None
    ) -> Outcome:
        """The rest of a call that somebody listens to."""
        call = report.call
        effect: OneEffect | None = None
        current: Any = call
        outcome: Any = _CANCELLED
        try:
            if type(verdict) is _FAILURE:
                outcome = verdict
            else:
                if type(verdict) is _RESOLVED_CALL and verdict is not call:  # a check made it, so nobody else has it
                    current, tool = verdict, verdict.tool
                    current.report = report
                    if tool.effect == "read" and not tool.context and call.guards is None:
                        current.guards = self._guards_of_reads
                    else:
                        current.guards, effect = self._make_guards(call, verdict)
                else:
                    guards, effect = self._make_guards(call, verdict)
                    current = verdict.under(report, guards)
                checked = self._check_recorded(current)
                if not isinstance(checked, _CALL):
                    outcome = checked
                elif call.timeout is None:
                    outcome = await self._recorded(checked)
                else:
                    outcome = await run_within(call.timeout, checked, self._recorded)
        except Exception as exc:  # noqa: BLE001  # see run
            outcome = Crashed(
                explain_verdict(self._leading[:1], cast("object", verdict)) or exc
            )  # here the others are in the chain
        except BaseException as exc:
            if not is_stray_cancellation(exc):
                raise
            outcome = Crashed(exc)
        finally:  # a cancelled call is recorded too, though it has no outcome
            kind: str | None = None
            if outcome is _CANCELLED:
                kind = CANCELLED
            else:
                if type(outcome) is not _SUCCESS:  # inside the context of the span, for the log's trace ids
                    outcome = self._finish(call, current, outcome, effect, report.params)
                    kind = kind_of(outcome)
                report.outcome = outcome
            report.ended = perf_counter_ns()
            if report.recorder is not None:
                report.recorder.call_ends(report, kind)
            if type(report) is StreamedReport:
                report.end_stream()
        if listening is not None:
            listening.report = report.copy()
        report.outcome = None  # the traceback of a cause holds the call, which would hold the cause
        answer: Outcome = outcome  # a cast is a call
        return answer

    def _make_guards(self, call: Call, current: Any) -> tuple[Guards, OneEffect | None]:
        """What may keep the body from beginning, around it what the caller's call has already."""
        tool: Tool[..., Any] | None = current.tool if isinstance(current, ResolvedCall) else None
        may_call = tool is None or tool.context  # only a ToolContext shows a tool its caller
        if tool is not None and tool.effect == "read":
            if call.guards is None and not may_call:
                return self._guards_of_reads, None
            return Guards.of(*((self._origin,) if may_call else ()), *self._gate, outer=call.guards), None
        effect = OneEffect(tool)
        if may_call:
            return Guards.of(self._origin, *self._gate, effect, outer=call.guards), effect
        if call.guards is None:
            return self._guards_of_reads.with_effect(effect), effect
        return Guards.of(*self._gate, effect, outer=call.guards), effect

    def resolve(self, call: Call, /) -> ResolvedCall | Failure[Any] | None:
        """As `Pipeline.resolve`."""
        return None if self._finding is None else cast("ResolvedCall | Failure[Any]", self._finding(call))

    def find(self, name: object, /) -> Tool[..., Any] | None:
        """As `Pipeline.find`."""
        found = (registry.tools.get(name) for registry in self._registries if isinstance(name, str))
        return next((tool for tool in found if tool is not None), None)


def _no_turn() -> None:
    return None


def _unchanged(call: Any) -> Any:
    return call


# By these names a type checker does not narrow a value of any type to one of unknown things.
_FAILURE: Any = Failure
_SUCCESS: Any = Success
_CALL: Any = Call
_RESOLVED_CALL: Any = ResolvedCall
_VALID_CALL: Any = ValidCall
_CANCELLED = object()  # None would do as well for an outcome: a stage with a bug may return it
