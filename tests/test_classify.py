"""Classify: the stage that gives a caught exception its kind of error."""

from __future__ import annotations

from email.utils import formatdate
from types import SimpleNamespace

import pytest
from returns.result import Failure, Success

from support import a_call
from toolcall_pipeline import Crashed, Denied, Outcome, TimedOut, Transient
from toolcall_pipeline.middlewares import Classify
from toolcall_pipeline.testing import script


class Busy(Exception):
    """As an HTTP client raises it."""

    status_code = 503

    def __init__(self, retry_after: str) -> None:
        self.headers = {"Retry-After": retry_after}
        self.response = SimpleNamespace()


async def test_a_crash_becomes_the_error_that_it_stands_for() -> None:
    """The failure of a classified exception replaces the crash."""
    cause = TimeoutError("secret")
    outcome = await Classify()(a_call(), script(Failure(Crashed(cause))))
    assert isinstance(outcome, Failure)
    error = outcome.failure()
    assert isinstance(error, TimedOut)
    assert error.cause is cause


async def test_the_clock_is_read_for_a_date() -> None:
    """A ``Retry-After`` that is a date counts from the time of the stage's clock."""
    outcome = await Classify(clock=lambda: 1_000_000.0)(
        a_call(), script(Failure(Crashed(Busy(formatdate(1_000_060, usegmt=True)))))
    )
    assert outcome == Failure(Transient(retry_after=60.0))


@pytest.mark.parametrize(
    "outcome", [Success(1), Failure(Denied("x")), Failure(Crashed()), Failure(Crashed(KeyError()))]
)
async def test_any_other_outcome_passes_unchanged(outcome: Outcome) -> None:
    """A success, a classified failure and a crash of unknown cause are returned as the very same object."""
    assert await Classify()(a_call(), script(outcome)) is outcome
