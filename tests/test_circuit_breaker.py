"""CircuitBreaker: what counts, when it opens, how it is tried, and what `definitions()` shows meanwhile."""

from __future__ import annotations

import math
import threading
import time
import types
from collections.abc import Callable, Generator
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from returns.result import Failure, Success

from middlewares import Retry, standard
from middlewares.circuit_breaker import CircuitBreaker
from pipeline import (
    Call,
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    Outcome,
    OutcomeUnknown,
    ResolvedCall,
    ResourceNotFound,
    SetupError,
    TimedOut,
    ToolError,
    ToolRegistry,
    Transient,
    Unavailable,
    UnknownTool,
    render,
)
from pipeline.errors import KINDS
from pipeline.testing import script
from support import a_call, a_tool

DONE: Outcome = Success("done")
FAILED: Outcome = Failure(Transient())
ANSWERED: Outcome = Failure(ExecutionFailed("no such thing"))
SILENT: Outcome = Failure(Unavailable("probe", "paused"))


class Clock:
    """Stands still until it is set."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Cancelled(BaseException):
    """Stands in for what an event loop throws into a task."""


@types.coroutine
def _told() -> Generator[None, Outcome, Outcome]:
    return (yield)


class Running:
    """A call through a breaker that stands inside until it is told how to end: no event loop is needed for that."""

    def __init__(self, breaker: CircuitBreaker, call: ResolvedCall | None = None) -> None:
        async def inside(_: ResolvedCall) -> Outcome:
            return await _told()

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
    """One call that ends so; or why it was refused."""
    running = Running(breaker, call)
    if running.refused is None:
        running.ends(outcome)
    return running.refused


def is_open(breaker: CircuitBreaker, call: ResolvedCall | None = None) -> bool:
    """Whether a call is refused; one that is not is cancelled, which counts as nothing."""
    running = Running(breaker, call)
    if running.refused is None:
        running.is_cancelled()
    return running.refused is not None


FAILURES: list[ToolError] = [TimedOut(1.0), Transient(), Crashed(), OutcomeUnknown()]
ANSWERS: list[ToolError] = [
    ExecutionFailed(),
    ResourceNotFound(),
    Denied("somebody"),
    NeedsSetup("it"),
    NeedsUserInput("Which one?"),
    InvalidParams(()),
    MalformedCall("they are no JSON"),
    UnknownTool("of an inner pipeline"),
]
NOTHING: list[ToolError] = [Unavailable("probe", "busy"), NotExecuted("a plan")]


def test_every_kind_counts_somehow() -> None:
    """Each kind of error is a failure of the tool, an answer of it, or says nothing of it."""
    assert {type(error) for error in FAILURES + ANSWERS + NOTHING} == KINDS


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: error.kind)
def test_failures_open_it(error: ToolError) -> None:
    """Failures in a row open it, with the last of so many; then nothing runs, and the time left is told."""
    clock = Clock()
    breaker = CircuitBreaker(failures=3, open_for=30, clock=clock)
    for _ in range(3):
        assert run(breaker, Failure(error)) is None
    assert run(breaker, DONE) == Unavailable("probe", "breaker_open", 30.0)
    clock.now += 29.5
    assert run(breaker, DONE) == Unavailable("probe", "breaker_open", 0.5)


@pytest.mark.parametrize("outcome", [DONE, *map(Failure, ANSWERS)], ids=str)
def test_an_answer_ends_a_row_of_failures(outcome: Outcome) -> None:
    """A tool that answers works, if only with a no: the row begins anew."""
    breaker = CircuitBreaker(failures=2, clock=Clock())
    for each in (FAILED, outcome, FAILED, outcome):
        run(breaker, each)
    assert not is_open(breaker)
    run(breaker, FAILED)
    run(breaker, FAILED)
    assert is_open(breaker)


@pytest.mark.parametrize("error", NOTHING, ids=lambda error: error.kind)
def test_what_did_not_run_says_nothing(error: ToolError) -> None:
    """What never reached the tool, or was cancelled, neither ends a row of failures nor adds to it."""
    breaker = CircuitBreaker(failures=2, clock=Clock())
    for _ in range(5):
        run(breaker, Failure(error))
        Running(breaker).is_cancelled()
    assert not is_open(breaker)
    run(breaker, FAILED)
    run(breaker, Failure(error))
    Running(breaker).is_cancelled()
    run(breaker, FAILED)
    assert is_open(breaker)


# F fails, S succeeds, u never runs, c is cancelled; s is refused, whatever it would have come to. A digit: seconds.
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
    "tried by the next where nothing came of a probe": "FF4uccuS",
    "and not closed by that": "FF4ucFs7s1S",
    "one failure is none in a row": "FF4SFSF",
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_its_states(story: str) -> None:
    """Closed it lets all pass, open nobody, half-open one: a success closes it, a failure opens it for longer."""
    clock = Clock()
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


def test_unless_told_it_opens_for_the_same_time_again() -> None:
    """Without `max_open_for` a failed probe opens it for `open_for` seconds, each time."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, open_for=4, clock=clock)
    for _ in range(4):
        run(breaker, FAILED)
        assert run(breaker, FAILED) == Unavailable("probe", "breaker_open", 4.0)
        clock.now += 4


@settings(deadline=None)
@given(st.floats(0, 1e7), st.floats(1e-3, 1e5), st.lists(st.floats(0, 1), max_size=3))
def test_the_time_told_is_the_time(now: float, open_for: float, shares: list[float]) -> None:
    """A call that is made when it was told may try, and one before may not, whatever floats lose."""
    clock = Clock(now)
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


def test_the_time_told_is_rounded_up() -> None:
    """Where the time of the call and the time told would make a float less than the moment, more is told."""
    clock = Clock(0.7)
    breaker = CircuitBreaker(failures=1, open_for=30, clock=clock)
    run(breaker, FAILED)
    clock.now = 12.463285120807173
    assert clock.now + (30.7 - clock.now) < 30.7
    refused = run(breaker, DONE)
    assert refused is not None
    assert refused.retry_after is not None
    assert clock.now + refused.retry_after >= 30.7


@pytest.mark.parametrize("probes", [1, 2, 3])
def test_so_many_probes_at_once(probes: int) -> None:
    """While `probes` calls are out to try a half-open breaker all others are refused, for nobody knows how long."""
    clock = Clock()
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


def test_threads_meet_at_a_half_open_breaker() -> None:
    """However many threads come at once, no more than `probes` of them may try."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    run(breaker, FAILED)
    clock.now += 30

    class Slow(int):
        def __le__(self, other: int) -> bool:
            found = super().__le__(other)
            for _ in range(20):
                time.sleep(0)  # lets other threads in while this one decides
            return found

    breaker.probes = Slow(1)
    calls: list[Running] = []
    together = threading.Barrier(16)

    def come() -> None:
        together.wait()
        calls.append(Running(breaker))

    threads = [threading.Thread(target=come) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trying = [call for call in calls if call.refused is None]
    assert len(trying) == 1
    trying[0].is_cancelled()


def test_what_a_probe_found_is_found() -> None:
    """Of several probes the first that tells decides; what the others come to is of before the turn."""
    clock = Clock()
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
@pytest.mark.parametrize("options", [{}, {"ratio": 0.5, "minimum": 1}], ids=["in a row", "ratio"])
@pytest.mark.parametrize("when", ["open", "half-open", "closed"])
def test_what_began_before_a_turn_does_not_count_after_it(late: Outcome, options: dict[str, Any], when: str) -> None:
    """A call that hung while the breaker opened says nothing of how the tool is now."""
    clock = Clock()
    breaker: Any = CircuitBreaker(failures=1, clock=clock, **options)
    hanging = [Running(breaker) for _ in range(3)]
    run(breaker, FAILED)
    if when != "open":
        clock.now += 30
    if when == "closed":
        run(breaker, DONE)
    before = [is_open(breaker), breaker._turns]
    for call in hanging:
        call.ends(late)
    assert [is_open(breaker), breaker._turns] == before == [when == "open", 2 if when == "closed" else 1]


@pytest.mark.parametrize("options", [{}, {"ratio": 0.5, "minimum": 99}], ids=["in a row", "ratio"])
def test_nor_does_it_end_a_row_of_failures(options: dict[str, Any]) -> None:
    """A success that began before the turn is no news either."""
    clock = Clock()
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


async def test_a_bug_further_in_is_no_probe() -> None:
    """What raises instead of answering passes through, and the next call may try."""
    clock = Clock()
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


# options beside a window of 10 seconds; what happens, as above, A being an answer; and whether it is open then
RATIOS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "half of them": ({"ratio": 0.5, "minimum": 4}, "SFSF", True),
    "less than half": ({"ratio": 0.5, "minimum": 4}, "SSFSF", False),
    "too few to say": ({"ratio": 0.5, "minimum": 5}, "FFFF", False),
    "all": ({"ratio": 1, "minimum": 3}, "FFF", True),
    "all but one": ({"ratio": 1, "minimum": 3}, "FFSFFF", False),
    "a success does not open it": ({"ratio": 0.5, "minimum": 4}, "FFFS", False),
    "nor does an answer": ({"ratio": 0.5, "minimum": 4}, "FFFA", False),
    "the next failure does": ({"ratio": 0.5, "minimum": 4}, "FFFSF", True),
    "seven of a hundred, as floats have it": ({"ratio": 0.07, "minimum": 100}, "F" * 6 + "S" * 93 + "F", True),
    "silence is not counted": ({"ratio": 0.5, "minimum": 3}, "FucF", False),
    "old successes are forgotten": ({"ratio": 0.5, "minimum": 2}, "SSSS55FF", True),
    "but not too early": ({"ratio": 0.5, "minimum": 2}, "SSSS54FF", False),
    "old failures are forgotten": ({"ratio": 0.5, "minimum": 4}, "FF91FF", False),
    "and a part of them": ({"ratio": 0.5, "minimum": 3}, "F5F41FF", True),
    "or just enough": ({"ratio": 0.5, "minimum": 3}, "F5F9F", False),
    "a call counts when it ends": ({"ratio": 0.5, "minimum": 2}, "S5SSS7FF", False),
    "also in the part that runs": ({"ratio": 0.5, "minimum": 2}, "SSSFF", False),
    "in a row or of all": ({"failures": 3, "ratio": 0.9, "minimum": 9}, "SFFF", True),
    "the other way": ({"failures": 3, "ratio": 0.5, "minimum": 4}, "FSSF", True),
    "and neither": ({"failures": 3, "ratio": 0.9, "minimum": 9}, "FFSFFSF", False),
}


@pytest.mark.parametrize(("options", "story", "opens"), RATIOS.values(), ids=RATIOS)
def test_a_ratio_of_a_window(options: dict[str, Any], story: str, opens: bool) -> None:
    """It opens on a failure with which so large a share of the calls of late failed, if there were enough of them."""
    clock = Clock()
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
    """However long nothing came, what came before is forgotten at once."""
    clock = Clock()
    breaker = CircuitBreaker(failures=None, ratio=0.5, minimum=3, window=10, clock=clock)
    for _ in range(2):
        run(breaker, FAILED)
        run(breaker, FAILED)
        clock.now += 1e12
    assert not is_open(breaker)


def test_a_window_begins_anew() -> None:
    """What opened it once does not open it again after a probe has closed it."""
    clock = Clock()
    breaker = CircuitBreaker(failures=None, ratio=0.5, minimum=2, window=100, open_for=1, clock=clock)
    for outcome in (FAILED, FAILED):
        run(breaker, outcome)
    assert is_open(breaker)
    clock.now += 1
    for outcome in (DONE, FAILED):
        run(breaker, outcome)
    assert not is_open(breaker)


@attrs.define(eq=False)
class Expected:
    """What a breaker should know of one principal, in so many words."""

    row: int = 0
    calls: list[tuple[float, bool]] = attrs.field(factory=list[tuple[float, bool]])
    until: float | None = None
    open_for: float = 4
    probing: int = 0
    turns: int = 0

    def turn(self, until: float | None, open_for: float) -> None:
        self.row, self.until, self.open_for = 0, until, open_for
        self.calls.clear()
        self.turns += 1


class Breaker(RuleBasedStateMachine):
    """Two principals' calls, any number of them at once, and what becomes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.tools = ToolRegistry()
        self.tools.register(a_tool())
        self.breaker: Any = CircuitBreaker(
            self.tools, failures=3, ratio=0.5, window=10, minimum=4, open_for=4, max_open_for=10, clock=self.clock
        )
        self.breaker.probes = 2
        self.breaker._swept = math.inf  # forgets nobody
        self.expected = {"": Expected(), "b": Expected()}
        self.running: list[tuple[Running, Expected, bool, int]] = []

    @rule(principal=st.sampled_from(["", "b"]))
    def begin(self, principal: str) -> None:
        """Open it refuses with the time left, half-open with none where enough are out."""
        known, now = self.expected[principal], self.clock.now
        call = Running(self.breaker, a_call(principal=principal))
        probe = known.until is not None
        if known.until is not None and (now < known.until or known.probing == 2):
            left = known.until - now if now < known.until else None
            assert call.refused == Unavailable("probe", "breaker_open", left)
            return
        assert call.refused is None
        known.probing += probe
        self.running.append((call, known, probe, known.turns))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99), outcome=st.sampled_from([DONE, FAILED, FAILED, ANSWERED, SILENT, None]))
    def end(self, which: int, outcome: Outcome | None) -> None:
        """Failures in a row or a ratio of them open it, probes close it or open it, and old calls do nothing."""
        call, known, probe, turns = self.running.pop(which % len(self.running))
        call.is_cancelled() if outcome is None else call.ends(outcome)
        known.probing -= probe
        if outcome in (SILENT, None) or known.turns != turns:
            return
        failed, now = outcome == FAILED, self.clock.now
        if probe:
            open_for = min(known.open_for * 2, 10)
            known.turn(now + open_for, open_for) if failed else known.turn(None, 4)
            return
        known.row = known.row + 1 if failed else 0
        known.calls.append((now, failed))
        late = [failed for when, failed in known.calls if when > now - 10]
        if failed and (known.row >= 3 or (len(late) >= 4 and sum(late) / len(late) >= 0.5)):
            known.turn(now + known.open_for, known.open_for)

    @rule(seconds=st.sampled_from([1, 1, 2, 4, 8, 20]))
    def wait(self, seconds: int) -> None:
        """A tool is shown again by itself, without a call."""
        self.clock.now += seconds

    def teardown(self) -> None:
        """Coroutines that were never ended warn."""
        for call, *_ in self.running:
            call.is_cancelled()

    @invariant()
    def shown(self) -> None:
        """The tool is out of `definitions()` while it is open for those without a principal, and never else."""
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
    """Each tool and principal has a breaker of its own, or each key does; what has the key None has none."""
    breaker = CircuitBreaker(failures=2, ratio=ratio, key=key, clock=Clock())
    for _ in range(2):
        run(breaker, FAILED, FOUR[0])
    assert [is_open(breaker, call) for call in FOUR] == opened


@pytest.mark.parametrize(
    ("options", "outcomes", "quiet"),
    [
        pytest.param({}, [FAILED], 3600, id="a failure"),
        pytest.param({}, [FAILED, DONE], 120, id="a failure and a success"),
        pytest.param({"failures": 1}, [FAILED], 3600, id="open"),
        pytest.param({"ratio": 0.5}, [DONE], 120, id="a success in a window"),
        pytest.param({"ratio": 0.5}, [FAILED], 3600, id="a failure in a window"),
    ],
)
def test_who_is_quiet_is_forgotten(options: dict[str, Any], outcomes: list[Outcome], quiet: float) -> None:
    """What is kept of principals who are not heard of goes when others come, and not before it means nothing."""
    clock = Clock()
    breaker: Any = CircuitBreaker(clock=clock, open_for=1, **options)
    step = quiet / 100
    for number in range(1000):
        for outcome in outcomes:
            run(breaker, outcome, a_call(principal=str(number)))
        clock.now += step
    assert 99 <= len(breaker._circuits) <= 100 + 2 * 60 / step + 2


def others(breaker: CircuitBreaker, clock: Clock, seconds: int) -> None:
    """So much time passes, and each minute somebody new fails."""
    for minute in range(seconds // 60):
        clock.now += 60
        run(breaker, FAILED, a_call(principal=f"{clock.now}, {minute}"))


def test_who_is_open_is_not_forgotten() -> None:
    """However long it is open for, and however long a probe takes."""
    clock = Clock()
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


def test_who_is_heard_is_not_forgotten() -> None:
    """Nor what is in the window of those who only succeed."""
    clock = Clock()
    breaker = CircuitBreaker(failures=None, ratio=0.5, window=10, minimum=1, clock=clock)
    for second in range(25):
        clock.now += 1
        run(breaker, DONE)
        run(breaker, DONE, a_call(principal=str(second)))
    for _ in range(8):
        run(breaker, FAILED)
    assert not is_open(breaker)


def test_who_is_healthy_is_not_kept() -> None:
    """Where failures in a row decide, nothing is kept of those who have none."""
    breaker: Any = CircuitBreaker(clock=Clock())
    for number in range(100):
        run(breaker, DONE, a_call(principal=str(number)))
        run(breaker, ANSWERED, a_call(principal=str(number)))
    assert breaker._circuits == {}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name)
        for name, make in {
            "no reason to open": lambda: CircuitBreaker(failures=None),
            "no failure": lambda: CircuitBreaker(failures=0),
            "failures of nan": lambda: CircuitBreaker(failures=math.nan),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            "no ratio": lambda: CircuitBreaker(ratio=0),
            "a ratio of more than all": lambda: CircuitBreaker(ratio=1.1),
            "a ratio of nan": lambda: CircuitBreaker(ratio=math.nan),
            "no window": lambda: CircuitBreaker(window=0),
            "a window of nan": lambda: CircuitBreaker(window=math.nan),
            "a window without end": lambda: CircuitBreaker(window=math.inf),
            "no minimum": lambda: CircuitBreaker(minimum=0),
            "open for no time": lambda: CircuitBreaker(open_for=0),
            "open for nan": lambda: CircuitBreaker(open_for=math.nan),
            "open for ever": lambda: CircuitBreaker(open_for=math.inf),
            "a limit below": lambda: CircuitBreaker(open_for=30, max_open_for=29),
            "a limit of nan": lambda: CircuitBreaker(max_open_for=math.nan),
            "no limit": lambda: CircuitBreaker(max_open_for=math.inf),
            "no registry": lambda: CircuitBreaker(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            "no probes": lambda: CircuitBreaker(probes=0),
        }.items()
    ],
)
def test_what_makes_no_sense_is_refused_at_set_up(make: Callable[[], object]) -> None:
    """A breaker that never opens, or never closes again, is a mistake of the programmer's."""
    with pytest.raises(SetupError, match=r"failures=|at least one|a ratio is|a window has|it opens for|registry="):
        make()


# --- what is shown meanwhile ------------------------------------------------------------------------------------------


def holding(*names: str) -> ToolRegistry:
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name))
    return tools


def test_an_open_breaker_takes_the_tool_out() -> None:
    """While it is open the tool is not offered; when the time is up it is again, without a call, and may be tried."""
    clock, tools = Clock(), holding("probe", "other")
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
    assert type(tools.closed) is dict  # quick to ask again, for all tools


def test_somebody_elses_lock_stays() -> None:
    """A tool that is also paused stays so when the breaker closes."""
    clock, tools = Clock(), holding("probe")
    breaker = CircuitBreaker(tools, failures=1, clock=clock)
    run(breaker, FAILED)
    tools.pause("probe", 5.0)
    clock.now += 30
    assert tools.closed["probe"] == Unavailable("probe", "paused", 5.0)
    run(breaker, DONE)
    assert tools.closed == {"probe": Unavailable("probe", "paused", 5.0)}


def test_one_principals_trouble_does_not_take_a_tool_from_all() -> None:
    """A registry is everybody's: who has a name opens a breaker of his own, and is refused by that alone."""
    tools = holding("probe")
    breaker = CircuitBreaker(tools, failures=1, clock=Clock())
    run(breaker, FAILED, a_call(principal="a"))
    assert is_open(breaker, a_call(principal="a"))
    assert not is_open(breaker, a_call(principal="b"))
    assert tools.closed == {}


def test_each_principal_may_have_a_view() -> None:
    """With a function for a registry, an open breaker takes the tool out of the view of its principal."""
    tools, clock = holding("probe"), Clock()
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


def test_a_tool_that_the_registry_does_not_know_has_no_gate() -> None:
    """A breaker may be shared by pipelines, and its registry be that of one of them."""
    tools, clock = holding("other"), Clock()
    breaker = CircuitBreaker(tools, failures=1, clock=clock)
    run(breaker, FAILED)
    assert is_open(breaker)
    clock.now += 30
    run(breaker, DONE)
    assert not is_open(breaker)


async def test_in_a_pipeline() -> None:
    """Inside of Retry each attempt counts, and once it is open nothing runs; what comes later stops at the gate."""
    clock, tools = Clock(), ToolRegistry()
    runs: list[int] = []

    async def fail() -> None:
        runs.append(1)
        raise ConnectionError

    tools.register(a_tool(fn=fail))
    breaker = CircuitBreaker(tools, failures=2, clock=clock)
    pipeline = standard(tools).replace("retry", Retry(5, 0)).after("retry", breaker)
    report = await pipeline.report(Call("probe"))
    assert report.outcome == Failure(Unavailable("probe", "breaker_open", 30.0))
    assert len(runs) == 2
    refusals = [stage.verdict for stage in report.stages if stage.name == "circuit_breaker"]
    assert refusals == [None, None, "unavailable"]
    clock.now += 10
    report = await pipeline.report(Call("probe"))
    assert report.outcome == Failure(Unavailable("probe", "breaker_open", 20.0))
    assert [stage.name for stage in report.stages] == ["resolve", "available"]
    assert render(Unavailable("probe", "breaker_open", 20.0)) == "This tool is not available"


async def test_outside_of_retry_a_call_counts_once() -> None:
    """With all its attempts a call is one failure, that of a lost side effect among them."""
    tools = ToolRegistry()
    tools.register(a_tool(effect="mutating"))
    breaker = CircuitBreaker(failures=2, clock=Clock())
    lost, passing = Failure(TimedOut(1.0)), Failure(Transient(landed="no"))
    pipeline = standard(tools).replace("retry", Retry(3, 0)).before("retry", breaker)
    pipeline = pipeline.replace("execute", script(passing, passing, lost, passing, passing, passing))
    outcomes = [await pipeline.call("probe") for _ in range(3)]
    refused = Failure(Unavailable("probe", "breaker_open", 30.0))
    assert outcomes == [Failure(OutcomeUnknown(TimedOut(1.0))), passing, refused]


async def test_suggestions_follow() -> None:
    """A tool that is out of use is suggested to nobody, and again when the time is up, also to who asked before."""
    clock, tools = Clock(), holding("probe")
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
