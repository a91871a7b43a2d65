"""Blame: which stage decided that a call or an attempt failed, and which ones only passed the failure on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..report import CANCELLED, AttemptRow, StageRow

Verdicts: TypeAlias = Mapping[int, str | None]  # by the number of the attempt; 0: of the call


def collect_verdicts(attempts: Sequence[AttemptRow], verdict: str | None) -> Verdicts:
    """The verdicts of a call and of its attempts."""
    return {0: verdict, **{number: of_attempt for number, _, _, _, _, of_attempt, _ in attempts}}


def find_deciding(rows: Sequence[StageRow], verdicts: Verdicts) -> frozenset[int]:
    """The rows, by index, of the stages that decided.

    In each attempt, and outside of all attempts, that is the outermost stage whose verdict is that of the attempt or of
    the call: Classify, and not Execute whose crash it read. A cancellation was decided elsewhere. Rows stand in the
    order in which the stages ended, so the outermost one is the last.
    """
    deciding = {
        attempt: index
        for index, (_, _, _, verdict, attempt, _, _) in enumerate(rows)
        if verdict not in (None, CANCELLED) and verdict == verdicts.get(attempt)
    }
    return frozenset(deciding.values())
