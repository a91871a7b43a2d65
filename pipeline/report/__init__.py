"""What happened to one call: `CallReport`, and who is told while the call runs."""

from .call_report import CallReport
from .heard_report import HeardReport, begin_report
from .live_report import MAX_STEPS, LiveReport
from .observer import LiveSink, Observer, Recorder, is_live_sink, notify
from .report_rows import Attempt, AttemptRow, Progress, RetryDecision, Row, StageRecord, StageRow
from .verdicts import CANCELLED, error_of, kind_of

__all__ = [
    "CANCELLED",
    "MAX_STEPS",
    "Attempt",
    "AttemptRow",
    "CallReport",
    "HeardReport",
    "LiveReport",
    "LiveSink",
    "Observer",
    "Progress",
    "Recorder",
    "RetryDecision",
    "Row",
    "StageRecord",
    "StageRow",
    "begin_report",
    "error_of",
    "is_live_sink",
    "kind_of",
    "notify",
]
