"""Budget: how many retries there may be in all, so that a backend that is down is not asked three times as often."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import isfinite
from threading import Lock
from typing import Any

import attrs

from .errors import SetupError


@attrs.define(eq=False)
class Budget:
    """A bucket of ``burst`` tokens, refilled ``per_second``. A retry takes one, and gives it back if it was answered.

    So retries that help are free, at any rate of calls, and those that do not help are ``per_second`` in the long run.
    The numbers are Finagle's (``RetryBudget``: at least 10 a second, kept for 10 seconds); in place of its share of
    each call a retry's own token comes back, as in the standard mode of the AWS SDKs: a call that succeeds at once
    pays nothing. May be shared by several pipelines, and used from any thread.
    """

    burst: float = 100.0
    per_second: float = 10.0
    clock: Callable[[], float] = attrs.field(default=time.monotonic, kw_only=True, repr=False)  # seconds
    _tokens: float = attrs.field(init=False, repr=False)
    _at: float = attrs.field(init=False, repr=False)  # when they were counted
    _lock: Lock = attrs.field(init=False, repr=False, factory=Lock)

    def __attrs_post_init__(self) -> None:
        given: tuple[Any, ...] = (self.burst, self.per_second)
        if not all(isinstance(each, (int, float)) and isfinite(each) and each >= 0 for each in given):
            raise SetupError(f"{self}: as many tokens as there may be retries, none below zero")
        self._tokens, self._at = self.burst, self.clock()

    @property
    def left(self) -> float:
        """The tokens that there are now; less than one: no retry."""
        with self._lock:
            now = self.clock()
            left = self._tokens + (now - self._at) * self.per_second if now > self._at else self._tokens
            self._tokens, self._at = min(self.burst, left), now
            return self._tokens

    def take(self) -> None:
        """A retry begins. Two threads that found the last token both take it, and the next one waits for longer."""
        with self._lock:
            self._tokens -= 1

    def give_back(self) -> None:
        """It was answered, be it by a refusal."""
        with self._lock:
            self._tokens += 1  # what is more than burst is cut off when they are counted
