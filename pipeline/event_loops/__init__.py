"""Event loops: the one of synchronous calls, and who was cancelled in one."""

from .cancellation import is_stray_cancellation
from .portal import PORTAL

__all__ = ["PORTAL", "is_stray_cancellation"]
