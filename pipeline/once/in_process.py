"""Once per intent: a call of a conversation, with what is known there of equal calls before it and beside it.

A twin, which is the same delivery, waits for its answer, in any thread and event loop, and within its reply it gets the
answer also after the end. A call whose intent is undecided does not run (mutating), or runs with the key of the lost
call (keyed). `Conversations` keeps what is undecided; digests are made only once something is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from threading import Lock
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs
from anyio import lowlevel
from returns.result import Failure, Success

from ..base import timing
from ..base.event_loops import get_event_loop
from ..base.foreign_values import FaultBarrier
from ..base.forking import register_after_fork
from ..engine.call import Call, Outcome, ResolvedCall, ValidCall
from ..engine.call_state import WITHIN
from ..engine.caller import InheritedGuard
from ..engine.errors import (
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    NeedsSetup,
    NotExecuted,
    OutcomeUnknown,
    ResourceNotFound,
    TimedOut,
    Transient,
    Unavailable,
)
from ..engine.guards import OneEffect, as_not_landed, landed_of
from ..privacy import approved
from .decision import decide
from .intents import are_written_alike
from .undecided import CONVERSATIONS, Conversation, Lost

if TYPE_CHECKING:
    from ..tools.definition import Tool

Inside: TypeAlias = Callable[[Any], Awaitable[Outcome]]
FlightKey: TypeAlias = tuple[object, ...]
_MAX_ENDED = 100  # answers that a pipeline keeps for calls of a reply


class InScope(InheritedGuard):
    """A guard that gives the calls of a turn a scope: what is undecided among them."""

    scope: Conversation | None


def _no_waiters() -> list[Callable[[], object]]:  # a factory: list[X]() takes ten times as long
    return []


@attrs.define(eq=False)
class Flight:
    """A delivery that runs, and those that wait for its answer."""

    call: Call
    outcome: Outcome | None = None
    ended: bool = False
    waiting: list[Callable[[], object]] = attrs.field(factory=_no_waiters)

    async def wait(self) -> None:
        """Wait in the event loop of the caller."""
        loop = get_event_loop()
        with _LOCKS.flights:
            if self.ended:
                return
            ended = loop.make_signal()
            self.waiting.append(partial(loop.call_soon, loop.set, ended))
        await ended

    def end(self, outcome: Outcome | None) -> None:
        """Wake those that wait. None: it was cancelled, or a stage raised."""
        with _LOCKS.flights:
            self.outcome, self.ended = outcome, True
        for wake in self.waiting:
            wake()


@attrs.define(eq=False)
class Flights:
    """The deliveries that run in one pipeline, and those of the last replies that have ended.

    Attributes:
        running: The calls.
        waiting: Those that another call waits for. It is looked at after the end of a call only where it is not empty.
        ended: The arguments and answers of calls of a known reply whose bodies began and whose ends are known.
    """

    running: dict[FlightKey, Call] = attrs.field(factory=dict[FlightKey, Call])
    waiting: dict[FlightKey, Flight] = attrs.field(factory=dict[FlightKey, Flight])
    ended: OrderedDict[FlightKey, tuple[object, Outcome]] = attrs.field(factory=OrderedDict[Any, Any])

    async def join(self, key: FlightKey, call: Call) -> tuple[FlightKey | None, Outcome | None]:
        """The answer of a twin; or without one the key under which the call runs, None if none."""
        while (first := self.running.setdefault(key, call)) is not call:
            if not are_written_alike(first, call):
                return None, None  # its id was given to another call
            flight = self.waiting.setdefault(key, Flight(first))
            # Where both are still of the first call its end is after this, and sees who waits.
            if flight.call is not first or self.running.get(key) is not first:
                self.land(key, first, None)
                await lowlevel.checkpoint()  # it ends just now, in another thread
                continue
            await flight.wait()
            if flight.outcome is not None:
                return None, _mark(call, flight.outcome)
        arguments, outcome = self.ended.get(key, (None, None))
        if outcome is None or not are_written_alike(attrs.evolve(call, arguments=arguments), call):
            return key, None
        del self.running[key]
        self.land(key, call, outcome)
        return None, _mark(call, outcome)

    def keep(self, key: FlightKey, call: Call, effect: OneEffect, outcome: Outcome | None) -> None:
        """Keep a known answer for the rest of its reply; before the call runs no more, so that no twin begins."""
        if outcome is not None and effect.begun_tool is not None and _is_known(effect, outcome):
            self.ended[key] = call.arguments, outcome
            if len(self.ended) > _MAX_ENDED:
                with suppress(KeyError):  # another thread has emptied it
                    self.ended.popitem(last=False)

    def land(self, key: FlightKey, call: Call, outcome: Outcome | None) -> None:
        """A call has ended; None: it was cancelled, or a stage raised."""
        flight = self.waiting.get(key)
        if flight is not None and flight.call is call:  # not of one that has the key by now
            self.waiting.pop(key, None)
            flight.end(outcome)


class _Locks:
    def __init__(self) -> None:
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def _restart_in_child(self) -> None:
        self.flights = Lock()


_LOCKS = _Locks()


async def once_per_intent(call: ValidCall, effect: OneEffect, inside: Inside, flights: Flights) -> Outcome:  # noqa: C901, PLR0912  # in no more frames
    """Run a call of a tool that changes something, of a conversation, of a turn, or of a known reply.

    Args:
        call: The call, with its params if the checks at the front found them.
        effect: The guard of its effect.
        inside: The stages.
        flights: The deliveries that run in the pipeline.
    """
    scope = None if call.conversation else find_scope(call)
    effect.ask = _refuse if scope is None else partial(_refuse_in, scope)
    key: FlightKey | None = None
    named = call.id if call.state is None else call.get_state(WITHIN, call.id)
    if named and (call.conversation or call.reply):
        # A tuple, and the arguments only where one is found: a digest would cost more than all else here.
        key = call.principal, call.conversation, call.reply, named, effect.tool
        if flights.running.setdefault(key, call) is not call or flights.ended:
            key, told = await flights.join(key, call)
            if told is not None:
                return told
    outcome: Outcome | None = None
    sent, lost = call, None
    try:
        known = CONVERSATIONS.find(call) if CONVERSATIONS.held and scope is None else scope
        if known:
            sent, lost, outcome = await _ask_known(call, known)
            if outcome is not None:
                return outcome
        try:
            outcome = await inside(sent)
            if type(outcome) is not Success:
                outcome = await settle_lost(sent, effect, outcome)
        except BaseException as exc:
            _remember_raise(sent, effect, scope, exc)
            raise
        if type(outcome) is not Success or scope is not None or CONVERSATIONS.held:
            outcome = _learn(sent, effect, scope, outcome)
        if known and lost is not None and effect.undecided and _is_known(effect, outcome):
            known.decide(lost)  # a later answer to the same key
        return outcome
    finally:
        if key is not None:
            if call.reply:
                flights.keep(key, call, effect, outcome)
            del flights.running[key]
            if flights.waiting:
                flights.land(key, call, outcome)


def _is_known(effect: OneEffect, outcome: Outcome) -> bool:
    """Whether the end of a body is known, and happened: what did nothing may be asked for again."""
    return type(outcome) is Success or (
        type(outcome) is Failure and bool(effect.undecided) and read_end(effect, outcome.failure()) is None
    )


def _mark(call: Call, outcome: Outcome) -> Outcome:
    """An answer that was given before."""
    if call.report is not None:
        call.report.replayed = True
    return outcome


def _learn(call: ValidCall, effect: OneEffect, scope: Conversation | None, outcome: Outcome) -> Outcome:
    """Remember what an outcome leaves undecided; returns it, with the advice to check first where that helps."""
    if type(outcome) is Success:
        _lift(call, effect, scope)
        return outcome
    effect.close()
    if not effect.undecided:
        return outcome
    error: Any = cast("Any", outcome).failure() if type(outcome) is Failure else None
    liftable = read_end(effect, error)
    if liftable is None:
        return outcome
    _remember(call, effect, scope, liftable=liftable)
    return tell_part(effect, outcome)


def _remember_raise(call: ValidCall, effect: OneEffect, scope: Conversation | None, exc: BaseException) -> None:
    """Remember a call that was cancelled, also while ``verify=`` is asked, or in which a stage has a bug."""
    effect.close()
    if effect.undecided and not hasattr(exc, "landed"):  # as in `read_end`: it says itself what became of it
        _remember(call, effect, scope, liftable=False)


def _lift(call: ValidCall, effect: OneEffect, scope: Conversation | None) -> None:
    """A tool has changed something: what exceptions of others said may be wrong by now."""
    known = CONVERSATIONS.find(call) if scope is None else scope
    if known and effect.tool is not None and not effect.tool.composite:
        known.lift(effect.tool)


async def _ask_known(call: ValidCall, known: Conversation) -> tuple[ValidCall, Lost | None, Outcome | None]:
    """The call, with the key of the lost one that it repeats; that one; and the answer, if it must not run."""
    if not isinstance(cast("object", call), ResolvedCall):
        return call, None, None
    tool = call.tool
    while _is_remembered(tool) and (found := known.find(call, getattr(call, "params", None))) is not None:
        lost, is_equal = found
        if decide("undecided", tool.effect, is_equal=is_equal) == "run with its key":
            is_valid = isinstance(cast("object", call), ValidCall)
            return call.with_idempotency_key(lost.key) if lost.key and is_valid else call, lost, None
        began = perf_counter_ns()
        answer = await ask_verify(call, lost.call or (call if is_equal else None), lost.key)
        step = decide("undecided", tool.effect, is_equal=is_equal, found=landed_of(answer))
        if step == "refuse":
            if call.report is not None:
                took = (ended := perf_counter_ns()) - began
                call.report.rows.append(("once", began, ended, OutcomeUnknown.kind, 0, _UNDECIDED, took))
            return call, None, _unknown(tool)
        known.decide(lost)
        if step == "answer":
            return call, None, _mark(call, cast("Outcome", answer))
    return call, None, _refuse_more(known, tool)


def _is_remembered(tool: Tool[..., Any]) -> bool:
    """Whether a call of a tool may be held up by one that is undecided."""
    return decide("undecided", tool.effect) != "run"


def _refuse_more(known: Conversation, tool: Tool[..., Any]) -> Outcome | None:
    """Unavailable, where a lost call of the tool could not be remembered; else None."""
    if _is_remembered(tool) and known.is_full(tool):
        return Failure(Unavailable(tool.name, "too many calls of it are undecided in this conversation"))
    return None


async def settle_lost(call: Any, effect: OneEffect, outcome: Outcome) -> Outcome:
    """Ask ``verify=`` what became of a call that was lost just now, once, and before it is told as lost.

    Args:
        call: The call, in the phase that is known of it.
        effect: The guard of its effect.
        outcome: How it ended.

    Returns:
        What was found; the failure as one that did not land; or the outcome as it was, where nothing is known.
    """
    tool = effect.begun_tool
    if tool is None or tool.verify is None or effect.is_settled or type(outcome) is Success or effect.lost is None:
        return outcome
    error: Any = cast("Any", outcome).failure() if type(outcome) is Failure else None
    if read_end(effect, error) is None:
        return outcome
    effect.is_settled = True
    lost = call if getattr(call, "tool", None) is tool else call.resolved(tool)
    params = _reread(lost) if hasattr(lost, "params") else effect.begun_params
    if params is None:
        return outcome
    lost = lost.with_params(params) if hasattr(lost, "params") else lost.validated(params)
    began = perf_counter_ns()
    found = await ask_verify(lost, lost, effect.begun_key)
    cause = error.cause if type(error) is OutcomeUnknown else error
    may_run = effect.running > 0 or getattr(cause, "still_running", False)
    if found is None or (may_run and type(found) is not Success):
        return outcome  # a body that may still run may land yet
    if call.report is not None:
        took = (ended := perf_counter_ns()) - began
        call.report.rows.append(("once", began, ended, None, 0, _FOUND[type(found) is Success], took))
    if effect.forget is not None:
        await effect.forget(found)
    if type(found) is Success:
        effect.happened = True
        return found
    effect.undecided = 0
    return found if cause is None else Failure(as_not_landed(cause))


def read_end(effect: OneEffect, error: Any) -> bool | None:
    """Whether the end of a body that may have landed is undecided.

    Args:
        effect: The guard of the effect, whose body began.
        error: The error of the call; None: a stage answered nonsense.

    Returns:
        None: it is known. False: undecided, and only ``verify=`` or a person can say. True: undecided, but an exception
        said what was wrong, which another change may have put right.
    """
    said = error.cause if isinstance(error, OutcomeUnknown) else error
    if effect.happened and landed_of(Failure(said)) == "yes":
        return None  # the answer is lost, and not what became of the effect
    if error is None or isinstance(error, (OutcomeUnknown, NotExecuted, Unavailable)) or not effect.believes(error):
        return False
    if isinstance(error, (TimedOut, Transient)):
        return None if error.landed == "yes" else False
    cause: object = getattr(error, "cause", None)
    if hasattr(cause, "landed"):  # a ToolFailed, or an exception whose class says it
        return None
    return True if effect.raised or cause is not None or type(error) is Crashed else None


async def ask_verify(call: ValidCall, lost: ValidCall | None, key: str) -> Outcome | None:
    """Ask the tool's own ``verify=`` what became of a lost call.

    Args:
        call: The call that asks.
        lost: The lost call, or a strictly equal one. None: neither is known, so nobody is asked.
        key: The idempotency key of the lost call.

    Returns:
        Success: it took effect, with this value. A Failure: it did not, and never will. None: that is not known.
    """
    tool = call.tool
    if tool.verify is None or lost is None:
        return None
    found: Any = None
    # A user's function: where it raises, nothing is known.
    with FaultBarrier(), timing.move_on_after(tool.verify_timeout):
        found = tool.verify(lost, key)
        if isawaitable(found):
            asked, found = found, None
            found = await asked
    if type(found) is Success:
        return cast("Outcome", found)
    if found is True or found == "yes":
        return Success(None)
    return Failure(NotExecuted("it was found not to have happened")) if found is False or found == "no" else None


def find_scope(call: Call) -> Conversation | None:
    """What the turn of a call remembers of what is undecided; None: it is of no turn."""
    guards = () if call.guards is None else call.guards.each
    return next((guard.scope for guard in guards if isinstance(guard, InScope)), None)


def _refuse(call: Any) -> Outcome | None:
    """Right before the body: an equal call may have been lost while this one waited."""
    known = CONVERSATIONS.find(call)
    return None if known is None else _refuse_in(known, call)


def _refuse_in(known: Conversation, call: Any) -> Outcome | None:
    tool: Tool[..., Any] | None = getattr(call, "tool", None)
    if tool is None or not known or not _is_remembered(tool):
        return None
    found = known.find(call, getattr(call, "params", None))
    if found is not None and decide("undecided", tool.effect, is_equal=found[1]) == "ask":
        return _unknown(tool)
    return _refuse_more(known, tool)


def _unknown(tool: Tool[..., Any]) -> Outcome:
    return Failure(OutcomeUnknown(Transient(landed="maybe"), tool.verify_with))


def _remember(call: ValidCall, effect: OneEffect, scope: Conversation | None, *, liftable: bool) -> None:
    tool = effect.begun_tool
    if tool is None or tool.composite or not _is_remembered(tool):
        return
    if scope is None and not (call.conversation or call.reply):
        return
    known: Any = call if getattr(call, "tool", None) is tool else call.resolved(tool)
    params = _reread(known) if hasattr(known, "params") else effect.begun_params
    lost = Lost.of(known, params, effect.begun_key, liftable=liftable)
    if scope is None:
        scope = CONVERSATIONS.add(call, lost)
    else:
        scope.add(lost)
    held = scope

    async def forget(_: Outcome) -> None:
        held.decide(lost)

    effect.forget = forget


def _reread(call: ValidCall) -> dict[str, Any]:
    """The params of a call as they were: its body may have changed the objects in them."""
    if not call.tool.parameters.flat:
        params: Any = call.tool.parse(call.arguments)
        if type(params) is dict:
            return cast("dict[str, Any]", params)
    return call.params


def tell_part(effect: OneEffect, outcome: Outcome) -> Outcome:
    """What is told of a call that is remembered: with the advice to check first, where an exception says no more.

    As it is, where the end is known, or the error has advice of its own, or no place for it.
    """
    error: Any = cast("Any", outcome).failure() if type(outcome) is Failure else None
    tool = effect.tool
    if tool is None or tool.effect != "mutating" or not isinstance(error, _WITH_DETAILS) or error.details.suggestion:
        return outcome
    if not effect.undecided or not read_end(effect, error):
        return outcome
    where = f"with {tool.verify_with} " if tool.verify_with else ""
    advice = approved(f"The call may have taken effect in part: check {where}before you repeat it.")
    return Failure(error.changed(details=attrs.evolve(error.details, suggestion=advice)))


_UNDECIDED = "an equal call of this conversation is undecided"
_FOUND = {True: "its answer was lost, and verify= found that it took effect", False: "verify= found that it did not"}
_WITH_DETAILS = (ResourceNotFound, ExecutionFailed, Denied, NeedsSetup, InvalidParams)
