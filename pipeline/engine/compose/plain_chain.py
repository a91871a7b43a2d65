"""The plain chain: the stages of a pipeline as one handler, for a call without a report.

It has no clock, no report, and no frame but the middlewares' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from ..call import Call, Outcome
from ..guards import Guards, run_inside, watch_stage
from .deadline import run_within
from .stage import Handler, Stage
from .stage_bugs import read_verdict


def compile_plain(stages: Sequence[Stage], guards_of_reads: Guards) -> Handler[Any]:
    """Compile the stages inside of the first checks.

    Args:
        stages: The stages, the end last.
        guards_of_reads: For a call of a read that a stage made itself, and that has no guards therefore.
    """
    handler = _with_guards(guard_end(stages), guards_of_reads)
    for role, group in groupby(reversed(stages[:-1]), key=lambda stage: stage.role):
        if role == "check":
            handler = _plain_checks([*group][::-1], handler, guards_of_reads)
            continue
        for stage in group:
            runs_body = stage.placement.runs_body
            handler = watch_stage(stage.run, handler, runs_body=runs_body, guards_of_reads=guards_of_reads)
    return handler


def guard_end(stages: Sequence[Stage]) -> Handler[Any]:
    """The end of a chain, the last of these stages.

    One that does not announce when a body begins counts as having begun when it is entered. In a stack without Timeout
    the end keeps the ``timeout=`` of a tool itself: the tool may be registered after the pipeline was built.
    """
    end = stages[-1]
    run: Handler[Any] = end.run
    if not end.placement.announces_body:
        run = _count_as_body(run)
    return run if any(stage.placement.kind == "timeout" for stage in stages) else _within_time_of_tool(run)


def _count_as_body(run: Handler[Any]) -> Handler[Any]:
    async def handle(call: Any) -> Outcome:
        return await run_inside(run, call, announces_body=False)

    return handle


def _within_time_of_tool(run: Handler[Any]) -> Handler[Any]:
    def handle(call: Any) -> Any:  # returns the end's own coroutine
        try:
            seconds = call.tool.timeout
        except AttributeError:  # an end may take a call without a tool
            seconds = None
        return run(call) if seconds is None else run_within(seconds, call, run)

    return handle


def _with_guards(run: Handler[Any], guards_of_reads: Guards) -> Handler[Any]:
    def handle(call: Any) -> Any:  # returns the end's own coroutine
        return run(call if call.guards is not None else call.under(call.report, guards_of_reads))

    return handle


def _plain_checks(stages: Sequence[Stage], inner: Handler[Any], guards_of_reads: Guards) -> Handler[Any]:
    """Checks that stand next to each other, in one frame."""
    checks = [(stage, stage.run, stage.finds) for stage in stages]

    async def handle(call: Any) -> Outcome:
        for stage, check, finds in checks:
            verdict: Any = check(call)
            if not isinstance(verdict, _CALL):
                verdict = read_verdict(stage, verdict)
                if not isinstance(verdict, _CALL):
                    failure: Outcome = verdict
                    return failure
            call = verdict
            guards = call.guards
            if finds and guards is not None:
                tool = call.tool
                guards.find(tool)
                if tool.effect == "read" and not tool.context and guards.counts_only_effect:
                    # From here on as if the tool had been known before. A check made this call: nothing else holds it.
                    call.guards = guards_of_reads
        return await inner(call)

    return handle


_CALL: Any = Call  # by this name a type checker does not narrow a verdict of any type
