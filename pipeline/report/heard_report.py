"""HeardReport: the report of a call that somebody hears of while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any, ClassVar

import attrs

from ..errors import Landed
from .live_report import LiveReport
from .observer import LiveSink, notify
from .report_rows import Attempt, AttemptRow, Progress, Row, StageRecord


@attrs.define(eq=False, repr=False)
class _Audience:
    """Who hears of one call. They hear one thing at a time, and nothing after its end.

    A call that nobody hears of has none, and its report asks nothing.
    """

    listeners: Sequence[LiveSink] = ()
    turn: RLock = attrs.field(factory=RLock)  # tools tell progress in threads; a listener may be a tool's own
    ended: bool = False


@attrs.define(eq=False, repr=False)
class HeardReport(LiveReport):
    """A report that tells its listeners of each row that is added to it."""

    is_heard: ClassVar[bool] = True
    _audience: _Audience = attrs.field(factory=_Audience, repr=False)

    def tell_begin(self, listeners: Sequence[LiveSink]) -> None:
        """The call has begun, and these hear of it."""
        self._audience.listeners = listeners
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

    def add_stage(
        self, name: str, start: int, end: int, verdict: str | None, note: str = "", own: int | None = None
    ) -> None:
        """As that of `LiveReport`."""
        super().add_stage(name, start, end, verdict, note, own)
        self._tell(StageRecord(*self._stage_rows[-1]))

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

    def end_attempt(self, number: int, executor: str, start: int, verdict: str | None, landed: Landed) -> AttemptRow:
        """As that of `LiveReport`."""
        row = super().end_attempt(number, executor, start, verdict, landed)
        self._tell(Attempt(*row))
        return row

    def _tell(self, row: Row) -> None:
        with self._audience.turn:
            if not self._audience.ended:  # else a task that the call left behind adds to it
                for listener in self._audience.listeners:
                    notify(listener.hear, self, row)
