"""A middleware or an end under the guards of a call: no answer may hide a body that may have taken effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from returns.result import Failure

from ..call import Outcome
from ..guards import Guards, NotBegunError, enter, hides_effect, landed_of, run_inside, tell_lost
from ..report import error_of, kind_of
from .stage import Handler, Stage


def guard_end(stage: Stage) -> Handler[Any]:
    """The end of the chain. One that does not say when a body begins counts as having begun when it is entered."""
    run: Handler[Any] = stage.run
    if stage.placement.marks:
        return run

    async def count(call: Any) -> Outcome:
        return await run_inside(run, call, marks=False)

    return count


def guard_stage(stage: Stage) -> Callable[[Any, Handler[Any]], Any]:
    """The middleware of a stage for a call with guards.

    A middleware may hand on a call of its own making, which gets the guards of the call that it was given.
    """
    middleware = stage.run
    if not stage.placement.marks:
        return _run_watched(middleware)

    def keep_guards(call: Any, inner: Handler[Any]) -> Any:
        guards = call.guards

        def call_next(call: Any) -> Any:
            return inner(call if call.guards is not None else call.under(call.report, guards))

        return middleware(call, call_next)

    return keep_guards


def _run_watched(middleware: Callable[..., Any]) -> Callable[[Any, Handler[Any]], Any]:
    """The middleware of somebody who does not say when a body begins.

    It may do the work itself, call on twice or not at all, leave a task behind that calls on, and answer what it likes.
    It counts as the body until it calls on (`Entry`). Where a mutating body may have taken effect, it cannot answer
    that nothing happened, unless the one body that ran said so itself.
    """

    async def handle(call: Any, inner: Handler[Any]) -> Outcome:
        try:
            entry, given = enter(call, call.guards, marks=False, stage=True)
        except NotBegunError as exc:
            return exc.outcome
        guards: Guards = given.guards
        trusted: list[Outcome] = []  # answers of the inside that a body of its own may have given
        started = running = 0

        async def call_next(call: Any) -> Outcome:
            nonlocal started, running
            try:
                entry.call_on()
            except NotBegunError as exc:
                return exc.outcome
            started += 1
            trusted.clear()  # what was answered before says nothing of a body that begins from now on
            number, alone = started, not running and guards.lost is None
            running += 1
            try:
                answer = await inner(call if call.guards is not None else call.under(call.report, guards))
            finally:
                running -= 1
            if alone and number == started:
                trusted.append(answer)
            return answer

        outcome: Any = None
        try:
            outcome = await middleware(given, call_next)
        finally:
            was_body = entry.leave(outcome)
        error, lost = error_of(outcome), guards.lost
        if error is None or was_body or any(_says_the_same(outcome, answer) for answer in trusted):
            return cast("Outcome", outcome)
        return Failure(tell_lost(error, lost)) if lost is not None and hides_effect(error) else cast("Outcome", outcome)

    return handle


def _says_the_same(outcome: object, answer: Outcome) -> bool:
    return outcome is answer or (kind_of(outcome), landed_of(outcome)) == (kind_of(answer), landed_of(answer))
