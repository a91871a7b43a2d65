"""The report of one call, `CallReport`, and the protocols of the objects that record or follow calls."""

from .call_report import CallReport
from .live_report import MAX_STEPS, LiveReport, StreamedReport, begin_report
from .observer import LiveSink, Observer, Recorder, is_live_sink, notify
from .report_rows import (
    CANCELLED,
    NO_EXECUTOR,
    Attempt,
    AttemptRow,
    Progress,
    RetryDecision,
    Row,
    StageRecord,
    StageRow,
    error_of,
    find_decider,
    find_decision,
    kind_of,
)

__all__ = [
    "CANCELLED",
    "MAX_STEPS",
    "NO_EXECUTOR",
    "Attempt",
    "AttemptRow",
    "CallReport",
    "LiveReport",
    "LiveSink",
    "Observer",
    "Progress",
    "Recorder",
    "RetryDecision",
    "Row",
    "StageRecord",
    "StageRow",
    "StreamedReport",
    "begin_report",
    "error_of",
    "find_decider",
    "find_decision",
    "is_live_sink",
    "kind_of",
    "notify",
]
