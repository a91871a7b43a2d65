"""The steps of every executor around a tool's body: ask whether it may begin, build its arguments, report its end."""

from __future__ import annotations

from math import inf
from typing import Any

from ..base import timing
from ..engine.call import ValidCall
from ..engine.caller import Caller
from ..engine.report import LiveReport, Progress
from ..once import delivery_of
from ..tools.context import Tell, ToolContext


def begin_body(call: ValidCall) -> None:
    """Ask whether the body may begin, and record that it did. Call this right before the body, once per attempt.

    From here on a mutating call that is lost may have taken effect. All executors ask here, or Execute does it for
    them, so this is the one place for what may still stop a call that has waited in a queue. Each begin is followed by
    one `end_body`.

    Raises:
        NotBegunError: The body must not begin: its time is up, the tool was closed meanwhile, or the call has begun
            before and may have taken effect. Execute answers with the outcome that the error holds.
    """
    if call.guards is not None:
        call.guards.begin(call)


def end_body(call: ValidCall) -> None:
    """Record that the body ended, from any thread, also if it was left behind."""
    if call.guards is not None:
        call.guards.end(call)


def run_body(call: ValidCall, context: tuple[ToolContext] | tuple[()]) -> Any:
    """Run a sync tool's body in the current thread, between `begin_body` and `end_body`.

    Args:
        call: The call whose tool runs.
        context: The result of `context_args` in the task that waits for the call.

    Returns:
        The value that the function returned. A coroutine is not awaited.
    """
    begin_body(call)
    try:
        return call.tool.fn(*context, **call.params)
    finally:
        end_body(call)


def context_args(call: ValidCall) -> tuple[ToolContext] | tuple[()]:
    """Build the positional arguments of the tool: its `ToolContext`, or none unless it has ``context=True``.

    Call this in the task that waits for the call: the deadline of the context is the deadline of that task.
    """
    if not call.tool.context:
        return ()
    left = get_seconds_left()
    deadline = None if left is None else timing.monotonic() + left
    tell = None if call.report is None else make_tell(call.report)
    fields = call.id, call.attempt, call.idempotency_key, deadline, call.principal, call.deps, tell
    return (ToolContext(*fields, Caller.of(call, delivery_of), call.tool.name, call.state, call.conversation),)


def make_tell(report: LiveReport) -> Tell:
    """Make a function that adds progress to the report until the present attempt has ended.

    A thread that was abandoned in one attempt adds nothing to the next one.
    """
    attempt = report.attempt

    def tell(step: Progress) -> None:
        if report.attempt == attempt:
            report.add_progress(step)

    return tell


def get_seconds_left() -> float | None:
    """Seconds until the current task's deadline; None without one."""
    left = timing.time_left()
    return None if left == inf else left
