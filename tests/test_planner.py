"""`plan`, which decides about retries: each of its rulings, and properties that hold for any facts."""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import Effect, SetupError, TimedOut, Transient
from toolcall_pipeline.engine.errors import Landed
from toolcall_pipeline.engine.retries import RETRYABLE_KINDS, Plan, RetryableKind, RetryPolicy, RetryRules, plan

EFFECTS: tuple[Effect, ...] = ("read", "idempotent", "keyed", "mutating")
LANDED: tuple[Landed, ...] = ("no", "maybe", "yes")


UNKNOWN, USUAL = Transient(), RetryRules()


@attrs.frozen
class Facts:
    """The arguments of `plan`; the defaults are those of an attempt that is repeated."""

    error: TimedOut | Transient = UNKNOWN
    effect: Effect = "read"
    attempt: int = 1
    rules: RetryRules = USUAL
    jitter: float = 0.5
    seconds_left: float = inf
    tokens: float = inf
    outer_retries: bool = False


DELAYS = st.floats(0, 100)
RULES = st.builds(
    RetryRules,
    st.integers(1, 9),
    DELAYS,
    DELAYS,
    st.sampled_from((RETRYABLE_KINDS, RETRYABLE_KINDS, RETRYABLE_KINDS[:1], RETRYABLE_KINDS[1:], ())),
)
ERRORS = st.builds(TimedOut, st.none(), st.booleans(), st.sampled_from(LANDED)) | st.builds(
    Transient, st.none(), st.none() | st.floats(0, 100) | st.floats(), st.sampled_from(LANDED)
)
ANY = st.builds(  # with more of what is usual than there would be: one in eight is repeated
    Facts,
    ERRORS,
    st.sampled_from(EFFECTS),
    st.integers(1, 2) | st.integers(1, 9),
    st.just(RetryRules(9, max_delay=100)) | RULES,
    st.floats(0, 1, exclude_max=True),
    st.just(inf) | st.floats(10, 200) | st.floats(-10, 10),
    st.just(inf) | st.floats(1, 5) | st.floats(-5, 1),
    st.sampled_from((False, False, False, True)),
)


def planned(facts: Facts) -> Plan:
    return plan(**attrs.asdict(facts, recurse=False))


def repeated(facts: Facts) -> bool:
    return planned(facts).wait is not None


RULINGS: dict[str, tuple[Facts, float | None]] = {
    "transient, and the tool is read": (Facts(), 0.05),
    "timeout, and the tool is idempotent": (Facts(TimedOut(1.0), "idempotent", 2), 0.1),
    "timeout, and the tool is keyed": (Facts(TimedOut(1.0, still_running=True), "keyed"), 0.05),
    "transient, and it did not land": (Facts(Transient(landed="no"), "mutating"), 0.05),
    "transient, and the tool is keyed": (Facts(Transient(None, 7.0), "keyed", seconds_left=7.1), 7.0),
    "not repeated: a mutating call that may have landed": (Facts(effect="mutating"), None),
    "not repeated: the first one is still running": (Facts(TimedOut(1.0, still_running=True), "idempotent"), None),
    "not repeated: the policy repeats no timeout": (Facts(TimedOut(), rules=RetryRules(kinds=["transient"])), None),
    "not repeated: an outer pipeline retries": (Facts(outer_retries=True), None),
    "not repeated: that was attempt 3 of 3": (Facts(attempt=3), None),
    "not repeated: the wait asked for is too long": (Facts(Transient(None, 30.1)), None),
    "not repeated: the deadline comes first": (Facts(Transient(None, 7.0), seconds_left=7.0), None),
    "not repeated: the retry budget is spent": (Facts(tokens=0.9), None),
}


@pytest.mark.parametrize(("reason", "facts", "wait"), [pytest.param(key, *row, id=key) for key, row in RULINGS.items()])
def test_the_rulings(reason: str, facts: Facts, wait: float | None) -> None:
    """Each ruling gives its own reason."""
    assert planned(facts) == Plan(wait, reason)


ORDER: list[tuple[str, dict[str, Any]]] = [
    ("a mutating call that may have landed", {"effect": "mutating"}),
    ("the first one is still running", {"error": TimedOut(1.0, still_running=True), "effect": "idempotent"}),
    ("the policy repeats no timeout", {"error": TimedOut(), "rules": RetryRules(1, 40.0, 30.0, [])}),
    ("an outer pipeline retries", {"outer_retries": True}),
    ("that was attempt 1 of 1", {"rules": RetryRules(1)}),
    ("the wait asked for is too long", {"error": Transient(None, 31.0)}),
    ("the deadline comes first", {"seconds_left": 0.01}),
    ("the retry budget is spent", {"tokens": 0.0}),
]


@pytest.mark.parametrize("place", range(len(ORDER)), ids=[reason for reason, _ in ORDER])
def test_the_first_ruling_that_applies_is_told(place: int) -> None:
    """If several rulings apply, the first gives the reason: safety, then policy, then time and budget."""
    facts: dict[str, Any] = {}
    for _, fact in reversed(ORDER[place:]):
        facts |= fact
    assert planned(Facts(**facts)).reason == f"not repeated: {ORDER[place][0]}"


def test_what_is_not_given_limits_nothing() -> None:
    """Without a deadline, a budget and an outer pipeline only the rules decide."""
    assert plan(Transient(), "read", 2, RetryRules(), jitter=0.5) == Plan(0.1, "transient, and the tool is read")
    assert plan(Transient(), "read", 3, RetryRules(), jitter=0.5).wait is None


@given(ANY)
def test_the_answer_is_in_the_reason(facts: Facts) -> None:
    """The reason says "not repeated" exactly where there is no further attempt, and the same facts plan the same."""
    decided = planned(facts)
    assert (decided.wait is None) == decided.reason.startswith("not repeated: ")
    assert decided == planned(facts)


@given(ANY)
def test_what_may_have_landed_is_not_repeated(facts: Facts) -> None:
    """A mutating call is repeated only if it did not land."""
    assert facts.effect != "mutating" or facts.error.landed == "no" or not repeated(facts)


@given(ANY)
def test_nothing_runs_beside_itself_that_must_not(facts: Facts) -> None:
    """While a thread of the first attempt still runs, only read and keyed tools are repeated."""
    running = getattr(facts.error, "still_running", False)
    assert facts.effect in ("read", "keyed") or not running or not repeated(facts)


@given(ANY)
def test_a_wait_keeps_all_its_limits(facts: Facts) -> None:
    """A wait is finite, ends before the deadline, is at most `max_delay` and at least `retry_after`."""
    wait, asked = planned(facts).wait, getattr(facts.error, "retry_after", None)
    if wait is not None:
        assert 0 <= wait <= facts.rules.max_delay < inf
        assert wait < facts.seconds_left
        assert asked is None or isnan(asked) or wait >= asked


@given(ANY)
def test_no_repetition_without_leave(facts: Facts) -> None:
    """A retry needs a further attempt, a whole token, a kind of the policy, and no outer pipeline that repeats."""
    if repeated(facts):
        assert facts.attempt < facts.rules.attempts
        assert facts.tokens >= 1
        assert facts.error.kind in facts.rules.kinds
        assert not facts.outer_retries


@given(ANY, ANY)
def test_better_circumstances_never_stop_a_repetition(facts: Facts, other: Facts) -> None:
    """More time, more tokens, more attempts or a read-only tool never prevent a retry."""
    if repeated(facts):
        better = {key: max(getattr(facts, key), getattr(other, key)) for key in ("seconds_left", "tokens")}
        attempt = min(facts.attempt, other.attempt)
        assert repeated(attrs.evolve(facts, effect="read", attempt=attempt, **better))


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_waits_grow_to_the_cap(attempt: int, jitter: float) -> None:
    """The wait is the jitter times a delay that doubles up to `max_delay`, after any number of attempts."""
    wait = planned(Facts(attempt=attempt, jitter=jitter, rules=RetryRules(10**7, 0.5, 16.0))).wait
    assert wait == jitter * (0.5 * 2 ** (attempt - 1) if attempt < 6 else 16.0)


@pytest.mark.parametrize(
    ("asked", "wait"), [(None, 0.05), (0.0, 0.05), (-3.0, 0.05), (nan, 0.05), (2.0, 2.0), (30.0, 30.0), (inf, None)]
)
def test_what_a_service_may_ask_for(asked: float | None, wait: float | None) -> None:
    """A `retry_after` up to `max_delay` is obeyed; one that is not a time is ignored."""
    assert planned(Facts(Transient(None, asked))).wait == wait


SENSELESS: dict[str, dict[str, Any]] = {
    "no attempt": {"attempts": 0},
    "half an attempt": {"attempts": 1.5},
    "a delay below zero": {"first_delay": -0.1},
    "a delay that is none": {"first_delay": nan},
    "a delay without end": {"max_delay": inf},
    "a delay in words": {"max_delay": "30"},
    "a kind that never passes": {"kinds": ["internal"]},
    "kinds that are text": {"kinds": "timeout"},
}


@pytest.mark.parametrize("options", SENSELESS.values(), ids=SENSELESS)
def test_senseless_rules_are_refused(options: dict[str, Any]) -> None:
    """A value of RetryRules out of its range is a SetupError, also one from the policy of a tool."""
    with pytest.raises(SetupError):
        RetryRules(**options)
    with pytest.raises(SetupError):
        RetryRules().with_policy("probe", cast("Any", options))


def test_a_policy_changes_what_it_names() -> None:
    """A field that the policy of a tool leaves out has the value for all tools."""
    kinds: list[RetryableKind] = ["transient"]
    rules = RetryRules(4, 0.5, 8.0)
    assert rules.with_policy("probe", {}) == rules
    assert rules.with_policy("probe", RetryPolicy(attempts=9)) == RetryRules(9, 0.5, 8.0)
    assert rules.with_policy("probe", {"first_delay": 0.0, "max_delay": 1.0, "kinds": kinds}) == RetryRules(
        4, 0.0, 1.0, kinds
    )


@pytest.mark.parametrize("policy", [{"atempts": 3}, {"attempts": 3, 1: 2}, 3, None], ids=repr)
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    """A policy with an unknown field, or of another type, is a SetupError that names the tool."""
    with pytest.raises(SetupError, match="'probe'"):
        RetryRules().with_policy("probe", policy)
