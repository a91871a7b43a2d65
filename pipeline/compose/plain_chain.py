"""The plain chain: the stages of a pipeline as one handler, for a call that nobody listens to.

It has no clock, no report, and no frame but the middlewares' own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ..call import Call, Outcome
from ..guards import Guards
from .guarded_stage import guard_end, guard_stage
from .mistakes import check_verdict
from .stage import Handler, Stage

_CALL: Any = Call  # by this name a type checker does not narrow a value of any type to one of unknown things


def compile_plain(stages: Sequence[Stage], guards_of_reads: Guards) -> Handler[Any]:
    """Compile the stages inside of the first checks."""
    handler = guard_end(stages[-1])
    if len(stages) > 1 and not stages[-2].placement.marks:
        handler = _restore_guards(handler, guards_of_reads)
    for at in range(len(stages) - 2, -1, -1):
        stage = stages[at]
        if stage.role == "check":
            handler = _plain_check(stage, handler)
        elif stage.placement.marks and _hands_on_its_call(stage) and (at == 0 or _hands_on_its_call(stages[at - 1])):
            handler = _wrap(stage.run, handler)
        else:
            handler = _plain_wrap(stage, handler, guards_of_reads)
    return handler


def compile_reads(stages: Sequence[Stage], guards_of_reads: Guards) -> Handler[Any]:
    """The same for a call that begins with the guards of reads, which have no lock until a time limit adds one."""
    handler = guard_end(stages[-1])
    if len(stages) > 1 and not _hands_on_its_call(stages[-2]):
        handler = _restore_guards(handler, guards_of_reads)
    for at in range(len(stages) - 2, -1, -1):
        stage = stages[at]
        if stage.role == "check":
            handler = _plain_check(stage, handler)
        elif stage.placement.marks and (at == 0 or _hands_on_its_call(stages[at - 1])):
            handler = _wrap(stage.run, handler)
        else:
            handler = _plain_wrap(stage, handler, guards_of_reads)
    return handler


def _hands_on_its_call(stage: Stage) -> bool:
    """Whether it is a stage of this library: these call on with their call or a copy of it, which keeps its guards."""
    return type(stage.obj).__module__.startswith("middlewares.")


def _wrap(middleware: Callable[..., Any], inner: Handler[Any]) -> Handler[Any]:
    def handle(call: Any) -> Any:  # returns the middleware's own coroutine
        return middleware(call, inner)

    return handle


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
