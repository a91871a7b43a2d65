"""LiveReport: the report while the call runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, cast

import attrs

from ..errors import Landed
from .call_report import CallReport
from .report_rows import AttemptRow, Progress, RetryDecision, StageRow

if TYPE_CHECKING:
    from ..recordable import Recorded, Recording
    from .observer import Recorder

MAX_STEPS = 10_000  # of progress in one report: a tool may tell each of a million lines


@attrs.define(eq=False, repr=False)
class LiveReport(CallReport):
    """The report while the call runs. It travels on the call as ``call.report``, and stages write to it."""

    is_heard: ClassVar[bool] = False  # whether somebody hears of the call while it runs
    recording: Recording | None = attrs.field(default=None, repr=False)  # None: all of the call may be recorded
    recorder: Recorder | None = attrs.field(default=None, repr=False)
    params: Mapping[str, Any] | None = attrs.field(default=None, repr=False)  # of the call, once they are known
    attempt: int = attrs.field(default=0, repr=False)  # the one that runs now; 0: none
    executor: str = attrs.field(default="", repr=False)  # of that attempt, once the end has chosen it; "": by the tool
    landed: Landed = attrs.field(default="no", repr=False)  # of that attempt, as far as its end knows
    raised: int = attrs.field(default=0, repr=False)  # the id of the exception that now passes outwards; 0: none
    wait: float = attrs.field(default=0.0, repr=False)  # seconds before the attempt that is next
    reason: str = attrs.field(default="", repr=False)  # of the last decision about a retry
    _numbers: Iterator[int] = attrs.field(factory=lambda: count(1), repr=False)  # of attempts
    notes: dict[int, str] = attrs.field(factory=lambda: cast("dict[int, str]", {}), repr=False)  # by id of the stage
    _whole: LiveReport | None = attrs.field(default=None, repr=False)  # None: this one

    @property
    def recorded(self) -> Recorded | None:
        """As that of `CallReport`, found at the first look: so look when the call has ended."""
        if self._recorded is None and self.recording is not None:
            self._recorded = self.recording.record(self.call, self.tool, self.repairs, self.params)
        return self._recorded

    @property
    def rows(self) -> list[StageRow]:
        """`stages` without the names, for projections that are made for every call."""
        return self._stage_rows

    @property
    def attempt_rows(self) -> list[AttemptRow]:
        """`attempts` without the names."""
        return self._attempt_rows

    def branch(self, attempt: int) -> LiveReport:
        """A writer of the same report, for a run of the inside that may run beside another one.

        It has an attempt, a wait and notes of its own. It begins in the attempt of that number; 0: in none.
        """
        own: dict[str, Any] = {
            "attempt": attempt,
            "executor": "",
            "landed": "no",
            "wait": 0.0,
            "reason": "",
            "notes": {},
        }
        return attrs.evolve(self, raised=0, whole=self._whole or self, **own)

    def let_pass(self, exc: Exception) -> bool:
        """A stage raised this exception; returns whether it only let pass what its inside had raised."""
        whole = self._whole or self
        passed, whole.raised = whole.raised == id(exc), id(exc)
        return passed

    def caught(self) -> None:
        """A stage answered, so no exception passes outwards any more."""
        if self.raised:
            self.raised = 0

    def find(self, call: Any) -> None:
        """A check answered with this call: its tool, repairs and params are those of the report."""
        self.tool = getattr(call, "tool", self.tool)
        self.repairs = getattr(call, "repairs", self.repairs)
        self.params = getattr(call, "params", self.params)
        if self._whole is not None:
            self._whole.find(call)

    def note(self, stage: object, text: str) -> None:
        """Add words to the row that ``stage`` has for this run; a stage passes itself."""
        self.notes[id(stage)] = text

    def take_note(self, stage: object) -> str:
        """The words that the stage left since it was last asked, else ""."""
        return self.notes.pop(id(stage), "")

    def add_stage(
        self, name: str, start: int, end: int, verdict: str | None, note: str = "", own: int | None = None
    ) -> None:
        """A stage ended; with ``own`` None it had the whole time for itself."""
        self._stage_rows.append((name, start, end, verdict, self.attempt, note, end - start if own is None else own))

    def add_decision(self, attempt: int, wait: float | None, reason: str) -> None:
        """A retry was decided for or against."""
        self.decisions.append(RetryDecision(attempt, wait, reason))
        self.wait = wait or 0.0
        self.reason = reason

    def add_progress(self, step: Progress) -> None:
        """The tool told how far it has come. Of more steps than fit, the first ones and the last are kept."""
        if len(self.progress) < MAX_STEPS:
            self.progress.append(step)
        else:
            self.progress[-1] = step

    def begin_attempt(self) -> int:
        """An attempt begins; returns its number."""
        self.attempt = next(self._numbers)
        self.landed = "no"
        return self.attempt

    def end_attempt(self, number: int, executor: str, start: int, verdict: str | None, landed: Landed) -> AttemptRow:
        """An attempt ended."""
        row: AttemptRow = (number, executor, start, perf_counter_ns(), self.wait, verdict, landed)
        self._attempt_rows.append(row)
        self.attempt = 0
        return row

    def copy(self) -> CallReport:
        """The report as it is now. What a tool that was left running still writes does not reach the copy."""
        recorded = self.recorded
        return CallReport(
            self.call if recorded is None else recorded.call,
            self.tool,
            self.started,
            self.ended,
            self.started_at,
            self.outcome,
            self.repairs if recorded is None else recorded.repairs,
            self.decisions.copy(),
            self.progress.copy(),
            self._stage_rows.copy(),
            self._attempt_rows.copy(),
            recorded,
        )
