"""Compiles the stages of a pipeline into one handler, twice: plain, and recorded with a report of every stage."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, cast

from returns.result import Failure

from ..call import Call, Outcome
from ..errors import Landed
from ..guards import Guards, landed_of, run_inside
from ..report import CANCELLED, LiveReport, error_of, kind_of
from .guarded_stage import guard_stage
from .stage import Handler, Stage

_OWN_WAIT = 1_000_000  # ns; a middleware that waited longer than this before it called on is recorded with that wait


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
        if type(verdict) is Failure:
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
    name, run = stage.name, _end(stage)

    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        report.landed = "maybe"
        began = perf_counter_ns()
        verdict: str | None = CANCELLED
        try:
            outcome: Outcome = await run(call)
            verdict = kind_of(outcome)
            report.landed = landed_of(outcome)
            return outcome
        except Exception:
            verdict = "internal"
            raise
        finally:  # a cancelled stage is recorded too
            report.add_stage(name, began, perf_counter_ns(), verdict, report.take_note(stage.obj))

    return handle


def _recorded_check(stage: Stage, inner: Handler[Any]) -> Handler[Any]:
    name, check, finds = stage.name, stage.run, stage.finds

    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        began = perf_counter_ns()
        kind: str | None = "internal"
        try:
            verdict = check(call)
            kind = kind_of(verdict)
        finally:
            report.add_stage(name, began, perf_counter_ns(), kind, report.take_note(stage.obj))
        if kind is not None:
            return cast("Outcome", verdict)
        if finds and call.guards is not None:
            call.guards.find(verdict.tool)
        report.tool = getattr(verdict, "tool", report.tool)
        report.repairs = getattr(verdict, "repairs", report.repairs)
        return await inner(_keep_report(verdict, report, None))

    return handle


def _keep_report(call: Any, report: LiveReport, guards: Guards | None) -> Any:
    """The call with report and guards, which a middleware that made a call of its own may have left out."""
    if call.report is report and (guards is None or call.guards is not None):
        return call
    return call.under(report, call.guards or guards)


def _recorded_wrap(stage: Stage, inner: Handler[Any]) -> Handler[Any]:
    """A middleware's time is its own: before it calls on, or after the inside answered, whichever it waited in.

    The time of a repeating stage is each wait between two attempts. A verdict is recorded only if the stage made or
    changed it.
    """
    name, obj, repeats = stage.name, stage.obj, stage.placement.repeats
    run, guarded = stage.run, guard_stage(stage)

    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        guards: Guards | None = call.guards
        start = perf_counter_ns()
        entered = left = 0  # when it last called on, and when that returned
        answer: Any = None

        async def call_next(call: Any) -> Outcome:
            nonlocal entered, left, answer
            now = perf_counter_ns()
            if repeats and left:
                report.add_stage(name, left, now, None, report.decisions[-1].reason if report.decisions else "")
            entered, left = now, 0
            reply = answer = await inner(_keep_report(call, report, guards))
            left = perf_counter_ns()
            return reply

        verdict: str | None = CANCELLED
        try:
            middleware = run if guards is None or guards.lock is None else guarded
            outcome: Outcome = await middleware(call, call_next)
            verdict = None if outcome is answer else kind_of(outcome)
            return outcome
        except Exception:
            verdict = "internal"
            raise
        finally:
            end = perf_counter_ns()
            waited_before = not repeats and entered - start > max(end - (left or end), _OWN_WAIT)
            note = report.decisions[-1].reason if repeats and report.decisions else report.take_note(obj)
            if not entered:
                report.add_stage(name, start, end, verdict, note)
            elif not repeats or verdict is not None:
                report.add_stage(name, *((start, entered) if waited_before else (left or end, end)), verdict, note)

    return handle


def _recorded_attempt(inner: Handler[Any]) -> Handler[Any]:
    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        recorder, tool = report.recorder, getattr(call, "tool", None)
        number = report.attempt = report.begun = report.begun + 1
        report.landed = "no"
        began = perf_counter_ns()
        opened = recorder.attempt_begins(number, tool) if recorder is not None else None
        verdict: str | None = CANCELLED
        outcome: Outcome | None = None
        try:
            outcome = await inner(call)
            verdict = kind_of(outcome)
            return outcome
        except Exception:
            verdict = "internal"
            raise
        finally:
            executor = report.executor or (tool.run_in if tool is not None else "loop")
            landed: Landed = getattr(error_of(outcome), "landed", report.landed)  # a time limit's error knows better
            report.add_attempt(number, executor, began, verdict, landed)
            report.attempt = 0
            if recorder is not None:
                recorder.attempt_ends(opened, verdict)

    return handle
