"""Retry: when it repeats, how long it waits, and why it stops."""

from __future__ import annotations

import math
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.from_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from support import a_call, a_tool
from toolcall_pipeline import (
    Call,
    CallReport,
    Crashed,
    Denied,
    Effect,
    ExecutionFailed,
    Outcome,
    OutcomeUnknown,
    Pipeline,
    SetupError,
    TimedOut,
    ToolError,
    ToolRegistry,
    Transient,
    Unavailable,
    ValidCall,
)
from toolcall_pipeline.engine.errors import Landed
from toolcall_pipeline.engine.retries import RetryBudget, RetryPolicy
from toolcall_pipeline.middlewares import Classify, Retry, standard
from toolcall_pipeline.testing import script


class Waits:
    """A sleep that takes no time and remembers how long it was asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


EFFECTS: list[Effect] = ["read", "idempotent", "keyed", "mutating"]
LANDED: list[Landed] = ["no", "maybe", "yes"]


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


@given(st.floats(0, 10), st.floats(0, 60), st.lists(st.floats(0, 1, exclude_max=True), min_size=7, max_size=7))
async def test_waits_are_full_jitter(first_delay: float, max_delay: float, rolls: list[float]) -> None:
    """Each wait is the dice times a delay that doubles up to a limit."""
    waits = Waits()
    dice = iter(rolls)
    retry = Retry(7, first_delay, max_delay=max_delay, jitter=lambda: next(dice), sleep=waits)
    await retry(a_call(), script(*[Failure(Transient())] * 7))
    assert waits.seconds == [min(max_delay, first_delay * 2**n) * roll for n, roll in enumerate(rolls[:-1])]


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


@pytest.mark.parametrize(
    ("header", "waited", "told"),
    [
        ("7", [7.0], None),
        ("0", [0.05], None),
        ("30", [30.0], None),
        ("31", [], 31.0),
        ("Sun, 09 Sep 2001 01:46:50 GMT", [10.0], None),
        ("Sun, 09 Sep 2001 01:47:40 GMT", [], 60.0),
        ("Sun, 09 Sep 2001 01:40:00 GMT", [0.05], None),
        ("whenever", [0.05], None),
    ],
)
async def test_a_retry_after_header_is_obeyed(header: str, waited: list[float], told: float | None) -> None:
    """In seconds or as a date; where it is longer than the cap it is passed on instead, for whoever asks again."""
    answers = iter([503])

    async def ask() -> str:
        for status in answers:
            response = SimpleNamespace(status_code=status, headers={"Retry-After": header})
            exc: Any = OSError()
            exc.response = response
            raise exc
        return "done"

    tools, slept = ToolRegistry(), Waits()
    tools.register(a_tool(fn=ask))
    pipeline = standard(tools).replace("classify", Classify(clock=lambda: 1_000_000_000.0))
    outcome = await pipeline.replace("retry", Retry(jitter=lambda: 0.5, sleep=slept)).call("probe")
    assert slept.seconds == waited
    if told is None:
        assert outcome == Success("done")
    else:
        assert isinstance(outcome, Failure)
        error: ToolError = outcome.failure()
        assert isinstance(error, Transient)
        assert error.retry_after == told


POLICIES: list[tuple[str, TimedOut | Transient, int]] = [
    ("probe", Transient(), 3),
    ("probe", TimedOut(), 3),
    ("search", Transient(), 5),
    ("search", TimedOut(), 1),
    ("pay", Transient(landed="no"), 1),
]


@pytest.mark.parametrize(("name", "error", "attempts"), POLICIES, ids=[f"{row[0]}, {row[1].kind}" for row in POLICIES])
async def test_policies_by_tool_and_kind(name: str, error: TimedOut | Transient, attempts: int) -> None:
    """A tool may have a policy of its own, by its name: attempts, delays, and the kinds that are repeated."""
    slept, inside = Waits(), script(*[Failure(error)] * attempts)
    policies: dict[str, RetryPolicy] = {
        "search": RetryPolicy(attempts=5, first_delay=1.0, kinds={"transient"}),
        "pay": {"attempts": 1},
    }
    await Retry(3, tools=policies, jitter=lambda: 0.5, sleep=slept)(a_call(a_tool(name)), inside)
    assert len(inside.calls) == attempts
    assert slept.seconds == [(0.5 if name == "search" else 0.05) * 2**n for n in range(attempts - 1)]


async def test_kinds_may_be_an_iterator() -> None:
    """It gives its kinds once, to whoever asks first; each call is judged by all of them."""
    inside, kinds = script(*[Failure(Transient())] * 4), cast("Any", iter(("transient",)))
    retry = Retry(2, kinds=kinds, sleep=Waits())
    for _ in range(2):
        await retry(a_call(), inside)
    assert len(inside.calls) == 4


def test_senseless_policies_are_refused() -> None:
    """A policy that makes no sense is a set-up error; nothing but timeout and transient can be repeated."""
    wrong: Any = {"internal"}
    kinds = "^Retry: `kinds` must be a collection of timeout, transient, not {'internal'}$"
    policy = r"^Retry: `tools\['pay'\]` must be a RetryPolicy, which may have attempts, first_delay, kinds, max_delay, "
    for options, told in (
        ({"kinds": wrong}, kinds),
        ({"kinds": "timeout"}, "^Retry: `kinds` must be a collection of timeout, transient, not 'timeout'$"),
        (
            {"tools": {"pay": {"kinds": wrong}}},
            r"^Retry: `tools\['pay'\]\['kinds'\]` must be a collection of timeout, ",
        ),
        ({"tools": {"pay": {"atempts": 1}}}, policy),
        ({"attempts": 0}, "^Retry: `attempts` must be an integer ≥ 1, not 0$"),
        ({"first_delay": -1}, "^Retry: `first_delay` must be a number of seconds ≥ 0, not -1$"),
        ({"max_delay": math.inf}, "^Retry: `max_delay` must be a number of seconds ≥ 0 and finite, not inf$"),
    ):
        with pytest.raises(SetupError, match=told):
            Retry(**cast("Any", options))


async def always_failing(_call: Any) -> Outcome:
    return Failure(Transient())


async def test_the_budget_is_of_all_calls_together() -> None:
    """With the budget spent a failure is given back at once, and once time has passed there are retries again."""
    now, slept = [0.0], Waits()
    retry = Retry(budget=RetryBudget(5, 1, clock=lambda: now[0]), sleep=slept)
    for _ in range(10):
        assert await retry(a_call(), always_failing) == Failure(Transient())
    assert len(slept.seconds) == 5
    now[0] = 1.5
    await retry(a_call(), always_failing)
    assert len(slept.seconds) == 6


@pytest.mark.parametrize("answer", [Success("done"), Failure(ExecutionFailed("no"))], ids=str)
async def test_a_retry_that_is_answered_costs_nothing(answer: Outcome) -> None:
    """However many calls succeed the second time, the budget lasts: it is there for a backend that is down."""
    retry = Retry(budget=RetryBudget(1, 0), sleep=Waits())
    for _ in range(5):
        assert await retry(a_call(), script(Failure(Transient()), answer)) == answer


@pytest.mark.parametrize("how", ["cancelled", "raised"])
async def test_a_wait_that_does_not_end_costs_nothing(how: str) -> None:
    """A retry that is cancelled, or whose sleep raises, before it began gives its token back."""
    budget = RetryBudget(3, 0)

    async def wait(_: float) -> None:
        if how == "raised":
            raise ZeroDivisionError
        scope.cancel()
        await anyio.sleep_forever()

    retry, inside = Retry(budget=budget, sleep=wait), script(*[Failure(Transient())] * 5)
    for _ in range(5):
        with anyio.CancelScope() as scope, suppress(ZeroDivisionError):
            await retry(a_call(), inside)
    assert (len(inside.calls), budget.left) == (5, 3)


async def test_a_retry_that_is_cancelled_while_it_runs_has_cost_its_token() -> None:
    """The backend was asked again and has not answered."""
    budget = RetryBudget(3, 0)

    async def inside(call: ValidCall) -> Outcome:
        if call.attempt > 1:
            scope.cancel()
            await anyio.sleep_forever()
        return Failure(Transient())

    with anyio.CancelScope() as scope:
        await Retry(budget=budget, sleep=Waits())(a_call(), inside)
    assert budget.left == 2


async def test_without_a_budget_all_may_be_repeated() -> None:
    """`budget=None` is no limit."""
    slept = Waits()
    retry = Retry(1001, budget=None, sleep=slept)
    await retry(a_call(), always_failing)
    assert len(slept.seconds) == 1000


async def test_the_default_budget_is_enough_for_a_crowd() -> None:
    """Fifty calls that all fail have their two retries each."""
    slept = Waits()
    retry = Retry(sleep=slept)
    for _ in range(50):
        await retry(a_call(), always_failing)
    assert len(slept.seconds) == 100


class Layers:
    """A tool that asks another pipeline, whose own tool is never reached."""

    def __init__(self, *, threaded: bool = False) -> None:
        self.inner_runs: list[int] = []  # by attempt of the outer one
        self.reports: list[CallReport] = []
        self.slept = Waits()
        self.inner = self._pipeline(self.fail)
        self.outer = self._pipeline(self.ask_in_thread if threaded else self.ask)

    def _pipeline(self, fn: Any) -> Pipeline:
        tools = ToolRegistry()
        tools.register(a_tool(fn=fn))
        return standard(tools).replace("retry", Retry(sleep=self.slept))

    async def fail(self) -> None:
        self.inner_runs[-1] += 1
        raise ConnectionError

    async def ask(self) -> None:
        self.inner_runs.append(0)
        self.reports.append(await self.inner.report(Call("probe")))
        raise ConnectionError

    def ask_in_thread(self) -> None:
        anyio.from_thread.run(self.ask)


@pytest.mark.parametrize("threaded", [False, True])
async def test_one_owner_of_retries(threaded: bool) -> None:
    """Once an outer pipeline repeats, the ones inside do not: three layers of three attempts would make 27."""
    layers = Layers(threaded=threaded)
    await layers.outer.call("probe")
    assert layers.inner_runs == [3, 1, 1]
    assert [report.decisions[-1].reason for report in layers.reports] == [
        "not repeated: that was attempt 3 of 3",
        *["not repeated: an outer pipeline retries"] * 2,
    ]


async def test_an_owner_is_of_its_own_tree_and_time() -> None:
    """Neither another call at the same time is owned, nor what a repeated attempt left running once that is over."""
    layers, slept = Layers(), Waits()
    begun, answer, over = anyio.Event(), anyio.Event(), anyio.Event()
    layers.inner_runs = [0]

    async def later() -> None:
        await over.wait()
        layers.reports.append(await layers.inner.report(Call("probe")))

    async with anyio.create_task_group() as group:

        async def second_attempt(_call: Any) -> Outcome:
            group.start_soon(later)
            begun.set()
            await answer.wait()
            return Success("done")

        async def first_then_second(call: Any) -> Outcome:
            return Failure(Transient()) if call.attempt == 1 else await second_attempt(call)

        async def run() -> None:
            await Retry(sleep=slept)(a_call(), first_then_second)
            over.set()

        group.start_soon(run)
        await begun.wait()
        layers.reports.append(await layers.inner.report(Call("probe")))
        answer.set()
    assert [len(report.attempts) for report in layers.reports] == [3, 3]
