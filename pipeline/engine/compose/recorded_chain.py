"""The recorded chain: the stages of a pipeline as one handler, for a call with a report of every stage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, TypeAlias, cast

import attrs
from opentelemetry.context import get_current
from returns.result import Success

from ..call import Call, Outcome
from ..errors import Crashed, Landed, ToolError
from ..guards import Guards, landed_of, watch_stage
from ..report import CANCELLED, NO_EXECUTOR, LiveReport, error_of, kind_of
from .plain_chain import guard_end
from .stage import Handler, Stage
from .stage_bugs import check_answer, read_verdict

# By these names a type checker does not narrow a value of any type to one of unknown things.
_SUCCESS: Any = Success
_CALL: Any = Call
_Part: TypeAlias = tuple[int, int]  # ns, perf_counter_ns: from, until
_Read: TypeAlias = Callable[[Any, Crashed], ToolError]  # what Classify finds for a crash
_LONG_WAIT = 1_000_000  # ns; a middleware that worked longer than this before it called on is shown with that part


def compile_recorded(stages: Sequence[Stage]) -> Handler[Any]:
    """Compile the stages inside of the first checks.

    An attempt goes around what a repeating stage repeats or, without such a stage, around the end. One that stands
    inside of Classify has the verdict that Classify will find for it.
    """
    repeating = next((stage for stage in stages if stage.placement.repeats), None)
    reading = next((stage for stage in reversed(stages) if stage.placement.kind == "classify"), None)
    read: _Read | None = getattr(reading.obj, "read_crash", None) if reading is not None else None
    handler = _recorded_end(stages)
    if repeating is None:
        handler = _recorded_attempt(handler, read)
    checks: list[Stage] = []  # next to each other, innermost first
    for stage in reversed(stages[:-1]):
        if stage.role == "check":
            checks.append(stage)
            continue
        if checks:
            handler, checks = _recorded_checks(checks[::-1], handler), []
        if stage is repeating:
            handler = _recorded_attempt(handler)
        if stage is reading:
            read = None
        handler = _recorded_wrap(stage, handler, read)
    return _recorded_checks(checks[::-1], handler) if checks else handler


def _recorded_end(stages: Sequence[Stage]) -> Handler[Any]:
    stage, run = stages[-1], _spanned(stages[-1], guard_end(stages))
    name, obj = stage.name, stage.obj

    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        report.landed, report.has_body = "maybe", True
        began = perf_counter_ns()
        verdict: str | None = CANCELLED
        try:
            outcome: Outcome = await run(call)
            if type(outcome) is _SUCCESS:
                verdict, report.landed = None, "yes"
            else:
                check_answer(stage, outcome)
                verdict = kind_of(outcome)
                report.landed = landed_of(outcome, getattr(call, "tool", None), began=report.has_body)
            return outcome
        except Exception as exc:
            verdict = None if report.let_pass(exc) else "internal"
            raise
        finally:  # a cancelled stage is recorded too
            ended, note = perf_counter_ns(), report.take_note(obj) if report.notes else ""
            report.add_row((name, began, ended, verdict, report.attempt, note, ended - began))

    return handle


def _spanned(stage: Stage, run: Callable[..., Any]) -> Callable[..., Any]:
    """Put a live span around a stage that asks for one: it is current within the stage."""
    if not stage.placement.span:
        return run
    name = stage.name

    @contextmanager
    def live(call: Any) -> Generator[None]:
        report: LiveReport = call.report
        if report.recorder is None:
            yield
            return
        number = report.number()
        report.recorder.stage_begins(name, number)
        try:
            yield
        finally:
            report.recorder.stage_ends(number)
            report.live = number  # its row is the next one

    if stage.role == "check":

        def check(call: Any) -> Any:
            with live(call):
                return run(call)

        return check

    async def handle(call: Any, *call_next: Handler[Any]) -> Outcome:
        with live(call):
            outcome: Outcome = await run(call, *call_next)
            return outcome

    return handle


def compile_recorded_checks(stages: Sequence[Stage]) -> Callable[[Any], Any]:
    """Checks that stand next to each other, in one frame, for a call with a report.

    The function returns the call in the phase that the last one makes, or what the first one that refuses answers.
    """
    checks = [(stage.name, stage.obj, _spanned(stage, stage.run), stage.finds, stage) for stage in stages]

    def run(call: Any) -> Any:
        report: LiveReport = call.report
        for name, obj, check, finds, stage in checks:
            began = perf_counter_ns()
            kind: str | None = "internal"
            try:
                verdict: Any = read_verdict(stage, check(call))
                kind = kind_of(verdict)
            except Exception as exc:
                report.let_pass(exc)
                raise
            finally:
                ended, note = perf_counter_ns(), report.take_note(obj) if report.notes else ""
                report.add_row((name, began, ended, kind, report.attempt, note, ended - began))
            if kind is not None:
                return verdict
            if verdict is not call:
                if finds and call.guards is not None:
                    call.guards.find(verdict.tool)
                report.find(verdict)
                call = verdict if verdict.report is report else verdict.under(report, verdict.guards)
        return call

    return run


def _recorded_checks(stages: Sequence[Stage], inner: Handler[Any]) -> Handler[Any]:
    run = compile_recorded_checks(stages)

    async def handle(call: Any) -> Outcome:
        verdict = run(call)
        if not isinstance(verdict, _CALL):
            return cast("Outcome", verdict)
        return await inner(verdict)

    return handle


@attrs.define(eq=False)
class _StageTimes:
    """The own time of a middleware: all parts of its time while no run of its inside is under way."""

    alone_since: int  # ns, perf_counter_ns: when the current part began
    parts: list[_Part]  # from and until; empty: the stage has not called on
    running: int = 0  # runs of the inside that are under way

    def enter_inside(self, now: int) -> None:
        if not self.running:
            self.parts.append((self.alone_since, now))
        self.running += 1

    def leave_inside(self, now: int) -> None:
        self.running -= 1
        self.alone_since = now

    def sum_up(self, ended: int) -> tuple[int, int, int]:
        """Return the part to show, from and until, and the own time of all parts.

        The last part is shown, or a longer one. If the stage left a run of its inside behind, its last part is the one
        before that run.
        """
        start, end = self.parts.pop() if self.running else (self.alone_since, ended)
        own = end - start
        longest = max(own, _LONG_WAIT)
        for part_began, part_ended in self.parts:
            spent = part_ended - part_began
            own += spent
            if spent > longest:
                start, end, longest = part_began, part_ended, spent
        return start, end, own


def _recorded_wrap(stage: Stage, inner: Handler[Any], read: _Read | None) -> Handler[Any]:  # noqa: C901, PLR0915  # one picture
    """Record a middleware: its own time, and a verdict if it made it.

    A repeating stage has a record for each wait between two attempts. A stage may call on again, and at once with
    another call of the inside: each run after the first one writes to a branch of the report, and is an attempt of its
    own if the first one is a part of an attempt.
    """
    name, obj, run = stage.name, stage.obj, _spanned(stage, stage.run)
    repeats, runs_body = stage.placement.repeats, stage.placement.runs_body
    inner_attempt = _recorded_attempt(inner, read)

    def watched(call: Any, call_next: Handler[Any]) -> Any:  # for each call: `call_next` is a closure of the one call
        return watch_stage(run, call_next, runs_body=None)(call)

    def working(call: Any, call_next: Handler[Any]) -> Any:
        return _record_work(run, call, call_next)

    # One that never runs the body needs its guards kept, no more, and `call_next` below keeps them.
    run_stage = working if runs_body else watched if runs_body is None else run

    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        guards: Guards | None = call.guards
        attempt, place = report.attempt, report.place  # of this stage; a run of the inside may change them meanwhile
        context = get_current()
        answers: list[Any] = []  # of the inside
        times = _StageTimes(perf_counter_ns(), [])

        async def call_next(call: Any) -> Outcome:
            now = perf_counter_ns()
            target, run_inner = report, inner
            if times.parts and repeats and not times.running:  # a wait between two attempts has ended
                began = times.alone_since
                report.add_row((name, began, now, None, report.attempt, report.retry_reason, now - began))
            elif times.parts:  # not its first run
                target = report.branch(attempt)
                run_inner = inner_attempt if attempt else inner
            times.enter_inside(now)
            target.enter_unless(context)
            try:
                if call.report is not target or (call.guards is None and guards is not None):
                    call = call.under(target, call.guards or guards)  # a middleware made this call itself
                answer = await run_inner(call)
                answers.append(answer)
            finally:
                times.leave_inside(perf_counter_ns())
                target.place = place
            return answer

        verdict: str | None = CANCELLED
        try:
            outcome: Outcome = await run_stage(call, call_next)
            verdict = None
            if type(outcome) is not _SUCCESS:
                check_answer(stage, outcome)
                verdict = None if _is_passed_on(outcome, answers) else kind_of(outcome)
            if report.raised:
                report.caught()
            return outcome
        except Exception as exc:
            verdict = None if report.let_pass(exc) else "internal"
            raise
        finally:
            ended = perf_counter_ns()
            report.attempt, report.place = attempt, place
            note = report.retry_reason if repeats else report.take_note(obj) if report.notes else ""
            if not repeats or not times.parts:
                start, end, own = times.sum_up(ended)
                report.add_row((name, start, end, verdict, attempt, note, own))
            elif verdict is not None:
                start = times.alone_since
                report.add_row((name, start, ended, verdict, attempt, note, ended - start))
            report.live = 0  # of a repeating stage whose last part has no row

    return handle


async def _record_work(run: Callable[..., Any], call: Any, call_next: Handler[Any]) -> Outcome:
    """Run a middleware that does the tool's work itself; it tells whether that landed, unless it calls on."""
    report: LiveReport = call.report
    report.landed = "maybe"
    called_on = False

    def decide_inside(call: Any) -> Any:
        nonlocal called_on
        called_on, report.landed = True, "no"  # so far
        return call_next(call)

    outcome: Outcome = await watch_stage(run, decide_inside, runs_body=True)(call)
    if not called_on:
        report.landed = landed_of(outcome, getattr(call, "tool", None), began=True)
    return outcome


def _is_passed_on(outcome: Any, answers: Sequence[Any]) -> bool:
    """Whether a failure comes from a run of the inside, also in another ``Failure``, or with a text less."""
    error = error_of(outcome)
    return error is not None and any(error.is_of(error_of(each)) for each in answers)


def _recorded_attempt(inner: Handler[Any], read: _Read | None = None) -> Handler[Any]:
    async def handle(call: Any) -> Outcome:
        report: LiveReport = call.report
        recorder, tool = report.recorder, getattr(call, "tool", None)
        whole = report.whole or report
        whole.begun = report.attempt = number = whole.begun + 1
        report.landed, report.has_body = "no", False
        place, report.place = report.place, 0
        began = perf_counter_ns()
        opened = recorder.attempt_begins(number, tool) if recorder is not None else None
        verdict: str | None = CANCELLED
        outcome: Outcome | None = None
        error: Any = None
        try:
            outcome = await inner(call)
            if type(outcome) is not Success:
                error, verdict = error_of(outcome), kind_of(outcome)
                if read is not None and type(error) is Crashed:
                    error = read(call, error)
                    verdict = error.kind
            else:
                verdict = None
            return outcome
        except Exception as exc:
            error, verdict = exc, "internal"
            raise
        finally:
            executor = report.executor or (tool.run_in if tool is not None else "loop")
            if not report.has_body and getattr(error, "body", "") == "refused":
                executor = NO_EXECUTOR
            landed: Landed = getattr(error, "landed", report.landed)  # a time limit's error knows better
            row = (number, executor, began, perf_counter_ns(), report.wait, verdict, landed)
            report.attempt_rows.append(row)
            report.attempt, report.place = 0, place
            if recorder is not None:
                recorder.attempt_ends(opened, row, error)
            error = None  # its traceback holds this frame

    return handle
