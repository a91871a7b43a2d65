"""KeptAnswers: the answers that a cache keeps, the most recently used ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from math import inf
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from ..base.forking import register_after_fork
from ..engine.call import Outcome, ValidCall
from ..tools import Tool
from .keys import as_given
from .plain_data import estimate_bytes, freeze

AnswerKey: TypeAlias = tuple[Tool[..., Any], Hashable, Hashable]  # tool, principal, and what stands for the params


class Answer(NamedTuple):
    """An answer."""

    epoch: object  # at the time of the question
    asked_at: float  # seconds of the clock
    outcome: Outcome
    immutable: bool  # every call gets this very outcome; otherwise a copy
    size: int  # bytes, the key included; 0 if it is not kept


def make_key(call: ValidCall) -> AnswerKey | None:
    """Return the key of a call, equal for equal calls; None if its params are not plain data."""
    try:
        return call.tool, as_given(call.principal), freeze(call.params)
    except (TypeError, RecursionError):
        return None


class KeptAnswers:
    """Answers by key. Threads may share it."""

    def __init__(self, size: int, max_bytes: float) -> None:
        self._size = size
        self.max_bytes = max_bytes
        self._answers: OrderedDict[AnswerKey, Answer] = OrderedDict()
        self._bytes = 0  # of the answers
        self._lock = Lock()
        register_after_fork(self._restart_in_child)

    def weigh(self, key: AnswerKey, value: object) -> int:
        """Estimate the bytes of an answer with its key; 0 without a limit."""
        return estimate_bytes(key[1:]) + estimate_bytes(value) if self.max_bytes < inf else 0

    def find(self, key: AnswerKey, epoch: object, now: float, ttl: float) -> Answer | None:
        """Find the answer of a key that has this epoch and is younger than ``ttl`` seconds. An older one is removed."""
        with self._lock:
            answer = self._answers.get(key)
            if answer is None:
                return None
            if answer.epoch is epoch and now - answer.asked_at < ttl:
                self._answers.move_to_end(key)
                return answer
            del self._answers[key]
            self._bytes -= answer.size
            return None

    def put(self, key: AnswerKey, answer: Answer) -> None:
        """Keep an answer, and remove the least recently used ones while there are too many."""
        with self._lock:
            replaced = self._answers.pop(key, None)  # by a call of another event loop
            self._bytes += answer.size - (0 if replaced is None else replaced.size)
            self._answers[key] = answer
            while len(self._answers) > self._size or self._bytes > self.max_bytes:
                _, oldest = self._answers.popitem(last=False)
                self._bytes -= oldest.size

    def _restart_in_child(self) -> None:
        """After a fork: another thread may have held the lock, in the middle of a change."""
        self._lock = Lock()
        self._bytes = sum(answer.size for answer in self._answers.values())
