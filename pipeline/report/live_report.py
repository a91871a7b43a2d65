"""LiveReport: the report while the call runs. `begin_report` begins it, as a `StreamedReport` if it has listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from ..call import Call, ResolvedCall
from ..errors import Landed
from .call_report import CallReport
from .observer import LiveSink, Recorder, notify
from .report_rows import Attempt, Progress, RetryDecision, Row, StageRecord, kind_of

if TYPE_CHECKING:
    from ..recordable import Recorded, Recording

MAX_STEPS = 10_000  # of progress in one report: a tool may tell each of a million lines


@attrs.define(eq=False, repr=False)
class LiveReport(CallReport):
    """The report while the call runs. It travels on the call as ``call.report``, and stages write to it.

    The chain of stages appends to ``rows`` and ``attempt_rows`` itself: methods would take a call another 190 opcodes.
    """

    is_streamed: ClassVar[bool] = False  # whether somebody hears of the call while it runs
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


@attrs.define(eq=False, repr=False)
class _Audience:
    """Who hears of one call. They hear one thing at a time, and nothing after its end.

    A call that nobody hears of has none, and its report asks nothing.
    """

    listeners: Sequence[LiveSink] = ()
    turn: RLock = attrs.field(factory=RLock)  # tools tell progress in threads; a listener may be a tool's own
    ended: bool = False


R = TypeVar("R", bound="tuple[Any, ...]")


class _ToldRows(list[R]):
    """Rows that are told, each with its names, as they are appended."""

    def __init__(self, tell: Callable[[Row], None], named: Callable[..., Row]) -> None:
        super().__init__()
        self._tell, self._named = tell, named

    def append(self, row: R, /) -> None:
        """Append a row, and tell it."""
        super().append(row)
        self._tell(self._named(*row))


@attrs.define(eq=False, repr=False)
class StreamedReport(LiveReport):
    """A report that tells its listeners of each row that is added to it."""

    is_streamed: ClassVar[bool] = True
    _audience: _Audience = attrs.field(factory=_Audience, repr=False)

    def begin_stream(self, listeners: Sequence[LiveSink]) -> None:
        """The call has begun, and these hear of it."""
        self._audience.listeners = listeners
        self.rows, self.attempt_rows = _ToldRows(self._tell, StageRecord), _ToldRows(self._tell, Attempt)
        for listener in listeners:
            notify(listener.call_begins, self)

    def end_stream(self) -> None:
        """The call has ended."""
        with self._audience.turn:
            self._audience.ended = True
            record = self.copy()
            for listener in self._audience.listeners:
                notify(listener.call_ends, record)

    def find(self, call: Any) -> None:
        """As that of `LiveReport`."""
        super().find(call)
        self._recorded = None  # was made from what was known until now

    def add_decision(self, attempt: int, wait: float | None, reason: str) -> None:
        """As that of `LiveReport`."""
        super().add_decision(attempt, wait, reason)
        self._tell(self.decisions[-1])

    def add_progress(self, step: Progress) -> None:
        """As that of `LiveReport`; nothing after the end of the call."""
        with self._audience.turn:
            if not self._audience.ended:
                super().add_progress(step)
                self._tell(step)

    def _tell(self, row: Row) -> None:
        with self._audience.turn:
            if not self._audience.ended:  # else a task that the call left behind adds to it
                for listener in self._audience.listeners:
                    notify(listener.hear, self, row)


def begin_report(
    call: Call,
    times: tuple[int, int],
    finder: str | None,
    verdict: Any,
    recorder: Recorder | None,
    sink: LiveSink | None,
    recording: Recording,
) -> LiveReport:
    """Begin the report of a call whose tool has been looked for.

    Args:
        call: The call.
        times: When it began, and when its tool had been looked for, by the wall clock in ns. The report has them by the
            monotonic clock.
        finder: The name of the check that looked for the tool. None: no check has.
        verdict: What that check answered.
        recorder: Records the call. Its sinks hear of it. None: nobody records it.
        sink: Hears of the call too. None: nobody more does.
        recording: What of the call may be recorded.
    """
    now = perf_counter_ns()
    offset = recorder.offset if recorder is not None and recorder.is_sampled else time_ns() - now
    began, found = times[0] - offset, times[1] - offset
    if not began <= found <= now:  # the wall clock was set meanwhile
        began = min(began, now)
        found = max(began, min(found, now))
    sinks: Sequence[LiveSink] = getattr(recorder, "live_sinks", ())
    if sink is not None:
        sinks = (*sinks, sink)
    make = StreamedReport if sinks else LiveReport
    # The lists are given, because a call of their factory takes longer than all else that is set.
    report = make(
        call,
        None,
        began,
        0,
        times[0],
        decisions=[],
        progress=[],
        rows=[],
        attempt_rows=[],
        recording=recording,
        recorder=recorder,
    )
    kind: str | None = None
    if isinstance(verdict, ResolvedCall):
        report.tool, report.repairs = verdict.tool, verdict.repairs
    elif finder is not None:
        kind = kind_of(verdict)
    if type(report) is StreamedReport:
        report.begin_stream(sinks)
    if finder is not None:
        report.rows.append((finder, began, found, kind, 0, "", found - began))
    return report
