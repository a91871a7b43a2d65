"""What happened to one call: `CallReport`, and who is told while the call runs."""

from .call_report import CallReport
from .live_report import LiveReport
from .observer import Observer, Recorder
from .report_rows import Attempt, AttemptRow, Progress, RetryDecision, StageRecord, StageRow
from .verdicts import CANCELLED, error_of, kind_of

__all__ = [
    "CANCELLED",
    "Attempt",
    "AttemptRow",
    "CallReport",
    "LiveReport",
    "Observer",
    "Progress",
    "Recorder",
    "RetryDecision",
    "StageRecord",
    "StageRow",
    "error_of",
    "kind_of",
]
