"""Runner: takes one call through the compiled stages.

A call takes one of two ways, and which one is decided once, after its tool is known and before anything else runs::

    call ─▶ resolve first ─▶ does a recorder or the caller want a report?
                                   │no                            │yes
                                   ▼                              ▼
                             other checks                   LiveReport, guards
                                   ▼                              ▼
                           guards ─▶ plain chain           recorded checks ─▶ recorded chain
                                   │                              │
                                   ╰────▶ Success, or `FailureFinisher` ◀────╯

The checks at the front run in the frame of `Runner.run`; the chains are compiled once for each pipeline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from logging import DEBUG
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from weakref import ref

import attrs
from returns.result import Failure, Success

from ...base.event_loops import is_failure_of_body
from ...messages.wording import Wording
from ...privacy import ForeignText, RedactionPolicy
from ...telemetry.listeners import is_enabled_for, observe_flow
from ...tools.definition import Tool
from ...tools.view import ToolView
from ..call import Call, Outcome, ResolvedCall, ValidCall
from ..call_state import CURRENT_CONVERSATION
from ..caller import Origin
from ..errors import Crashed, ToolError
from ..guards import Board, Guards, OneEffect
from ..report import (
    CANCELLED,
    CallReport,
    LiveReport,
    LiveSink,
    Recorder,
    StreamedReport,
    begin_report,
    find_decision,
    kind_of,
)
from ..report.observer import Begin, begin_all
from .deadline import run_within
from .failure_finisher import FailureFinisher
from .order import with_look_up
from .plain_chain import compile_plain
from .promises import Promises, has_check
from .stage import Handler, Stage
from .stage_bugs import explain_verdict, unwrap_call

if TYPE_CHECKING:
    from ...once import Conversation
    from ...once.in_process import Flights
    from .last_failures import LastFailures

_Check: TypeAlias = Callable[[Any], Any]
_BeginTurn: TypeAlias = Callable[[], AbstractContextManager[object] | None]


@attrs.define(eq=False)
class ReportRequest:
    """The caller waits for the report of one call."""

    sink: LiveSink | None = None  # receives the steps of the call while it runs
    report: CallReport | None = None  # once the call has ended


@attrs.frozen
class _Memory:
    """`once.in_process`, which calls of tools that change something ask and tell; loaded before the first one."""

    scope_of: Callable[[Call], Conversation | None]
    run: Callable[..., Awaitable[Outcome]]
    settle: Callable[[Any, OneEffect, Outcome], Awaitable[Outcome]]
    flights: Flights


@attrs.define
class _Recorded:
    """The stages of a call that is recorded, compiled for the first of them: the checks at the front, and the rest."""

    checks: Sequence[Stage]
    inner: Sequence[Stage]
    compiled: tuple[Callable[[Any], Any], Handler[Any]] | None = None

    def compile(self) -> tuple[Callable[[Any], Any], Handler[Any]]:
        from .recorded_chain import compile_recorded, compile_recorded_checks

        self.compiled = made = compile_recorded_checks(self.checks), compile_recorded(self.inner)
        return made


class Runner:
    """The stages, compiled once. See the picture above.

    Args:
        stages: They.
        registries: The registries of their tools.
        wording: How the texts for the model are worded.
        promises: As in `Pipeline`.
        like: One with other words or tools, whose memory is this one's too. Default None: there is none.
    """

    def __init__(
        self,
        stages: tuple[Stage, ...],
        registries: Sequence[ToolView],
        wording: Wording | None,
        promises: Promises,
        like: Runner | None = None,
    ) -> None:
        self.wording = wording
        observers = [stage for stage in stages if stage.role == "observe"]
        # The guards ask a switchboard. It is no stage of the chain.
        board: Board | None = next((stage.obj for stage in stages if stage.placement.closes_tools), None)
        inner = _list_inner(stages)
        leading = next(place for place, stage in enumerate(inner) if stage.role != "check")
        first = inner[0] if leading > 0 and inner[0].finds else None
        checks = inner[0 if first is None else 1 : leading]
        self._leading = inner[:leading]
        self._observe: Begin = promises.observe_with(
            begin_all([each.run for each in observers]) if observers else observe_flow
        )
        self._is_observed = bool(observers or promises.sinks)
        self.begin_turn: _BeginTurn = getattr(observers[0].obj, "begin_turn", _no_turn) if observers else _no_turn
        self._resolver_name = None if first is None else first.name
        self._resolver: _Check = _unchanged if first is None else first.run
        self._checks: tuple[tuple[_Check, str], ...] = tuple((stage.run, stage.name) for stage in checks)
        self._registries = registries
        told = (getattr(stage.obj, "foreign_text", None) for stage in stages if stage.placement.kind == "classify")
        foreign_text: ForeignText = next(filter(None, told), "withhold")
        redact = promises.redact_with(getattr(each.obj, "redact", None) for each in observers)
        self.redaction = RedactionPolicy(registries, redact, foreign_text)
        gates = [stage.obj.registry for stage in stages if stage.placement.kind == "available"]
        # Those of a tool that may call on through its context tell it where the call came from.
        self._guards_with_origin = Guards.of_calls(gates, Origin(ref(self)), board=board)
        # What a person has changed goes through all stages again, so that stage must know them.
        asks = any(stage.placement.kind == "approve" for stage in stages)
        self._guards = self._guards_with_origin if asks else Guards.of_calls(gates, board=board)
        self._has_ledger = any(stage.placement.kind == "ledger" for stage in stages)
        self._find = next((stage.run for stage in stages if stage.role == "check" and stage.finds), None)
        # Both are empty until a call needs one: runners share the lists, and all threads take the first entry.
        self._memories: list[_Memory] = [] if like is None else like._memories  # noqa: SLF001
        self.last_failures: list[LastFailures] = [] if like is None else like.last_failures
        self._finish = FailureFinisher(
            self._leading,
            inner[leading:],
            registries,
            self._find if first is None else None,
            foreign_text,
            wording,
            self.last_failures,
        ).finish
        self._promises = promises
        self._compile(stages)
        if not has_check(stages):
            for registry in registries:
                registry.tell_before_adding(self)

    def _compile(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages
        inner, leading = _list_inner(stages), len(self._leading)
        first = 0 if self._resolver_name is None else 1
        # Each a new object: a call that compiles the old one in another thread must not put it in the new one's place.
        self._recorded = _Recorded(inner[first:leading], inner[leading:])
        self._plain = compile_plain(inner[leading:], self._guards)

    def prepare(self, tool: Tool[..., Any]) -> None:
        """Get ready for a tool that is about to be registered: what it declares of its results is checked."""
        stages = self._promises.complete_later(self.stages, tool)
        if stages is not self.stages:
            self._compile(stages)

    async def run(self, call: Call, request: ReportRequest | None = None) -> Outcome:  # noqa: C901, PLR0912, PLR0915  # one page
        """Run one call. Never raises an Exception; cancellation and KeyboardInterrupt pass through."""
        began = time_ns() if self._is_observed or request is not None or is_enabled_for(DEBUG) else 0
        reached: Any = call  # in the phase that it has reached
        verdict: Any = call
        recorder: Recorder | None = None
        effect: OneEffect | None = None
        outcome: Any  # a bare Crashed: a stage raised
        try:
            if call.report is not None:  # the report of another pipeline, whose stage made this call
                call = reached = call.under(None, call.guards)
            if self.wording is not None and call.wording is not self.wording:
                call = reached = call.worded(self.wording)
            if not call.conversation and (conversation := _current_conversation()):
                call = reached = call.asked_by(conversation=conversation)
            # The tool is found before the recorder is asked: the span of the call has its name from the start. Local
            # names: Python looks for `self._resolver(…)` as a method first, and finds the attribute last.
            resolver, observe, plain = self._resolver, self._observe, self._plain
            tool: Any = None
            try:
                verdict = resolver(call)
            except Exception as exc:  # noqa: BLE001  # caught here, so that the crash of this check is recorded, too
                verdict = Failure(Crashed(exc))
            if type(verdict) is _SUCCESS:
                verdict = unwrap_call(verdict)
            if began:
                resolved_at = time_ns()
                if self._resolver_name is not None and type(verdict) is not _FAILURE:
                    tool = verdict.tool
                recorder = observe(tool, began)
                if request is not None or (recorder is not None and recorder.is_sampled):
                    sink = None if request is None else request.sink
                    times, name = (began, resolved_at), self._resolver_name
                    report = begin_report(call, times, name, verdict, recorder, sink, self.redaction)
                    recorder = None  # the report ends it
                    return await self._run_recorded(report, verdict, request)
            if type(verdict) is _FAILURE:
                return self._finish(call, reached, verdict, None, None, (self._leading[0].name, ""))
            for check, name in self._checks:
                reached = verdict
                verdict = check(reached)
                if type(verdict) is _FAILURE:
                    return self._finish(call, reached, verdict, None, None, (name, ""))
                if type(verdict) is _SUCCESS:
                    verdict = unwrap_call(verdict)
            reached = verdict
            if type(verdict) is not _VALID_CALL or verdict is call:
                guards, effect = self._make_guards(call, verdict)
                reached = verdict.under(None, guards)
            elif (tool := verdict.tool).effect == "read" and not tool.context and call.guards is None:
                verdict.guards = self._guards  # a check made it for this call, so nothing else holds it
            else:
                verdict.guards, effect = self._make_guards(call, verdict)
            once = effect if effect is not None and self._remembers(call) else None
            if once is None and call.timeout is None:
                outcome = await plain(reached)
            else:
                outcome = await self._run_chain(call, reached, once, plain)
            if type(outcome) is not _SUCCESS and effect is not None and effect.undecided:
                outcome = await self._find_memory().settle(reached, effect, outcome)
        except BaseException as exc:  # noqa: BLE001  # a bug in a stage must not end the agent's run
            if effect is not None:
                effect.close()
            outcome = _read_raise(exc, self._leading, verdict)
        finally:
            if recorder is not None:  # sampled out: what ran inside has inherited the decision
                recorder.call_ends(None, None)
        if type(outcome) is _SUCCESS:
            if self.last_failures and call.conversation:
                self.last_failures[0].forget(call, reached)
            success: Outcome = outcome  # a cast is a call
            return success
        return self._finish(call, reached, outcome, effect)

    async def refuse(self, call: Call, error: ToolError, request: ReportRequest | None = None) -> Outcome:
        """Answer a call that cannot run, for the pipeline does not open; it is recorded as any other."""
        verdict: Any = Failure(error)
        began = time_ns()
        recorder = self._observe(None, began) if isinstance(cast("object", call), Call) else None
        if request is not None or (recorder is not None and recorder.is_sampled):
            sink = None if request is None else request.sink
            report = begin_report(call, (began, began), None, verdict, recorder, sink, self.redaction)
            return await self._run_recorded(report, verdict, request)
        if recorder is not None:
            recorder.call_ends(None, None)
        return self._finish(call, call, verdict)

    async def _run_recorded(self, report: LiveReport, verdict: Any, request: ReportRequest | None) -> Outcome:
        """Run the rest of a call with a report."""
        call = report.call
        reached: Any = call
        effect: OneEffect | None = None
        outcome: Any = _CANCELLED
        try:
            if type(verdict) is _FAILURE:
                outcome = verdict
            else:
                guards, effect = self._make_guards(call, verdict)
                reached = verdict.under(report, guards)
                recorded = self._recorded
                checks, chain = recorded.compiled or recorded.compile()
                checked = checks(reached)
                if not isinstance(checked, _CALL):
                    outcome = checked
                else:
                    once = effect if effect is not None and self._remembers(call) else None
                    outcome = await self._run_chain(call, checked, once, chain)
                if type(outcome) is not _SUCCESS and effect is not None and effect.undecided:
                    outcome = await self._find_memory().settle(checked, effect, outcome)
        except BaseException as exc:  # noqa: BLE001  # as in run; the checks but the first are in the chain here
            if effect is not None:
                effect.close()
            outcome = _read_raise(exc, self._leading[:1], verdict)
        finally:  # a cancelled call is recorded too, though it has no outcome
            if self.last_failures and call.conversation and outcome is not _CANCELLED:
                report.answers = self.last_failures[0].find_failure(call, reached)
                if type(outcome) is _SUCCESS:
                    self.last_failures[0].forget(call, reached)
            if outcome is not _CANCELLED and type(outcome) is not _SUCCESS:  # in the span, for the log's trace ids
                row = find_decision(report.rows, kind_of(outcome) if type(outcome) is _FAILURE else _INTERNAL)
                decision = ("", "") if row is None else (row[0], row[5])
                outcome = self._finish(call, reached, outcome, effect, report.params, decision)
            _end_report(report, outcome)
        if request is not None:
            request.report = report.copy()
        report.outcome = None  # the traceback of a cause holds the call, which would hold the cause
        return cast("Outcome", outcome)

    def _make_guards(self, call: Call, reached: Any) -> tuple[Guards, OneEffect | None]:
        """The guards of the call, inside of those that its caller has put on it; and the one of its effect, if any."""
        tool: Tool[..., Any] | None = reached.tool if isinstance(reached, ResolvedCall) else None
        may_call = tool is None or tool.context  # only a ToolContext shows a tool its caller
        guards = self._guards_with_origin if may_call else self._guards
        if call.guards is not None:
            guards = Guards.of(*guards.each, outer=call.guards)
        if tool is not None and tool.effect == "read":
            return guards, None
        if not self._memories:
            self._find_memory()  # before the body: after it, a file that cannot be opened would lose an outcome
        effect = OneEffect(tool)
        return guards.add(effect), effect

    def _remembers(self, call: Call) -> bool:
        """Whether the intent of a call is remembered: it is of a conversation, of a turn, or of a known reply."""
        if self._has_ledger:  # which knows all of this, and what other processes did
            return False
        if call.conversation or call.reply:
            return True
        return call.guards is not None and self._find_memory().scope_of(call) is not None

    def _run_chain(self, call: Call, reached: Any, once: OneEffect | None, chain: Handler[Any]) -> Awaitable[Outcome]:
        """Run the chain: once for an intent whose effect is given, and within the time of the call if it has one."""
        if once is not None:
            memory = self._find_memory()
            if call.timeout is None:
                return memory.run(reached, once, chain, memory.flights)
            chain = partial(memory.run, effect=once, inside=chain, flights=memory.flights)
        return chain(reached) if call.timeout is None else run_within(call.timeout, reached, chain)

    def _find_memory(self) -> _Memory:
        if not self._memories:
            from ...once.in_process import Flights, find_scope, once_per_intent, settle_lost

            self._memories.append(_Memory(find_scope, once_per_intent, settle_lost, Flights()))
        return self._memories[0]

    def resolve(self, call: Call, /) -> ResolvedCall | Failure[Any] | None:
        """As `Pipeline.resolve`."""
        if self._find is None:
            return None
        return cast("ResolvedCall | Failure[Any]", unwrap_call(self._find(call)))

    def find(self, name: object, /) -> Tool[..., Any] | None:
        """As `Pipeline.find`."""
        if isinstance(name, str):
            for registry in self._registries:
                if (tool := registry.tools.get(name)) is not None:
                    return tool
        return None


def _list_inner(stages: Sequence[Stage]) -> Sequence[Stage]:
    """The stages that are a step of a call, as they run."""
    return with_look_up([stage for stage in stages if stage.role != "observe" and not stage.placement.closes_tools])


def _read_raise(exc: BaseException, checks: Sequence[Stage], verdict: object) -> Crashed:
    """Make a Crashed of an exception that a stage raised; called while it is handled.

    Raises:
        BaseException: It is no failure of this call, such as the cancellation of the caller: it passes.
    """
    if isinstance(exc, Exception):
        return Crashed(explain_verdict(checks, verdict) or exc)
    if is_failure_of_body(exc):
        return Crashed(exc)
    raise exc


def _end_report(report: LiveReport, outcome: Any) -> None:
    kind: str | None = CANCELLED
    if outcome is not _CANCELLED:
        kind = kind_of(outcome)
        report.outcome = outcome
    report.ended = perf_counter_ns()
    if report.recorder is not None:
        report.recorder.call_ends(report, kind)
    if type(report) is StreamedReport:
        report.end_stream()


_current_conversation = CURRENT_CONVERSATION.get  # bound once, and not for each call


def _no_turn() -> None:
    return None


def _unchanged(call: Any) -> Any:
    return call


# By these names a type checker does not narrow a value of any type to one of unknown things.
_FAILURE: Any = Failure
_SUCCESS: Any = Success
_CALL: Any = Call
_VALID_CALL: Any = ValidCall
_INTERNAL = Crashed.kind  # of an answer that is no outcome
_CANCELLED = object()  # None would do as well for an outcome: a stage with a bug may return it
