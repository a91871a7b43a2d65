"""StageEntry: a stage, an end or an executor that a call is in, and that may be the body of the tool itself.

One that does not announce when a body begins counts as the body from its entry, until the inside takes over::

    enter ─┬─▶ a guard refuses: its answer, the stage is not entered
           ╰─▶ alone ──enter_inside, or a body begins inside──▶ the inside decides ──▶ left
                │
                ├─ answers a value ──▶ it was the body: it has landed
                ├─ answers a failure ─▶ a stage: nothing landed, for it did not call on; an end: as the failure says
                ╰─ raises, is cut off ▶ "maybe": it may have been at work

Once a stage has failed it is closed: no body begins inside of it any more, for its caller knows that none will.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import attrs
from returns.result import Failure, Success

from ...base.setup_error import SetupError
from ..errors import Crashed, NotExecuted
from .call_guards import Guards
from .guard import NotBegunError, tool_of
from .landed import as_outcome_unknown, denies_effect, landed_of

if TYPE_CHECKING:
    from ...tools.definition import Tool
    from ..call import Call, Outcome

C = TypeVar("C", bound="Call")
Handler: TypeAlias = Callable[[Any], Awaitable["Outcome"]]


@attrs.define(eq=False)
class StageEntry:
    """One entry of a call into a stage, an end or an executor.

    Attributes:
        guards: The guards of the call that count bodies, as they were around the stage.
        call: The call that the stage was given.
        is_stage: It may call on. An end and an executor may not.
        alone: It counts as the body.
        left: It has answered, raised, or was cut off.
        closed: It has failed: no body begins inside of it any more.
        undecided: The bodies that began inside of an end or an executor and whose outcome is unknown yet.
    """

    guards: Guards
    call: Call
    is_stage: bool
    alone: bool = False
    left: bool = False
    closed: bool = False
    undecided: tuple[Call, ...] = ()

    def admit(self) -> None:
        """Let a body begin inside: it takes over. Called under the lock.

        Raises:
            NotBegunError: The stage has failed, so its caller relies on no body beginning.
        """
        if self.closed:
            raise NotBegunError(Failure(NotExecuted("the call has been answered")))
        if self.alone:
            self.alone, self.undecided = False, ()
            if self.left:  # its end is counted already
                self.guards.learn_landed(self.call, "no")
            else:
                self.guards.withdraw(self.call)

    def enter_inside(self) -> None:
        """Call on: the inside decides from now on.

        Raises:
            NotBegunError: The stage has failed before.
        """
        with self.guards.lock or Lock():
            self.admit()

    def leave(self, outcome: Outcome | None) -> bool:
        """End the entry with the answer of the stage; None: it raised, or was cut off.

        An end and an executor also speak for the one body that began inside of them, if nothing else has.

        Returns:
            Whether the stage itself was the body.
        """
        if self.is_stage and not self.alone and type(outcome) is Success:  # the inside has decided all
            self.left = True
            return False
        with self.guards.lock or Lock():
            was_alone = self.alone
            if was_alone:
                self.guards.count_end(self.call)
            if self.is_stage:
                self.closed = type(outcome) is not Success
                if was_alone and outcome is not None:
                    self.guards.learn_landed(self.call, "yes" if landed_of(outcome) == "yes" else "no")
            elif outcome is not None and len(self.undecided) == 1:
                self.guards.learn_landed(self.undecided[0], landed_of(outcome))
            self.alone, self.left = was_alone and self.is_stage and not self.closed, True
            self.undecided = ()  # these calls hold the entry, which would never be freed at once
            return was_alone

    def forget(self, call: Call) -> None:
        """Drop one body that began with this call: its outcome is known."""
        for at, each in enumerate(self.undecided):
            if each is call:
                self.undecided = (*self.undecided[:at], *self.undecided[at + 1 :])
                return


def enter(call: C, guards: Guards, *, announces_body: bool, is_stage: bool = False) -> tuple[StageEntry, C]:
    """Enter a stage, an end or an executor that may run the body.

    Args:
        call: The call that it is given.
        guards: The guards of the call. One of them counts bodies.
        announces_body: Whether it calls `Guards.begin` itself. If not, it counts as the body, until the inside decides.
        is_stage: It may also call on. Before the params are known, guards that need them are not asked.

    Returns:
        The entry, which has to be left again, and the call for the stage: a body that begins through that call is known
        to the entry.

    Raises:
        NotBegunError: It would count as the body, and a guard refuses.
    """
    around = guards
    if is_stage and getattr(call, "params", None) is None:
        around = guards.without_params()
    entry = StageEntry(around, call, is_stage)
    if not announces_body:
        around.begin(call)
        entry.alone = True
        if not is_stage:
            entry.undecided = (call,)
    return entry, call.under(call.report, guards.within(entry))


def guard_stage(middleware: Callable[[Any, Handler], Any]) -> Callable[[Any, Handler], Awaitable[Outcome]]:
    """Watch a middleware that does not announce when a body begins, for a call whose bodies are counted.

    It may do the work itself, call on twice or not at all, leave a task behind that calls on, and answer what it likes.
    Where a mutating body may have taken effect, it cannot answer that nothing happened, unless the one body that ran
    said so itself.
    """

    async def handle(call: Any, inner: Handler) -> Outcome:
        try:
            entry, given = enter(call, call.guards, announces_body=False, is_stage=True)
        except NotBegunError as exc:
            return exc.outcome
        guards: Guards = given.guards
        trusted: list[Outcome] = []  # answers of the inside that a body of its own may have given
        started = running = 0

        async def call_next(call: Any) -> Outcome:
            nonlocal started, running
            if entry.alone or entry.closed:
                try:
                    entry.enter_inside()
                except NotBegunError as exc:
                    return exc.outcome
            started += 1
            if trusted:
                trusted.clear()  # an earlier answer says nothing of a body that begins from now on
            # While the stage was alone, no other body began: before its first call on, nothing can be lost.
            number, alone = started, started == 1 or (not running and guards.lost is None)
            running += 1
            try:
                answer = await inner(call if call.guards is not None else call.under(call.report, guards))
            finally:
                running -= 1
            if alone and number == started and type(answer) is not Success:
                trusted.append(answer)
            return answer

        outcome: Any = None
        try:
            outcome = await middleware(given, call_next)
        finally:
            was_body = entry.leave(outcome)
        if type(outcome) is Success or was_body or any(_says_the_same(outcome, answer) for answer in trusted):
            return cast("Outcome", outcome)
        error, lost = _error_of(outcome), guards.lost
        if error is None or lost is None or not denies_effect(error):
            return cast("Outcome", outcome)
        return Failure(as_outcome_unknown(error, lost))

    return handle


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


def _error_of(outcome: object) -> Any:
    return cast("Failure[Any]", outcome).failure() if type(outcome) is Failure else None


def _says_the_same(outcome: object, answer: Outcome) -> bool:
    if outcome is answer:
        return True
    return (_kind_of(outcome), landed_of(outcome)) == (_kind_of(answer), landed_of(answer))


def _kind_of(outcome: object) -> object:
    error = _error_of(outcome)
    return None if error is None else getattr(error, "kind", "internal")
