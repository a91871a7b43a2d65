"""Compiles the stages of a pipeline into one handler, twice: plain, and recorded with a report of every stage."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, cast

from returns.result import Failure, Success

from ..call import Call, Outcome
from ..errors import Landed
from ..guards import Guards, landed_of, run_inside
from ..report import CANCELLED, LiveReport, error_of, kind_of
from .guarded_stage import guard_stage
from .mistakes import check_answer, check_verdict
from .stage import Handler, Stage

# By these names a type checker does not narrow a value of any type to one of unknown things.
_FAILURE: Any = Failure
_SUCCESS: Any = Success
_CALL: Any = Call
_LONG_WAIT = 1_000_000  # ns; a middleware that worked longer than this before it called on is shown with that part


def compile_plain(stages: Sequence[Stage], guards_of_reads: Guards) -> Handler[Any]:
    """The chain for a call that nobody listens to: no clock, no report, and no frame but the middlewares' own."""
    handler = _end(stages[-1])
    if len(stages) > 1 and not stages[-2].placement.marks:
        handler = _restore_guards(handler, guards_of_reads)
    for stage in reversed(stages[:-1]):
        is_check = stage.role == "check"
        handler = _plain_check(stage, handler) if is_check else _plain_wrap(stage, handler, guards_of_reads)
    return handler


def _end(stage: Stage) -> Handler[Any]:
    """The end of the chain. One that does not say when a body begins counts as having begun when it is entered."""
    run: Handler[Any] = stage.run
    if stage.placement.marks:
        return run

    async def count(call: Any) -> Outcome:
        return await run_inside(run, call, marks=False)

    return count


def _restore_guards(inner: Handler[Any], guards_of_reads: Guards) -> Handler[Any]:
    """The end, right inside of a stage that may make a call of a read itself; others keep theirs by `guard_stage`."""

    def handle(call: Any) -> Any:
        return inner(call if call.guards is not None else call.under(call.report, guards_of_reads))

    return handle


def _plain_check(stage: Stage, inner: Handler[Any]) -> Handler[Any]:
    check, finds = stage.run, stage.finds

    async def handle(call: Call) -> Outcome:
        verdict = check(call)
        if not isinstance(verdict, _CALL):
            check_verdict(stage, verdict)
            return cast("Outcome", verdict)
        if finds and call.guards is not None:
            call.guards.find(verdict.tool)
        return await inner(verdict)

    return handle


def _plain_wrap(stage: Stage, inner: Handler[Any], guards_of_reads: Guards) -> Handler[Any]:
    middleware, guarded = stage.run, guard_stage(stage)

    def handle(call: Call) -> Any:  # returns the middleware's own coroutine
        guards = call.guards
        if guards is None:  # a stage made this call of a read itself
            guards = guards_of_reads
            call = call.under(call.report, guards)
        if guards.lock is None:
            return middleware(call, inner)
        return guarded(call, inner)

    return handle


def compile_recorded(stages: Sequence[Stage]) -> Handler[Any]:
    """The chain for a call with a report.

    An attempt goes around what a repeating stage repeats or, without such a stage, around the end.
    """
    repeating = next((stage for stage in stages if stage.placement.repeats), None)
    handler = _recorded_end(stages[-1])
    if repeating is None:
        handler = _recorded_attempt(handler)
    for stage in reversed(stages[:-1]):
        if stage is repeating:
            handler = _recorded_attempt(handler)
        handler = _recorded_check(stage, handler) if stage.role == "check" else _recorded_wrap(stage, handler)
    return handler


def _recorded_end(stage: Stage) -> Handler[Any]:
    name, obj, run = stage.name, stage.obj, _end(stage)

    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        report.landed = "maybe"
        began = perf_counter_ns()
        verdict: str | None = CANCELLED
        try:
            outcome: Outcome = await run(call)
            if type(outcome) is _SUCCESS:
                verdict = None
            else:
                check_answer(stage, outcome)
                verdict = kind_of(outcome)
            report.landed = landed_of(outcome)
            return outcome
        except Exception as exc:
            verdict = None if report.let_pass(exc) else "internal"
            raise
        finally:  # a cancelled stage is recorded too
            report.add_stage(name, began, perf_counter_ns(), verdict, report.take_note(obj) if report.notes else "")

    return handle


def _recorded_check(stage: Stage, inner: Handler[Any]) -> Handler[Any]:
    name, obj, check, finds = stage.name, stage.obj, stage.run, stage.finds

    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        began = perf_counter_ns()
        kind: str | None = "internal"
        try:
            verdict = check(call)
            if not isinstance(verdict, _CALL):
                check_verdict(stage, verdict)
            kind = kind_of(verdict) if type(verdict) is _FAILURE else None
        except Exception as exc:
            report.let_pass(exc)
            raise
        finally:
            report.add_stage(name, began, perf_counter_ns(), kind, report.take_note(obj) if report.notes else "")
        if kind is not None:
            return cast("Outcome", verdict)
        if finds and call.guards is not None:
            call.guards.find(verdict.tool)
        report.find(verdict)
        return await inner(_keep_report(verdict, report, None))

    return handle


def _keep_report(call: Any, report: LiveReport, guards: Guards | None) -> Any:
    """The call with report and guards, which a middleware that made a call of its own may have left out."""
    if call.report is report and (guards is None or call.guards is not None):
        return call
    return call.under(report, call.guards or guards)


def _recorded_wrap(stage: Stage, inner: Handler[Any]) -> Handler[Any]:  # noqa: C901, PLR0915  # one frame
    """A middleware's time is its own: all but the time in which the inside ran.

    The time of a repeating stage is each wait between two attempts. A verdict is recorded only if the stage made or
    changed it. A stage may call on again, and at once with another call of the inside: each run after the first one
    writes to a branch of the report, and is an attempt of its own if the first one is a part of an attempt.
    """
    name, obj, repeats = stage.name, stage.obj, stage.placement.repeats
    run, guarded = stage.run, guard_stage(stage)
    inner_attempt = _recorded_attempt(inner)

    async def handle(call: Any) -> Outcome:  # noqa: C901, PLR0915
        report: LiveReport = call.report
        guards: Guards | None = call.guards
        attempt = report.attempt  # that this stage is a part of; a run of the inside may change it meanwhile
        start = alone_since = longest_start = longest_end = perf_counter_ns()
        own = running = 0  # ns in which no inside ran, and how many run now
        called_on = False
        answer: Any = None

        async def call_next(call: Any) -> Outcome:
            nonlocal alone_since, longest_start, longest_end, own, running, called_on, answer
            now = perf_counter_ns()
            target, run_inner = report, inner
            if not running:
                own += now - alone_since
                if repeats and called_on:
                    report.add_stage(name, alone_since, now, None, report.reason)
                elif now - alone_since > longest_end - longest_start:
                    longest_start, longest_end = alone_since, now
            if running or (called_on and not repeats):
                target = report.branch(attempt)
                if attempt:
                    run_inner = inner_attempt
            called_on = True
            running += 1
            try:
                reply = answer = await run_inner(_keep_report(call, target, guards))
            finally:
                running -= 1
                alone_since = perf_counter_ns()
            return reply

        verdict: str | None = CANCELLED
        try:
            middleware = run if guards is None or guards.lock is None else guarded
            outcome: Outcome = await middleware(call, call_next)
            if type(outcome) is not _SUCCESS:
                check_answer(stage, outcome)
            verdict = None if outcome is answer else kind_of(outcome)
            report.caught()
            return outcome
        except Exception as exc:
            verdict = None if report.let_pass(exc) else "internal"
            raise
        finally:
            report.attempt = attempt
            end = perf_counter_ns()
            note = report.reason if repeats else report.take_note(obj) if report.notes else ""
            if not called_on:
                report.add_stage(name, start, end, verdict, note)
            elif repeats:
                if verdict is not None:
                    report.add_stage(name, alone_since, end, verdict, note)
            else:
                if not running:  # else it left a run of the inside behind
                    own += end - alone_since
                if longest_end - longest_start > max(end - alone_since, _LONG_WAIT):
                    alone_since, end = longest_start, longest_end
                report.add_stage(name, alone_since, end, verdict, note, own)

    return handle


def _recorded_attempt(inner: Handler[Any]) -> Handler[Any]:
    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        recorder, tool = report.recorder, getattr(call, "tool", None)
        number = report.begin_attempt()
        began = perf_counter_ns()
        opened = recorder.attempt_begins(number, tool) if recorder is not None else None
        verdict: str | None = CANCELLED
        outcome: Outcome | None = None
        error: Any = None
        try:
            outcome = await inner(call)
            if type(outcome) is not Success:
                error, verdict = error_of(outcome), kind_of(outcome)
            else:
                verdict = None
            return outcome
        except Exception as exc:
            error, verdict = exc, "internal"
            raise
        finally:
            executor = report.executor or (tool.run_in if tool is not None else "loop")
            landed: Landed = getattr(error, "landed", report.landed)  # a time limit's error knows better
            row = report.end_attempt(number, executor, began, verdict, landed)
            if recorder is not None:
                recorder.attempt_ends(opened, row, error)
            error = None  # its traceback holds this frame

    return handle
