"""HeardReport: the report of a call that somebody hears of while it runs, and `begin_report`, which asks who does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from ..call import Call, ResolvedCall
from .live_report import LiveReport
from .observer import LiveSink, Recorder, notify
from .report_rows import Attempt, Progress, Row, StageRecord
from .verdicts import kind_of

if TYPE_CHECKING:
    from ..recordable import Recording


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
class HeardReport(LiveReport):
    """A report that tells its listeners of each row that is added to it."""

    is_heard: ClassVar[bool] = True
    _audience: _Audience = attrs.field(factory=_Audience, repr=False)

    def tell_begin(self, listeners: Sequence[LiveSink]) -> None:
        """The call has begun, and these hear of it."""
        self._audience.listeners = listeners
        self.rows, self.attempt_rows = _ToldRows(self._tell, StageRecord), _ToldRows(self._tell, Attempt)
        for listener in listeners:
            notify(listener.call_begins, self)

    def tell_end(self) -> None:
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
    offset = recorder.offset if recorder is not None and recorder.recording else time_ns() - now
    began, found = times[0] - offset, times[1] - offset
    if not began <= found <= now:  # the wall clock was set meanwhile
        began = min(began, now)
        found = max(began, min(found, now))
    sinks: Sequence[LiveSink] = getattr(recorder, "live_sinks", ())
    if sink is not None:
        sinks = (*sinks, sink)
    make = HeardReport if sinks else LiveReport
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
    if type(report) is HeardReport:
        report.tell_begin(sinks)
    if finder is not None:
        report.rows.append((finder, began, found, kind, 0, "", found - began))
    return report
