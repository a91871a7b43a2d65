"""Event loops: the one of synchronous calls, who was cancelled, and how a thread wakes a task in one."""

from .cancellation import Passes, is_failure_of_body, is_stray_cancellation
from .portal import PORTAL
from .wake_ups import EventLoop, Signal, get_event_loop

__all__ = [
    "PORTAL",
    "EventLoop",
    "Passes",
    "Signal",
    "get_event_loop",
    "is_failure_of_body",
    "is_stray_cancellation",
]
