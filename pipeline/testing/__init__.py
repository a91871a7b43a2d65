"""For tests of your own tools and stages: scripted handlers, a fake clock, recorded spans, and a check of their shape.

README.md in this folder is the guide.
"""

from .clocks import FakeClock
from .conformance import assert_trace
from .recording import RecordedSpans, recorded_spans
from .scripts import Script, script

__all__ = ["FakeClock", "RecordedSpans", "Script", "assert_trace", "recorded_spans", "script"]
