"""The public test kit: the fake clock and the script. assert_trace has a file of its own."""

from __future__ import annotations

import pytest
from returns.result import Failure, Success

from middlewares import Retry
from pipeline import Transient
from pipeline.testing import FakeClock, script
from support import a_call


async def test_a_fake_clock_moves_only_when_it_is_moved() -> None:
    """The time is what the test made it: by `advance`, by `sleep`, or by setting `now`."""
    clock = FakeClock(5.0)
    assert (clock(), clock()) == (5.0, 5.0)
    clock.advance(2.5)
    assert clock() == 7.5
    await clock.sleep(10)
    assert (clock(), clock.slept) == (17.5, [10])
    clock.now = 1.0
    clock.advance(-1)
    assert clock() == 0.0


def test_a_fake_clock_does_not_start_at_zero() -> None:
    """By default it does not start at 0, which code may take for "never"."""
    assert FakeClock()() > 0


async def test_a_stage_sleeps_on_a_fake_clock() -> None:
    """A stage with the clock's sleep waits on the fake clock: the wait is noted, and takes no real time."""
    clock = FakeClock()
    inside = script(Failure(Transient(retry_after=20)), Success("fine"))
    assert await Retry(sleep=clock.sleep)(a_call(), inside) == Success("fine")
    (wait,) = clock.slept
    assert wait >= 20
    assert clock() == FakeClock()() + wait


async def test_a_script_plays_its_parts_in_order() -> None:
    """Each call gets the next part: an outcome is returned, an exception raised; a call too many fails the test."""
    inside = script(Failure(Transient()), KeyError("a bug"), Success(1))
    first, second = a_call(), a_call()
    assert await inside(first) == Failure(Transient())
    with pytest.raises(KeyError):
        await inside(second)
    assert await inside(first) == Success(1)
    assert inside.calls == [first, second, first]
    with pytest.raises(AssertionError, match="no part for call 4"):
        await inside(first)
