"""For tests of your own tools and stages: scripted handlers, recorded spans, and a check of their shape."""

from .conformance import assert_trace
from .recording import RecordedSpans, Script, recorded_spans, script

__all__ = ["RecordedSpans", "Script", "assert_trace", "recorded_spans", "script"]
