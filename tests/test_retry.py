"""Retry: when it repeats, how long it waits, and why it stops."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from middlewares import Retry, standard
from pipeline import (
    Call,
    Crashed,
    Denied,
    Effect,
    ExecutionFailed,
    Outcome,
    OutcomeUnknown,
    TimedOut,
    ToolError,
    ToolRegistry,
    Transient,
    Unavailable,
)
from pipeline.errors import Landed
from pipeline.testing import script
from support import a_call, a_tool


class Waits:
    """A sleep that takes no time and remembers how long it was asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


EFFECTS: list[Effect] = ["read", "idempotent", "keyed", "mutating"]
LANDED: list[Landed] = ["no", "maybe", "yes"]


def a_tool_of(effect: Effect) -> object:
    return a_tool(effect=effect, context=effect == "keyed")


@pytest.mark.parametrize("landed", LANDED)
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("kind", [TimedOut, Transient])
async def test_only_what_is_safe_is_repeated(effect: Effect, landed: Landed, kind: type[TimedOut | Transient]) -> None:
    """A passing failure is repeated for read, idempotent and keyed tools, or where nothing landed; else it is lost."""
    error = kind(landed=landed)
    inside = script(Failure(error), Success("done"))
    call = a_call(a_tool(effect=effect, context=effect == "keyed"))
    outcome = await Retry(sleep=Waits())(call, inside)
    if effect == "mutating" and landed != "no":
        assert (outcome, len(inside.calls)) == (Failure(OutcomeUnknown(error)), 1)
    else:
        assert (outcome, len(inside.calls)) == (Success("done"), 2)


@pytest.mark.parametrize(("effect", "repeated"), [("read", True), ("idempotent", False), ("keyed", True)])
async def test_beside_a_thread_that_runs_on(effect: Effect, repeated: bool) -> None:
    """While the first call still runs in its thread, only reading and keyed tools are called again."""
    inside = script(Failure(TimedOut(1.0, still_running=True)), Success("done"))
    await Retry(sleep=Waits())(a_call(a_tool(effect=effect, context=effect == "keyed")), inside)
    assert len(inside.calls) == 1 + repeated


@pytest.mark.parametrize(
    "error", [Crashed(), ExecutionFailed("no"), Denied("limit"), Unavailable("probe", "paused", 1.0)], ids=repr
)
async def test_what_will_not_pass_is_not_repeated(error: ToolError) -> None:
    """Kinds other than timeout and transient are given back at once, as they are."""
    outcome: Outcome = Failure(error)
    inside = script(outcome)
    assert await Retry(sleep=Waits())(a_call(), inside) is outcome


@given(st.integers(1, 8), st.integers(0, 8))
async def test_attempts_counts_the_first_one(attempts: int, failures: int) -> None:
    """The inside runs until it succeeds, and `attempts` times at most, the first one included."""
    inside = script(*[Failure(Transient())] * failures, Success("done"))
    outcome = await Retry(attempts, sleep=Waits())(a_call(), inside)
    assert len(inside.calls) == min(attempts, failures + 1)
    assert (outcome == Success("done")) == (failures < attempts)
    assert [call.attempt for call in inside.calls] == list(range(1, len(inside.calls) + 1))


@given(st.floats(0, 10), st.floats(0, 60), st.lists(st.floats(0, 1, exclude_max=True), min_size=6, max_size=6))
async def test_waits_are_full_jitter(first_delay: float, max_delay: float, rolls: list[float]) -> None:
    """Each wait is the dice times a delay that doubles up to a limit."""
    waits = Waits()
    dice = iter(rolls)
    retry = Retry(7, first_delay, max_delay=max_delay, dice=lambda: next(dice), sleep=waits)
    await retry(a_call(), script(*[Failure(Transient())] * 7))
    assert waits.seconds == [min(max_delay, first_delay * 2**n) * roll for n, roll in enumerate(rolls)]


@pytest.mark.parametrize(
    ("retry_after", "waits"), [(None, [0.05]), (0.0, [0.05]), (2.0, [2.0]), (30.0, [30.0]), (31.0, [])]
)
async def test_retry_after_is_the_least_that_is_waited(retry_after: float | None, waits: list[float]) -> None:
    """A wait is at least what the service asked for; one that is too long is not begun."""
    slept = Waits()
    retry = Retry(2, dice=lambda: 0.5, sleep=slept)
    await retry(a_call(), script(*[Failure(Transient(None, retry_after))] * 2))
    assert slept.seconds == waits


async def test_no_wait_ends_past_the_deadline() -> None:
    """Where the deadline comes before the end of the wait, the failure is given back at once."""
    inside = script(Failure(Transient(None, 20.0)), Success("done"))
    with anyio.fail_after(10):
        outcome = await Retry(sleep=Waits())(a_call(), inside)
    assert outcome == Failure(Transient(None, 20.0))


REASONS: list[tuple[Effect, TimedOut | Transient, str]] = [
    ("read", Transient(), "transient, and the tool is read"),
    ("mutating", Transient(landed="no"), "transient, and it did not land"),
    ("mutating", TimedOut(1.0), "not repeated: a mutating call that may have landed"),
    ("idempotent", TimedOut(1.0, still_running=True), "not repeated: the first one is still running"),
    ("read", Transient(None, 99.0), "not repeated: the wait asked for is too long"),
]


@pytest.mark.parametrize(("effect", "error", "reason"), REASONS, ids=[row[2] for row in REASONS])
async def test_every_decision_has_its_reason(effect: Effect, error: TimedOut | Transient, reason: str) -> None:
    """The report says for each failed attempt what was decided, and why."""
    tools = ToolRegistry()
    tools.register(a_tool(effect=effect))
    pipeline = standard(tools).replace("retry", Retry(2, sleep=Waits()))
    report = await pipeline.replace("execute", script(Failure(error), Failure(error))).report(Call("probe"))
    assert report.decisions[0].reason == reason
    assert (report.decisions[0].wait is None) == reason.startswith("not")
    assert report.decisions[1:] == (
        [] if reason.startswith("not") else [(2, None, "not repeated: that was attempt 2 of 2")]
    )
