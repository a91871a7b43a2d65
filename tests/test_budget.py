"""RetryBudget: its tokens, and that no more retries run than it allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import SetupError
from toolcall_pipeline.engine.retries import RetryBudget
from toolcall_pipeline.testing import FakeClock


def test_it_begins_full_and_refills_with_time() -> None:
    """It starts with `burst` tokens, each retry takes one, and `per_second` are added, up to `burst`."""
    clock = FakeClock()
    budget = RetryBudget(3, 2, clock=clock)
    assert budget.left == 3
    for _ in range(3):
        budget.take()
    assert budget.left == 0
    clock.now += 0.75
    assert budget.left == 1.5
    clock.now += 3600
    assert budget.left == 3


def test_what_was_answered_is_given_back() -> None:
    """A retry that was answered costs nothing, and a full budget stays at `burst`."""
    budget = RetryBudget(2, 0, clock=FakeClock())
    budget.take()
    budget.give_back()
    assert budget.left == 2
    budget.give_back()
    assert budget.left == 2


def test_a_clock_that_goes_back_takes_nothing() -> None:
    """A clock that is set back takes no tokens, and adds none twice."""
    clock = FakeClock()
    budget = RetryBudget(5, 1, clock=clock)
    budget.take()
    clock.now -= 50
    assert budget.left == 4
    clock.now += 1
    assert budget.left == 5


@given(
    st.integers(0, 10),
    st.floats(0, 10),
    st.lists(st.tuples(st.floats(0, 5), st.booleans(), st.booleans()), max_size=60),
)
def test_it_is_never_overdrawn(burst: int, per_second: float, turns: list[tuple[float, bool, bool]]) -> None:
    """At any time at most `burst` and `per_second * seconds` retries are unanswered."""
    clock = FakeClock()
    budget = RetryBudget(burst, per_second, clock=clock)
    began, unanswered = clock.now, 0
    for pause, wanted, answered in turns:
        clock.now += pause
        if wanted and budget.left >= 1:
            budget.take()
            unanswered += not answered
            if answered:
                budget.give_back()
        assert 0 <= budget.left <= burst
        assert unanswered <= burst + per_second * (clock.now - began) + 1e-6


@pytest.mark.parametrize("given", [(-1, 1), (1, -1), (float("nan"), 1), (1, float("inf")), ("many", 1)], ids=str)
def test_senseless_budgets_are_refused(given: tuple[Any, Any]) -> None:
    """A negative or infinite number of tokens is a SetupError; no limit is `budget=None`."""
    with pytest.raises(SetupError):
        RetryBudget(*given)
