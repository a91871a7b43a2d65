"""StageEntry: an end, an executor or a stage that runs the body itself, while a call is in it.

One that does not announce when a body begins counts as the body from its entry, until the inside takes over::

    enter ─┬─▶ a guard refuses: its answer, it is not entered
           ╰─▶ alone ──enter_inside, or a body begins inside──▶ the inside decides ──▶ left
                │
                ├─ answers ────────────▶ as the answer says
                ╰─ raises, is cut off ─▶ "maybe": it may have been at work
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs
from returns.result import Failure

from ...base.setup_error import SetupError
from ..errors import Crashed
from .call_guards import Guards
from .guard import NotBegunError, tool_of

if TYPE_CHECKING:
    from ...tools.definition import Tool
    from ..call import Call, Outcome

C = TypeVar("C", bound="Call")
Handler: TypeAlias = Callable[[Any], Awaitable["Outcome"]]
F = TypeVar("F", bound=Callable[..., Any])


@attrs.define(eq=False)
class StageEntry:
    """One entry of a call into an end, an executor or a stage that runs the body."""

    guards: Guards  # of the call, those that count bodies, as they were around it
    call: Call  # as it was given
    alone: bool = False  # it counts as the body
    left: bool = False  # it has answered, raised, or was cut off
    undecided: tuple[Call, ...] = ()  # the bodies that began inside and whose outcome is unknown yet

    def give_way(self) -> None:
        """A body begins inside: it takes over. Called under the lock."""
        self.alone, self.undecided = False, ()
        self.guards.withdraw(self.call)

    def enter_inside(self) -> None:
        """Call on: the inside decides from now on."""
        with self.guards.lock or Lock():
            if self.alone:
                self.give_way()

    def leave(self, outcome: Outcome | None) -> None:
        """End the entry with its answer; None: it raised, or was cut off.

        It also speaks for the one body that began inside of it, if nothing else has.
        """
        with self.guards.lock or Lock():
            if self.alone:
                self.guards.count_end(self.call)
            if outcome is not None and len(self.undecided) == 1:
                self.guards.learn_end(self.undecided[0], outcome)
            self.alone, self.left = False, True
            self.undecided = ()  # these calls hold the entry, which would never be freed at once

    def forget(self, call: Call) -> None:
        """Drop one body that began with this call: its outcome is known."""
        for at, each in enumerate(self.undecided):
            if each is call:
                self.undecided = (*self.undecided[:at], *self.undecided[at + 1 :])
                return


def enter(call: C, guards: Guards, *, announces_body: bool) -> tuple[StageEntry, C]:
    """Enter an end, an executor or a stage that runs the body.

    Args:
        call: The call that it is given.
        guards: The guards of the call. One of them counts bodies.
        announces_body: Whether it calls `Guards.begin` itself. If not, it counts as the body, until the inside decides.

    Returns:
        The entry, which has to be left again, and the call for it: a body that begins through that call is known to the
        entry.

    Raises:
        NotBegunError: It would count as the body, and a guard refuses.
    """
    entry = StageEntry(guards, call)
    if not announces_body:
        guards.begin(call)
        entry.alone, entry.undecided = True, (call,)
    return entry, call.under(call.report, guards.within(entry))


def keeps_guards(middleware: F) -> F:
    """Mark the ``__call__`` of a middleware of ours that hands on only the call that it was given, and copies of it.

    These have their guards, so nothing has to look after them. The method of a subclass in its place is not marked.
    """
    marked: Any = middleware
    marked.keeps_guards = True
    return middleware


def watch_stage(
    middleware: Callable[[Any, Handler], Any],
    inner: Handler,
    *,
    runs_body: bool | None,
    guards_of_reads: Guards | None = None,
) -> Handler:
    """Put a middleware around its inside, and watch it by what its `Placement` says of it, see there.

    A call that it made itself, and hands on in place of its own, gets the guards of its own; see `keeps_guards`.
    """
    if runs_body:
        return _watch_body(middleware, inner)
    has_kept = getattr(middleware, "keeps_guards", False)

    def keep_guards(call: Any) -> Any:  # returns the middleware's own coroutine, as below
        guards: Guards | None = call.guards
        if guards is None and guards_of_reads is not None:
            call = _put_under(call, guards_of_reads)
        elif not has_kept and guards is not None and guards.lock is not None:
            return middleware(call, lambda call: inner(call if call.guards is not None else _put_under(call, guards)))
        return middleware(call, inner)

    def handle(call: Any) -> Any:
        guards: Guards | None = call.guards
        if guards is guards_of_reads:
            return middleware(call, inner)
        if guards is None or guards.effect is None:
            return keep_guards(call)
        guards.effect.unsure += 1

        def call_next(call: Any) -> Any:
            effect: Any = guards.effect  # one variable less to share with this function, in each call
            if effect.unsure == 1:  # the one that was entered last, and none beside it: the inside decides now
                effect.unsure = 0
            return inner(call if call.guards is not None else _put_under(call, guards))

        return middleware(call, call_next)

    return handle if runs_body is None else keep_guards


def _watch_body(middleware: Callable[[Any, Handler], Any], inner: Handler) -> Handler:
    """Count a middleware that runs the body itself as the body, until it calls on."""

    def handle(call: Any) -> Awaitable[Outcome]:
        outside = () if call.guards is None else call.guards.entries

        def run(given: Any) -> Any:
            guards: Guards | None = given.guards
            entries = () if guards is None else guards.entries[len(outside) :]

            def call_next(call: Any) -> Awaitable[Outcome]:
                for entry in entries:
                    entry.enter_inside()
                return inner(call if call.guards is not None else _put_under(call, guards))

            return middleware(given, call_next)

        return run_inside(run, call, announces_body=False)

    return handle


def _put_under(call: Any, guards: Guards | None) -> Any:
    return call.under(call.report, guards)


async def run_inside(run: Callable[[C], Awaitable[Outcome]], call: C, *, announces_body: bool) -> Outcome:
    """Run an end of a stack, or an executor, and report its answer to the guards of the call.

    Args:
        run: The end or executor.
        call: The call to give it.
        announces_body: Whether it calls `Guards.begin` right before the body. If not, it counts as the body.

    Returns:
        Its answer; the answer of the guard that refused the body.
    """
    guards = call.guards
    try:
        if guards is None:
            return await run(call)
        if (tool := tool_of(call)) is not None and not guards.counts_effect_of(tool):
            return _refuse_swap(call, tool)
        if guards.lock is None:
            if not announces_body:
                guards.begin(call)
            return await run(call)
        entry, call = enter(call, guards, announces_body=announces_body)
    except NotBegunError as exc:
        return exc.outcome
    outcome: Outcome | None = None
    try:
        return (outcome := await run(call))
    except NotBegunError as exc:
        return exc.outcome
    finally:
        entry.leave(outcome)


def _refuse_swap(call: Call, tool: Tool[..., Any]) -> Outcome:
    """Refuse another tool that a stage put in place of a read: how often its body begins is not counted."""
    return Failure(
        Crashed(SetupError(f"{call.name} is a read, and a stage handed on the {tool.effect} tool {tool.name}"))
    )
