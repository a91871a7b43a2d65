"""CircuitBreaker: what counts as a failure, when it opens, how it closes, and what `definitions()` shows meanwhile."""

from __future__ import annotations

import math
import threading
import time
import types
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from returns.result import Failure, Success

from error_cases import EACH_KIND
from support import PATIENT, a_call, a_tool
from toolcall_pipeline import (
    Call,
    ExecutionFailed,
    Outcome,
    OutcomeUnknown,
    ResolvedCall,
    SetupError,
    TimedOut,
    ToolError,
    ToolRegistry,
    Transient,
    Unavailable,
    render,
)
from toolcall_pipeline.middlewares import RateLimit, Retry, Trace, standard
from toolcall_pipeline.middlewares.circuit_breaker import CircuitBreaker
from toolcall_pipeline.stage_state import limit_states
from toolcall_pipeline.stage_state.circuits import Breaking, Circuit
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import FakeClock, assert_trace, recorded_spans, script
from toolcall_pipeline.tools.availability import ExpiringGate

DONE: Outcome = Success("done")
FAILED: Outcome = Failure(Transient())
ANSWERED: Outcome = Failure(ExecutionFailed("no such thing"))
SILENT: Outcome = Failure(Unavailable("probe", "paused"))


class Cancelled(BaseException):
    """Stands in for the cancellation that an event loop throws into a task."""


@types.coroutine
def _next_outcome() -> Generator[None, Outcome, Outcome]:
    return (yield)


class Running:
    """A call that has entered the breaker and ends when the test says so; it needs no event loop."""

    def __init__(self, breaker: CircuitBreaker, call: ResolvedCall | None = None) -> None:
        async def inside(_: ResolvedCall) -> Outcome:
            return await _next_outcome()

        self._coroutine: Any = breaker(call or a_call(), inside)
        self.refused: Unavailable | None = None
        try:
            self._coroutine.send(None)
        except StopIteration as stopped:
            self.refused = stopped.value.failure()

    def ends(self, outcome: Outcome) -> None:
        with pytest.raises(StopIteration) as stopped:
            self._coroutine.send(outcome)
        assert stopped.value.value is outcome

    def is_cancelled(self) -> None:
        with pytest.raises(Cancelled):
            self._coroutine.throw(Cancelled())


def run(breaker: CircuitBreaker, outcome: Outcome, call: ResolvedCall | None = None) -> Unavailable | None:
    """Make one call that ends so. None, or why it was refused."""
    running = Running(breaker, call)
    if running.refused is None:
        running.ends(outcome)
    return running.refused


def is_open(breaker: CircuitBreaker, call: ResolvedCall | None = None) -> bool:
    """Whether a call is refused. A call that passes is cancelled, which counts as nothing."""
    running = Running(breaker, call)
    if running.refused is None:
        running.is_cancelled()
    return running.refused is not None


FAILURES = [error for error in EACH_KIND if error.breaker == "failure"]
ANSWERS = [error for error in EACH_KIND if error.breaker == "success"]
NOTHING = [error for error in EACH_KIND if error.breaker == "ignored"]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: error.kind)
def test_failures_open_it(error: ToolError) -> None:
    """So many failures in a row open it; from then on nothing runs, and a refusal tells the seconds that are left."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=3, open_for=30, clock=clock)
    for _ in range(3):
        assert run(breaker, Failure(error)) is None
    assert run(breaker, DONE) == Unavailable("probe", "breaker_open", 30.0)
    clock.now += 29.5
    assert run(breaker, DONE) == Unavailable("probe", "breaker_open", 0.5)


@pytest.mark.parametrize("outcome", [DONE, *map(Failure, ANSWERS)], ids=str)
def test_an_answer_ends_a_row_of_failures(outcome: Outcome) -> None:
    """A tool that answers works, even if the answer is an error: the count of failures starts anew."""
    breaker = CircuitBreaker(failures=2, clock=FakeClock())
    for each in (FAILED, outcome, FAILED, outcome):
        run(breaker, each)
    assert not is_open(breaker)
    run(breaker, FAILED)
    run(breaker, FAILED)
    assert is_open(breaker)


@pytest.mark.parametrize("error", NOTHING, ids=lambda error: error.kind)
def test_ignored_outcomes_change_nothing(error: ToolError) -> None:
    """A call that never reached the tool, or was cancelled, neither ends a row of failures nor adds to it."""
    breaker = CircuitBreaker(failures=2, clock=FakeClock())
    for _ in range(5):
        run(breaker, Failure(error))
        Running(breaker).is_cancelled()
    assert not is_open(breaker)
    run(breaker, FAILED)
    run(breaker, Failure(error))
    Running(breaker).is_cancelled()
    run(breaker, FAILED)
    assert is_open(breaker)


# A call that fails: F, succeeds: S, never runs: u, is cancelled: c, is refused: s. A digit: so many seconds pass.
# The breaker opens after 2 failures for 4 seconds; then for 8, for 10, and for 10 again.
STORIES = {
    "closed": "SSFSSFSS",
    "open": "FFs1ss",
    "an answer between": "FSFSFFs",
    "open for its time": "FF3s1SS",
    "closed by a probe": "FF4SSFSFFs",
    "opened again by a probe, for longer": "FF4Fs7s1S",
    "and longer, up to a limit": "FF4F8F9s1F9s1S",
    "closed, it opens for as long as at first": "FF4F8SFF3s1S",
    "tried by the next call after an ignored probe": "FF4uccuS",
    "which does not close it": "FF4ucFs7s1S",
    "one failure is no row": "FF4SFSF",
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_its_states(story: str) -> None:
    """Closed it passes all calls, open none, half-open one: a success closes it, a failure opens it for longer."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=2, open_for=4, max_open_for=10, clock=clock)
    ends = {"F": FAILED, "S": DONE, "u": SILENT}
    for place, step in enumerate(story):
        if step.isdigit():
            clock.now += int(step)
        elif step == "c":
            Running(breaker).is_cancelled()
        else:
            refused = run(breaker, ends.get(step, DONE))
            assert (refused is not None) == (step == "s"), story[: place + 1]


def test_by_default_it_opens_for_the_same_time_again() -> None:
    """Without `max_open_for` a failed probe opens it for `open_for` seconds, each time."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=1, open_for=4, clock=clock)
    for _ in range(4):
        run(breaker, FAILED)
        assert run(breaker, FAILED) == Unavailable("probe", "breaker_open", 4.0)
        clock.now += 4


@settings(deadline=None)
@given(st.floats(0, 1e7), st.floats(1e-3, 1e5), st.lists(st.floats(0, 1), max_size=3))
def test_retry_after_is_right(now: float, open_for: float, shares: list[float]) -> None:
    """A call made after the seconds that it was told may try, however floats round."""
    clock = FakeClock(now)
    breaker = CircuitBreaker(failures=1, open_for=open_for, clock=clock)
    run(breaker, FAILED)
    for share in (0.0, *shares, 1.0):
        refused = run(breaker, DONE)
        if refused is None:
            return
        assert refused.retry_after is not None
        assert refused.retry_after > 0
        clock.now += refused.retry_after * share
    assert not is_open(breaker)


def test_a_rounded_float_is_not_too_early() -> None:
    """A call is let through if only rounding makes the time of the refusal plus `retry_after` come too early."""
    clock = FakeClock(0.7)
    breaker = CircuitBreaker(failures=1, open_for=30, clock=clock)
    run(breaker, FAILED)
    clock.now = 12.463285120807173
    assert clock.now + (30.7 - clock.now) < 30.7
    refused = run(breaker, DONE)
    assert refused == Unavailable("probe", "breaker_open", 30.7 - clock.now)
    clock.now += 30.7 - clock.now
    assert not is_open(breaker)


@pytest.mark.parametrize("probes", [1, 2, 3])
def test_how_many_probes_run_at_once(probes: int) -> None:
    """While `probes` calls try a half-open breaker all others are refused, without a time to come back."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=1, probes=probes, clock=clock)
    run(breaker, FAILED)
    clock.now += 30
    out = [Running(breaker) for _ in range(probes)]
    assert [probe.refused for probe in out] == [None] * probes
    assert run(breaker, DONE) == Unavailable("probe", "breaker_open", None)
    out[0].is_cancelled()
    out[0] = Running(breaker)
    assert out[0].refused is None
    assert is_open(breaker)
    out[-1].ends(DONE)
    assert not is_open(breaker)


def test_threads_share_a_half_open_breaker() -> None:
    """However many threads call at once, no more than `probes` calls may try."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    run(breaker, FAILED)
    clock.now += 30

    class Slow(int):
        def __le__(self, other: int) -> bool:
            found = super().__le__(other)
            for _ in range(20):
                time.sleep(0)  # lets other threads run while this one decides
            return found

    breaker.probes = Slow(1)
    calls: list[Running] = []
    together = threading.Barrier(16, timeout=PATIENT)

    def come() -> None:
        together.wait()
        calls.append(Running(breaker))

    threads = [threading.Thread(target=come, daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trying = [call for call in calls if call.refused is None]
    assert len(trying) == 1
    trying[0].is_cancelled()


def test_the_first_probe_decides() -> None:
    """Of several probes the first that ends decides; the others began before the change of state and do not count."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=1, probes=3, clock=clock)
    run(breaker, FAILED)
    clock.now += 30
    first, second, third = (Running(breaker) for _ in range(3))
    first.ends(FAILED)
    second.ends(DONE)
    assert run(breaker, DONE) == Unavailable("probe", "breaker_open", 30.0)
    clock.now += 30
    third.ends(DONE)
    probe = Running(breaker)
    assert probe.refused is None
    probe.ends(DONE)
    assert not is_open(breaker)


@pytest.mark.parametrize("late", [DONE, FAILED], ids=["success", "failure"])
@pytest.mark.parametrize("options", [{}, {"failure_ratio": 0.5, "min_calls": 1}], ids=["in a row", "ratio"])
@pytest.mark.parametrize("when", ["open", "half-open", "closed"])
def test_calls_from_before_a_change_do_not_count(late: Outcome, options: dict[str, Any], when: str) -> None:
    """A call that began before the breaker changed its state says nothing about the tool now."""
    clock = FakeClock()
    breaker: Any = CircuitBreaker(failures=1, clock=clock, **options)
    hanging = [Running(breaker) for _ in range(3)]
    run(breaker, FAILED)
    if when != "open":
        clock.now += 30
    if when == "closed":
        run(breaker, DONE)
    circuit = breaker._local.by_key["probe"].state
    before = [is_open(breaker), circuit.transition]
    for call in hanging:
        call.ends(late)
    assert [is_open(breaker), circuit.transition] == before == [when == "open", 2 if when == "closed" else 1]


@pytest.mark.parametrize("options", [{}, {"failure_ratio": 0.5, "min_calls": 99}], ids=["in a row", "ratio"])
def test_a_success_from_before_a_change_ends_no_row(options: dict[str, Any]) -> None:
    """A success that began before the change of state does not end a row of failures after it."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=2, clock=clock, **options)
    run(breaker, DONE)
    hanging = Running(breaker)
    for outcome in (FAILED, FAILED):
        run(breaker, outcome)
    clock.now += 30
    run(breaker, DONE)
    run(breaker, FAILED)
    hanging.ends(DONE)
    run(breaker, FAILED)
    assert is_open(breaker)


async def test_an_exception_is_no_probe() -> None:
    """An exception of a stage further in passes through and counts as nothing; the next call may try."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await breaker(a_call(), script(ZeroDivisionError()))
    assert not is_open(breaker)
    run(breaker, FAILED)
    clock.now += 30
    with pytest.raises(ZeroDivisionError):
        await breaker(a_call(), script(ZeroDivisionError()))
    assert not is_open(breaker)


# Options beside a window of 10 seconds; what happens, as above, and A: an answer; whether the breaker is open then.
RATIOS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "half of them": ({"failure_ratio": 0.5, "min_calls": 4}, "SFSF", True),
    "less than half": ({"failure_ratio": 0.5, "min_calls": 4}, "SSFSF", False),
    "too few calls": ({"failure_ratio": 0.5, "min_calls": 5}, "FFFF", False),
    "all": ({"failure_ratio": 1, "min_calls": 3}, "FFF", True),
    "all but one": ({"failure_ratio": 1, "min_calls": 3}, "FFSFFF", False),
    "a success does not open it": ({"failure_ratio": 0.5, "min_calls": 4}, "FFFS", False),
    "nor does an answer": ({"failure_ratio": 0.5, "min_calls": 4}, "FFFA", False),
    "the next failure does": ({"failure_ratio": 0.5, "min_calls": 4}, "FFFSF", True),
    "seven of a hundred, as a float": ({"failure_ratio": 0.07, "min_calls": 100}, "F" * 6 + "S" * 93 + "F", True),
    "ignored calls do not count": ({"failure_ratio": 0.5, "min_calls": 3}, "FucF", False),
    "old successes are forgotten": ({"failure_ratio": 0.5, "min_calls": 2}, "SSSS55FF", True),
    "but not too early": ({"failure_ratio": 0.5, "min_calls": 2}, "SSSS54FF", False),
    "old failures are forgotten": ({"failure_ratio": 0.5, "min_calls": 4}, "FF91FF", False),
    "some are forgotten, three left": ({"failure_ratio": 0.5, "min_calls": 3}, "F5F41FF", True),
    "some are forgotten, two left": ({"failure_ratio": 0.5, "min_calls": 3}, "F5F9F", False),
    "a failure is forgotten with its own time": ({"failure_ratio": 0.6, "min_calls": 2}, "S5F6F", True),
    "a call counts when it ends": ({"failure_ratio": 0.5, "min_calls": 2}, "S5SSS7FF", False),
    "also in the newest bucket": ({"failure_ratio": 0.5, "min_calls": 2}, "SSSFF", False),
    "by the row alone": ({"failures": 3, "failure_ratio": 0.9, "min_calls": 9}, "SFFF", True),
    "by the ratio alone": ({"failures": 3, "failure_ratio": 0.5, "min_calls": 4}, "FSSF", True),
    "by neither": ({"failures": 3, "failure_ratio": 0.9, "min_calls": 9}, "FFSFFSF", False),
}


@pytest.mark.parametrize(("options", "story", "opens"), RATIOS.values(), ids=RATIOS)
def test_a_ratio_of_a_window(options: dict[str, Any], story: str, opens: bool) -> None:
    """It opens with a failure that brings the share of failures in the window to the ratio, if calls are enough."""
    clock = FakeClock()
    whole: dict[str, Any] = {"failures": None, "window": 10, "clock": clock, **options}
    breaker = CircuitBreaker(**whole)
    ends = {"F": FAILED, "S": DONE, "A": ANSWERED, "u": SILENT}
    for step in story:
        if step.isdigit():
            clock.now += int(step)
        elif step == "c":
            Running(breaker).is_cancelled()
        else:
            assert run(breaker, ends[step]) is None
    assert is_open(breaker) == opens


def test_a_window_after_a_long_silence() -> None:
    """After however long a silence, older calls do not count."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=None, failure_ratio=0.5, min_calls=3, window=10, clock=clock)
    for _ in range(2):
        run(breaker, FAILED)
        run(breaker, FAILED)
        clock.now += 1e12
    assert not is_open(breaker)


def test_a_window_starts_empty_after_a_change() -> None:
    """The failures that opened it do not count again after a probe has closed it."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=None, failure_ratio=0.5, min_calls=2, window=100, open_for=1, clock=clock)
    for outcome in (FAILED, FAILED):
        run(breaker, outcome)
    assert is_open(breaker)
    clock.now += 1
    for outcome in (DONE, FAILED):
        run(breaker, outcome)
    assert not is_open(breaker)


@attrs.define(eq=False)
class Expected:
    """The model: what a breaker must know of one principal, kept in the plainest way."""

    row: int = 0
    calls: list[tuple[float, bool]] = attrs.field(factory=list[tuple[float, bool]])
    until: float | None = None
    open_for: float = 4
    probing: int = 0
    changes: int = 0

    def change(self, until: float | None, open_for: float) -> None:
        self.row, self.until, self.open_for = 0, until, open_for
        self.calls.clear()
        self.changes += 1


class Breaker(RuleBasedStateMachine):
    """Calls of two principals, any number at once, compared with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.tools = ToolRegistry()
        self.tools.register(a_tool())
        self.breaker: Any = CircuitBreaker(
            self.tools,
            failures=3,
            failure_ratio=0.5,
            window=10,
            min_calls=4,
            open_for=4,
            max_open_for=10,
            probes=2,
            clock=self.clock,
        )
        self.expected = {"": Expected(), "b": Expected()}
        self.running: list[tuple[Running, Expected, bool, int]] = []

    @rule(principal=st.sampled_from(["", "b"]))
    def begin(self, principal: str) -> None:
        """Open, it refuses with the seconds that are left; half-open with enough probes, without."""
        known, now = self.expected[principal], self.clock.now
        call = Running(self.breaker, a_call(principal=principal))
        probe = known.until is not None
        if known.until is not None and (now < known.until or known.probing == 2):
            left = known.until - now if now < known.until else None
            assert call.refused == Unavailable("probe", "breaker_open", left)
            return
        assert call.refused is None
        known.probing += probe
        self.running.append((call, known, probe, known.changes))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99), outcome=st.sampled_from([DONE, FAILED, FAILED, ANSWERED, SILENT, None]))
    def end(self, which: int, outcome: Outcome | None) -> None:
        """Failures in a row or their ratio open it, probes close or open it, and calls from before do nothing."""
        call, known, probe, changes = self.running.pop(which % len(self.running))
        call.is_cancelled() if outcome is None else call.ends(outcome)
        known.probing -= probe
        if outcome in (SILENT, None) or known.changes != changes:
            return
        failed, now = outcome == FAILED, self.clock.now
        if probe:
            open_for = min(known.open_for * 2, 10)
            known.change(now + open_for, open_for) if failed else known.change(None, 4)
            return
        known.row = known.row + 1 if failed else 0
        known.calls.append((now, failed))
        late = [failed for when, failed in known.calls if when > now - 10]
        if failed and (known.row >= 3 or (len(late) >= 4 and sum(late) / len(late) >= 0.5)):
            known.change(now + known.open_for, known.open_for)

    @rule(seconds=st.sampled_from([1, 1, 2, 4, 8, 20]))
    def wait(self, seconds: int) -> None:
        """Time alone shows the tool again; no call is needed."""
        self.clock.now += seconds

    def teardown(self) -> None:
        """End all coroutines: one that never ends warns."""
        for call, *_ in self.running:
            call.is_cancelled()

    @invariant()
    def shown(self) -> None:
        """The tool is missing in `definitions()` exactly while its breaker is open for calls without a principal."""
        until = self.expected[""].until
        left = 0.0 if until is None else until - self.clock.now
        assert (self.tools.callable_names() == []) == (left > 0)
        assert self.tools.closed.get("probe") == (Unavailable("probe", "breaker_open", left) if left > 0 else None)


TestBreaker = Breaker.TestCase
TestBreaker.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)


def of(name: str, principal: str) -> ResolvedCall:
    return a_call(a_tool(name), principal=principal)


FOUR = [of("a", "x"), of("a", "y"), of("b", "x"), of("b", "y")]
KEYS: dict[str, tuple[Callable[[ResolvedCall], object] | None, list[bool]]] = {
    "tool and principal": (None, [True, False, False, False]),
    "tool": (lambda call: call.tool.name, [True, True, False, False]),
    "principal": (lambda call: call.principal, [True, False, True, False]),
    "all share one": (lambda _: "all", [True, True, True, True]),
    "only the other tool": (lambda call: call.principal if call.tool.name == "b" else None, [False] * 4),
}


@pytest.mark.parametrize("ratio", [None, 0.5])
@pytest.mark.parametrize(("key", "opened"), KEYS.values(), ids=KEYS)
def test_who_shares_a_breaker(key: Any, opened: list[bool], ratio: float | None) -> None:
    """Each tool and principal has a breaker of its own, or each key has; a call with the key None has none."""
    breaker = CircuitBreaker(failures=2, failure_ratio=ratio, key=key, clock=FakeClock())
    for _ in range(2):
        run(breaker, FAILED, FOUR[0])
    assert [is_open(breaker, call) for call in FOUR] == opened


@pytest.mark.parametrize(
    ("options", "outcomes", "quiet"),
    [
        pytest.param({}, [FAILED], 3600, id="a failure"),
        pytest.param({}, [FAILED, DONE], 120, id="a failure and a success"),
        pytest.param({"failures": 1}, [FAILED], 3600, id="open"),
        pytest.param({"failure_ratio": 0.5}, [DONE], 120, id="a success in a window"),
        pytest.param({"failure_ratio": 0.5}, [FAILED], 3600, id="a failure in a window"),
    ],
)
def test_quiet_partitions_are_forgotten(
    options: dict[str, Any], outcomes: list[Outcome], quiet: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet principal is forgotten when others come, and not before its state has no meaning any more."""
    monkeypatch.setattr(limit_states, "_MANY", 1)
    clock = FakeClock()
    breaker: Any = CircuitBreaker(clock=clock, open_for=1, **options)
    breaker._local._sweep_at = 1
    step = quiet / 100
    for number in range(400):
        for outcome in outcomes:
            run(breaker, outcome, a_call(principal=str(number)))
        clock.now += step
    assert 99 <= len(breaker._local.by_key) <= 2 * (100 + 2)


def test_states_are_looked_through_when_their_number_has_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since the last time: to look at all of them for each new one would be quadratic."""
    monkeypatch.setattr(limit_states, "_MANY", 4)
    rule: Any = types.SimpleNamespace(begin=int, decide=max, keep=lambda _state, _at: 5)  # pyright: ignore[reportUnknownLambdaType]
    states: Any = limit_states.LocalStates(rule, iter(range(13)).__next__)
    states._sweep_at = 4
    sizes: list[int] = []
    for number in range(13):
        states.decide(number, 0)
        sizes.append(len(states.by_key))
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 5]


def test_states_of_a_busy_time_do_not_stay() -> None:
    """What says nothing any more goes at the first new key ten minutes later, though the number does not double."""
    rule: Any = types.SimpleNamespace(begin=int, decide=max, keep=lambda _state, _at: 5)  # pyright: ignore[reportUnknownLambdaType]
    now = [0.0]
    states: Any = limit_states.LocalStates(rule, lambda: now[0])
    sizes: list[int] = []
    for at, keys in ((0.0, 1000), (599.0, 1), (600.0, 1), (1199.0, 2), (1200.0, 1)):
        now[0] = at
        for number in range(keys):
            states.decide((at, number), 0)
        sizes.append(len(states.by_key))
    assert sizes == [1000, 1001, 2, 4, 3]


@pytest.mark.parametrize(
    ("circuit", "window", "trial", "seconds"),
    [
        pytest.param(Circuit(), 60, 5, 120, id="healthy"),
        pytest.param(Circuit(failures=1), 60, 5, 3600, id="failing"),
        pytest.param(Circuit(failures=1), 7200, 5, 14_400, id="failing, with a long window"),
        pytest.param(Circuit(open_until=110), 60, 5, 3610, id="open"),
        pytest.param(Circuit(open_until=90), 60, 5, 3600, id="half-open"),
        pytest.param(Circuit(open_until=90, probes={"a": 105}), 60, 5, 3605, id="tried"),
        pytest.param(Circuit(open_until=90, probes={"a": math.inf}), 60, math.inf, math.inf, id="tried without end"),
    ],
)
def test_how_long_a_circuit_is_kept(circuit: Circuit, window: float, trial: float, seconds: float) -> None:
    """For an hour after it may be tried, or twice the window; one that is tried, for an hour after the trial."""
    rule = Breaking(3, None, window, min_calls=1, open_for=10, max_open_for=10, probes=1, trial=trial)
    assert rule.keep(circuit, 100) == seconds


def others(breaker: CircuitBreaker, clock: FakeClock, seconds: int) -> None:
    """Let time pass; each minute a call of a new principal fails."""
    for minute in range(seconds // 60):
        clock.now += 60
        run(breaker, FAILED, a_call(principal=f"{clock.now}, {minute}"))


@pytest.mark.long
def test_open_circuits_are_kept() -> None:
    """A circuit is kept however long it stays open, and however long a probe takes."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=1, open_for=36_000, clock=clock)
    run(breaker, FAILED)
    others(breaker, clock, 35_940)
    assert run(breaker, DONE) == Unavailable("probe", "breaker_open", 60.0)
    clock.now += 60
    probe = Running(breaker)
    others(breaker, clock, 36_000)
    assert is_open(breaker)
    probe.ends(DONE)
    assert not is_open(breaker)


def test_busy_circuits_are_kept() -> None:
    """A window is kept also if all its calls succeed."""
    clock = FakeClock()
    breaker = CircuitBreaker(failures=None, failure_ratio=0.5, window=10, min_calls=1, clock=clock)
    for second in range(25):
        clock.now += 1
        run(breaker, DONE)
        run(breaker, DONE, a_call(principal=str(second)))
    for _ in range(8):
        run(breaker, FAILED)
    assert not is_open(breaker)


def test_healthy_partitions_take_no_memory() -> None:
    """If only failures in a row count, nothing is kept of principals without one."""
    breaker: Any = CircuitBreaker(clock=FakeClock())
    for number in range(100):
        run(breaker, DONE, a_call(principal=str(number)))
        run(breaker, ANSWERED, a_call(principal=str(number)))
    assert breaker._local.by_key == {}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name)
        for name, make in {
            "no rule that opens it": lambda: CircuitBreaker(failures=None),
            "no failure": lambda: CircuitBreaker(failures=0),
            "failures of nan": lambda: CircuitBreaker(failures=math.nan),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            "no ratio": lambda: CircuitBreaker(failure_ratio=0),
            "a ratio of more than all": lambda: CircuitBreaker(failure_ratio=1.1),
            "a ratio of nan": lambda: CircuitBreaker(failure_ratio=math.nan),
            "no window": lambda: CircuitBreaker(window=0),
            "a window of nan": lambda: CircuitBreaker(window=math.nan),
            "a window without end": lambda: CircuitBreaker(window=math.inf),
            "no minimum": lambda: CircuitBreaker(min_calls=0),
            "open for no time": lambda: CircuitBreaker(open_for=0),
            "open for nan": lambda: CircuitBreaker(open_for=math.nan),
            "open for ever": lambda: CircuitBreaker(open_for=math.inf),
            "a limit below open_for": lambda: CircuitBreaker(open_for=30, max_open_for=29),
            "a limit of nan": lambda: CircuitBreaker(max_open_for=math.nan),
            "no limit": lambda: CircuitBreaker(max_open_for=math.inf),
            "no registry": lambda: CircuitBreaker(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            "no probes": lambda: CircuitBreaker(probes=0),
        }.items()
    ],
)
def test_what_makes_no_sense_is_refused_at_set_up(make: Callable[[], object]) -> None:
    """A breaker that never opens, or never closes again, is a set-up error that says what is allowed."""
    with pytest.raises(SetupError, match=r"CircuitBreaker: .*`\w+` must"):
        make()


# --- the registry -----------------------------------------------------------------------------------------------------


def holding(*names: str) -> ToolRegistry:
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name))
    return tools


def test_an_open_breaker_takes_the_tool_out() -> None:
    """While the breaker is open the tool is not offered; when its time is up it is offered again, without a call."""
    clock, tools = FakeClock(), holding("probe", "other")
    breaker = CircuitBreaker(tools, failures=1, open_for=30, max_open_for=60, clock=clock)
    seen: list[tuple[float, list[str]]] = []

    def look() -> None:
        seen.append((clock.now - 1000, [each["name"] for each in tools.definitions()]))

    run(breaker, FAILED)
    look()
    clock.now += 29
    look()
    clock.now += 1
    look()
    run(breaker, FAILED)
    look()
    clock.now += 60
    look()
    run(breaker, DONE)
    look()
    without, both = ["other"], ["probe", "other"]
    assert seen == [(0, without), (29, without), (30, both), (30, without), (90, both), (90, both)]
    assert type(tools.closed) is dict  # the quick gate again, for all tools


def test_other_locks_stay() -> None:
    """A tool that is also paused stays paused when the breaker closes."""
    clock, tools = FakeClock(), holding("probe")
    breaker = CircuitBreaker(tools, failures=1, clock=clock)
    run(breaker, FAILED)
    tools.pause("probe", 5.0)
    clock.now += 30
    assert tools.closed["probe"] == Unavailable("probe", "paused", 5.0)
    run(breaker, DONE)
    assert tools.closed == {"probe": Unavailable("probe", "paused", 5.0)}


def test_a_principal_does_not_close_the_registry() -> None:
    """A registry serves all principals: the breaker of one of them refuses its calls and closes no tool for others."""
    tools = holding("probe")
    breaker = CircuitBreaker(tools, failures=1, clock=FakeClock())
    run(breaker, FAILED, a_call(principal="a"))
    assert is_open(breaker, a_call(principal="a"))
    assert not is_open(breaker, a_call(principal="b"))
    assert tools.closed == {}


def to_host(host: str) -> ResolvedCall:
    return a_call(params={"host": host})


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([DONE, FAILED]), st.integers(0, 40)), max_size=30))
def test_one_of_several_keys_closes_no_tool(steps: list[tuple[str, Outcome, int]]) -> None:
    """However the breakers of several keys open and close, each refuses its own calls only and the registry none."""
    tools, clock = holding("probe"), FakeClock()
    options: dict[str, Any] = {"failures": 1, "open_for": 30, "clock": clock}
    shared = CircuitBreaker(tools, key=lambda call: getattr(call, "params", {})["host"], **options)
    alone = {host: CircuitBreaker(**options) for host in "abc"}
    for host, outcome, seconds in steps:
        assert run(shared, outcome, to_host(host)) == run(alone[host], outcome)
        clock.now += seconds
        assert tools.callable_names() == ["probe"]
        assert not tools.closed


def test_each_principal_may_have_a_view() -> None:
    """If `registry` is a function, an open breaker closes the tool in the view of its principal."""
    tools, clock = holding("probe"), FakeClock()
    views = {name: tools.view({"probe"}) for name in "ab"}
    breaker = CircuitBreaker(lambda call: views.get(call.principal), failures=1, clock=clock)
    for principal in ("a", "stranger"):
        run(breaker, FAILED, a_call(principal=principal))
    assert [each.callable_names() for each in (views["a"], views["b"], tools)] == [[], ["probe"], ["probe"]]
    assert views["a"].closed["probe"] == Unavailable("probe", "breaker_open", 30.0)
    clock.now += 30
    assert views["a"].callable_names() == ["probe"]
    run(breaker, DONE, a_call(principal="a"))
    assert views["a"].callable_names() == ["probe"]


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([DONE, FAILED]), st.integers(0, 40)), max_size=30)


@given(STEPS)
def test_a_tool_is_offered_when_no_breaker_keeps_it_closed(steps: list[tuple[str, Outcome, int]]) -> None:
    """Several breakers on one registry, each with a lock of its own: closing one of them reopens nothing for others."""
    tools, clock = holding("probe"), FakeClock()
    breakers: dict[str, Any] = {
        name: CircuitBreaker(tools, failures=1, open_for=seconds, clock=clock)
        for name, seconds in {"a": 10, "b": 30, "c": 30}.items()
    }
    for name, outcome, seconds in steps:
        run(breakers[name], outcome)
        for _ in range(2):
            open_for = [
                held.state.seconds_left(clock.now) for each in breakers.values() for held in each._local.by_key.values()
            ]
            assert bool(tools.callable_names()) is not any(open_for)
            clock.now += seconds


@given(STEPS)
def test_principals_may_share_a_view(steps: list[tuple[str, Outcome, int]]) -> None:
    """The breakers of several principals, which close one view, do not overwrite each other's lock either."""
    tools, clock = holding("probe"), FakeClock()
    view = tools.view({"probe"})
    breaker: Any = CircuitBreaker(lambda _: view, failures=1, open_for=30, clock=clock)
    for principal, outcome, seconds in steps:
        run(breaker, outcome, a_call(principal=principal))
        clock.now += seconds
        assert bool(view.callable_names()) is not any(
            held.state.seconds_left(clock.now) for held in breaker._local.by_key.values()
        )
        assert tools.callable_names() == ["probe"]


def test_locks_of_breakers_that_are_gone_do_not_pile_up() -> None:
    """A pipeline for each request, with a breaker of its own: a lock that has expired goes when the next one comes."""
    tools, clock = holding("probe"), FakeClock()
    for _ in range(5):
        run(CircuitBreaker(tools, failures=1, clock=clock), FAILED)
        clock.now += 30
    assert isinstance(tools.closed, ExpiringGate)
    assert tools.closed.size == 1


def test_a_tool_of_another_registry() -> None:
    """Pipelines may share a breaker; a tool that its registry does not hold is refused without closing anything."""
    tools, clock = holding("other"), FakeClock()
    breaker = CircuitBreaker(tools, failures=1, clock=clock)
    run(breaker, FAILED)
    assert is_open(breaker)
    clock.now += 30
    run(breaker, DONE)
    assert not is_open(breaker)


async def fail() -> None:
    raise ConnectionError


def test_its_place_beside_a_ledger() -> None:
    """What it says of its place holds where a ledger is: outside of it, which is outside of retry."""
    pipeline = standard(ToolRegistry(), store=Memory())
    with pytest.raises(SetupError, match="ledger must stand inside of circuit_breaker"):
        pipeline.after("retry", CircuitBreaker())
    described = pipeline.before("ledger", CircuitBreaker()).describe().splitlines()
    (line,) = [each for each in described if each.startswith("circuit_breaker")]
    assert "outside of a ledger" in line
    rows = (Path(__file__).parent.parent / "middlewares" / "STAGES.md").read_text().splitlines()
    assert "with a `Ledger` outside of it" in next(row for row in rows if row.startswith("| `CircuitBreaker("))


async def test_in_a_pipeline() -> None:
    """Inside of Retry each attempt counts and an open breaker ends the retrying; later calls stop at Available."""
    clock, tools = FakeClock(), ToolRegistry()
    runs: list[int] = []

    async def fail_again() -> None:
        runs.append(1)
        raise ConnectionError

    tools.register(a_tool(fn=fail_again))
    breaker = CircuitBreaker(tools, failures=2, clock=clock)
    pipeline = standard(tools).replace("retry", Retry(5, 0)).after("retry", breaker)
    report = await pipeline.report(Call("probe"))
    assert report.outcome == Failure(Unavailable("probe", "breaker_open", 30.0))
    assert len(runs) == 2
    refusals = [stage.verdict for stage in report.stages if stage.name == "circuit_breaker"]
    assert refusals == [None, None, "unavailable"]
    assert [each.verdict for each in report.attempts] == ["transient", "transient"]
    clock.now += 10
    report = await pipeline.report(Call("probe"))
    assert report.outcome == Failure(Unavailable("probe", "breaker_open", 20.0))
    assert [stage.name for stage in report.stages] == ["resolve", "available"]
    assert report.attempts == ()
    text = "Error: This tool failed repeatedly and is switched off for a while. Try again in 20 seconds."
    assert render(Unavailable("probe", "breaker_open", 20.0)) == text


@pytest.mark.parametrize(
    "refuse", [lambda: CircuitBreaker(failures=1), lambda: RateLimit(1, per=60)], ids=["breaker", "rate"]
)
async def test_a_refused_run_is_no_attempt(refuse: Callable[[], Any]) -> None:
    """An attempt that a stage refuses before the body has a span, and report and call do not count it."""
    tools = ToolRegistry()
    tools.register(a_tool(fn=fail))
    with recorded_spans() as recorded:
        pipeline = standard(tools).replace("trace", Trace(tracer_provider=recorded.tracer_provider))
        pipeline = pipeline.replace("retry", Retry(1, 0)).after("retry", refuse())
        reports = [await pipeline.report(Call("probe")) for _ in range(2)]
        assert_trace(recorded.spans, reports=reports)
        calls = [span for span in recorded.spans if span.name.startswith("execute_tool")]
        refused = [dict(span.attributes or {}) for span in recorded.spans if span.name.startswith("attempt")][1]
    assert [[each.verdict for each in report.attempts] for report in reports] == [["transient"], []]
    assert [dict(span.attributes or {})["toolcall.attempts"] for span in calls] == [1, 0]
    assert (refused["toolcall.executor"], refused["error.type"]) == ("", "unavailable")


async def test_outside_of_retry_a_call_counts_once() -> None:
    """Outside of Retry a call with all its attempts is one failure, also if its side effect was lost."""
    tools = ToolRegistry()
    tools.register(a_tool(effect="mutating"))
    breaker = CircuitBreaker(failures=2, clock=FakeClock())
    lost, passing = Failure(TimedOut(1.0)), Failure(Transient(landed="no"))
    pipeline = standard(tools).replace("retry", Retry(3, 0)).before("retry", breaker)
    pipeline = pipeline.replace("execute", script(passing, passing, lost, passing, passing, passing))
    outcomes = [await pipeline.call("probe") for _ in range(3)]
    refused = Failure(Unavailable("probe", "breaker_open", 30.0))
    assert outcomes == [Failure(OutcomeUnknown(TimedOut(1.0))), passing, refused]


async def test_suggestions_follow() -> None:
    """A closed tool is not suggested; when its time is up it is, also for a name that was asked for before."""
    clock, tools = FakeClock(), holding("probe")
    breaker = CircuitBreaker(tools, failures=1, clock=clock)
    pipeline = standard(tools).after("retry", breaker)

    async def suggested() -> Any:
        outcome: Any = await pipeline.call("prob")
        return outcome.failure().suggestions

    seen = [await suggested()]
    for _ in range(2):
        run(breaker, FAILED)
        seen.append(await suggested())
        clock.now += 30
        seen.append(await suggested())
    run(breaker, DONE)
    seen.append(await suggested())
    assert seen == [("probe",), (), ("probe",), (), ("probe",), ("probe",)]
