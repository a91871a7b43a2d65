"""The stages of a pipeline as one handler, compiled twice: bare, and watched, where the composer takes the times."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, cast

import attrs
from returns.result import Failure, Success

from ..call import Call, Outcome
from ..errors import Landed, OutcomeUnknown, TimedOut, Transient
from ..report import CANCELLED, CallReport, Recorder, error_of, kind_of, landed_of
from ..time_limit import Marker
from ..tools.definition import Tool
from .stage import Handler, Stage

_OWN_WAIT = 1_000_000  # ns; a middleware that waited longer than this before calling on is told by that wait


def bare(parts: Sequence[Stage]) -> Handler[Any]:
    """The chain of a call that nobody watches: no clock, no report, no frame for a middleware but its own."""
    handler: Handler[Any] = parts[-1].run
    for part in reversed(parts[:-1]):
        if part.finds:
            handler = _settled(handler)
        handler = (_bare_check if part.role == "check" else _bare_wrap)(part.run, handler)
    return handler


def _settled(inner: Handler[Any]) -> Handler[Any]:
    """Where the tool is found further in, the pipeline does not see it: then a lost side effect is told from here."""

    async def handle(call: Any) -> Outcome:
        outcome = await inner(call)
        return outcome if type(outcome) is Success else unless_landed(outcome, call.tool)

    return handle


def unless_landed(outcome: Outcome, tool: Tool[..., Any]) -> Outcome:
    """The same; or, where a mutating tool's call was lost and may have taken effect, OutcomeUnknown."""
    error = error_of(outcome)
    if isinstance(error, (TimedOut, Transient)) and tool.effect == "mutating" and error.landed != "no":
        return Failure(OutcomeUnknown(error, tool.verify_with))
    return outcome


def _bare_check(check: Any, inner: Handler[Any]) -> Handler[Any]:
    async def handle(call: Call) -> Outcome:
        verdict = check(call)
        return cast("Outcome", verdict) if type(verdict) is Failure else await inner(verdict)

    return handle


def _bare_wrap(middleware: Any, inner: Handler[Any]) -> Handler[Any]:
    def handle(call: Call) -> Any:  # no coroutine of its own
        if call.marker is None:
            return middleware(call, inner)
        return middleware(call, _marked(call.marker, inner))

    return handle


def _marked(marker: Marker, inner: Handler[Any]) -> Handler[Any]:
    """A middleware may hand on a call that it made itself: a time limit around it still has to know of the body."""

    def handle(call: Call) -> Any:
        return inner(call if call.marker is not None else call.riding(call.report, marker))

    return handle


@attrs.define(eq=False)
class Watch(CallReport):
    """The report while it is being written; it rides on the call, with the live half of the trace."""

    recorder: Recorder | None = attrs.field(default=None, repr=False)
    begun: int = attrs.field(default=0, repr=False)  # attempts
    landed: Landed = attrs.field(default="no", repr=False)  # of the attempt that runs now, as far as its end knows


def watched(parts: Sequence[Stage]) -> Handler[Any]:
    """The chain of a call with a report on it.

    An attempt goes around what a repeating stage repeats or, without one, around the end.
    """
    repeater = next((part for part in parts if part.placement.repeats), None)
    handler = _watched_end(parts[-1])
    if repeater is None:
        handler = _attempt(handler)
    for part in reversed(parts[:-1]):
        if part is repeater:
            handler = _attempt(handler)
        if part.finds:
            handler = _settled(handler)
        handler = _watched_check(part, handler) if part.role == "check" else _watched_wrap(part, handler)
    return handler


def _watched_end(part: Stage) -> Handler[Any]:
    name, run = part.name, part.run

    async def handle(call: Any) -> Outcome:
        report: Watch = call.report
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
        finally:  # a cancelled stage is part of the story too
            report.mark(name, began, perf_counter_ns(), verdict)

    return handle


def _watched_check(part: Stage, inner: Handler[Any]) -> Handler[Any]:
    name, check = part.name, part.run

    async def handle(call: Any) -> Outcome:
        report: Watch = call.report
        began = perf_counter_ns()
        kind: str | None = "internal"
        try:
            verdict = check(call)
            kind = kind_of(verdict)
        finally:
            report.mark(name, began, perf_counter_ns(), kind)
        if kind is not None:
            return cast("Outcome", verdict)
        report.tool = getattr(verdict, "tool", report.tool)
        report.repairs = getattr(verdict, "repairs", report.repairs)
        return await inner(_riding(verdict, report))

    return handle


def _riding(call: Any, report: Watch, marker: Marker | None = None) -> Any:
    """The call with what rides on it, which a middleware that made a call of its own may have left behind."""
    if call.report is report and (marker is None or call.marker is not None):
        return call
    return call.riding(report, call.marker or marker)


def _watched_wrap(part: Stage, inner: Handler[Any]) -> Handler[Any]:
    """A middleware's time is its own: before it calls on, or after the inside answered, whichever it waited in.

    Of one that repeats it is each wait between two attempts. It is red only if it made or changed the verdict.
    """
    name, run, repeats = part.name, part.run, part.placement.repeats

    async def handle(call: Any) -> Outcome:
        report: Watch = call.report
        marker: Marker | None = call.marker
        start = perf_counter_ns()
        entered = left = 0  # when it last called on, and when that came back
        answer: Any = None

        async def inside(call: Any) -> Outcome:
            nonlocal entered, left, answer
            now = perf_counter_ns()
            if repeats and left:
                report.mark(name, left, now, None, report.decisions[-1].reason if report.decisions else "")
            entered, left = now, 0
            reply = answer = await inner(_riding(call, report, marker))
            left = perf_counter_ns()
            return reply

        verdict: str | None = CANCELLED
        try:
            outcome: Outcome = await run(call, inside)
            verdict = None if outcome is answer else kind_of(outcome)
            return outcome
        except Exception:
            verdict = "internal"
            raise
        finally:
            end = perf_counter_ns()
            waited_before = not repeats and entered - start > max(end - (left or end), _OWN_WAIT)
            note = report.decisions[-1].reason if repeats and report.decisions else ""
            if not entered:
                report.mark(name, start, end, verdict)
            elif not repeats or verdict is not None:
                report.mark(name, *((start, entered) if waited_before else (left or end, end)), verdict, note)

    return handle


def _attempt(inner: Handler[Any]) -> Handler[Any]:
    async def handle(call: Any) -> Outcome:
        report: Watch = call.report
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
            report.attempt_ended(number, executor, began, verdict, _landed(outcome, report.landed))
            report.attempt = 0
            if recorder is not None:
                recorder.attempt_ends(opened, verdict)

    return handle


def _landed(outcome: Outcome | None, known: Landed) -> Landed:
    """What the error says itself, as that of a time limit does; else what the end of the chain knew."""
    said: Landed = getattr(error_of(outcome), "landed", known)
    return said
