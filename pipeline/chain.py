"""The stages of a pipeline as one handler, compiled twice: bare, and watched, where the composer takes the times."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, cast

import attrs
from returns.result import Failure

from .call import Call, Outcome
from .report import CANCELLED, CallReport, Recorder, kind_of
from .stage import Handler, Stage

_OWN_WAIT = 1_000_000  # ns; a middleware that waited longer than this before calling on is told by that wait


def bare(parts: Sequence[Stage]) -> Handler[Any]:
    """The chain of a call that nobody watches: no clock, no report, no frame for a middleware but its own."""
    handler: Handler[Any] = parts[-1].run
    for part in reversed(parts[:-1]):
        handler = (_bare_check if part.role == "check" else _bare_wrap)(part.run, handler)
    return handler


def _bare_check(check: Any, inner: Handler[Any]) -> Handler[Any]:
    async def handle(call: Call) -> Outcome:
        verdict = check(call)
        return cast("Outcome", verdict) if type(verdict) is Failure else await inner(verdict)

    return handle


def _bare_wrap(middleware: Any, inner: Handler[Any]) -> Handler[Any]:
    def handle(call: Call) -> Any:  # no coroutine of its own
        return middleware(call, inner)

    return handle


@attrs.define(eq=False)
class Watch(CallReport):
    """The report while it is being written; it rides on the call, with the live half of the trace."""

    recorder: Recorder | None = attrs.field(default=None, repr=False)

    def finished(self) -> CallReport:
        """The report alone, without what was live."""
        values = {field.name: getattr(self, field.name) for field in attrs.fields(CallReport)}
        return CallReport(**values)


def watched(parts: Sequence[Stage]) -> Handler[Any]:
    """The chain of a call with a report on it.

    An attempt goes around what a repeating stage repeats or, without one, around the end.
    """
    repeater = next((part for part in parts if part.repeats), None)
    handler = _watched_end(parts[-1])
    if repeater is None:
        handler = _attempt(handler)
    for part in reversed(parts[:-1]):
        if part is repeater:
            handler = _attempt(handler)
        handler = _watched_check(part, handler) if part.role == "check" else _watched_wrap(part, handler)
    return handler


def _watched_end(part: Stage) -> Handler[Any]:
    name, run = part.name, part.run

    async def handle(call: Any) -> Outcome:
        began = perf_counter_ns()
        verdict: str | None = CANCELLED
        try:
            outcome: Outcome = await run(call)
            verdict = kind_of(outcome)
            return outcome
        except Exception:
            verdict = "internal"
            raise
        finally:  # a cancelled stage is part of the story too
            call.report.mark(name, began, perf_counter_ns(), verdict)

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


def _riding(call: Any, report: Watch) -> Any:
    """The call with its report on it, which a middleware that made a call of its own may have left behind."""
    return call if call.report is report else call.riding(report, call.marker)


def _watched_wrap(part: Stage, inner: Handler[Any]) -> Handler[Any]:
    """A middleware's time is its own: before it calls on, or after the inside answered, whichever it waited in.

    Of one that repeats it is each wait between two attempts. It is red only if it made or changed the verdict.
    """
    name, run, repeats = part.name, part.run, part.repeats

    async def handle(call: Any) -> Outcome:
        report: Watch = call.report
        start = perf_counter_ns()
        entered = left = 0  # when it last called on, and when that came back
        answer: Any = None

        async def inside(call: Any) -> Outcome:
            nonlocal entered, left, answer
            now = perf_counter_ns()
            if repeats and left:
                report.mark(name, left, now, None, report.decisions[-1].reason if report.decisions else "")
            entered, left = now, 0
            reply = answer = await inner(_riding(call, report))
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
        number = report.attempt = len(report.attempt_rows) + 1
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
            executor = tool.run_in if tool is not None else "loop"
            report.attempt_ended(number, executor, began, verdict, outcome)
            report.attempt = 0
            if recorder is not None:
                recorder.attempt_ends(opened, verdict)

    return handle
