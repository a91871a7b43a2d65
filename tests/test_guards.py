"""Guards: what decides whether a body may begin, each rule by itself. Whole stacks are in test_effects.py."""

from __future__ import annotations

from threading import Lock
from types import TracebackType
from typing import Any, cast

import pytest
from returns.result import Failure, Success

from support import a_call, a_tool
from toolcall_pipeline import (
    Call,
    Denied,
    Effect,
    ExecutionFailed,
    Outcome,
    OutcomeUnknown,
    TimedOut,
    ToolFailed,
    ToolRegistry,
    Transient,
    Unavailable,
    UnknownTool,
)
from toolcall_pipeline.engine.errors import Landed
from toolcall_pipeline.engine.guards import (
    Guard,
    Guards,
    NotBegunError,
    OneEffect,
    TimeLimit,
    as_outcome_unknown,
    denies_effect,
    enter,
    landed_of,
    run_inside,
    watch_stage,
)
from toolcall_pipeline.middlewares import Classify, Retry, Timeout

BUSY = Unavailable("probe", "busy")


class Heard(Guard):
    """A guard that writes down what it is told."""

    counts_bodies = True

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, call: Call) -> None:
        self.told.append("begin")

    def end(self, call: Call) -> None:
        self.told.append("end")

    def learn_landed(self, call: Call, landed: str) -> None:
        self.told.append(landed)


class CountingLock:
    """A lock that counts how often it was held."""

    def __init__(self) -> None:
        self.held = 0
        self._lock = Lock()

    def __enter__(self) -> None:
        self.held += 1
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._lock.release()


def under(guards: Guards, effect: Effect = "mutating") -> Any:
    return a_call(a_tool("probe", effect, context=effect == "keyed")).under(None, guards)


def a_registry() -> ToolRegistry:
    tools = ToolRegistry()
    tools.register(a_tool("probe"))
    return tools


LANDED: list[tuple[object, str]] = [
    (Success(None), "yes"),
    (Failure(BUSY), "no"),
    (Failure(TimedOut(landed="no")), "no"),
    (Failure(Transient(landed="yes")), "yes"),
    (Failure(Transient()), "maybe"),
    (Failure(ExecutionFailed("", cause=ToolFailed("it is full", landed=False))), "no"),
    (Failure(ExecutionFailed("")), "maybe"),
    (Failure(UnknownTool("x")), "maybe"),
    (Failure(Denied("me")), "maybe"),
    (None, "maybe"),
]


@pytest.mark.parametrize(("outcome", "landed"), LANDED)
def test_what_an_outcome_tells_of_the_effect(outcome: Any, landed: str) -> None:
    """A body that ran may have landed unless its outcome says no."""
    assert landed_of(outcome) == landed


HIDING: list[tuple[Any, bool]] = [
    (ExecutionFailed(""), False),
    (OutcomeUnknown(), False),
    (Denied("me"), True),
    (BUSY, True),
    (TimedOut(landed="no"), True),
    (TimedOut(landed="maybe"), False),
    (Transient(landed="yes"), False),
    (ValueError(), True),  # no error of ours, so nothing is known of it
]


@pytest.mark.parametrize(("error", "hides"), HIDING, ids=str)
def test_which_errors_hide_that_a_body_ran(error: Any, hides: bool) -> None:
    """Those that say neither that a body ran nor that it may have landed."""
    assert denies_effect(error) == hides


LOST: list[tuple[Any, OutcomeUnknown]] = [
    (TimedOut(3.0, landed="no"), OutcomeUnknown(TimedOut(3.0, landed="maybe"), "look")),
    (Transient(None, 7.0, landed="no"), OutcomeUnknown(Transient(None, 7.0, landed="maybe"), "look")),
    (Denied("me"), OutcomeUnknown(Transient(landed="maybe"), "look")),
]


@pytest.mark.parametrize(("error", "told"), LOST, ids=str)
def test_what_is_told_of_a_body_that_was_hidden(error: Any, told: OutcomeUnknown) -> None:
    """That its outcome is unknown, with the error itself where that one can be a cause, and how to look it up."""
    assert as_outcome_unknown(error, a_tool("pay", "mutating", verify_with="look")) == told


def test_the_end_of_the_time_refuses_what_has_not_begun() -> None:
    """Before, a body may begin; after, none, and each was told that it did not land."""
    limit, lock = TimeLimit(), CountingLock()
    call = under(Guards.of(limit))
    assert limit.refuse(call) is None
    assert limit.expire(cast("Lock", lock), 3.0) == TimedOut(3.0, landed="no")
    assert limit.refuse(call) == Failure(TimedOut(0.0, landed="no"))
    assert lock.held == 1  # or a body could begin between the two


def test_the_end_of_the_time_knows_of_what_began() -> None:
    """A body that runs may have landed and runs on; one that ended has no more to say of itself than it said."""
    limit = TimeLimit()
    call = under(Guards.of(limit))
    limit.begin(call)
    assert limit.expire(None, 3.0) == TimedOut(3.0, still_running=True, landed="maybe")
    limit.end(call)
    assert limit.expire(None, 3.0) == TimedOut(3.0, landed="maybe")
    limit.learn_landed(call, "no")
    assert limit.expire(None, 3.0) == TimedOut(3.0, landed="no")


@pytest.mark.parametrize(
    ("effect", "beside", "after"),
    [
        ("read", None, None),
        ("idempotent", TimedOut(still_running=True), None),
        ("keyed", None, None),
        ("mutating", OutcomeUnknown(Transient(landed="maybe")), OutcomeUnknown(Transient(landed="maybe"))),
    ],
)
def test_a_second_body(effect: Effect, beside: Any, after: Any) -> None:
    """Beside a body that runs, and after one of which nothing is known; a keyed one here has the same key."""
    effects = OneEffect()
    call = under(Guards.of(effects), effect)
    assert effects.refuse(call) is None
    effects.begin(call)
    assert effects.refuse(call) == (beside and Failure(beside))
    effects.end(call)
    assert effects.refuse(call) == (after and Failure(after))
    effects.learn_landed(call, "no")
    assert effects.refuse(call) is None


def test_a_second_body_with_another_key() -> None:
    """It may do again what the first one did, so it waits until that one is known to have done nothing."""
    effects = OneEffect()
    guards = Guards.of(effects)
    first, second = under(guards, "keyed"), under(guards, "keyed")
    effects.begin(first)
    assert effects.refuse(first) is None
    assert effects.refuse(second) == Failure(OutcomeUnknown(Transient(landed="maybe")))
    effects.learn_landed(first, "no")
    assert effects.refuse(second) is None


def test_what_is_lost() -> None:
    """The mutating tool whose body began and may have landed, and no other."""
    for effect, lost in (("read", False), ("idempotent", False), ("keyed", False), ("mutating", True)):
        effects = OneEffect()
        call = under(Guards.of(effects), cast("Effect", effect))
        assert effects.lost is None
        effects.begin(call)
        assert effects.lost is (call.tool if lost else None)
        effects.learn_landed(call, "no")
        assert effects.lost is None


def test_reads_ask_every_registry() -> None:
    """What is read without a look at the guards says that nothing is closed only if that holds for all registries."""
    first, second = a_registry(), a_registry()
    call = a_call(a_tool("probe"))
    Guards.of_calls([]).begin(call)
    Guards.of_calls([first]).begin(call)
    second.disable("probe")
    for gates in ([second], [first, second], [second, first]):
        guards = Guards.of_calls(gates)
        with pytest.raises(NotBegunError, match=r"^the body of the tool must not begin$") as refused:
            guards.begin(call)
        assert isinstance(cast("Any", refused.value.outcome).failure(), Unavailable)


def test_an_entry_is_changed_under_the_lock_of_the_call() -> None:
    """Another thread may be about to begin a body."""
    lock: Any = CountingLock()
    heard = (Heard(),)
    guards = Guards(heard, heard, lock)
    entry, _given = enter(under(guards), guards, announces_body=False)
    held = [lock.held]
    entry.enter_inside()
    held.append(lock.held)
    entry.leave(None)
    held.append(lock.held)
    assert held == [1, 2, 3]


def test_which_guards_lock() -> None:
    """Guards share the lock of those around them; without one that counts bodies there is none."""
    assert Guards.of(Guard()).lock is None
    outer = Guards.of(Heard())
    assert outer.lock is not None
    assert Guards.of(Guard(), outer=outer).lock is outer.lock
    assert Guards.of(Heard(), outer=Guards.of(Guard())).lock is not None


async def test_an_end_that_does_not_mark_is_asked_for_when_it_is_entered() -> None:
    """Where the tool is closed it is not entered; one that marks is, and asks itself; without guards nobody does."""
    tools = a_registry()
    tools.disable("probe")
    entered: list[Call] = []

    async def run(call: Call) -> Success[int]:
        entered.append(call)
        return Success(1)

    guards = Guards.of_calls([tools])
    refused: Any = await run_inside(run, under(guards, "read"), announces_body=False)
    assert (refused.failure().kind, entered) == ("unavailable", [])
    assert await run_inside(run, under(guards, "read"), announces_body=True) == Success(1)
    assert await run_inside(run, a_call(), announces_body=False) == Success(1)
    assert await run_inside(run, under(Guards.of(OneEffect())), announces_body=False) == Success(1)
    assert len(entered) == 3


async def test_a_stage_that_puts_another_tool_in_place_of_a_read_is_told() -> None:
    """Nobody would count how often the other one begins."""

    async def run(call: Call) -> Success[int]:
        raise AssertionError

    call = under(Guards.of_calls([]), "mutating")
    outcome: Any = await run_inside(run, call, announces_body=True)
    assert str(outcome.failure().cause) == "probe is a read, and a stage handed on the mutating tool probe"


def test_a_body_within_two_ends_is_learned_of_once() -> None:
    """The inner end says what became of the body; the outer one does not say it again."""
    heard = Heard()
    guards = Guards.of(heard)
    outer, given = enter(under(guards), guards, announces_body=True)
    inner, body = enter(given, given.guards, announces_body=True)
    body.guards.begin(body)
    for entry in (inner, outer):
        entry.leave(Failure(Transient(landed="no")))
    assert heard.told == ["begin", "no"]


def test_a_guard_knows_that_the_last_body_raised() -> None:
    """An exception counts unless it says itself whether the effect happened; the next body begins anew."""
    effects = OneEffect()
    guards = Guards.of(Heard(), effects)
    call = under(guards)
    for exc, raised in ((ValueError(), True), (ToolFailed("it is full", landed=False), False), (OSError(), True)):
        effects.begin(call)
        assert not effects.raised
        guards.learn_raised(exc)
        assert effects.raised == raised


def test_guards_know_whether_the_effect_of_a_call_happened() -> None:
    """Before a body "no"; while one runs "maybe"; after it as it said. The guard of the call itself says it."""
    outcomes: list[tuple[Outcome, Landed]] = [
        (Success(1), "yes"),
        (Failure(Transient(landed="no")), "no"),
        (Failure(Transient(landed="maybe")), "maybe"),
    ]
    for outcome, landed in outcomes:
        effects = OneEffect()
        guards = Guards.of(effects, Heard(), outer=Guards.of(OneEffect()))
        call = under(guards)
        told = [guards.landed]
        guards.begin(call)
        told.append(guards.landed)
        guards.conclude(call, outcome)
        assert [*told, guards.landed] == ["no", "maybe", landed]
    assert Guards.of(Heard()).landed == "no"


class Renewing(Classify):
    """A subclass with a method of its own, which hands on a call that it made."""

    async def __call__(self, call: Any, call_next: Any) -> Outcome:
        return await super().__call__(a_call(call.tool), call_next)


@pytest.mark.parametrize(
    "stage", [Classify(), Retry(first_delay=0.001), Timeout(60), Renewing()], ids=lambda stage: type(stage).__name__
)
async def test_each_call_that_a_stage_hands_on_has_the_guards(stage: Any) -> None:
    """A marked stage keeps them in each attempt; a subclass that makes a call of its own is given them for it."""
    effect = OneEffect()
    seen: list[Guards] = []

    async def inside(call: Any) -> Outcome:
        seen.append(call.guards)
        return Failure(Transient(landed="no")) if len(seen) == 1 else Success(None)

    await watch_stage(stage.__call__, inside, runs_body=False)(under(Guards.of(effect)))
    assert len(seen) == (2 if type(stage) is Retry else 1)
    assert all(guards.effect is effect and guards.counting[0] is effect for guards in seen)
