"""LiveReport: the report while the call runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..errors import Landed
from .call_report import CallReport
from .report_rows import Progress, RetryDecision

if TYPE_CHECKING:
    from ..recordable import Recorded, Recording
    from .observer import Recorder

MAX_STEPS = 10_000  # of progress in one report: a tool may tell each of a million lines


@attrs.define(eq=False, repr=False)
class LiveReport(CallReport):
    """The report while the call runs. It travels on the call as ``call.report``, and stages write to it.

    The chain of stages appends to ``rows`` and ``attempt_rows`` itself: methods would take a call another 190 opcodes.
    """

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
    begun: int = attrs.field(default=0, repr=False)  # attempts
    notes: dict[int, str] | None = attrs.field(default=None, repr=False)  # by id of the stage; None: there are none
    whole: LiveReport | None = attrs.field(default=None, repr=False)  # of which this is a branch; None: of none

    @property
    def recorded(self) -> Recorded | None:
        """As that of `CallReport`, found at the first look: so look when the call has ended."""
        if self._recorded is None and self.recording is not None:
            self._recorded = self.recording.record(self.call, self.tool, self.repairs, self.params)
        return self._recorded

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
            "notes": None,
        }
        return attrs.evolve(self, raised=0, whole=self.whole or self, **own)

    def let_pass(self, exc: Exception) -> bool:
        """A stage raised this exception; returns whether it only let pass what its inside had raised."""
        whole = self.whole or self
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
        if self.whole is not None:
            self.whole.find(call)

    def note(self, stage: object, text: str) -> None:
        """Add words to the row that ``stage`` has for this run; a stage passes itself."""
        if self.notes is None:
            self.notes = {}
        self.notes[id(stage)] = text

    def take_note(self, stage: object) -> str:
        """The words that the stage left since it was last asked, else ""."""
        return self.notes.pop(id(stage), "") if self.notes else ""

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
            self.rows.copy(),
            self.attempt_rows.copy(),
            recorded,
        )
