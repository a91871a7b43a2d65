"""LiveReport: the report while the call runs. `begin_report` begins it, as a `StreamedReport` if it has listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs
from opentelemetry.context import Context, get_current

from ..call import Call, ResolvedCall
from ..errors import Landed
from .call_report import CallReport
from .observer import LiveSink, Recorder, notify
from .report_rows import NO_EXECUTOR, Attempt, Progress, RetryDecision, Row, StageRecord, StageRow, kind_of

if TYPE_CHECKING:
    from ...privacy import RedactedCall, RedactionPolicy

MAX_STEPS = 10_000  # of progress in one report: a tool may report each of a million lines


@attrs.define(eq=False, repr=False)
class LiveReport(CallReport):
    """The report while the call runs. It travels on the call as ``call.report``, and stages write to it.

    Attributes:
        is_streamed: Whether listeners receive each row while the call runs.
        recorder: Records the spans of the call, or None.
        params: The validated params, once they are known.
        attempt: Number of the attempt that runs now; 0 if none does.
        executor: Name of the executor of that attempt, once `Execute` has chosen it; "" means the tool's own.
        landed: Whether that attempt took effect, as far as `Execute` knows.
        has_body: Whether the body may have begun in that attempt: it reached the end, and no guard refused there.
        raised: The ``id`` of the exception that passes outwards now; 0 if none does.
        wait: Seconds before the next attempt.
        retry_reason: Reason of the last decision about a retry.
        begun: Attempts that have begun.
        place: Number of the place where the stages that run now were entered: within a span that a stage opened; 0:
            right in their attempt, or in the call.
        live: Number of the live span of the stage whose row comes next; 0 if it has none.
        numbers: Numbers of places and live spans that were given out.
        marks: ``place`` and ``live`` by the index of a row, where one of them is not 0.
        notes: Notes of stages, by the ``id`` of the stage, or None.
        whole: The report that this one is a branch of, or None.
        answers: The kind of the first failure in the conversation that the call answers, and how often its tool has
            failed since; or None.
    """

    is_streamed: ClassVar[bool] = False
    redaction: RedactionPolicy | None = attrs.field(default=None, repr=False)
    recorder: Recorder | None = attrs.field(default=None, repr=False)
    params: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    attempt: int = attrs.field(default=0, repr=False)
    executor: str = attrs.field(default="", repr=False)
    landed: Landed = attrs.field(default="no", repr=False)
    has_body: bool = attrs.field(default=False, repr=False)
    raised: int = attrs.field(default=0, repr=False)
    wait: float = attrs.field(default=0.0, repr=False)
    retry_reason: str = attrs.field(default="", repr=False)
    begun: int = attrs.field(default=0, repr=False)
    place: int = attrs.field(default=0, repr=False)
    live: int = attrs.field(default=0, repr=False)
    numbers: int = attrs.field(default=0, repr=False)
    marks: dict[int, tuple[int, int]] | None = attrs.field(default=None, repr=False)
    notes: dict[int, str] | None = attrs.field(default=None, repr=False)
    whole: LiveReport | None = attrs.field(default=None, repr=False)
    answers: tuple[str, int] | None = attrs.field(default=None, repr=False)

    @property
    def redacted(self) -> RedactedCall | None:
        """See `CallReport.redacted`. It is made at the first access, so access it when the call has ended."""
        if self._redacted is None and self.redaction is not None:
            self._redacted = self.redaction.redact(self.call, self.tool, self.repairs, self.params)
        return self._redacted

    def branch(self, attempt: int) -> LiveReport:
        """Return a report that writes to this one, for a run of the inner stages that may overlap with another run.

        It has its own attempt, wait and notes.
        """
        return attrs.evolve(
            self,
            attempt=attempt,
            executor="",
            landed="no",
            has_body=False,
            raised=0,
            wait=0.0,
            retry_reason="",
            notes=None,
            live=0,
            whole=self.whole or self,
        )

    def add_row(self, row: StageRow) -> None:
        """Add the row of a stage, with its place and its live span, if it has them."""
        if self.place or self.live:
            whole = self.whole or self
            if whole.marks is None:
                whole.marks = {}
            whole.marks[len(self.rows)] = self.place, self.live
            self.live = 0
        self.rows.append(row)

    def enter_unless(self, context: Context) -> None:
        """Make the current context the place of what runs now, unless it is this one: a stage has opened a span."""
        if self.recorder is not None and get_current() is not context:
            self.place = self.number()
            self.recorder.enter(self.place)

    def number(self) -> int:
        """Return a number that no other place and no other live span of this call has."""
        whole = self.whole or self
        whole.numbers += 1
        return whole.numbers

    def let_pass(self, exc: Exception) -> bool:
        """Note that a stage raised ``exc``. Return True if the inner stages had raised the same exception before."""
        whole = self.whole or self
        passed, whole.raised = whole.raised == id(exc), id(exc)
        return passed

    def caught(self) -> None:
        """Note that a stage returned, so no exception passes outwards any more."""
        if self.raised:
            self.raised = 0

    def find(self, call: Any) -> None:
        """Take over the tool, the repairs and the params of the call that a check returned."""
        self.tool = getattr(call, "tool", self.tool)
        self.repairs = getattr(call, "repairs", self.repairs)
        self.params = getattr(call, "params", self.params)
        self._redacted = None  # a stage in front may have asked for it, when nothing was known of secrets
        if self.whole is not None:
            self.whole.find(call)

    def note(self, stage: object, text: str) -> None:
        """Set the note on the row of ``stage`` for this run; a stage passes itself."""
        if self.notes is None:
            self.notes = {}
        self.notes[id(stage)] = text

    def take_note(self, stage: object) -> str:
        """Remove and return the note of ``stage``, or ""."""
        return self.notes.pop(id(stage), "") if self.notes else ""

    def add_decision(self, attempt: int, wait: float | None, reason: str) -> None:
        """Add the decision for or against a retry."""
        self.decisions.append(RetryDecision(attempt, wait, reason))
        self.wait = wait or 0.0
        self.retry_reason = reason

    def add_progress(self, step: Progress) -> None:
        """Add a step of progress. Beyond `MAX_STEPS`, the newest step replaces the last one."""
        if len(self.progress) < MAX_STEPS:
            self.progress.append(step)
        else:
            self.progress[-1] = step

    def copy(self) -> CallReport:
        """Return a snapshot, unaffected by a tool that still runs and writes to this report."""
        redacted = self.redacted
        return CallReport(
            self.call if redacted is None else redacted.call,
            self.tool,
            self.started,
            self.ended,
            self.started_at,
            self.outcome,
            self.repairs if redacted is None else redacted.repairs,
            self.decisions.copy(),
            self.progress.copy(),
            self.rows.copy(),
            self.attempt_rows.copy(),
            redacted,
            replayed=self.replayed,
        )


@attrs.define(eq=False, repr=False)
class _Audience:
    """The listeners of one call. They are called one at a time, and never after the end of the call.

    Attributes:
        listeners: The listeners.
        turn: Held while they are called: tools report progress from threads, and a listener may itself be a tool's.
        ended: Whether the call has ended.
    """

    listeners: Sequence[LiveSink] = ()
    turn: RLock = attrs.field(factory=RLock)
    ended: bool = False


R = TypeVar("R", bound="tuple[Any, ...]")


class _StreamedRows(list[R]):
    """Rows that are sent to the listeners, in their named form, as they are appended."""

    def __init__(self, send: Callable[[Row], None], named: Callable[..., Row]) -> None:
        super().__init__()
        self._send, self._named = send, named

    def append(self, row: R, /) -> None:
        super().append(row)
        self._send(self._named(*row))


@attrs.define(eq=False, repr=False)
class StreamedReport(LiveReport):
    """A report that passes each of its rows to listeners as it is added."""

    is_streamed: ClassVar[bool] = True
    _audience: _Audience = attrs.field(factory=_Audience, repr=False)

    def begin_stream(self, listeners: Sequence[LiveSink]) -> None:
        """Set the listeners and notify them that the call has begun."""
        self._audience.listeners = listeners
        self.rows, self.attempt_rows = _StreamedRows(self._send, StageRecord), _StreamedRows(self._send, Attempt)
        for listener in listeners:
            notify(listener.call_begins, self)

    def end_stream(self) -> None:
        """Notify the listeners that the call has ended."""
        with self._audience.turn:
            self._audience.ended = True
            record = self.copy()
            for listener in self._audience.listeners:
                notify(listener.call_ends, record)

    def add_decision(self, attempt: int, wait: float | None, reason: str) -> None:
        """See `LiveReport.add_decision`."""
        super().add_decision(attempt, wait, reason)
        self._send(self.decisions[-1])

    def add_progress(self, step: Progress) -> None:
        """Add a step of progress, unless the call has ended."""
        with self._audience.turn:
            if not self._audience.ended:
                super().add_progress(step)
                self._send(step)

    def _send(self, row: Row) -> None:
        if isinstance(row, Attempt) and row.executor == NO_EXECUTOR:
            return
        with self._audience.turn:
            if not self._audience.ended:  # a task that the call left running may still add rows
                for listener in self._audience.listeners:
                    notify(listener.hear, self, row)


def begin_report(
    call: Call,
    times: tuple[int, int],
    finder: str | None,
    verdict: Any,
    recorder: Recorder | None,
    sink: LiveSink | None,
    redaction: RedactionPolicy,
) -> LiveReport:
    """Begin the report of a call whose tool has been looked up.

    Args:
        call: The call.
        times: When the call began and when its tool was looked up (wall clock, ns). The report has them on the
            monotonic clock.
        finder: Name of the check that looked the tool up, or None.
        verdict: The answer of that check.
        recorder: Records the call, and its sinks follow it. None: no recorder.
        sink: One more listener for this call, or None.
        redaction: Redacts the call.
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
    # The lists are passed, because calling their factories would take longer than everything else here.
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
        redaction=redaction,
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
        report.add_row((finder, began, found, kind, 0, "", found - began))
    return report
