"""The plain chain: the stages of a pipeline as one handler, for a call without a report.

It has no clock, no report, and no frame but the middlewares' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..call import Call, Outcome
from ..guards import Guards, guard_stage, run_inside
from .deadline import run_within
from .stage import Handler, Stage
from .stage_bugs import read_verdict


def compile_plain(stages: Sequence[Stage], guards_of_reads: Guards) -> Handler[Any]:
    """Compile the stages inside of the first checks.

    Args:
        stages: The stages, the end last.
        guards_of_reads: For a call of a read that a stage made itself, and that has no guards therefore.
    """
    handler = guard_end(stages)
    if len(stages) > 1 and not stages[-2].placement.announces_body:  # one that announces hands on its call or a copy
        handler = _with_guards(handler, guards_of_reads)
    for stage in reversed(stages[:-1]):
        make = _plain_check if stage.role == "check" else _plain_wrap
        handler = make(stage, handler, guards_of_reads)
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


def _plain_check(stage: Stage, inner: Handler[Any], _: Guards) -> Handler[Any]:
    check, finds = stage.run, stage.finds

    async def handle(call: Call) -> Outcome:
        verdict = read_verdict(stage, check(call))
        if not isinstance(verdict, Call):
            return cast("Outcome", verdict)
        if finds and call.guards is not None:
            call.guards.find(cast("Any", verdict).tool)
        return await inner(verdict)

    return handle


def _plain_wrap(stage: Stage, inner: Handler[Any], guards_of_reads: Guards) -> Handler[Any]:
    middleware = stage.run
    guarded = None if stage.placement.announces_body else guard_stage(middleware)

    def handle(call: Call) -> Any:  # returns the middleware's own coroutine
        guards = call.guards
        if guards is guards_of_reads:
            return middleware(call, inner)
        if guards is None:
            return middleware(call.under(call.report, guards_of_reads), inner)
        if guards.lock is None:
            return middleware(call, inner)
        if guarded is not None:
            return guarded(call, inner)

        def call_next(call: Any) -> Any:  # a call that the middleware made itself gets the guards of its own
            return inner(call if call.guards is not None else call.under(call.report, guards))

        return middleware(call, call_next)

    return handle
